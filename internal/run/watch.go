package run

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// Stage is how far the ending of a command has come.
type Stage int

// The stages, in this order.
const (
	Running Stage = iota
	Asked         // TERM sent
	Killed        // KILL sent
	Hanging       // KILL does not help
)

// Watch sees a command to its end: TERM when its time has ended, KILL at the end of the grace,
// and waiting: KILL sent is not yet dead. Its owner steps it when something may have happened,
// and when Next has come. It has no clock: all times are on the owner's.
type Watch struct {
	Stage Stage

	p     *Process
	begun time.Time // the command was started
	since time.Time // the stage began; while it runs: the first process was seen to have ended
	cause error     // why the first process did not end by itself; nil if it did
}

// Watch begins to watch over a command that was started then.
func (p *Process) Watch(begun time.Time) *Watch { return &Watch{p: p, begun: begun, since: begun} }

// Step does what is due now, and reports whether nothing of the command is left.
//
// Stragglers of a first process that ended by itself have a moment to go or to leave the
// group, are then ended as that would be, and do not count against it.
//
// A command that was cut by the time its start was known of gets KILL at once. Mostly it has
// begun nothing that a grace would help to end: a start takes long on a host so busy that
// the command does not get to run. But it may be this process that did not, and the command
// has run meanwhile: nobody tells when it was executed.
func (w *Watch) Step(at time.Time, l ending.Limit) (over bool) {
	if w.Stage == Running && l.CutBy(w.begun) != nil {
		w.Stage, w.cause = Asked, l.Reason // it is not worth asking
		w.advance(at, l)
	}
	had := w.p.ended
	if w.p.isGone() && w.p.bury() {
		return true
	}
	if w.p.ended && !had && w.Stage == Running {
		w.since = at
	}
	switch {
	case w.Stage != Hanging && !at.Before(w.by(l)):
		w.advance(at, l)
	case w.Stage == Asked:
		w.p.askOrphans()
	case w.Stage > Asked:
		w.p.kill()
	}
	return false
}

// by is when the next stage begins.
func (w *Watch) by(l ending.Limit) time.Time {
	switch w.Stage {
	case Running:
		by := l.TermBy(w.begun)
		if last := w.since.Add(w.p.parting); w.p.ended && last.Before(by) {
			by = last
		}
		return by
	case Asked:
		return l.KillBy(w.since)
	}
	return w.since.Add(ending.Unkillable)
}

// hangPause is between two looks at a command that hangs. Most of what happens in an ending
// wakes its owner; the end of a process which is nobody's child here does not.
const hangPause = time.Second

// Next is when Step is due if nothing happens before. What is no child of this process, or
// not yet, is looked for again and again.
func (w *Watch) Next(at time.Time, l ending.Limit) time.Time {
	if w.Stage == Hanging {
		return at.Add(hangPause)
	}
	next := w.by(l)
	poll := at.Add(ending.Poll(at.Sub(w.since)))
	if looks := w.p.ended || w.p.adopts && w.Stage > Running; looks && poll.Before(next) {
		return poll
	}
	return next
}

func (w *Watch) advance(at time.Time, l ending.Limit) {
	w.Stage++
	w.since = at
	switch w.Stage {
	case Asked:
		if w.p.ended {
			w.p.Ended = Names(Living(w.p.Group))
		} else if w.cause = l.CutBy(at); w.cause == nil {
			w.cause = fmt.Errorf("%w after %v", ending.ErrTimedOut, at.Sub(w.begun).Round(time.Millisecond))
		}
		w.p.ask()
	case Killed:
		w.p.kill()
	}
}

// Conclude waits for the command's end, within the leash, and says how it was. The group is
// dead then, unless it hangs in the kernel.
func (p *Process) Conclude(l *Leash) (end ending.End) {
	begun := l.clock().Add(-time.Since(p.Begun))
	w := p.Watch(begun)
	for !w.Step(l.clock(), l.Limit()) && w.Stage != Hanging {
		w.sleep(l)
	}
	end.Err = w.cause
	if end.IsStuck = w.Stage == Hanging; end.IsStuck {
		end.Err = p.abandon(w.cause)
	}
	exit, signal := p.Status()
	switch end.Exit = exit; {
	case end.Err != nil:
	case signal != 0:
		end.Err = fmt.Errorf("ended by signal %d (%v)", int(signal), signal)
	case exit > 0:
		end.Err = exitError(exit)
	}
	end.Took = time.Since(p.Begun)
	return end
}

// sleep waits for the first process's end, a change of the limit, or the time at which
// something is due.
func (w *Watch) sleep(l *Leash) {
	exited := w.p.exited
	if w.p.ended {
		exited = nil
	}
	at := l.clock()
	timer := time.NewTimer(max(w.Next(at, l.Limit()).Sub(at), 0))
	defer timer.Stop()
	select {
	case <-exited:
	case <-l.tugged:
	case <-timer.C:
	}
}

// abandon leaves what hangs to the kernel, and collects the first process whenever that lets
// go of it.
func (p *Process) abandon(cause error) error {
	hangs := fmt.Errorf("process group %d did not end %v after KILL: %s", p.Group, ending.Unkillable, Stuck(Living(p.Group)))
	go func() { _, _ = unix.Wait4(p.Group, nil, 0, nil) }()
	if cause != nil {
		return fmt.Errorf("%w, and %w", cause, hangs)
	}
	return hangs
}

// exitError says what an exit status other than 0 means.
func exitError(code int) error {
	switch code {
	case ending.TryAgain:
		return errors.New("exit status 75 (try again)")
	case 126:
		return errors.New("exit status 126: the shell found the command but could not execute it")
	case 127:
		return errors.New("exit status 127: the shell did not find a command: hooks get PATH from the agent and nothing from a login shell")
	}
	return fmt.Errorf("exit status %d", code)
}
