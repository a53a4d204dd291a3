package verdict

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What is a kind of record.
type What uint8

const (
	Started    What = iota + 1 // the agent's process runs
	Became                     // its become-leader hook has begun
	Losing                     // its lose-leadership hook has begun
	Lost                       // its lose-leadership hook has ended
	Killed                     // SIGKILL is about to be sent
	Stopped                    // SIGTERM is about to be sent
	Paused                     // SIGSTOP is about to be sent
	Continued                  // SIGCONT was sent
	Ordered                    // it is about to be told to hand over
	Cut                        // its cable is about to be cut, silently
	Dropped                    // its cable is about to be pulled: the carrier goes
	Plugged                    // its cable is back
	Exited                     // its process is gone; Cause says how
	Agreed                     // all reachable agents name the node as the leader
	Succeeded                  // its become-leader hook has ended
	Frozen                     // all of its host is about to be stopped, the keeper too
	Split                      // its cable is about to go to another switch
	KeeperGone                 // its keeper is about to be killed, with the agent and before it sees the death of that
	Acting                     // something that must run beside the leader only has run
	Released                   // that is about to be killed
)

// kinds has for each the words of the timeline, and the token in JSON and in files.
var kinds = [...]struct{ words, token string }{
	Started: {"started", "started"}, Became: {"became leader", "became-leader"}, Losing: {"lets go", "losing-leadership"},
	Lost: {"lost leadership", "lost-leadership"}, Killed: {"kill -9", "kill"}, Stopped: {"stop (SIGTERM)", "stop"},
	Paused: {"pause (SIGSTOP)", "pause"}, Continued: {"continued", "continue"}, Ordered: {"told to hand over", "handover"},
	Cut: {"cable cut", "cut"}, Dropped: {"cable pulled", "carrier"}, Plugged: {"cable plugged in", "plug"},
	Exited: {"exited", "exited"}, Agreed: {"all agree on it", "agreed"}, Succeeded: {"is ready", "ready"},
	KeeperGone: {"kill -9 of its keeper", "keeper-gone"},
	Frozen:     {"host frozen", "freeze"}, Split: {"network split", "split"}, Acting: {"acts as leader", "acting"},
	Released: {"kill -9 of what acts", "released"},
}

func (w What) String() string {
	if int(w) < len(kinds) && kinds[w].words != "" {
		return kinds[w].words
	}
	return fmt.Sprintf("what(%d)", uint8(w))
}

// Token is one word for w; "" for what is no kind.
func (w What) Token() string {
	if int(w) < len(kinds) {
		return kinds[w].token
	}
	return ""
}

// IsFault reports whether this was done to a node to see what the others make of it.
func (w What) IsFault() bool {
	return w == Killed || w == Stopped || w == Paused || w == Ordered || w.IsCut()
}

// IsCut reports whether the node is cut off from then on.
func (w What) IsCut() bool { return w == Cut || w == Dropped }

// IsHook reports whether records of this kind come from hooks.
func (w What) IsHook() bool { return w == Became || w == Succeeded || w == Losing || w == Lost }

// hasEpoch reports whether records of this kind name one.
func (w What) hasEpoch() bool { return w.IsHook() || w == Agreed || w == Acting }

// Epoch identifies one leadership.
type Epoch struct {
	Counter uint64
	Owner   string // id of the node that leads under it
}

// Compare orders epochs: by counter, then by the owner's id alone (protocol 2.4). Ids are UUIDs of one length in
// lower-case hexadecimal, so their text has the order of their bytes.
func (e Epoch) Compare(other Epoch) int {
	if c := cmp.Compare(e.Counter, other.Counter); c != 0 {
		return c
	}
	return cmp.Compare(e.Owner, other.Owner)
}

// Record is one thing that happened. All records of a run share one clock.
type Record struct {
	At    time.Duration // since the begin
	Node  string
	What  What
	Epoch Epoch  // if What.hasEpoch
	Cause string // of a hook: BULLY_CAUSE; of an exit: the status
	// Attempt is a lose hook's BULLY_ATTEMPT: above 1 the keeper says that an earlier one failed. 0: it was not asked.
	Attempt int
}

// String is the record's line in the timeline, times and names in columns.
func (r Record) String() string {
	line := fmt.Sprintf("%10s  %-4s %s", "+"+Seconds(r.At), r.Node, r.What)
	if r.What.hasEpoch() {
		line += fmt.Sprintf("  epoch %d", r.Epoch.Counter)
	}
	if r.Cause != "" {
		line += "  (" + r.Cause + ")"
	}
	return line
}

// HookWords are the first five words of the line that a hook writes when it begins or ends, for a shell to put values
// in: node, event, epoch, its owner and the cause. The values are safe without care (docs/hooks.md) except for being empty,
// hence the dashes.
func HookWords(phase Phase) string {
	return "$BULLY_NODE $BULLY_EVENT" + string(phase) + " $BULLY_EPOCH ${BULLY_EPOCH_OWNER:--} ${BULLY_CAUSE:--}"
}

// Phase is what has come of a hook that writes a line.
type Phase string

const (
	Begin Phase = ".begin"
	End   Phase = ".end"
)

// NoteWords are the like for a record that no hook writes.
func NoteWords(node string, w What, note string) string {
	return fmt.Sprintf("%s %s 0 - %s", node, w.Token(), cmp.Or(strings.ReplaceAll(note, " ", "_"), "-"))
}

var whats = func() map[string]What {
	m := map[string]What{
		"become-leader.begin": Became, "become-leader.end": Succeeded,
		"lose-leadership.begin": Losing, "lose-leadership.end": Lost,
	}
	for w := Started; int(w) < len(kinds); w++ {
		if !w.IsHook() {
			m[w.Token()] = w
		}
	}
	return m
}()

// ParseLine reads a line of HookWords or NoteWords and one word more, which it gives back: it is for the caller to read.
func ParseLine(line string) (r Record, last string, err error) {
	f := strings.Split(strings.TrimSuffix(line, "\n"), " ")
	if len(f) != 6 {
		return r, "", fmt.Errorf("read hook line %q: %d words, expected node, event, epoch, owner, cause and one more", line, len(f))
	}
	what, known := whats[f[1]]
	if !known {
		return r, "", fmt.Errorf("read hook line %q: unknown event %q", line, f[1])
	}
	counter, err := strconv.ParseUint(f[2], 10, 64)
	if err != nil {
		return r, "", fmt.Errorf("read hook line %q: epoch %q is no number", line, f[2])
	}
	r = Record{Node: f[0], What: what, Epoch: Epoch{counter, strings.TrimPrefix(f[3], "-")}, Cause: strings.TrimPrefix(f[4], "-")}
	if !what.IsHook() {
		r.Cause = strings.ReplaceAll(r.Cause, "_", " ")
	}
	return r, f[5], nil
}

// Seconds prints a time of the timeline: 2.013 s.
func Seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// Span prints how long something took, with as many digits as it deserves: 0.8 ms, 412 ms, 2.013 s.
func Span(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return Seconds(d)
}
