package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// weatherFor is weather with the default heartbeat.
const weatherFor = 5 * time.Second

// seen is an estimate of that much, after a sample at that time.
func seen(smooth, variance time.Duration, at time.Time) rtt {
	t := trip{smooth, variance}
	return rtt{trip: t, ever: t, known: true, calmAt: at.Add(weatherFor)}
}

// A round trip that the lease does not bear is shown, the longest of them, and no other.
func TestStatusNamesWhoIsTooFar(t *testing.T) {
	n := leading(t)
	if got := n.node.cfg.LongestRoundTrip().Round(time.Millisecond); got != 342*time.Millisecond {
		t.Errorf("a lease of %v bears %v", wholeLease, got)
	}
	for _, tc := range []struct {
		first, second time.Duration
		far           wire.ID
	}{
		{341 * time.Millisecond, time.Millisecond, wire.ID{}},
		{time.Millisecond, 343 * time.Millisecond, hostID(2)},
		{380 * time.Millisecond, 350 * time.Millisecond, hostID(1)},
	} {
		n.node.peer(hostID(1)).rtt = seen(tc.first, 0, time.Time{})
		n.node.peer(hostID(2)).rtt = seen(tc.second, 0, time.Time{})
		s := n.node.Status()
		if s.Far != tc.far || (s.Trip == 0) != tc.far.IsZero() {
			t.Errorf("round trips of %v and %v: %v is named, with %v", tc.first, tc.second, s.Far, s.Trip)
		}
	}
}

// The waits for an answer double up to a second, or up to a lease that is longer: one host that was frozen once and is cut
// off now holds no election up for several seconds.
func TestWaitsForAnAnswerDoubleUpToASecond(t *testing.T) {
	for lease, most := range map[time.Duration]time.Duration{wholeLease: rtoCeiling, 8 * time.Second: 8 * time.Second} {
		n := leading(t)
		n.node.cfg.Lease = lease
		p := n.node.peer(hostID(1))
		p.rtt = seen(400*time.Millisecond, 100*time.Millisecond, n.now)
		n.node.ask(p, wire.Frame{Kind: wire.Election}, 0)
		x := n.node.exchanges[len(n.node.exchanges)-1]
		for range 5 {
			n.node.transmit(x)
		}
		if x.rto != most {
			t.Errorf("with a lease of %v a wait of %v doubles up to %v, want %v", lease, n.node.rto(p), x.rto, most)
		}
	}
}

// gust has a host take part in a storm: most round trips are a LAN's, and one in eight takes as long as a lease, with a
// host that stood still.
func (n *Node) gust(p *peer) {
	for i := range 24 {
		d := 4 * time.Millisecond
		if i%8 == 5 {
			d = n.cfg.Lease
		}
		p.rtt.sample(d, n.now, weatherFor)
	}
}

// How much round trips varied in a storm says nothing once it is over, though nobody has asked that host since.
func TestM42_AStormIsOverThoughNobodyAsks(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	p := n.node.peer(hostID(1))
	n.node.gust(p)
	stormy := n.node.rto(p)
	n.waitsFollowing(weatherFor)
	if got := n.node.rto(p); got != stormy {
		t.Errorf("after %v an RTO of %v, and of %v in the storm", weatherFor, got, stormy)
	}
	n.waitsFollowing(time.Second)
	if got := n.node.rto(p); stormy < 200*time.Millisecond || got > stormy/4 {
		t.Errorf("an RTO of %v, and of %v in the storm", got, stormy)
	}
}

// waitsFollowing lets time pass in which host 3 leads.
func (s *story) waitsFollowing(d time.Duration) {
	s.t.Helper()
	for end := s.now.Add(d); s.now.Before(end); {
		s.waits(min(50*time.Millisecond, end.Sub(s.now)))
		s.forgets()
		s.hearsAndForgets(s.actor(3).heartbeat(1))
	}
}

// The first round trip after that which is shorter shows that the storm had made the way seem longer. One that is longer
// says nothing of the way yet.
func TestM42_AShorterTripShowsTheWay(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct{ trip, way, rto time.Duration }{
		{4 * time.Millisecond, 4 * time.Millisecond, rtoFloor},
		{240 * time.Millisecond, 65 * time.Millisecond, 280 * time.Millisecond},
	} {
		r := seen(40*time.Millisecond, 80*time.Millisecond, now)
		later := now.Add(weatherFor + 1)
		r.sample(tc.trip, later, weatherFor)
		if r.smooth != tc.way || r.timeout(later) != tc.rto {
			t.Errorf("after %v the way is %v and RTO %v, want %v and %v", tc.trip, r.smooth, r.timeout(later), tc.way, tc.rto)
		}
	}
}

// A claim still covers the longest round trip that was ever likely: followers hardly hear each other where hosts are far
// apart, and the way may vary there. The first to be heard after a silence answer the very election that the claim ends.
func TestM42_AClaimCoversAnOldStorm(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	p := n.node.peer(hostID(1))
	p.rtt = seen(160*time.Millisecond, 30*time.Millisecond, n.now)
	before := n.node.claimLength()
	n.waitsFollowing(2 * weatherFor)
	if got := n.node.claimLength(); got != before || got <= wholeLease {
		t.Errorf("a claim asks for %v, and asked for %v", got, before)
	}
	p.rtt.sample(190*time.Millisecond, n.now, weatherFor)
	if got := n.node.claimLength(); got < before {
		t.Errorf("once one has answered a claim asks for %v, and asked for %v", got, before)
	}
}

// A leader that beats slowly hears each follower as often as it beats, and none of these samples is old.
func TestM42_SlowHeartbeatsAreNoSilence(t *testing.T) {
	slow := Config{Heartbeat: 20 * time.Second}
	now := time.Unix(1000, 0)
	var r rtt
	for _, d := range []time.Duration{60 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond, 20 * time.Millisecond} {
		r.sample(d, now, slow.weather())
		now = now.Add(slow.Heartbeat)
	}
	if r.trip != r.ever || r.smooth <= 40*time.Millisecond {
		t.Errorf("of round trips of 60 ms and 20 ms it keeps %v, and has seen %v", r.trip, r.ever)
	}
}

// After a storm some links stay cut, so that three of five voters reach a majority. Who reaches it leads soon: nobody
// waits for seconds for an answer that one of them gave late once.
func TestM42_WhoIsCutOffAfterAStormHoldsNobodyUp(t *testing.T) {
	late := 0
	for seed := range uint64(20) {
		w := newWorld(t, 5, Config{Expect: 5, Lease: wholeLease})
		for _, h := range w.hosts {
			w.boot(h)
		}
		w.runFor(10 * time.Second)
		for _, h := range w.hosts {
			for _, p := range h.node.peers {
				if (seed+uint64(h.number)+uint64(p.ID[0]))%3 > 0 {
					h.node.gust(p)
				}
			}
		}
		w.runFor(8*time.Second + time.Duration(seed)*31*time.Millisecond)
		for _, pair := range [][2]int{{1, 3}, {1, 5}, {3, 5}, {2, 4}, {4, 5}} {
			w.cuts[pair], w.cuts[[2]int{pair[1], pair[0]}] = true, true
		}
		before := len(w.ascents)
		isSoon := w.runUntil(w.now.Add(2*wholeLease), func() bool { return len(w.ascents) > before })
		if !isSoon {
			late++
		}
	}
	if late > 0 {
		t.Errorf("in %d of 20 plays nobody led again within two leases", late)
	}
}
