package election

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/wire"
)

// areFar has the node know that all others are that far away.
func (s *story) areFar(trip time.Duration) {
	for _, p := range s.node.peers {
		p.rtt = seen(trip, 0, s.now)
	}
}

// claimsAt gives what a voter asks for with its claim among others that are that far away.
func claimsAt(t *testing.T, trip time.Duration) time.Duration {
	t.Helper()
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	n.areFar(trip)
	n.node.reign.grant = 0
	n.waits(time.Second)
	n.forgets()
	f := n.lastTo(1, wire.Coordinator)
	return spanOf(f.Lease)
}

// A claim asks for the lease; among hosts that are far apart for its own round trip and that of
// the first heartbeat, for an interval and stepping down, and never for more than two leases.
func TestM40_AClaimAsksForWhatTheWayNeeds(t *testing.T) {
	const ms = time.Millisecond
	for trip, want := range map[time.Duration]time.Duration{
		ms: wholeLease, 90 * ms: wholeLease, 124 * ms: wholeLease, 160 * ms: 472 * ms, 240 * ms: 632 * ms, 300 * ms: 752 * ms,
		340 * ms: longestLease, 900 * ms: longestLease,
	} {
		if got := claimsAt(t, trip); got != want {
			t.Errorf("at a round trip of %v it asks for %v, want %v", trip, got, want)
		}
	}
}

// How far somebody is that was never heard is not known, and makes no claim longer.
func TestM40_WhoseTripIsUnknownMakesNoClaimLonger(t *testing.T) {
	n := storyOf(t, 3, Config{Heartbeat: 20 * time.Millisecond, Lease: 160 * time.Millisecond}, 1, 2)
	for _, p := range n.node.peers {
		p.rtt = rtt{}
	}
	if got := n.node.claimLength(); got != n.node.cfg.Lease {
		t.Errorf("it asks for %v", got)
	}
}

// The slowest of all counts, also one that was not heard of late: followers say nothing to each
// other. One that has gone counts no more.
func TestM40_AClaimCoversTheSlowest(t *testing.T) {
	n := leading(t)
	n.node.peer(hostID(2)).rtt = seen(240*time.Millisecond, 0, time.Time{})
	n.node.peer(hostID(2)).heard = time.Time{}
	if got := n.node.claimLength(); got != 632*time.Millisecond {
		t.Errorf("it asks for %v", got)
	}
	n.happens(MemberChanged{n.actor(2).member(Left)})
	n.forgets()
	if got := n.node.claimLength(); got != wholeLease {
		t.Errorf("it asks for %v after the slow one has left", got)
	}
}

// Heartbeats ask for more than the lease by the round trip alone, not by how much it varies: a
// gust asks for the lease at most.
func TestM40_HeartbeatsAskByTheRoundTrip(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct{ smooth, variance, want time.Duration }{
		{ms, 0, shortestLease}, {80 * ms, 0, wholeLease}, {20 * ms, 300 * ms, wholeLease}, {160 * ms, 0, 550 * ms},
		{240 * ms, 0, 710 * ms}, {240 * ms, 100 * ms, 710 * ms}, {300 * ms, 0, longestLease},
	} {
		n := leading(t)
		n.beatsFor(500*ms, 1, 2)
		for _, p := range n.node.peers {
			p.rtt = seen(tc.smooth, tc.variance, n.now)
		}
		n.beats()
		if got := n.asks(1); got != tc.want {
			t.Errorf("with round trips of %v, varying by %v, it asks for %v, want %v", tc.smooth, tc.variance, got, tc.want)
		}
	}
}

