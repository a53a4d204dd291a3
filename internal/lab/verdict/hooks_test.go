package verdict

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestVerdict hands made-up journals to the judge, most of them bad, where nothing is an excuse.
func TestVerdict(t *testing.T) {
	const led = "a become-leader.begin 1|a become-leader.end 1|"
	tests := []struct {
		name       string
		journal    string
		mayOverlap bool
		guarded    bool
		unheld     bool
		asked      bool // a's first
		failed     bool // a's first
		cut        Leadership
		redone     bool   // and its lose hook was started once more
		ended      bool   // a's first
		want       string // part of the verdict; "" if there is nothing to say
	}{
		{name: "nobody led", journal: ""},
		{name: "equal counters, rising owners", journal: led + "a lose-leadership.begin 1|a lose-leadership.end 1|b become-leader.begin 1"},
		{name: "become killed before it wrote", journal: led + "a lose-leadership.begin 1|a lose-leadership.end 1|a lose-leadership.begin 2|a lose-leadership.end 2|a become-leader.begin 3"},
		{name: "one reign after the other", journal: led + "a lose-leadership.begin 1|a lose-leadership.end 1|b become-leader.begin 2|b become-leader.end 2"},
		{name: "become killed by its lose", journal: "a become-leader.begin 1|a lose-leadership.begin 1|a lose-leadership.end 1"},
		{name: "death ends a reign", journal: led + "a killed|b become-leader.begin 2"},
		{name: "lose again after a crash in it", journal: led + "a lose-leadership.begin 1|a killed|a started|a lose-leadership.begin 1 unclean-restart|a lose-leadership.end 1|a become-leader.begin 2"},
		{name: "the keeper runs the lose hook", journal: led + "a killed|b become-leader.begin 2|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1|b become-leader.end 2"},
		{name: "the keeper and the next start", journal: led + "a killed|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1|a started|a lose-leadership.begin 1 unclean-restart", want: "without having become leader"},
		{name: "the keeper of a frozen agent, and the agent", journal: led + "a lose-leadership.begin 1 agent-died|a lose-leadership.end 1|a lose-leadership.begin 1 lease-expired", want: "without having become leader"},
		{name: "before the keeper has let go", journal: led + "a killed|b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1", guarded: true, want: "a (epoch 1) and b (epoch 2) both led"},
		{name: "after the keeper has let go", journal: led + "a killed|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1|b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2", guarded: true},
		{name: "unheld, and before the keeper has let go", journal: led + "a killed|b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1", guarded: true, unheld: true},
		{name: "held, and before the keeper has let go", journal: led + "a acting 1|a killed|b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1", guarded: true, unheld: true, want: "a (epoch 1) and b (epoch 2) both led"},
		{name: "held no more, and before the keeper has let go", journal: led + "a acting 1|a released|a killed|b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1", guarded: true, unheld: true},
		{name: "unheld, and alive", journal: led + "b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2|a lose-leadership.begin 1|a lose-leadership.end 1", guarded: true, unheld: true, want: "a (epoch 1) and b (epoch 2) both led"},
		{name: "nobody is left to let go", journal: led + "a keeper-gone|a killed|b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2|a started|a lose-leadership.begin 1 unclean-restart|a lose-leadership.end 1", guarded: true},
		{name: "nobody can let go when all is frozen", journal: led + "a frozen|b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2|a resumed|a lose-leadership.begin 1|a lose-leadership.end 1", guarded: true},
		{name: "a lose hook is due", journal: led, guarded: true, want: "on a the lose hook of epoch 1 is due in the end"},
		{name: "two at once", journal: led + "b become-leader.begin 2", want: "a (epoch 1) and b (epoch 2) both led"},
		{name: "two at once where that may be", journal: led + "b become-leader.begin 1", mayOverlap: true},
		{name: "before the lose hook ended", journal: led + "a lose-leadership.begin 1|b become-leader.begin 2", want: "a (epoch 1) and b (epoch 2) both led"},
		{name: "equal counters, falling owners", journal: "b become-leader.begin 1|b killed|a become-leader.begin 1", want: "epoch 1 after epoch 1 of b"},
		{name: "a lower epoch", journal: "a become-leader.begin 5|a killed|b become-leader.begin 4", want: "epoch 4 after epoch 5 of a"},
		{name: "become twice", journal: led + "a become-leader.begin 2", want: "while the lose hook of epoch 1 is due"},
		{name: "become twice for one epoch", journal: led + "a lose-leadership.begin 1|a lose-leadership.end 1|a become-leader.begin 1", mayOverlap: true, want: "epoch 1 a second time"},
		{name: "become after a crash without lose", journal: led + "a killed|a become-leader.begin 2", want: "while the lose hook of epoch 1 is due"},
		{name: "lose of an old epoch without become", journal: led + "a lose-leadership.begin 1|a lose-leadership.end 1|a become-leader.begin 3|a become-leader.end 3|a lose-leadership.begin 3|a lose-leadership.end 3|a lose-leadership.begin 2", want: "without having become leader"},
		{name: "cut before its first line", journal: led + "b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2|a lose-leadership.begin 1|a lose-leadership.end 1", guarded: true, cut: Leadership{"a", 1}},
		{name: "cut in its middle", journal: led + "a lose-leadership.begin 1|b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2|a lose-leadership.begin 1|a lose-leadership.end 1", guarded: true, cut: Leadership{"a", 1}},
		{name: "cut after its last line", journal: led + "a lose-leadership.begin 1|a lose-leadership.end 1|a lose-leadership.begin 1|a lose-leadership.end 1", cut: Leadership{"a", 1}},
		{name: "failed after its last line", journal: led + "a lose-leadership.begin 1|a lose-leadership.end 1|a lose-leadership.begin 1|a lose-leadership.end 1", failed: true},
		{name: "failed, and the next leader begins before it has ended", journal: led + "a lose-leadership.begin 1|b become-leader.begin 2", failed: true, want: "a (epoch 1) and b (epoch 2) both led"},
		{name: "cut after its last line, the agent killed", journal: led + "a lose-leadership.begin 1|a lose-leadership.end 1|a killed|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1", cut: Leadership{"a", 1}},
		{name: "cut, and it leads again", journal: led + "a lose-leadership.begin 1|a become-leader.begin 3", cut: Leadership{"a", 1}},
		{name: "cut, it leads again, and is well", journal: led + "a lose-leadership.begin 1|a become-leader.begin 3|a lose-leadership.begin 3|a lose-leadership.end 3", guarded: true, cut: Leadership{"a", 1}},
		{name: "cut, and never again", journal: led, guarded: true, cut: Leadership{"a", 1}, want: "on a the lose hook of epoch 1 is due in the end"},
		{name: "cut in its middle, and never again", journal: led + "a lose-leadership.begin 1", guarded: true, cut: Leadership{"a", 1}, want: "on a the lose hook of epoch 1 is due in the end"},
		{name: "cut, and again before its first line", journal: led, guarded: true, cut: Leadership{"a", 1}, redone: true},
		{name: "ended, and it leads again", journal: led + "a lose-leadership.begin 1|a become-leader.begin 3", ended: true},
		{name: "ended before its first line, and it leads again", journal: led + "a become-leader.begin 3", ended: true},
		{name: "ended, and its agent exits", journal: led + "a lose-leadership.begin 1|a exited", ended: true},
		{name: "ended, and never again", journal: led + "a lose-leadership.begin 1", guarded: true, ended: true, want: "on a the lose hook of epoch 1 is due in the end"},
		{name: "ended, and again before its first line", journal: led + "a lose-leadership.begin 1", guarded: true, ended: true, redone: true},
		{name: "ended too late", journal: led + "a lose-leadership.begin 1|b become-leader.begin 2", ended: true, want: "a (epoch 1) and b (epoch 2) both led"},
		{name: "another leadership was cut", journal: led + "b become-leader.begin 2", cut: Leadership{"a", 2}, want: "a (epoch 1) and b (epoch 2) both led"},
		{name: "another node's was cut", journal: led + "a become-leader.begin 2", cut: Leadership{"b", 1}, want: "while the lose hook of epoch 1 is due"},
		{name: "lose of another epoch", journal: led + "a lose-leadership.begin 2", want: "ran the lose hook of epoch 2 for its epoch 1"},
		{name: "lose twice", journal: led + "a lose-leadership.begin 1|a lose-leadership.end 1|a lose-leadership.begin 1", want: "without having become leader"},
		{name: "lose after a crash that was asked for before", journal: led + "a killed|a lose-leadership.begin 1 lease-expired|a lose-leadership.end 1|a started"},
		{name: "lose after a crash with another cause", journal: led + "a killed|a started|a lose-leadership.begin 1 lease-expired", want: `instead of "agent-died" or "unclean-restart"`},
		{name: "lose after a crash that the life before had begun", journal: led + "a killed|a started|a lose-leadership.begin 1 lease-expired|a lose-leadership.end 1", asked: true},
		{name: "two hooks at a time", journal: "a become-leader.begin 1|a lose-leadership.begin 1|a become-leader.end 1", want: "its begin is not the line before"},
		{name: "two lose hooks at a time", journal: led + "a lose-leadership.begin 1|a lose-leadership.end 1|a lose-leadership.end 1", want: "its begin is not the line before"},
		{name: "an end of another epoch", journal: led + "a lose-leadership.begin 1|a lose-leadership.end 2", want: "its begin is not the line before"},
		{name: "a dead agent's hook", journal: "a killed|a become-leader.begin 1|b become-leader.begin 2|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1", want: "a (epoch 1) and b (epoch 2) both led"},
		{name: "a dead agent's hook, until its keeper has let go", journal: "a killed|a become-leader.begin 1|b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1", guarded: true, want: "a (epoch 1) and b (epoch 2) both led"},
		{name: "killed before its become hook wrote", journal: "a killed|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1|a started|a become-leader.begin 2", want: "without having become leader"},
		{name: "started again, and its become hook wrote nothing", journal: "a killed|a started|a lose-leadership.begin 1|a lose-leadership.end 1", want: "without having become leader"},
		{name: "cleaned up before the next start", journal: led + "a killed|a lose-leadership.begin 1 unclean-restart", want: "as if its agent had restarted uncleanly"},
		{name: "somebody else's epoch", journal: led + "a killed|b become-leader.begin 2 x owner-of-a", want: "whose owner owner-of-a is a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules := Rules{Strict: true, MayOverlap: tt.mayOverlap, Guarded: tt.guarded, Unheld: tt.unheld, Asked: map[Leadership]bool{{"a", 1}: tt.asked}, Failed: map[Leadership]bool{{"a", 1}: tt.failed}, Cut: map[Leadership]bool{tt.cut: tt.redone}, Ended: map[Leadership]bool{}}
			if tt.ended {
				rules.Ended[Leadership{"a", 1}] = tt.redone
			}
			var found []string
			for _, c := range JudgeHooks(script(t, tt.journal), rules) {
				for _, b := range c.Breaches {
					found = append(found, b.Text)
				}
			}
			switch {
			case tt.want == "" && len(found) > 0:
				t.Errorf("found: %q", found)
			case tt.want != "" && !strings.Contains(strings.Join(found, "\n"), tt.want):
				t.Errorf("found: %q\nexpected: %s", found, tt.want)
			}
		})
	}
}

