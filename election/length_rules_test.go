package election

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/wire"
)

const (
	wholeLease    = 400 * time.Millisecond
	shortestLease = 250 * time.Millisecond
	longestLease  = 800 * time.Millisecond
)

// beatsFor lets the node send heartbeats for that long, each acknowledged by these hosts.
func (s *story) beatsFor(d time.Duration, by ...int) {
	s.t.Helper()
	for end := s.now.Add(d); s.now.Before(end); {
		s.beats()
		for _, number := range by {
			s.acks(number)
			s.forgets()
		}
	}
}

// asks gives what the last heartbeat to a host asked for.
func (s *story) asks(number int) time.Duration {
	s.t.Helper()
	f := s.lastTo(number, wire.Heartbeat)
	return spanOf(f.Lease)
}

// A new leader asks for the whole lease; once it has heard that its round trips are a
// LAN's, for five eighths of it.
func TestM39_ALeaseIsShortWhereRoundTripsAre(t *testing.T) {
	n := leading(t)
	n.beats()
	if got := n.asks(1); got != wholeLease {
		t.Errorf("the first heartbeats ask for %v", got)
	}
	n.beatsFor(500*time.Millisecond, 1, 2)
	if got := n.asks(1); got != shortestLease {
		t.Errorf("with round trips of a millisecond it asks for %v", got)
	}
	if end, want := n.node.leaseEnd(), n.node.reign.lastBeat.Add(lease.LeaderLength(shortestLease)); !end.Equal(want) {
		t.Errorf("the lease ends %v later than what was asked for", end.Sub(want))
	}
}

// What a new leader asks for never falls by a whole interval from one heartbeat to the next.
// A follower that missed the first ones and hears this one then waits beyond what the
// leader counts for those.
func TestM39_ANewLeadersLengthFallsInSteps(t *testing.T) {
	n := leading(t)
	for last := wholeLease; last > shortestLease; {
		n.beatsFor(n.node.cfg.Heartbeat, 1, 2)
		got := n.asks(1)
		if last-got >= n.node.cfg.Heartbeat {
			t.Fatalf("after %v it asks for %v", last, got)
		}
		last = got
	}
}

// A round trip longer than the lease is none that may be forgotten: the lease would
// stay short on a path that has become long.
func TestM39_ALongRoundTripCountsAsTheLease(t *testing.T) {
	n := leading(t)
	n.beatsFor(500*time.Millisecond, 1, 2)
	for range 50 {
		n.node.sampleRTT(n.node.peer(hostID(1)), n.now.Add(-3*wholeLease/2))
	}
	if trip := n.node.peer(hostID(1)).rtt.smooth; trip < wholeLease*99/100 || trip > wholeLease {
		t.Errorf("it counts as %v after round trips of %v", trip, 3*wholeLease/2)
	}
}

// What is asked for covers the RTO of the slowest voter that is there. It rises at once
// and falls over ten seconds; a voter that has gone makes nobody wait.
func TestM39_ALeaseCoversTheSlowest(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.leadsVoters(1)
	n.beatsFor(500*time.Millisecond, 1, 2)
	n.node.peer(hostID(2)).rtt = seen(40*time.Millisecond, 0, n.now)
	n.beats()
	if got, want := n.asks(1), shortestLease+4*(41-10)*time.Millisecond; got != want {
		t.Errorf("with a voter 40 ms away it asks for %v, want %v", got, want)
	}
	n.node.peer(hostID(2)).rtt = seen(time.Millisecond, 0, n.now)
	n.beatsFor(time.Second, 1, 2)
	if got := n.asks(1); got < shortestLease+40*time.Millisecond {
		t.Errorf("a second later it asks for %v", got)
	}
	n.beatsFor(9*time.Second, 1, 2)
	if got := n.asks(1); got != shortestLease {
		t.Errorf("ten seconds later it asks for %v", got)
	}
	n.node.peer(hostID(2)).rtt = seen(80*time.Millisecond, 0, n.now)
	n.beats()
	if got := n.asks(1); got != wholeLease {
		t.Errorf("with a voter 80 ms away it asks for %v", got)
	}
	n.beatsFor(900*time.Millisecond, 1) // n2 is silent
	n.beatsFor(10*time.Second, 1)
	if got := n.asks(1); got != shortestLease {
		t.Errorf("with a slow voter that has gone it asks for %v", got)
	}
}

