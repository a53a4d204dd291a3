package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// waitInterval is how often the agent is asked: what is waited for takes an
// election, and asking costs well under a millisecond.
const waitInterval = 50 * time.Millisecond

var waitCommand = command{
	name: "wait", operand: "for", usage: "wait until something is true on this host's agent",
	about: `Waits for the agent itself, too, if it does not run yet. Exits 0 when what was waited for is true, and 5 when
		--timeout passed before.

		--for leader: a leader is known. --for me: this node leads, its become-leader hook has succeeded and its lease is
		valid. --for members=N: at least N members are alive, this one included. --for quorum: a majority is here.`,
	examples: []string{
		program + " wait --for leader --timeout 10s",
		program + " wait --for me",
		program + " wait --for members=3 --timeout 1m",
	},
	options: []option{
		{name: "for", value: "WHAT", offer: fixed("leader", "me", "members=", "quorum"), usage: "leader, me, members=N or quorum"},
		{name: "timeout", value: "TIME", usage: "give up after this long", fallback: "never"},
		socketOption,
	},
	action: func(c *call) error {
		goal, err := parseGoal(c.String("for"))
		if err != nil {
			return err
		}
		timeout, err := c.duration("timeout")
		if err != nil {
			return err
		}
		ctx, cancel := c.Context.Context, context.CancelFunc(func() {})
		if c.IsSet("timeout") {
			ctx, cancel = context.WithTimeout(ctx, max(timeout, waitInterval)) // 0s: the agent is asked all the same
		}
		defer cancel()
		missing, err := await(ctx, c.client(), goal, c.progress("waiting for "+goal.name))
		if errors.Is(err, context.DeadlineExceeded) {
			return &failure{code: exitTimeout, err: fmt.Errorf("timed out after %v waiting for %s: %s", timeout, goal.name, missing)}
		}
		return err
	},
}

// goal is what is waited for. missing gives "" when it is reached, else what is
// there instead; the error says that it never can be.
type goal struct {
	name    string
	missing func(s control.Status, age time.Duration) (string, error)
}

func parseGoal(text string) (goal, error) {
	what, number, counted := strings.Cut(text, "=")
	switch {
	case text == "leader":
		return goal{"a leader", missingLeader}, nil
	case text == "me":
		return goal{"this node to lead", func(s control.Status, age time.Duration) (string, error) { return s.WhyNotLeading(age), nil }}, nil
	case text == "quorum":
		return goal{"a quorum", missingQuorum}, nil
	case what == "members" && counted:
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 {
			return goal{}, usage("", "--for members=N needs a number from 1: found %s", strconv.Quote(number))
		}
		return goal{fmt.Sprintf("%d members", n), missingMembers(n)}, nil
	case text == "":
		return goal{}, usage("see "+program+" wait --help", "--for is missing: expected leader, me, members=N or quorum")
	}
	return goal{}, usage("see "+program+" wait --help", "--for is %s: expected leader, me, members=N or quorum", strconv.Quote(text))
}

func missingLeader(s control.Status, _ time.Duration) (string, error) {
	if s.Leader == nil {
		return "no leader is known", nil
	}
	return "", nil
}

func missingMembers(n int) func(control.Status, time.Duration) (string, error) {
	return func(s control.Status, _ time.Duration) (string, error) {
		if s.Alive < n {
			return fmt.Sprintf("%d alive", s.Alive), nil
		}
		return "", nil
	}
}

func missingQuorum(s control.Status, _ time.Duration) (string, error) {
	switch {
	case s.Quorum == nil:
		return "", &failure{code: exitRefused, err: fmt.Errorf("the agent runs in %s mode, which has no quorum", s.Mode),
			hint: "wait --for leader"}
	case s.Quorum.Have < s.Quorum.Need:
		return fmt.Sprintf("%d of the %d voters needed answer", s.Quorum.Have, s.Quorum.Need), nil
	}
	return "", nil
}

// await asks until the goal is reached. It also gives what was missing last.
func await(ctx context.Context, client *control.Client, g goal, progress func(missing string)) (missing string, err error) {
	defer func() { progress("") }()
	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	missing = "no agent answered"
	for {
		asked := time.Now()
		status, err := client.Status(ctx)
		switch {
		case err == nil:
			if missing, err = g.missing(status, time.Since(asked)); missing == "" || err != nil {
				return "", err
			}
		case ctx.Err() != nil: // the last answer says more
		case !errors.Is(err, control.ErrUnreachable) || errors.Is(err, fs.ErrPermission):
			return missing, err
		default:
			missing = "no agent answers"
		}
		progress(missing)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return missing, ctx.Err()
		}
	}
}

// progress shows on a terminal what is waited for, on one line that is redrawn;
// with "" it removes the line.
func (c *console) progress(what string) func(missing string) {
	if !isTerminal(c.err) {
		return func(string) {}
	}
	const clearLine = "\r\x1b[K"
	return func(missing string) {
		text := clearLine
		if missing != "" {
			text += what + " (" + missing + ")"
		}
		_, _ = c.err.Write([]byte(text))
	}
}
