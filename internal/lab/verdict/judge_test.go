package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func history(t *testing.T, lines string) []Record {
	t.Helper()
	records, err := ParseStory(lines)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

var lanRules = Rules{Lease: 400 * time.Millisecond, Allowance: 250 * time.Millisecond, Heal: 30 * time.Second, OneInTheEnd: true,
	ShortHooks: true}

var quorumRules = Rules{Lease: 400 * time.Millisecond, Allowance: 250 * time.Millisecond, OneInTheEnd: true, Quorum: true}

const elected = `
	0.0 n1 started
	0.0 n2 started
	0.0 n3 started
	0.5 n3 became 1
	0.6 n3 agreed 1
`

func TestGoodHistories(t *testing.T) {
	tests := map[string]string{
		"elected": elected,
		"killed, and bullied its way back": elected + `
			1.0 n3 killed
			1.0 n3 exited
			1.4 n2 became 2
			2.0 n3 started
			2.1 n3 lost 1 unclean-restart
			3.0 n2 lost 2
			3.1 n3 became 3`,
		"killed, and its keeper lets go": elected + `
			1.0 n3 killed
			1.0 n3 exited
			1.1 n3 lost 1 agent-died
			1.4 n2 became 2
			2.0 n3 started
			3.0 n2 lost 2
			3.1 n3 became 3`,
		"killed and started again before its keeper has let go": elected + `
			1.0 n3 killed
			1.0 n3 exited
			1.1 n3 started
			1.2 n3 lost 1 agent-died
			1.4 n2 became 2`,
		"stopped in order": elected + `
			1.0 n3 stopped
			1.1 n3 lost 1
			1.2 n2 became 2
			1.3 n3 exited
			2.0 n3 started`,
		"its last hook printed after it was dead": `
			0.0 n1 started
			0.0 n2 started
			0.5 n2 killed
			0.6 n2 became 1
			0.6 n2 exited
			1.0 n1 became 2
			1.2 n1 agreed 2
			2.0 n2 started
			2.1 n2 lost 1 unclean-restart`,
		"killed and never seen again": elected + `
			1.0 n3 killed
			1.4 n2 became 2`,
		"become hook killed before it printed": elected + `
			1.0 n3 stopped
			1.1 n3 lost 1
			1.2 n2 lost 2
			1.3 n3 exited
			1.4 n2 became 3`,
		"too slow for its lease, so that its keeper lets go, twice": elected + `
			1.0 n3 lost 1 agent-died
			1.1 n3 lost 1 agent-died 2
			1.3 n2 became 2`,
		"frozen in its lose hook, which its keeper ends and runs again": elected + `
			1.0 n3 lost 1 lease-expired
			1.1 n3 lost 1 agent-died 2
			1.3 n2 became 2`,
		"killed while its clean-up hook ran, so that it runs again": elected + `
			1.0 n3 killed
			1.4 n2 became 2
			2.0 n3 started
			2.1 n3 losing 1 unclean-restart
			2.1 n3 killed
			2.2 n3 exited
			3.0 n3 started
			3.1 n3 lost 1 unclean-restart`,
		"killed before its become hook printed": elected + `
			1.0 n3 stopped
			1.1 n3 lost 1
			1.2 n2 killed
			1.2 n2 lost 2 agent-died
			1.3 n3 exited
			1.4 n1 became 3`,
		"lose hook ended with the lease, and tried again": elected + `
			1.0 n3 lost 1 lease-expired
			1.3 n2 became 2
			2.0 n3 lost 1 lease-expired 2`,
		"paused beyond its lease": elected + `
			1.0 n3 paused
			1.5 n2 became 2
			3.0 n3 continued
			3.1 n3 lost 1`,
		"paused for a moment": elected + `
			1.0 n3 paused
			1.2 n3 continued`,
		"asleep to this day": elected + `
			1.0 n3 paused
			1.5 n2 became 2
			4.0 n3 killed`,
		"cut off, leads its own part, and follows after the heal": elected + `
			1.0 n3 cut
			1.3 n3 lost 1
			1.5 n2 became 2
			6.0 n3 became 2
			9.0 n3 plugged
			9.5 n2 lost 2`,
		"cut off beside another one that is, where nobody can tell": elected + `
			1.0 n1 cut
			1.1 n3 cut
			1.4 n2 became 2
			1.5 n3 lost 1`,
		"told to hand over": elected + `
			1.0 n3 ordered
			1.01 n3 losing 1
			1.02 n3 lost 1
			1.03 n2 became 2`,
		"two clusters before they meet": `
			0.0 n1 started
			0.0 n2 started
			0.5 n1 became 1
			0.5 n2 became 1
			0.7 n1 lost 1
			0.9 n2 agreed 1`,
	}
	for name, lines := range tests {
		t.Run(name, func(t *testing.T) {
			for _, c := range Judge(history(t, lines), lanRules).Checks {
				for _, b := range c.Breaches {
					t.Errorf("%s: %s", c.Name, b)
				}
			}
		})
	}
}

func TestBadHistories(t *testing.T) {
	const (
		hooks    = "hooks alternate on every node"
		epochs   = "epochs rise"
		overlaps = "never two leaders at once"
		timely   = "a leader out of reach steps down in time"
		alone    = "a leader that is cut off lets go before another takes over"
		end      = "one leader in the end"
	)
	tests := map[string]struct {
		lines string
		check string // the promise that is broken, and no other
		at    float64
		says  string
	}{
		"become twice": {elected + "1.0 n3 became 2", hooks, 1, "while the lose hook of epoch 1 is due"},
		"lose without become": {elected + `
			1.0 n3 lost 1
			2.0 n2 became 2
			3.0 n2 lost 2
			4.0 n3 lost 1
			4.1 n1 became 3`, hooks, 4, "without having become leader"},
		"lose twice": {elected + `
			1.0 n3 stopped
			1.1 n3 lost 1
			1.2 n3 lost 1
			1.3 n2 became 2`, hooks, 1.2, "without having become leader"},
		"lose by its keeper twice": {elected + `
			1.0 n3 lost 1 agent-died
			1.1 n3 lost 1 agent-died
			1.3 n2 became 2`, hooks, 1.1, "without having become leader"},
		"lose by its keeper at the second attempt, and once more": {elected + `
			1.0 n3 lost 1 agent-died
			1.1 n3 lost 1 agent-died 2
			1.2 n3 lost 1 lease-expired
			1.3 n2 became 2`, hooks, 1.2, "without having become leader"},
		"an old epoch's lose, tried again too late": {elected + `
			1.0 n3 lost 1
			1.2 n2 became 2
			2.0 n2 lost 2
			2.2 n3 became 3
			3.0 n3 lost 3
			3.1 n3 lost 1 lease-expired 2
			3.2 n2 became 4`, hooks, 3.1, "without having become leader"},
		"lose by its keeper, and by the agent that wakes up": {elected + `
			1.7 n3 losing 1 agent-died
			1.71 n3 lost 1 agent-died
			2.5 n3 lost 1 lease-expired
			2.6 n1 became 3`, hooks, 2.5, "without having become leader"},
		"lose by the agent, and by its keeper though that was well": {elected + `
			1.0 n3 lost 1 lease-expired
			1.1 n3 lost 1 agent-died
			1.3 n2 became 2`, hooks, 1.1, "without having become leader"},
		"clean-up once more, after it was done": {elected + `
			1.0 n3 killed
			1.4 n2 became 2
			2.0 n3 started
			2.1 n3 lost 1 unclean-restart
			2.1 n3 killed
			2.2 n3 exited
			3.0 n3 started
			3.1 n3 lost 1 unclean-restart`, hooks, 3.1, "without having become leader"},
		"lose of another epoch": {elected + `
			1.0 n3 lost 7
			1.1 n2 became 8`, hooks, 1, "epoch 7 for its epoch 1"},
		"restart forgets its debt": {elected + `
			1.0 n3 killed
			1.1 n3 exited
			1.4 n2 became 2
			2.0 n3 started
			3.0 n2 lost 2
			3.1 n3 became 3`, hooks, 3.1, "while the lose hook of epoch 1 is due"},
		"debt paid under a wrong name": {elected + `
			1.0 n3 killed
			1.4 n2 became 2
			2.0 n3 started
			2.1 n3 lost 1 stopped`, hooks, 2.1, `instead of "agent-died" or "unclean-restart"`},
		"debt paid twice": {elected + `
			1.1 n3 lost 1 agent-died
			1.2 n3 lost 1 lease-expired
			1.3 n2 became 2`, hooks, 1.2, "without having become leader"},
		"clean-up without a restart": {elected + `
			1.0 n3 lost 1 unclean-restart
			1.1 n2 became 2`, hooks, 1, "as if its agent had restarted"},
		"stopped without its lose hook": {elected + `
			1.0 n3 stopped
			1.1 n3 exited
			1.2 n2 became 2`, hooks, 1.1, "exited without the lose hook of epoch 1"},
		"crashed while it led": {elected + `
			1.0 n3 exited
			1.2 n2 became 2`, hooks, 1, "exited without the lose hook of epoch 1"},
		"hook without an agent": {elected + `
			1.0 n2 stopped
			1.1 n2 exited
			1.2 n2 became 2`, hooks, 1.2, "without a running agent"},
		"epoch falls": {elected + `
			1.0 n3 killed
			1.4 n2 became 0`, epochs, 1.4, "epoch 0 after"},
		"epoch of another node is passed by none": {`
			0.0 n1 started
			0.0 n2 started
			0.5 n2 became 5
			0.6 n2 agreed 5
			1.0 n2 killed
			1.4 n1 became 4`, epochs, 1.4, "epoch 4 after epoch 5 of n2"},
		"equal counter of a lower owner": {elected + `
			1.0 n3 killed
			1.4 n2 became 1`, epochs, 1.4, "epoch 1 after epoch 1 of n3"},
		"epoch used twice": {elected + `
			1.0 n3 killed
			1.4 n2 became 1/n3`, epochs, 1.4, "a second time"},
		"own epoch falls in a partition": {elected + `
			1.0 n2 cut
			1.1 n3 lost 1
			1.2 n3 became 1/z`, epochs, 1.2, "epoch 1 after its epoch 1"},
		"coup": {elected + `
			1.0 n2 became 2
			1.5 n3 lost 1`, overlaps, 1, "n3 (epoch 1) and n2 (epoch 2) both led for 500 ms"},
		"two after a kill": {elected + `
			1.0 n3 killed
			1.4 n2 became 2
			1.5 n1 became 3
			1.6 n2 lost 2`, overlaps, 1.5, "both led for 100 ms"},
		"heir starts before the lose hook of the stopped": {elected + `
			1.0 n3 stopped
			1.1 n2 became 2
			1.2 n3 lost 1
			1.3 n3 exited`, overlaps, 1.1, "both led for 100 ms"},
		"two on the side that was not paused": {elected + `
			1.0 n3 paused
			1.4 n2 became 2
			1.5 n1 became 3
			1.7 n1 lost 3
			2.0 n3 continued
			2.1 n3 lost 1`, overlaps, 1.5, "n2 (epoch 2) and n1 (epoch 3) both led"},
		"no heal": {elected + `
			1.0 n3 cut
			1.3 n3 lost 1
			1.5 n2 became 2
			6.0 n3 became 2
			9.0 n3 plugged
			40.0 n2 lost 2`, overlaps, 39, "both led for 1.000 s"},
		"cut off and still leading": {elected + `
			1.0 n3 cut
			2.0 n3 lost 1
			2.1 n2 became 2`, timely, 1.65, "n3 was still leader of epoch 1 650 ms after"},
		"cut off, and let go too late": {elected + `
			1.0 n3 cut
			1.3 n3 losing 1
			1.4 n2 became 2
			1.41 n3 lost 1`, alone, 1.4, "n2 became leader of epoch 2 before n3, cut off, had let go of epoch 1"},
		"cable pulled, and did not notice": {elected + `
			1.0 n3 dropped
			1.4 n2 became 2
			1.5 n3 lost 1`, alone, 1.4, "n2 became leader of epoch 2 before n3"},
		"told to hand over, and the other was faster": {elected + `
			1.0 n3 ordered
			1.01 n3 losing 1
			1.02 n2 became 2
			1.03 n3 lost 1`, overlaps, 1.02, "both led for 10 ms"},
		"woke up and went on": {elected + `
			1.0 n3 paused
			1.5 n2 became 2
			3.0 n3 continued
			3.4 n3 lost 1`, timely, 3.25, "n3 was still leader of epoch 1"},
		"nobody leads": {elected + `
			1.0 n3 stopped
			1.1 n3 lost 1
			1.2 n3 exited
			9.0 n2 stopped`, end, 9, "nobody leads"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := Judge(history(t, tt.lines), lanRules)
			if v.Held() {
				t.Fatal("the verdict is that it held")
			}
			for _, c := range v.Checks {
				switch {
				case c.Name != tt.check && !c.Held():
					t.Errorf("%s: %v", c.Name, c.Breaches)
				case c.Name == tt.check:
					expectBreach(t, c.Breaches, tt.at, tt.says)
				}
			}
		})
	}
}