// A new leader's first heartbeats ask for no less than a claim would.
func TestM40_TheFirstHeartbeatsAskAsTheClaimDid(t *testing.T) {
	n := voterOf(t, 3, Saved{}, 1, 2)
	n.claimed(1)
	for _, p := range n.node.peers {
		p.rtt = seen(100*time.Millisecond, 40*time.Millisecond, n.now)
	}
	n.grants(1)
	n.forgets()
	n.is(Lead)
	if got := n.asks(1); got <= wholeLease {
		t.Errorf("the first heartbeat asks for %v", got)
	}
	n.beatsFor(2*time.Second, 1, 2)
	if got := n.asks(1); got >= wholeLease {
		t.Errorf("two seconds later, with short trips, it asks for %v", got)
	}
}

// What is beyond the lease no gust has asked for: it falls within a second, in steps that are
// shorter than an interval.
func TestM40_WhatIsBeyondTheLeaseFallsSoon(t *testing.T) {
	n := leading(t)
	n.beatsFor(500*time.Millisecond, 1, 2)
	n.areFar(300 * time.Millisecond)
	n.beats()
	last := n.asks(1)
	n.areFar(time.Millisecond)
	for range 16 {
		n.beatsFor(n.node.cfg.Heartbeat, 1, 2)
		got := n.asks(1)
		if last-got >= n.node.cfg.Heartbeat {
			t.Fatalf("after %v it asks for %v", last, got)
		}
		last = got
	}
	if last > wholeLease {
		t.Errorf("it asks for %v", last)
	}
}

// An answer that comes when the question was given up says how long the way is: each lets the
// timeout about double at most, since it may come from a host that was frozen.
func TestM40_ALateAnswerIsASample(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	p := n.node.peer(hostID(1))
	before := n.node.rto(p)
	for n.node.state != Suspect {
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	answer := n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Epoch: n.node.epoch, Standing: wire.Following})
	for range 6 {
		n.hearsAndForgets(n.actor(3).heartbeat(1))
		n.waits(40 * time.Millisecond)
		n.forgets()
	}
	if n.node.exchanges.awaits(wire.Probe) {
		t.Fatal("the question is still open")
	}
	n.hears(answer)
	n.expects("ignored late-reply")
	if got := n.node.rto(p); got <= before || got > 3*before {
		t.Errorf("an RTO of %v after an answer that took 240 ms, and of %v before", got, before)
	}
}

// A host that was frozen answers all copies of a question at once: that is one sample. Three of them
// were three, and a timeout of 50 ms became 0.7 s.
func TestM40_LateAnswersThatComeTogetherAreOneSample(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	p := n.node.peer(hostID(3))
	before := n.node.rto(p)
	n.node.ask(p, wire.Frame{Kind: wire.Election}, time.Nanosecond)
	var answers []wire.Frame
	for n.waits(time.Millisecond); n.node.exchanges.awaits(wire.Election); n.waits(time.Millisecond) {
		n.forgets()
		if tries := n.node.exchanges[0].tries; tries > len(answers) {
			answers = append(answers, n.actor(3).replies(wire.Election, n.actor(3).ineligible()))
		}
	}
	if len(answers) != 3 {
		t.Fatalf("the question was sent %d times", len(answers))
	}
	for _, answer := range answers[:2] {
		n.hearsAndForgets(answer)
	}
	together := n.node.rto(p)
	if together <= before || together > 3*before {
		t.Errorf("an RTO of %v after two late answers that came together, and of %v before", together, before)
	}
	n.waits(8 * time.Millisecond) // no copy follows another sooner
	n.forgets()
	n.hearsAndForgets(answers[2])
	if got := n.node.rto(p); got <= together {
		t.Errorf("an RTO of %v after another late answer, and of %v before", got, together)
	}
}

