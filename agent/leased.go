package agent

import (
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/durable"
)

// Until when this host may act: who is told of it.

// onLease publishes until when this agent may act; zero: its leadership has ended.
func (s *seat) onLease(until time.Time) {
	if until.IsZero() {
		s.jobs.lost()
		s.until.Store(0)
		s.around.leases(until)
		return
	}
	s.leasedTo = until
	s.until.Store(until.UnixNano())
	s.around.leases(until)
	s.runner.Renew(until, s.isUnrivalled()) // before holders: the keeper waits for theirs if this process is killed in between
	s.holders.renew(until, s.around.now())
	s.returnLease()
}

// isUnrivalled: nobody could take over from this agent, in available mode. So it may be silent for as long as it likes, for hooks and
// jobs: the node does not step down then either.
func (s *seat) isUnrivalled() bool { return s.election.Expect == 0 && !s.around.seen().hasPeers() }

// renewEnding shows holders and the keeper how long a planned end may take: the node
// goes on renewing the lease, though it does not lead on it any more.
func (s *seat) renewEnding() {
	if s.shown.status.State != election.Stopping {
		return
	}
	if until := s.node.Status().Lease; !until.IsZero() {
		s.runner.Ending(until, s.isUnrivalled()) // at once: what comes next in this turn may be the end
		s.holders.renew(until, s.around.now())
	}
}

// Lease is for those who act on it and are not known, on any goroutine. Like report it looks
// at the clock first.
func (s *seat) Lease() (control.Lease, <-chan struct{}) { return s.leaseFor(nil) }

// Enter is for one who comes to hold the lease, on any goroutine.
func (s *seat) Enter(grace time.Duration) (lease func() (control.Lease, <-chan struct{}), leave func(hasEnded bool)) {
	who := s.holders.enter(grace)
	return func() (control.Lease, <-chan struct{}) { return s.leaseFor(who) },
		func(hasEnded bool) { s.holders.leave(who, hasEnded) }
}

// leaseFor tells a holder, or somebody unknown, until when it may act. Whoever knows may do so
// after this process has died, so the keeper hears of it before; where it cannot, nobody is told.
func (s *seat) leaseFor(who *holder) (control.Lease, <-chan struct{}) {
	now, newer, isLent := s.holders.lend(who)
	boot := durable.BootTime() // before the other clock: whoever is stopped in between says too little
	left := now.until.Sub(s.around.now())
	epoch := control.Epoch{Counter: now.epoch.Counter, Owner: ownerText(now.epoch)}
	out := control.Lease{Epoch: epoch, Cause: string(now.cause), Clock: int64(boot)}
	if now.until.IsZero() || left <= 0 {
		return out, newer
	}
	if !isLent {
		if !s.runner.Lend() {
			return out, newer
		}
		s.holders.lent()
	}
	out.Leader, out.Ready = now.leads, now.ready
	out.Until, out.RemainMS = int64(boot+left), left.Milliseconds()
	return out, newer
}