func TestQuorumHistories(t *testing.T) {
	tests := map[string]struct {
		lines string
		check string // the promise that is broken; "" for none
		at    float64
		says  string
	}{
		"cut off, lets go, and follows after the heal": {lines: elected + `
			1.0 n3 cut
			1.3 n3 lost 1
			1.5 n2 became 2
			9.0 n3 plugged`},
		"won before the cut, and began after it": {lines: elected + `
			1.0 n3 lost 1
			1.001 n2 cut
			1.002 n2 became 2
			1.3 n2 lost 2
			1.5 n1 became 3`},
		"frozen": {lines: elected + `
			1.0 n3 paused
			1.5 n2 became 2
			3.0 n3 continued
			3.1 n3 lost 1`},
		"cut off, and late": {elected + `
			1.0 n3 cut
			1.4 n2 became 2
			1.5 n3 lost 1`, "never two leaders at once", 1.4, "both led for 100 ms"},
		"two before the first agreement": {`
			0.0 n1 started
			0.0 n2 started
			0.5 n1 became 1
			0.5 n2 became 2
			0.6 n1 lost 1`, "never two leaders at once", 0.5, "both led for 100 ms"},
		"a minority begins to lead": {elected + `
			1.0 n2 cut
			2.0 n3 lost 1
			2.1 n2 became 2`, "nobody begins to lead while it is cut off", 2.1, "n2 became leader of epoch 2 while it was cut off"},
		"the last one alive is cut off and goes on": {elected + `
			1.0 n1 killed
			1.0 n2 killed
			1.1 n3 cut
			2.0 n3 lost 1
			2.1 n3 plugged
			2.2 n3 became 2`, "a leader out of reach steps down in time", 1.75, "n3 was still leader of epoch 1"},
		"epochs of two sides do not rise": {elected + `
			1.0 n3 cut
			1.3 n3 lost 1
			1.5 n2 became 3
			2.0 n2 lost 3
			2.1 n1 became 2`, "epochs rise", 2.1, "epoch 2 after epoch 3 of n2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, c := range Judge(history(t, tt.lines), quorumRules).Checks {
				switch {
				case c.Name == tt.check:
					expectBreach(t, c.Breaches, tt.at, tt.says)
				case !c.Held():
					t.Errorf("%s: %v", c.Name, c.Breaches)
				}
			}
		})
	}
}