// So does each answer that a question of another kind had.
func TestM40_LateAnswersToOtherQuestionsAreSamples(t *testing.T) {
	for _, tc := range []struct {
		question wire.Kind
		answer   wire.Frame
	}{
		{wire.Election, wire.Frame{Kind: wire.Answer, Verdict: wire.Ineligible}},
		{wire.Query, wire.Frame{Kind: wire.Cid}},
	} {
		n := storyOf(t, 2, Config{}, 1, 3)
		p := n.node.peer(hostID(3))
		before := n.node.rto(p)
		n.node.ask(p, wire.Frame{Kind: tc.question}, time.Nanosecond)
		n.waits(time.Millisecond)
		n.forgets()
		answer := n.actor(3).replies(tc.question, tc.answer)
		for n.node.exchanges.awaits(tc.question) {
			n.waits(10 * time.Millisecond)
			n.forgets()
		}
		n.hearsAndForgets(answer)
		if got := n.node.rto(p); got <= before {
			t.Errorf("%v: an RTO of %v after a late answer, and of %v before", tc.question, got, before)
		}
	}
}

// Late acknowledgements teach and renew nothing: the leadership that they are of is over.
func TestM40_ALateAcknowledgementRenewsNothing(t *testing.T) {
	n := leading(t)
	n.beats()
	ack := n.actor(1).replies(wire.Heartbeat, wire.Frame{Kind: wire.HeartAck, Epoch: n.node.epoch})
	granted := n.actor(2).replies(wire.Heartbeat, wire.Frame{Kind: wire.CoordAck, Epoch: n.node.epoch})
	n.waits(time.Second)
	n.forgets()
	n.loseHookEnds()
	n.forgets()
	if n.node.state == Lead || n.node.state == Stopping {
		t.Fatal("it leads without acknowledgements")
	}
	state, before := n.node.state, n.node.rto(n.node.peer(hostID(1)))
	n.hearsAndForgets(ack)
	n.hearsAndForgets(granted)
	n.is(state)
	for _, number := range []int{1, 2} {
		if got := n.node.rto(n.node.peer(hostID(number))); got <= before {
			t.Errorf("the RTO to n%d is %v after a late acknowledgement, as before", number, got)
		}
	}
}

// Who was asked to get ready is ready by what it has heard since then. On a long path the
// answers to its questions are older than 4H when the next copy of PREPARE comes.
func TestM40_ReadyByWhatWasHeardSincePrepare(t *testing.T) {
	prepare := func(n *story, round uint32) wire.Frame {
		return n.actor(5).says(wire.Frame{Kind: wire.Prepare, Flags: wire.AckReq, Epoch: n.actor(5).epoch(1), Round: round})
	}
	n := voterOf(t, 4, Saved{}, 1, 2, 3, 5)
	n.follows(5, 1)
	beats := func(d time.Duration) {
		for end := n.now.Add(d); n.now.Before(end); {
			n.waits(50 * time.Millisecond)
			n.hearsAndForgets(n.actor(5).heartbeat(1))
		}
	}
	n.areFar(300 * time.Millisecond)
	n.hears(prepare(n, 1))
	n.expects("send n1 PROBE", "send n2 PROBE", "send n3 PROBE")
	n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Epoch: n.actor(5).epoch(1), Standing: wire.Following}))
	beats(250 * time.Millisecond)
	n.hears(prepare(n, 1))
	n.expects("send n5 READY ready=true")
	n.hears(prepare(n, 2)) // another hand-over, before which nobody was heard
	n.expects("send n1 PROBE", "send n2 PROBE", "send n3 PROBE")
}

// How long a starter says that it needs is by the slowest that it asks, and so are its waves.
func TestM40_WhoAsksWaitsForTheSlowest(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3, 4)
	n.follows(4, 1)
	n.node.peer(hostID(2)).rtt = seen(199*time.Millisecond, 0, time.Time{})
	if got, want := n.node.expectedWait(), 7*200*time.Millisecond; got != want {
		t.Errorf("it says that it needs %v, want %v", got, want)
	}
}

// The third wave waits for the slowest of the second, or it would ask on while that may answer.
func TestM40_WavesWaitForTheSlowest(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3, 4, 5)
	n.node.peer(hostID(3)).rtt = seen(199*time.Millisecond, 0, time.Time{})
	n.node.strategy.start(n.node)
	for _, x := range n.node.exchanges {
		if x.to == hostID(2) && x.nextAt.Sub(n.now) < 200*time.Millisecond {
			t.Errorf("the last is asked after %v", x.nextAt.Sub(n.now))
		}
	}
	if len(n.node.exchanges) != 4 {
		t.Errorf("%d are asked", len(n.node.exchanges))
	}
	n.forgets()
}

