package guard

import "fmt"

// Stage is how far a guard has come.
type Stage string

// The stages, in this order; some may be left out: a guard that cannot start its
// command goes from the first to the last.
const (
	Prepared Stage = "prepared" // noted in the record, nothing started
	Running  Stage = "running"  // the command runs
	Ending   Stage = "ending"   // TERM has been sent
	Ended    Stage = "ended"
)

// AgentDied is the cause of an ending that the agent did not ask for: it was killed, or
// did not renew its lease in time.
const AgentDied = "agent-died"

// LeaseLost is the cause of an ending by a guard that follows the lease itself: the agent
// leads no more, or in another epoch, or its become-leader hook is not done.
const LeaseLost = "lease-lost"

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

	// Cause is why the command was ended: AgentDied, LeaseLost, or what Stop said; empty if
	// it ended by itself.
	Cause string `json:"cause,omitempty"`
	// Loss is why the leadership has ended if the cause is LeaseLost, in the agent's word.
	Loss string `json:"loss,omitempty"`
	// Silent is true if AgentDied means that the lease was not renewed in time.
	Silent bool `json:"silent,omitempty"`

	// Exit is the command's exit code; -1 if a signal ended it or it never ran.
	Exit   int `json:"exit"`
	Signal int `json:"signal,omitempty"` // that ended it; 0: none
	Errno  int `json:"errno,omitempty"`  // why the command could not be started

	// Stuck says that something of the command lives on although it has had KILL, for
	// people. The guard waits until it has ended; the stage is Ending for as long.
	Stuck string `json:"stuck,omitempty"`

	// Err is what went wrong; empty if nothing did.
	Err string `json:"err,omitempty"`
	// Unnoted is why this was not written to the record; empty if it was.
	Unnoted string `json:"unnoted,omitempty"`
}

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
	if r.Stuck != "" {
		text += ", " + r.Stuck
	}
	if r.Err != "" {
		text += ": " + r.Err
	}
	return text
}
