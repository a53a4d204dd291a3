package guard

import (
	"fmt"
	"time"
)

// Stage is how far a guard has come.
type Stage string

// The stages, in this order; some may be left out: a guard that cannot start its
// command goes from the first to the last.
const (
	Prepared Stage = "prepared" // noted in the record, nothing started
	Running  Stage = "running"  // the command runs, or there is none and the guard watches
	Yielded  Stage = "yielded"  // the agent runs the lose-leadership hook; its silence means nothing, its death does
	Ending   Stage = "ending"   // TERM has been sent
	Losing   Stage = "losing"   // the lose-leadership hook runs
	Ended    Stage = "ended"
)

// AgentDied is the cause of an ending that the agent did not ask for, and of the
// lose-leadership hook that follows it: the agent was killed, or did not renew its
// lease in time.
const AgentDied = "agent-died"

// Report is what a guard tells of itself, over its socket and on disk.
type Report struct {
	Stage Stage  `json:"stage"`
	Guard int    `json:"guard"`           // its process id
	Group int    `json:"group,omitempty"` // the command's process group; 0: none was started
	Start uint64 `json:"start,omitempty"` // of the group's first process, clock ticks since boot
	// Cgroup is the directory of the command's own cgroup; empty if it has none.
	Cgroup string `json:"cgroup,omitempty"`
	// Reach says for people what of the command can be killed, and what cannot.
	Reach string `json:"reach,omitempty"`

	// Cause is why the command was ended: AgentDied, or what Stop said; empty if
	// it ended by itself.
	Cause string `json:"cause,omitempty"`
	// Silent is true if AgentDied means that the lease was not renewed in time.
	Silent bool `json:"silent,omitempty"`

	// Exit is the command's exit code; -1 if a signal ended it or it never ran.
	Exit   int `json:"exit"`
	Signal int `json:"signal,omitempty"` // that ended it; 0: none
	Errno  int `json:"errno,omitempty"`  // why the command could not be started

	// Lose is how the lose-leadership hook ended; nil if the guard did not run it.
	Lose *Loss `json:"lose,omitempty"`

	// Err is what went wrong; empty if nothing did.
	Err string `json:"err,omitempty"`
	// Unnoted is why this was not written to the record; empty if it was.
	Unnoted string `json:"unnoted,omitempty"`
}

// Loss is a run of the lose-leadership hook by a guard. Until it has ended OK is
// false and Err empty.
type Loss struct {
	// Began is when the guard began to end what ran, before it ran the hook: a reading of CLOCK_BOOTTIME.
	Began time.Duration `json:"began"`
	OK    bool          `json:"ok"`
	Ran   bool          `json:"ran"` // a process was started
	Exit  int           `json:"exit"`
	Took  time.Duration `json:"took"`
	Err   string        `json:"err,omitempty"`
}

// clone shares nothing with r.
func (r Report) clone() Report {
	if r.Lose != nil {
		loss := *r.Lose
		r.Lose = &loss
	}
	return r
}

// TookOver reports whether the guard has ended the leadership in the agent's
// stead, so that the agent must not run the lose-leadership hook again.
func (r Report) TookOver() bool { return r.Lose != nil }

// String is the report's line in logs and status.
func (r Report) String() string {
	text := string(r.Stage)
	switch {
	case r.Stage == Ended && r.Group == 0:
	case r.Stage == Ended && r.Signal != 0:
		text += fmt.Sprintf(" by signal %d", r.Signal)
	case r.Stage == Ended:
		text += fmt.Sprintf(" with exit code %d", r.Exit)
	case r.Group != 0:
		text += fmt.Sprintf(" in process group %d", r.Group)
	}
	if r.Cause != "" {
		text += ", cause " + r.Cause
	}
	if l := r.Lose; l != nil {
		switch {
		case l.OK:
			text += ", lose-leadership hook done"
		case l.Err != "":
			text += ", lose-leadership hook failed: " + l.Err
		default:
			text += ", lose-leadership hook begun"
		}
	}
	if r.Err != "" {
		text += ": " + r.Err
	}
	return text
}