// For how long a follower waits is of one leadership: its acknowledgement of the claim is the
// first that is known of it.
func TestM40_WaitsAreOfOneLeadership(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	p := n.node.peer(hostID(1))
	p.waits = waits{least: time.Millisecond, any: true, acked: 7}
	n.leads(1)
	if got := p.waits; !got.any || got.least != wholeLease {
		t.Errorf("who has acknowledged the claim waits for %v (any %t)", got.least, got.any)
	}
	if p := n.node.peer(hostID(2)); p.waits.any {
		t.Errorf("who has acknowledged nothing waits for %v", p.waits.least)
	}
}

// A voter has the longest promise on disk before it acknowledges a heartbeat that asks for more
// than the lease, and so has a leader before it asks. A restart that forgets them waits as long.
func TestM40_TheLongestPromiseIsOnDiskFirst(t *testing.T) {
	n := voterOf(t, 1, Saved{}, 2, 3)
	n.hearsAndForgets(n.actor(3).heartbeat(1))
	if got := n.disk.LongestPromise; got != wholeLease {
		t.Errorf("the disk says %v on a LAN", got)
	}
	f := n.actor(3).heartbeat(1)
	f.Lease = 600
	n.showsAll = true
	n.hears(f)
	n.expectsSome("save", "send n3 HB_ACK")
	n.forgets()
	if got := n.disk.LongestPromise; got != longestLease {
		t.Errorf("the disk says %v after a heartbeat that asked for 600 ms", got)
	}
	if got := n.node.promise.Until.Sub(n.now); got != 600*time.Millisecond {
		t.Errorf("bound for %v", got)
	}

	n = voterOf(t, 3, Saved{}, 1, 2)
	n.leadsVoters(1)
	n.beatsFor(500*time.Millisecond, 1, 2)
	n.areFar(240 * time.Millisecond)
	if got := n.disk.LongestPromise; got != wholeLease {
		t.Errorf("a leader's disk says %v on a LAN", got)
	}
	n.waits(n.node.timers[beatTimer].Sub(n.now))
	n.expects("save")
	if got := n.disk.LongestPromise; got != longestLease {
		t.Errorf("a leader's disk says %v, and it asks for %v", got, n.asks(1))
	}
}

// The end of the silence after a start does not take back what this life has promised meanwhile.
func TestM40_TheEndOfASilenceForgetsNoPromise(t *testing.T) {
	n := voterOf(t, 1, Saved{LongestPromise: 2 * time.Second}, 2, 3)
	for n.node.muteFor() > 0 {
		f := n.actor(3).heartbeat(1)
		f.Lease = 600
		n.hearsAndForgets(f)
		n.waits(50 * time.Millisecond)
		n.forgets()
	}
	if bound := n.node.boundFor(hostID(2)); n.disk.LongestPromise < bound {
		t.Errorf("bound for %v, and its disk says %v", bound, n.disk.LongestPromise)
	}
	if got := n.disk.LongestPromise; got != longestLease {
		t.Errorf("its disk says %v", got)
	}
}

// In available mode who was only told of a leader waits for as long as that may have asked
// others to.
func TestM40_WhoWasToldWaitsAsLongAsAClaimAsks(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.areFar(240 * time.Millisecond)
	n.happens(LeaderReported{Epoch: n.actor(3).epoch(1)})
	n.forgets()
	if got, want := n.node.takeoverEnd(), n.now.Add(lease.WaitLength(632*time.Millisecond)); !got.Equal(want) {
		t.Errorf("it waits for %v, want %v", got.Sub(n.now), want.Sub(n.now))
	}
}