func expectBreach(t *testing.T, breaches []Breach, at float64, says string) {
	t.Helper()
	if len(breaches) != 1 {
		t.Fatalf("%d breaches, want 1: %v", len(breaches), breaches)
	}
	b := breaches[0]
	if d := b.At - time.Duration(at*float64(time.Second)); d.Abs() > time.Millisecond || !strings.Contains(b.Text, says) {
		t.Errorf("breach %q, want one at %v s that says %q", b, at, says)
	}
}

// Two leaders that remain break two promises at once.
func TestTwoLeadersInTheEnd(t *testing.T) {
	v := Judge(history(t, elected+"1.0 n2 became 2"), lanRules)
	last := v.Checks[len(v.Checks)-1]
	if last.Held() || last.Breaches[0].Text != "n3 and n2 lead" {
		t.Errorf("%s: %v", last.Name, last.Breaches)
	}
	lanRules := lanRules
	lanRules.OneInTheEnd = false
	if n := len(Judge(nil, lanRules).Checks); n != len(v.Checks)-1 {
		t.Errorf("%d checks for a lab that was left in the middle, want %d", n, len(v.Checks)-1)
	}
}

// A promise is said to have held only where something put it to the test.
func TestWhatWasNotTested(t *testing.T) {
	const (
		timely   = "a leader out of reach steps down in time"
		letsGo   = "a leader that is cut off lets go before another takes over"
		minority = "nobody begins to lead while it is cut off"
	)
	tests := map[string]struct {
		lines string
		rules Rules
		want  []string // not tested
	}{
		"a kill":                         {"1.0 n3 killed\n1.4 n2 became 2", lanRules, []string{timely, letsGo}},
		"a short sleep":                  {"1.0 n3 paused\n1.1 n3 continued", lanRules, []string{timely, letsGo}},
		"a long sleep":                   {"1.0 n3 paused\n1.4 n2 became 2\n2.0 n3 continued\n2.1 n3 lost 1\n3.0 n2 agreed 2", lanRules, []string{letsGo}},
		"a follower cut":                 {"1.0 n1 cut\n3.0 n3 agreed 1", lanRules, []string{timely, letsGo}},
		"a leader cut":                   {"1.0 n3 cut\n1.3 n3 lost 1\n1.4 n2 became 2\n2.0 n2 agreed 2", lanRules, nil},
		"a leader cut for a moment":      {"1.0 n3 cut\n1.3 n3 lost 1\n1.4 n2 became 2\n1.4 n3 plugged\n1.5 n2 agreed 2", lanRules, nil},
		"a leader cut, and killed there": {"1.0 n3 cut\n1.2 n3 killed\n1.4 n2 became 2", lanRules, []string{timely}},
		"its kill, among voters":         {"1.0 n3 killed\n1.4 n2 became 2", quorumRules, []string{timely, minority}},
		"its cut, among voters":          {"1.0 n3 cut\n1.3 n3 lost 1\n1.4 n2 became 2\n2.0 n2 agreed 2", quorumRules, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range Judge(history(t, elected+tt.lines), tt.rules).Checks {
				if c.Word() == "-" {
					got = append(got, c.Name)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("not tested: %q, want %q", got, tt.want)
			}
		})
	}
}

