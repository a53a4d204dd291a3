package cli

import (
	"errors"
	"math"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/control"
)

// How soon a command that has ended is started again: doubled each time, until it
// has run for a while. The numbers are those of container engines.
const (
	restartFirst = 100 * time.Millisecond
	restartMost  = time.Minute
	restartCalm  = 10 * time.Second
)

var holdCommand = command{
	name: "hold", usage: "keep a command running while this host leads",
	args: "-- COMMAND [ARGUMENT...]", maxArgs: math.MaxInt,
	about: `Runs COMMAND whenever this node leads, its become-leader hook has succeeded and its lease is valid, and waits
		else. Where COMMAND ends before the leadership does, --restart decides: always runs it again, on-failure runs it again if it
		failed, and with never it stays ended. Where it is not run again, hold exits with its code. The pause before it is run again is
		100 ms at first, doubles up to a minute, and starts anew once COMMAND has run for 10 s.

		When the leadership ends, COMMAND and all that it started get TERM, after the grace KILL, and are dead when the lease
		ends, which can be sooner. That holds also if the agent is stopped, or the agent or hold is killed. If hold is stopped
		COMMAND goes on. A hand-over waits for COMMAND's end.

		TERM, INT and QUIT, and HUP from a terminal, are passed on to COMMAND and end hold; a second one, or the grace, kills.
		Other signals are passed on. COMMAND has the caller's environment and what hooks are told, BULLY_EPOCH among it, and is
		in a session of its own.

		Exit codes: COMMAND's own, or 128 and the number of the signal that ended it; 0 hold was told to end while nothing ran;
		4 no agent answers, or no more: COMMAND has been ended; 6 the agent refused: this user may not, or too many wait already;
		125 our own failure; 126 COMMAND cannot be executed; 127 it was
		not found.`,
	examples: []string{
		program + " hold --restart never -- /bin/echo leading",
		program + " hold --restart on-failure --grace 30s -- sh -c 'echo $BULLY_EPOCH'",
	},
	options: []option{
		{name: "restart", value: "POLICY", offer: fixed("always", "on-failure", "never"), usage: "when COMMAND ends of itself: always, on-failure or never", fallback: "always"},
		graceOption, socketOption,
	},
	action: hold,
}

// holding keeps a command running.
type holding struct {
	*leased
	restarts func(code int) bool
}

func hold(c *call) error {
	t, err := newLeased(c)
	if err != nil {
		return err
	}
	h := holding{leased: t}
	if h.restarts, err = c.restartPolicy(); err != nil {
		return err
	}
	signals, release := catchSignals()
	defer release()
	fromTerminal := isTerminal(c.in)
	t.signals, t.isEndedBy = signals, func(sig os.Signal) bool {
		return sig == unix.SIGTERM || sig == unix.SIGINT || sig == unix.SIGQUIT || sig == unix.SIGHUP && fromTerminal
	}
	err = h.holdOn()
	if stopped := (interrupted{}); errors.As(err, &stopped) {
		return nil
	}
	return err
}

func (c *call) restartPolicy() (func(code int) bool, error) {
	switch c.String("restart") {
	case "", "always":
		return func(int) bool { return true }, nil
	case "on-failure":
		return func(code int) bool { return code != 0 }, nil
	case "never":
		return func(int) bool { return false }, nil
	}
	return nil, usage("", "--restart is %s: expected always, on-failure or never", strconv.Quote(c.String("restart")))
}

// holdOn goes from one leadership to the next.
func (h *holding) holdOn() error {
	for {
		feed, lease, _, err := h.awaitTerm(make(chan time.Time)) // for ever
		if err != nil {
			return err
		}
		f, err := h.holdTerm(feed, lease)
		if err != nil {
			return err
		}
		h.patience = control.AnswerPatience
		if f.why == silent {
			h.patience = math.MaxInt64 // an agent that is stopped answers when it goes on
		}
		if over, err := h.isOver(f); over {
			return err
		}
	}
}

// isOver reports whether hold ends with this, and how.
func (h *holding) isOver(f fate) (over bool, err error) {
	switch {
	case f.why == agentOff && !f.isAsked:
		return true, &failure{code: exitUnreachable, err: errors.New(f.story(h.words[0]))}
	case f.isLast(h.restarts):
		return true, f.outcome()
	}
	return false, nil
}

// holdTerm runs the command, again and again, until the leadership has ended or the
// command is not to be run any more. Nothing runs then, and the agent knows.
func (h *holding) holdTerm(feed *leaseFeed, lease control.Lease) (f fate, err error) {
	pause := restartFirst
	for err == nil {
		h.note("%s starts: this node leads, epoch %d", h.words[0], lease.Epoch.Counter)
		if f, err = h.run(feed, lease); err != nil {
			break
		}
		if f.why == lost || f.why == silent {
			h.note("%s", f.story(h.words[0]))
		}
		if f.why != ofItself || f.isLast(h.restarts) {
			return f, nil
		}
		if f.lasted >= restartCalm {
			pause = restartFirst
		}
		h.note("%s ended with exit code %d; it starts again in %v", h.words[0], f.code, pause)
		feed, lease, err = h.rest(lease, pause)
		pause = min(2*pause, restartMost)
	}
	if errors.Is(err, errOver) {
		return fate{why: lost}, nil
	}
	return fate{}, err
}

// isLast reports whether hold is to run nothing after this: it was told to end, also while
// the command was being ended for another reason, or the command is not to be run again.
func (f fate) isLast(restarts func(code int) bool) bool {
	return f.isAsked || f.why == ofItself && !restarts(f.code)
}

// rest waits before the command is run again, no longer than the leadership lasts, and
// gives the feed to run it on: the last one has gone with its holder.
func (h *holding) rest(last control.Lease, pause time.Duration) (*leaseFeed, control.Lease, error) {
	late := time.After(pause)
	feed := openFeed(h.Context.Context, h.client, h.grace, h.patience)
	for wait := (<-chan time.Time)(nil); ; wait = late { // for the first answer in any case
		l, err := feed.next(wait, h.signals)
		switch {
		case errors.Is(err, errLate):
			return feed, last, nil
		case err == nil && (l.Epoch != last.Epoch || whyNotAct(l) != ""):
			err = errOver
		}
		if err != nil {
			feed.close()
			return nil, last, err
		}
		last = l
	}
}