// A long stop budget makes the shortest lease longer, and a lease
// of four heartbeats has nothing to spare.
func TestM39_TheShortestLease(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct{ lease, heartbeat, stop, want time.Duration }{
		{400 * ms, 50 * ms, 0, 250 * ms},
		{160 * ms, 20 * ms, 0, 100 * ms},
		{8000 * ms, 1000 * ms, 0, 5000 * ms},
		{400 * ms, 50 * ms, 60 * ms, 250 * ms},
		{400 * ms, 50 * ms, 150 * ms, 300 * ms},
		{200 * ms, 50 * ms, 0, 200 * ms},
		{320 * ms, 50 * ms, 0, 250 * ms},
		{2000 * ms, 50 * ms, 0, 1250 * ms},
	} {
		c, err := Config{ID: hostID(1), Rand: rand.New(rand.NewPCG(1, 1)), Heartbeat: tc.heartbeat, Lease: tc.lease, StopBudget: tc.stop}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ShortestLease(); got != tc.want {
			t.Errorf("lease %v, heartbeat %v, stop budget %v: %v, want %v", tc.lease, tc.heartbeat, c.StopBudget, got, tc.want)
		}
		if c.ShortestLease()-c.StopBudget < 3*c.Heartbeat {
			t.Errorf("lease %v, heartbeat %v, stop budget %v: one lost heartbeat deposes a leader", tc.lease, tc.heartbeat, c.StopBudget)
		}
	}
}

// A voter is bound for as long as the heartbeat asks, and never for less than it was: the
// leader counts on the longer promise.
func TestM39_APromiseNeverShortens(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	long, short := n.actor(3).heartbeat(1), n.actor(3).heartbeat(1)
	short.Lease = 250
	n.hearsAndForgets(long)
	bound := n.node.promise.Until
	n.hearsAndForgets(short)
	if got := n.node.promise.Until; !got.Equal(bound) {
		t.Errorf("a heartbeat that asks for less moved the promise by %v", got.Sub(bound))
	}
	n.waits(200 * time.Millisecond)
	n.forgets()
	short = n.actor(3).heartbeat(1)
	short.Lease = 250
	n.hearsAndForgets(short)
	if got, want := n.node.promise.Until, n.now.Add(shortestLease); !got.Equal(want) {
		t.Errorf("bound for %v, was asked for %v", got.Sub(n.now), shortestLease)
	}
}

// The disk has the whole lease, whatever was asked for: a voter that restarts within it
// may have promised all of it with a heartbeat that came after the save.
func TestM39_AfterARestartTheWholeLeaseIsWaitedOut(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	f := n.actor(3).heartbeat(1)
	f.Lease = 250
	n.hearsAndForgets(f)
	if got := n.disk.LongestPromise; got != wholeLease {
		t.Errorf("the disk says %v after a heartbeat that asked for %v", got, shortestLease)
	}
}

// No frame shortens a follower's wait below the shortest lease, or lengthens it beyond
// the whole one.
func TestM39_WhatCanBeAskedFor(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	for ms, want := range map[uint32]time.Duration{0: shortestLease, 1: shortestLease, 300: 300 * time.Millisecond, 1 << 31: longestLease} {
		f := n.actor(3).heartbeat(1)
		f.Lease = ms
		if got := n.node.askedFor(&f); got != want {
			t.Errorf("%d ms: %v, want %v", ms, got, want)
		}
	}
	f := n.actor(3).coordinator(1)
	for ms, want := range map[uint32]time.Duration{1: wholeLease, 600: 600 * time.Millisecond, 1 << 31: longestLease} {
		f.Lease = ms
		if got := n.node.askedFor(&f); got != want {
			t.Errorf("a COORDINATOR that says %d ms asks for %v", ms, got)
		}
	}
}

