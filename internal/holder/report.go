package holder

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Stage is how far a holder has come.
type Stage string

// The stages, in this order; some may be left out: a holder that cannot start its
// command goes from the first to the last.
const (
	Prepared Stage = "prepared" // noted in the record, nothing started
	Running  Stage = "running"  // the command runs
	Ending   Stage = "ending"   // TERM has been sent
	Ended    Stage = "ended"
)

// AgentDied is the cause of an ending that nobody asked for: the starter or the agent was
// killed, or did not renew the lease in time.
const AgentDied = "agent-died"

// LeaseLost is the cause of an ending by a holder that follows the lease itself: the agent
// leads no more, or in another epoch, or its become-leader hook is not done.
const LeaseLost = "lease-lost"

// Report is what a holder tells of itself, over its socket and on disk.
type Report struct {
	Stage  Stage `json:"stage"`
	Holder int   `json:"holder"`          // its process id
	Group  int   `json:"group,omitempty"` // the command's process group; 0: none was started
	// Cgroup is the directory of the command's own cgroup; empty if it has none.
	Cgroup string `json:"cgroup,omitempty"`

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
	// people. The holder waits until it has ended; the stage is Ending for as long.
	Stuck string `json:"stuck,omitempty"`

	// Err is what went wrong; empty if nothing did.
	Err string `json:"err,omitempty"`
}

// What a shell makes of a command that did not exit (timeout(1) and env(1) say the same).
const (
	CodeNotExecutable = 126
	CodeNotFound      = 127
	CodeSignal        = 128 // and the signal's number
)

// Code is what a shell would make of the end; -1: nobody knows it, or that nothing was started
// was no fault of the command's.
func (r Report) Code() int {
	switch unix.Errno(r.Errno) {
	case unix.ENOENT, unix.ENOTDIR:
		return CodeNotFound
	case unix.EACCES, unix.ENOEXEC, unix.EPERM, unix.EISDIR:
		return CodeNotExecutable
	}
	if r.Signal != 0 {
		return CodeSignal + r.Signal
	}
	return r.Exit
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
