package hooks

import (
	"os"
	"time"
)

// What commands that are no hooks share with hooks: how they are started, and
// what they are told.

// Words is the command as execve takes it, through /bin/sh if it is a string.
func (c Command) Words() []string { return c.argv() }

// Environ is the whole environment of a command that is run because of ev: that
// of a hook. seq, attempt (from 1) and timeout are of this run.
func Environ(ev Event, seq uint64, attempt int, timeout time.Duration, socket string) []string {
	return environ(ev, circumstances{seq: seq, attempt: attempt, timeout: timeout, socket: socket}, os.Getenv)
}