// A killed leader's lose hook that comes after the next one's become hook is no breach, and is not kept silent about.
func TestTheKilledLetGoLate(t *testing.T) {
	v := Judge(history(t, elected+`
		1.0 n3 killed
		1.1 n2 became 2
		1.2 n3 lost 1 agent-died
		2.0 n2 killed
		2.1 n2 lost 2 agent-died
		2.2 n1 became 3
		3.0 n3 killed`), lanRules)
	if want := "after 1 of 2 kills of a leader the next one began before the dead one's lose hook had ended"; v.Late != want {
		t.Errorf("note %q, want %q", v.Late, want)
	}
}

func TestEachFaultHasItsVerdict(t *testing.T) {
	v := Judge(history(t, elected+`
		1.0 n1 killed
		1.1 n1 exited
		2.0 n3 killed
		2.1 n3 exited
		2.4 n2 became 2
		3.0 n1 started
		4.0 n2 stopped
		4.1 n1 became 3
		4.3 n2 lost 2
		4.4 n2 exited
		5.0 n1 paused`), lanRules)
	var got []string
	for _, f := range v.Faults {
		got = append(got, fmt.Sprintf("%s %v: %s", f.Node, f.What, f.Outcome()))
	}
	want := []string{
		"n1 kill -9: did not lead, the leader stayed",
		"n3 kill -9: n2 led 400 ms later",
		"n2 stop (SIGTERM): n2 (epoch 2) and n1 (epoch 3) both led for 200 ms",
		"n1 pause (SIGSTOP): nobody else took over",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestWithout(t *testing.T) {
	tests := map[string]struct {
		excuses, want []window
	}{
		"no excuse":           {nil, []window{{10, 20}}},
		"all":                 {[]window{{0, never}}, nil},
		"the middle":          {[]window{{12, 15}}, []window{{10, 12}, {15, 20}}},
		"both ends, unsorted": {[]window{{18, 30}, {5, 12}}, []window{{12, 18}}},
		"one in another":      {[]window{{11, 19}, {12, 13}}, []window{{10, 11}, {19, 20}}},
		"elsewhere":           {[]window{{1, 10}, {20, 30}}, []window{{10, 20}}},
	}
	for name, tt := range tests {
		if got := without(window{10, 20}, tt.excuses); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	if got := without(window{20, 10}, nil); got != nil {
		t.Errorf("leaderships that do not meet: %v", got)
	}
}
