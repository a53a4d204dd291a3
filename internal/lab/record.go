package lab

import (
	"cmp"
	"fmt"
	"time"
)

// what is a kind of record.
type what uint8

const (
	started   what = iota + 1 // the agent's process runs
	became                    // its become-leader hook has begun
	losing                    // its lose-leadership hook has begun
	lost                      // its lose-leadership hook has ended
	killed                    // SIGKILL is about to be sent
	stopped                   // SIGTERM is about to be sent
	paused                    // SIGSTOP is about to be sent
	continued                 // SIGCONT was sent
	ordered                   // it is about to be told to hand over
	cut                       // its cable is about to be cut, silently
	dropped                   // its cable is about to be pulled: the carrier goes
	plugged                   // its cable is back
	exited                    // its process is gone; cause says how
	agreed                    // all reachable agents name node as the leader
)

var words = [...]string{
	started: "started", became: "became leader", losing: "lets go", lost: "lost leadership", killed: "kill -9", stopped: "stop (SIGTERM)",
	paused: "pause (SIGSTOP)", continued: "continued", ordered: "told to hand over", cut: "cable cut", dropped: "cable pulled", plugged: "cable plugged in",
	exited: "exited", agreed: "all agree on it",
}

func (w what) String() string {
	if int(w) < len(words) && words[w] != "" {
		return words[w]
	}
	return fmt.Sprintf("what(%d)", uint8(w))
}

// isFault reports whether the lab did this to a node to see what the others make of it.
func (w what) isFault() bool {
	return w == killed || w == stopped || w == paused || w == ordered || w.isCut()
}

// isCut reports whether the node is cut off from then on.
func (w what) isCut() bool { return w == cut || w == dropped }

// hasEpoch reports whether records of this kind name one.
func (w what) hasEpoch() bool { return w == became || w == losing || w == lost || w == agreed }

// epoch identifies one leadership.
type epoch struct {
	counter uint64
	owner   string // id of the node that leads under it
}

// compare orders epochs: by counter, then by the owner's id alone (protocol 2.4). Ids are UUIDs of one length in
// lower-case hexadecimal, so their text has the order of their bytes.
func (e epoch) compare(other epoch) int {
	if c := cmp.Compare(e.counter, other.counter); c != 0 {
		return c
	}
	return cmp.Compare(e.owner, other.owner)
}

// record is one thing that happened in the lab. All records share one clock.
type record struct {
	at    time.Duration // since the lab's start, CLOCK_MONOTONIC
	node  string
	what  what
	epoch epoch  // if what.hasEpoch
	cause string // of a hook: BULLY_CAUSE; of an exit: the status
	// attempt is a hook's BULLY_ATTEMPT: above 1 an earlier one failed.
	attempt int
}

// String is the record's line in the timeline, times and names in columns.
func (r record) String() string {
	line := fmt.Sprintf("%10s  %-4s %s", "+"+seconds(r.at), r.node, r.what)
	if r.what.hasEpoch() {
		line += fmt.Sprintf("  epoch %d", r.epoch.counter)
	}
	if r.cause != "" {
		line += "  (" + r.cause + ")"
	}
	return line
}

// seconds prints a time of the timeline: 2.013 s.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// span prints how long something took, with as many digits as it deserves: 0.8 ms, 412 ms, 2.013 s.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return seconds(d)
}
