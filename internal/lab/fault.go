package lab

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// The faults that --fault and scripts can inflict.
const (
	faultKill     = "kill"
	faultStop     = "stop"
	faultPause    = "pause"
	faultHandOver = "handover"
	faultCut      = "cut"
	faultCarrier  = "carrier"
)

var faults = []string{faultKill, faultStop, faultPause, faultHandOver, faultCut, faultCarrier}

// inflict does one of the faults to n. The record's time is from just before the system call.
func (n *node) inflict(fault string) (verdict.Record, error) {
	switch fault {
	case faultKill:
		return n.signal(syscall.SIGKILL, verdict.Killed)
	case faultStop:
		return n.signal(syscall.SIGTERM, verdict.Stopped)
	case faultPause:
		return n.signal(syscall.SIGSTOP, verdict.Paused)
	case faultHandOver:
		return n.handOver()
	case faultCut:
		return n.pull(verdict.Cut)
	case faultCarrier:
		return n.pull(verdict.Dropped)
	}
	panic("BUG: unknown fault " + fault)
}

// handOver has n, which must lead, hand over to the best of the others. It returns when that one leads.
func (n *node) handOver() (verdict.Record, error) {
	others := slices.DeleteFunc(n.lab.reachable(), func(o *node) bool { return o == n })
	if len(others) == 0 {
		return verdict.Record{}, fmt.Errorf("hand over: nobody but %s can be reached", n.name)
	}
	heir := others[len(others)-1]
	if n.lab.Algorithm == "smallest" {
		heir = others[0]
	}
	ctx, cancel := context.WithTimeout(context.Background(), goneTime)
	defer cancel()
	r := n.lab.journal.add(verdict.Record{Node: n.name, What: verdict.Ordered})
	if err := n.client.HandOver(ctx, heir.name); err != nil {
		return r, fmt.Errorf("hand over from %s to %s: %w", n.name, heir.name, err)
	}
	return r, nil
}

// wake continues a paused agent.
func (n *node) wake() error {
	_, err := n.signal(syscall.SIGCONT, verdict.Continued)
	return err
}

// mend undoes a fault that was inflicted on n when the mark was set. It returns when n has understood what happened to
// it: when its process has come back, or the leadership that it held has been given up.
func (l *lab) mend(ctx context.Context, n *node, fault string, mark int) error {
	switch fault {
	case faultKill, faultStop:
		if err := l.gone(ctx, n, mark); err != nil {
			return err
		}
		return n.start()
	case faultPause:
		if err := n.wake(); err != nil {
			return err
		}
		return l.within(ctx, l.giveUpTime(), fmt.Sprintf("%s did not give up its leadership after it slept", n.name), mark, n.did(verdict.Lost))
	case faultHandOver:
		return l.within(ctx, l.giveUpTime(), fmt.Sprintf("%s did not give up its leadership as it was told", n.name), mark, n.did(verdict.Lost))
	case faultCut, faultCarrier:
		err := l.within(ctx, l.giveUpTime(), fmt.Sprintf("%s did not give up its leadership while it was cut off", n.name), mark, n.did(verdict.Lost))
		if err != nil {
			return err
		}
		_, err = n.pull(verdict.Plugged)
		return err
	}
	panic("BUG: unknown fault " + fault)
}

// giveUpTime is how long the lab waits for an agent to see that its lease has ended. Much longer than the promise: that it
// was late is for the verdict to say.
func (l *lab) giveUpTime() time.Duration { return 5*time.Second + 2*leases[l.Profile] }

// goneTime bounds an orderly end: a hook timeout of 30 s and its grace, and some.
const goneTime = 45 * time.Second

// gone waits until the present process of n has ended, and its end has been heard.
func (l *lab) gone(ctx context.Context, n *node, mark int) error {
	if err := l.within(ctx, goneTime, n.name+" has not ended", mark, n.did(verdict.Exited)); err != nil {
		return err
	}
	n.await() // its end is told a moment before it counts as over
	return nil
}

// within waits for a record; after d it fails with what is missing.
func (l *lab) within(ctx context.Context, d time.Duration, missing string, mark int, wanted func(verdict.Record) bool) error {
	limit, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if _, err := l.journal.await(limit, mark, wanted); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s within %v", missing, d)
	}
	return nil
}