// What is written first came first, also if its clock was read later.
func TestTheOrderIsThatOfTheLines(t *testing.T) {
	records := script(t, "a become-leader.begin 1|a lose-leadership.begin 1|b become-leader.begin 2|a lose-leadership.end 1")
	for i, ms := range []int{1000, 2000, 2002, 2001} {
		records[i].At = time.Duration(ms) * time.Millisecond
	}
	overlaps := func() []Breach { return JudgeHooks(records, Rules{Strict: true})[2].Breaches }
	if found := overlaps(); len(found) != 1 {
		t.Errorf("b began before a had ended: found %v", found)
	}
	records[2], records[3] = records[3], records[2]
	records[2].At, records[3].At = records[3].At, records[2].At
	if found := overlaps(); len(found) != 0 {
		t.Errorf("a had ended before b began: found %v", found)
	}
}

// script reads records of the form "node what epoch cause owner", from the end all may be left out but the first two.
func script(t *testing.T, text string) []Record {
	t.Helper()
	tokens := map[string]What{"killed": Killed, "started": Started, "frozen": Frozen, "keeper-gone": KeeperGone, "resumed": Continued}
	var records []Record
	for i, line := range strings.Split(text, "|") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if w, ok := tokens[f[1]]; ok {
			f[1] = w.Token()
		}
		defaults := []string{"", "", "0", "x", "owner-of-" + f[0]}
		copy(defaults, f)
		r, _, err := ParseLine(fmt.Sprintf("%s %s %s %s %s -", defaults[0], defaults[1], defaults[2], defaults[4], defaults[3]))
		if err != nil {
			t.Fatal(err)
		}
		r.At = time.Duration(i) * time.Second
		records = append(records, r)
	}
	return records
}