// In available mode nobody has promised anything: a leader counts on more than the
// shortest lease only when each of the others waits for that long.
func TestM39_ARiseCountsOnceAllHaveAcknowledgedIt(t *testing.T) {
	n := leading(t)
	n.beatsFor(500*time.Millisecond, 1, 2)
	for _, number := range []int{1, 2} {
		n.node.peer(hostID(number)).rtt = seen(80*time.Millisecond, 0, n.now)
	}
	ends := func(length time.Duration) {
		t.Helper()
		if end, want := n.node.leaseEnd(), n.node.reign.lastBeat.Add(lease.LeaderLength(length)); !end.Equal(want) {
			t.Errorf("the lease ends %v after what %v gives", end.Sub(want), length)
		}
	}
	n.beats()
	n.acks(1)
	n.forgets()
	ends(shortestLease) // n2 may have missed it
	n.beats()
	n.acks(1)
	n.forgets()
	ends(shortestLease)
	n.acks(2)
	n.forgets()
	n.beats()
	n.acks(1)
	n.forgets()
	ends(wholeLease)
}

// A follower waits for what it was asked, and not for less because a late frame asks so.
func TestM39_AFollowerNeverWaitsForLessThanBefore(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	long, short := n.actor(3).heartbeat(1), n.actor(3).heartbeat(1)
	short.Lease = 250
	n.hearsAndForgets(long)
	end := n.node.takeoverEnd()
	n.hearsAndForgets(short)
	if got := n.node.takeoverEnd(); !got.Equal(end) {
		t.Errorf("it waits %v less", end.Sub(got))
	}
	for range 9 {
		n.waits(50 * time.Millisecond)
		f := n.actor(3).heartbeat(1)
		f.Lease = 250
		n.hearsAndForgets(f)
	}
	if got, want := n.node.takeoverEnd(), n.now.Add(lease.WaitLength(shortestLease)); !got.Equal(want) {
		t.Errorf("it waits for %v", got.Sub(n.now))
	}
}

// Weather that slowly gets worse, up to a round trip of 200 ms, deposes nobody.
func TestM39_ALeaseFollowsTheRoundTrip(t *testing.T) {
	for _, quorum := range []int{0, 5} {
		w := newWorld(t, 5, Config{Expect: quorum, MinAcks: AutoMinAcks, Preempt: PreemptNever})
		for _, h := range w.hosts {
			w.boot(h)
		}
		w.runFor(10 * time.Second)
		before := len(w.ascents)
		for w.delay < 95*time.Millisecond {
			w.delay += time.Millisecond
			w.runFor(time.Second)
		}
		if changes := len(w.ascents) - before; changes > 0 || len(w.leaders()) != 1 {
			t.Errorf("expect %d: %d changes, %d lead", quorum, changes, len(w.leaders()))
		}
	}
}

// However the round trip changes, a leader that is cut off has let go when another
// leads: in available mode nobody but the followers' own waiting keeps them apart.
func TestM39_WhoIsCutOffHasLetGoFirst(t *testing.T) {
	both, played := 0, 0
	const cuts = 150
	for cut := range cuts {
		w := newWorld(t, 4, Config{MinAcks: AutoMinAcks, Preempt: PreemptNever})
		rng := rand.New(rand.NewPCG(7, uint64(cut)))
		for _, h := range w.hosts {
			w.boot(h)
		}
		w.runFor(4 * time.Second)
		w.weather = weather{rng: rng, loss: 0.1, jitter: 3 * time.Millisecond}
		w.delay = time.Duration(rng.IntN(60)) * time.Millisecond
		w.runFor(time.Duration(rng.IntN(600)) * time.Millisecond)
		if len(w.leaders()) != 1 {
			continue
		}
		old := w.leaders()[0]
		played++
		for _, h := range w.hosts {
			w.cuts[[2]int{h.number, old.number}], w.cuts[[2]int{old.number, h.number}] = true, true
		}
		w.runUntil(w.now.Add(3*time.Second), func() bool { return len(w.leaders()) > 1 || old.node.state != Lead })
		if len(w.leaders()) > 1 {
			both++
		}
	}
	if both > 0 || played < 100 {
		t.Errorf("in %d of %d cuts two led at once, and 100 were to be played", both, played)
	}
}
