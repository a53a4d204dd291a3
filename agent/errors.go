package agent

import (
	"errors"
	"fmt"
)

// Refusal is an agent's reason not to start or not to go on: something about
// this host or its configuration that a person must mend. Restarting does not
// help.
type Refusal struct {
	Err  error
	Hint string // how to mend it; may be empty
}

// Error gives the reason and the hint on one line.
func (r *Refusal) Error() string {
	if r.Hint == "" {
		return r.Err.Error()
	}
	return r.Err.Error() + "; hint: " + r.Hint
}

// Unwrap gives the reason.
func (r *Refusal) Unwrap() error { return r.Err }

// ExitCode is the process's exit code: 7, configuration invalid, after which a
// supervisor should not start it again.
func (r *Refusal) ExitCode() int { return 7 }

func refusal(hint, format string, args ...any) error {
	return &Refusal{Err: fmt.Errorf(format, args...), Hint: hint}
}

// ErrSameID is returned when another agent with this agent's id is alive and
// stays: their state directories are copies of each other.
var ErrSameID = errors.New("another agent has this agent's id")

// ErrKeeperGone is returned when the keeper has died and this process may start no other:
// what it owes is done by the next start.
var ErrKeeperGone = errors.New("the keeper died, and this agent has given up the rights to start another: its next start does what is left to do")

// ErrAborted is returned when a second signal cut an orderly stop short.
var ErrAborted = errors.New("stopped before everything was handed over")
