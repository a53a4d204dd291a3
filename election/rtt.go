package election

import (
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/wire"
)

// Bounds of the retransmission timeout (protocol 2.5). The floor is far below
// RFC 6298's one second: a LAN answers within a millisecond, and a wrong
// timeout costs one datagram.
const (
	rtoFloor   = 10 * time.Millisecond
	rtoCeiling = time.Second
	rtoUnknown = 100 * time.Millisecond // before the first sample
)

// trip is a round trip after RFC 6298.
type trip struct{ smooth, variance time.Duration }

func (t *trip) add(d time.Duration) {
	t.variance += ((t.smooth - d).Abs() - t.variance) / 4
	t.smooth += (d - t.smooth) / 8
}

// longest is how long one may take, without the bounds of a timeout.
func (t trip) longest() time.Duration { return t.smooth + max(time.Millisecond, 4*t.variance) }

// calmed leaves the way of an old estimate: RTO is half as long again at most. A way that
// varies by more may be asked again too early, which costs one datagram.
func (t trip) calmed() trip { return trip{t.smooth, min(t.variance, t.smooth/8)} }

// rtt estimates the round trip to one peer. Every transmission has a seq of its own, which
// replies echo, so a repeated request gives a valid sample too (Karn's rule is not needed).
type rtt struct {
	trip             // as it is now: a silence ends what a storm had made it (M42)
	ever   trip      // of all samples alike, for claims (M40)
	known  bool      // there was a sample
	calmAt time.Time // how much trip varied counts no more from then on
	lateAt time.Time // when a late answer was taken as a sample; zero: none was
}

// weather is for how long a sample says how much round trips vary. Followers are silent
// among themselves, so what a storm showed last would else count until they next speak. Who
// is cut off by then would hold each election up for seconds (M42). A leader's samples are
// never as far apart, unless five heartbeats in a row are lost. Arbitrary.
func (c *Config) weather() time.Duration { return max(5*time.Second, 5*c.Heartbeat) }

func (r *rtt) isOld(now time.Time) bool { return r.known && now.After(r.calmAt) }

// sample takes a round trip that has ended now, and says how much they vary for that long.
// A shorter one than an old estimate shows that the storm had made the way seem longer.
func (r *rtt) sample(d time.Duration, now time.Time, weather time.Duration) {
	d = max(d, 0)
	if r.isOld(now) {
		r.smooth = min(r.smooth, d)
		r.trip = r.calmed()
	}
	r.calmAt = now.Add(weather)
	if !r.known {
		r.trip, r.known = trip{d, d / 2}, true
		r.ever = r.trip
		return
	}
	r.trip.add(d)
	r.ever.add(d)
}

// sampleRTT takes the time since sent as a round trip to p, unless this node was frozen
// meanwhile. Above the lease it counts as that: p may have been frozen. To leave it out
// would keep the lease short on a path whose round trips have become as long (M39).
func (n *Node) sampleRTT(p *peer, sent time.Time) { n.sampleUpTo(n.cfg.Lease, p, sent) }

func (n *Node) sampleUpTo(most time.Duration, p *peer, sent time.Time) {
	if !sent.Before(n.thawedAt) {
		p.rtt.sample(min(n.now.Sub(sent), most), n.now, n.cfg.weather())
	}
}

// sampleEcho takes a reply of p's as a sample of the round trip.
func (n *Node) sampleEcho(p *peer, reply *wire.Frame) {
	if sent, ok := p.sentTime(reply.EchoSeq); ok {
		n.sampleRTT(p, sent)
	}
}

// sampleLate takes a reply that nobody waits for any more. It says nothing but how long the
// way is; without it each question would be given up on a path that has become long (M40). It
// may as well come from a host that was frozen, and followers hardly ever hear each other, so
// that one is not soon outweighed: each lets the timeout about double at most. A long way
// keeps answers as far apart as the questions were. Those that come together were held by
// a frozen host, and the first stands for all.
func (n *Node) sampleLate(p *peer, reply *wire.Frame) {
	sent, isKnown := p.sentTime(reply.EchoSeq)
	if !isKnown || n.now.Sub(p.rtt.lateAt) < rtoFloor/2 {
		return
	}
	p.rtt.lateAt = n.now
	n.sampleUpTo(min(n.cfg.Lease, 2*n.rto(p)), p, sent)
}

// rto is when p's answer is late enough to ask again.
func (n *Node) rto(p *peer) time.Duration { return p.rtt.timeout(n.now) }

// timeout is RTO.
func (r rtt) timeout(now time.Time) time.Duration {
	if !r.known {
		return rtoUnknown
	}
	if r.isOld(now) {
		r.trip = r.calmed()
	}
	return min(max(r.longest(), rtoFloor), rtoCeiling)
}

// longestEver is how long a round trip may take, however long ago that was seen; zero: not
// known.
func (r *rtt) longestEver() time.Duration {
	if !r.known {
		return 0
	}
	return r.ever.longest()
}

// LongestRoundTrip is what the lease bears: what a claim asks for covers its own round
// trip, that of the first heartbeat, and the stop budget. With a longer one a new leader's
// lease ends before anybody has acknowledged a heartbeat.
func (c Config) LongestRoundTrip() time.Duration {
	c, _ = c.withDefaults()
	return (lease.LeaderLength(c.LongestLease()) - c.StopBudget) / 2
}

// farthest is whose round trip is the longest of those that the lease does not bear.
func (n *Node) farthest() (id wire.ID, trip time.Duration) {
	longest := n.cfg.LongestRoundTrip()
	for _, p := range n.peers {
		if p.rtt.known && p.rtt.smooth > longest && p.mayAcknowledge() && n.presumedAlive(p) {
			id, longest, trip = p.ID, p.rtt.smooth, p.rtt.smooth
		}
	}
	return id, trip
}
