package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
)

// Exit codes (docs/operating.md, exit codes). 0 is yes, or done.
const (
	exitNo          = 1 // no, or a failure that is none of the others
	exitUsage       = 2
	exitNoLeader    = 3 // or no quorum
	exitUnreachable = 4 // no agent answers
	exitTimeout     = 5
	exitRefused     = 6 // by the agent
	exitConfig      = 7
)

// failure is an error that knows its exit code and perhaps a remedy.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string {
	if f.hint == "" {
		return f.err.Error()
	}
	return f.err.Error() + "; hint: " + f.hint
}

func (f *failure) Unwrap() error { return f.err }

// ExitCode is the process's exit code.
func (f *failure) ExitCode() int { return f.code }

func usage(hint, format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...), hint: hint}
}

// outcome is an exit code about which everything has been said.
type outcome int

func (o outcome) Error() string { return "exit code " + strconv.Itoa(int(o)) }

// ExitCode is the process's exit code.
func (o outcome) ExitCode() int { return int(o) }

// scarce are the errors of a host that has no more of something now: it may have at the next try.
var scarce = []error{unix.EAGAIN, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ENOSPC, unix.EDQUOT}

// lacks reports whether an error is of a host that is short of a resource.
func lacks(err error) bool {
	return slices.ContainsFunc(scarce, func(lack error) bool { return errors.Is(err, lack) })
}

// exitCode maps an error. 7 is what a person has to mend, so that a supervisor does not try
// again: nothing that passes by itself.
func exitCode(err error) int {
	code := ownCode(err)
	if code == exitConfig && lacks(err) {
		return exitNo
	}
	return code
}

// ownCode lets errors that know their own code come first.
func ownCode(err error) int {
	var coded interface{ ExitCode() int }
	var refused *control.APIError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.ExitCode()
	case errors.Is(err, control.ErrNoLeader):
		return exitNoLeader
	case errors.Is(err, control.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, control.ErrInvalid):
		return exitConfig
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.As(err, &refused), errors.Is(err, control.ErrUnsupported):
		return exitRefused
	}
	return exitNo
}

// errorLines is what a person is told: a line for each of several joined errors.
func errorLines(err error) string {
	var said outcome
	if err == nil || errors.As(err, &said) {
		return ""
	}
	var b strings.Builder
	for line := range strings.SplitSeq(err.Error(), "\n") {
		b.WriteString("error: " + config.Printable(line) + "\n")
	}
	return b.String()
}
