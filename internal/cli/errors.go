package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

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

// exitCode maps an error. Errors that know their own code come first.
func exitCode(err error) int {
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