// An answer of the leader's says that it leads, and asks for as much as its heartbeats did.
func TestM40_AnAnswerAsksForAsMuchAsTheHeartbeats(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	f := n.actor(3).heartbeat(1)
	f.Lease = 700
	n.hearsAndForgets(f)
	for n.node.state != Suspect {
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	n.hearsAndForgets(n.actor(3).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Epoch: n.node.epoch, Standing: wire.Leading}))
	n.is(Follow)
	if got, want := n.node.takeoverEnd(), n.now.Add(lease.WaitLength(700*time.Millisecond)); !got.Equal(want) {
		t.Errorf("it waits for %v, want %v", got.Sub(n.now), want.Sub(n.now))
	}
}

// However far the hosts are, and however that changes, a leader that is cut off has let go when
// another leads.
func TestM40_WhoIsCutOffHasLetGoFirst(t *testing.T) {
	both, played := 0, 0
	for cut := range 150 {
		w := newWorld(t, 4, Config{MinAcks: AutoMinAcks, Preempt: PreemptNever})
		rng := rand.New(rand.NewPCG(40, uint64(cut)))
		w.delay = time.Duration(rng.IntN(150)) * time.Millisecond
		for _, h := range w.hosts {
			w.boot(h)
		}
		w.runFor(6 * time.Second)
		w.weather = weather{rng: rng, loss: 0.05, jitter: 3 * time.Millisecond}
		w.delay = max(0, w.delay+time.Duration(rng.IntN(60)-30)*time.Millisecond)
		w.runFor(time.Duration(rng.IntN(900)) * time.Millisecond)
		if len(w.leaders()) != 1 {
			continue
		}
		old := w.leaders()[0]
		played++
		for _, h := range w.hosts {
			w.cuts[[2]int{h.number, old.number}], w.cuts[[2]int{old.number, h.number}] = true, true
		}
		w.runUntil(w.now.Add(5*time.Second), func() bool { return len(w.leaders()) > 1 || old.node.state != Lead })
		if len(w.leaders()) > 1 {
			both++
		}
	}
	if both > 0 || played < 100 {
		t.Errorf("in %d of %d cuts two led at once, and 100 were to be played", both, played)
	}
}

// One leadership follows a leader's death, however far the hosts are, up to what the lease bears.
func TestM40_OneLeadershipAfterADeath(t *testing.T) {
	for _, profile := range []struct {
		heartbeat, lease time.Duration
		trips            []int // ms
	}{
		{50 * time.Millisecond, wholeLease, []int{1, 160, 200, 240, 300, 341}},
		{20 * time.Millisecond, 160 * time.Millisecond, []int{1, 60, 100, 134}},
		{time.Second, 8 * time.Second, []int{1, 1000, 3000, 6000}},
	} {
		for _, expect := range []int{0, 3} {
			for _, trip := range profile.trips {
				cfg := Config{Heartbeat: profile.heartbeat, Lease: profile.lease, Expect: expect, MinAcks: AutoMinAcks, Preempt: PreemptNever}
				if got := reignsAfterADeath(t, cfg, time.Duration(trip)*time.Millisecond); got != 1 {
					t.Errorf("lease %v, expect %d, round trips of %d ms: %d leaderships after a death", profile.lease, expect, trip, got)
				}
			}
		}
	}
}

// reignsAfterADeath is how many leaderships begin in the time of 150 leases, a minute of the
// profile lan, after a leader's host died; 0 also if nobody leads then.
func reignsAfterADeath(t *testing.T, cfg Config, trip time.Duration) int {
	t.Helper()
	w := newWorld(t, 3, cfg)
	w.delay = trip / 2
	for _, h := range w.hosts {
		w.boot(h)
	}
	w.runFor(time.Minute)
	before := len(w.ascents)
	w.kill(w.leaders()[0])
	w.runFor(150 * cfg.Lease)
	if len(w.leaders()) != 1 {
		return 0
	}
	return len(w.ascents) - before
}
