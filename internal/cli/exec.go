package cli

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// forever is the value of --wait that sets no bound.
const forever = "forever"

var execCommand = command{
	name: "exec", usage: "run a command once, if this host leads",
	args: "-- COMMAND [ARGUMENT...]", maxArgs: math.MaxInt,
	about: `Runs COMMAND if this node leads, its become-leader hook has succeeded and its lease is valid. On a host that
		does not lead it only exits 0: the same line can be in the crontab of every host.

		When the leadership ends, COMMAND and all that it started get TERM, after the grace KILL, and are dead when the lease
		ends, which can be sooner. That holds also if the agent is stopped, or the agent or exec is killed. If exec is stopped
		COMMAND goes on. A hand-over waits for COMMAND's end. Signals to exec are passed on to COMMAND. It has the caller's environment and what hooks are told,
		BULLY_EPOCH among it, its open descriptors (LISTEN_FDS works), and is in a session of its own, so that it has no
		/dev/tty. From a background job of a shell its standard input is empty.

		Exit codes: COMMAND's own, or 128 and the number of the signal that ended it; 0, or that of --skip-code, nothing was
		run; 4 no agent answers, nothing was run; 5 it did not lead within the time of --wait; 6 the agent refused, nothing was run:
		this user may not, or too many wait already; 124 COMMAND was ended because
		the leadership was lost or the agent went away; 125 our own failure; 126 COMMAND cannot be executed; 127 it was not
		found, which is also said where this node does not lead, unless it may be mounted: its path ends in an empty directory.`,
	examples: []string{
		program + " exec -- /bin/echo backup",
		program + " exec --wait 30s --grace 1m -- sh -c 'echo $BULLY_EPOCH'",
	},
	options: []option{
		{name: "wait", value: "TIME", usage: "wait so long to lead, or " + forever, fallback: "not at all"},
		{name: "skip-code", value: "N", usage: "exit code where nothing is run", fallback: "0"},
		graceOption, socketOption,
	},
	action: execOnce,
}

func execOnce(c *call) error {
	t, err := newLeased(c)
	if err != nil {
		return err
	}
	patience, err := c.patience()
	if err != nil {
		return err
	}
	skip, err := c.skipCode()
	if err != nil {
		return err
	}
	signals, release := catchSignals()
	defer release()
	t.signals, t.isEndedBy = signals, func(os.Signal) bool { return false }
	f, err := t.runWithin(patience)
	var stopped interrupted
	switch {
	case errors.As(err, &stopped):
		return outcome(exitSignal + int(stopped.signal.(unix.Signal)))
	case errors.Is(err, errOver):
		return fate{code: skip}.outcome()
	case err != nil:
		return err
	case f.why == ofItself:
		return f.outcome()
	}
	return &failure{code: exitLost, err: errors.New(f.story(t.words[0]))}
}

// runWithin runs the command if this node leads, or comes to lead in the time of
// --wait; else the error is errOver, or that the time has passed.
func (t *leased) runWithin(patience time.Duration) (fate, error) {
	var late <-chan time.Time
	if patience > 0 {
		late = time.After(patience)
	}
	for {
		feed, lease, why, err := t.awaitTerm(late)
		if errors.Is(err, errLate) {
			err = &failure{code: exitTimeout, err: fmt.Errorf("timed out after %v waiting to lead: %s", patience, why)}
		}
		if err != nil {
			return fate{}, err
		}
		f, err := t.run(feed, lease)
		if late == nil || !errors.Is(err, errOver) {
			return f, err
		}
	}
}

// patience is the time of --wait; 0 is none at all.
func (c *call) patience() (time.Duration, error) {
	if c.String("wait") == forever {
		return math.MaxInt64, nil
	}
	return c.duration("wait")
}

func (c *call) skipCode() (int, error) {
	if !c.IsSet("skip-code") {
		return 0, nil
	}
	n, err := strconv.ParseUint(c.String("skip-code"), 10, 8)
	if err != nil {
		return 0, usage("", "--skip-code is %s: expected a number from 0 to 255", strconv.Quote(c.String("skip-code")))
	}
	return int(n), nil
}
