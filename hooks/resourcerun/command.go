package resourcerun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/holder"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/trust"
)

// command is one that is kept running, each run by a holder of its own: it is dead when the lease has ended,
// whatever keeps this process from ending it, and when this process has died.
type command struct {
	hands *Hands
	hooks.Resource
	event hooks.Event

	ends []time.Time // of runs, the last ones; whoever has the turn

	last     atomic.Pointer[holder.Holder] // run; nil: none was started
	isPaused atomic.Bool
	restarts atomic.Int32 // after the ends
}

// isOver reports whether nothing of a run is left.
func isOver(r *holder.Holder) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

const (
	// maxEnds in endsWithin make a command one that does not run: it has failed. Arbitrary, systemd's habit
	// (StartLimitBurst=5) with a window that pauses between starts leave room for.
	maxEnds    = 5
	endsWithin = time.Minute

	// firstPause is between an end and the next start; each further one is twice as long. Arbitrary.
	firstPause = 100 * time.Millisecond

	recordsName = "resource-holders"
)

// event is BULLY_EVENT of a kept command. Another than the become-leader hook's: what that has left running is ended
// before the lose-leadership hook.
const event hooks.Kind = "resource"

func (h *Hands) newCommand(r hooks.Resource, ev hooks.Event) *command {
	ev.Kind = event
	return &command{hands: h, Resource: r, event: ev}
}

func (h *Hands) records() string { return filepath.Join(h.cfg.Dir, recordsName) }

// Recover sees to it that no kept command runs any more that an earlier keeper started; it waits for holders that
// are still at it, until ctx ends.
func (h *Hands) Recover(ctx context.Context) error {
	return holder.Recover(ctx, h.records(), h.cfg.Logger.Warn, "resource")
}

// Begin starts it, unless it runs.
func (c *command) Begin(ctx context.Context) error {
	c.isPaused.Store(false)
	if r := c.last.Load(); r != nil && !isOver(r) {
		return nil
	}
	c.ends = nil
	c.restarts.Store(0)
	if err := c.start(); err != nil {
		return err
	}
	r := c.last.Load()
	select {
	case <-r.Begun():
	case <-ctx.Done():
		return ctx.Err()
	}
	if report := r.Report(); report.Group == 0 {
		return errors.New(howEnded(report))
	}
	return nil
}

// start begins a run.
func (c *command) start() error {
	if err := trust.Check(c.Command); err != nil {
		return err
	}
	if err := os.MkdirAll(c.hands.records(), 0o700); err != nil {
		return err
	}
	env := hooks.Environ(c.event, hooks.Circumstances{Attempt: len(c.ends) + 1, Socket: c.hands.cfg.Socket}, os.Getenv)
	h := holder.New(holder.Config{Name: c.Name, Epoch: c.event.Epoch, Argv: c.Command.Words(), Env: append(env, "BULLY_RESOURCE="+hooks.Safe(c.Name)),
		Budget: c.hands.cfg.Budget, Grace: c.Grace, Records: c.hands.records(), Terms: holder.Terms{Deadline: c.hands.leaseNow()}})
	if err := h.StartRead(run.NewOutput(c.hands.cfg.Logger.With("resource", c.Name), "command printed")); err != nil {
		return err
	}
	c.last.Store(h)
	c.renew(c.hands.leaseNow()) // it may have been renewed meanwhile
	return nil
}

func (c *command) renew(until time.Time) {
	if r := c.last.Load(); r != nil {
		r.Renew(holder.Terms{Deadline: until})
	}
}

// Keep starts it again when it ends, after pauses that grow. One that ends again and again has failed.
func (c *command) Keep(ctx context.Context) error {
	for {
		r := c.last.Load()
		select {
		case <-r.Done():
		case <-ctx.Done():
			return nil
		}
		_ = r.Clear()
		pause, err := c.onEnd(r.Report())
		if err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		if err := c.startAgain(ctx, r.Report()); err != nil {
			return err
		}
	}
}

// onEnd counts the end of a run, and gives the pause before the next.
func (c *command) onEnd(r holder.Report) (pause time.Duration, err error) {
	if c.isPaused.Load() {
		return 0, nil
	}
	at := time.Now()
	for len(c.ends) > 0 && at.Sub(c.ends[0]) > endsWithin {
		c.ends = c.ends[1:]
	}
	c.ends = append(c.ends, at)
	if len(c.ends) >= maxEnds {
		return 0, fmt.Errorf("it ended %d times within a minute: %s", len(c.ends), howEnded(r))
	}
	return firstPause << (len(c.ends) - 1), nil
}

func howEnded(r holder.Report) string {
	switch {
	case r.Err != "":
		return r.Err
	case r.Signal != 0:
		return fmt.Sprintf("signal %d", r.Signal)
	}
	return fmt.Sprintf("exit status %d", r.Exit)
}

// startAgain starts the next run; while nothing is put back it waits for the end instead. Only then is it known: a command that
// ends with the lease ends before anybody says so.
func (c *command) startAgain(ctx context.Context, last holder.Report) error {
	if c.isPaused.Load() {
		<-ctx.Done()
		return nil
	}
	c.hands.cfg.Logger.Warn("kept command ended and is started again", "resource", c.Name, "how", howEnded(last))
	c.restarts.Store(int32(len(c.ends)))
	return c.start()
}

// Pause implements thing.
func (c *command) Pause() { c.isPaused.Store(true) }

// stopCause is what a holder notes as the cause of a command's end.
const stopCause = "leadership-lost"

// End ends the run that goes on, by TERM, grace and KILL.
func (c *command) End(ctx context.Context) error {
	r := c.last.Load()
	if r == nil {
		return nil // what an earlier keeper has started ended with it
	}
	within := time.Duration(0)
	if by, ok := ctx.Deadline(); ok {
		within = max(time.Until(by)-hangPatience/2, ending.MinGrace)
	}
	r.Stop(stopCause, within)
	select {
	case <-r.Done():
	case <-r.Stuck():
		return errors.New(r.Report().Stuck)
	case <-ctx.Done():
		r.Kill(stopCause)
		return ctx.Err()
	}
	_ = r.Clear()
	return nil
}

// State implements thing.
func (c *command) State() string {
	var parts []string
	if r := c.last.Load(); r != nil && !isOver(r) {
		parts = append(parts, fmt.Sprintf("process group %d", r.Report().Group))
	}
	switch n := c.restarts.Load(); n {
	case 0:
	case 1:
		parts = append(parts, "started again once within a minute")
	default:
		parts = append(parts, fmt.Sprintf("started again %d times within a minute", n))
	}
	return strings.Join(parts, ", ")
}
