package election

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// exchange is one request that is repeated until its reply arrives or its tries
// are used up (protocol section 7). The retransmission timeouts approximate the
// synchrony that the papers assume: a peer that stays silent through all of
// them counts as gone for this round.
//
// A Node has at most one exchange of a kind with a peer; a new one replaces it.
type exchange struct {
	to     wire.ID
	frame  wire.Frame // what is sent, without the numbers of each transmission
	tries  int        // transmissions so far
	limit  int        // transmissions at most
	nextAt time.Time  // next transmission, or after the last one the end
	rto    time.Duration

	isPardoned bool // a lag of this node was forgiven (R12)
}

// exchanges are those that are open, in the order in which they were begun.
type exchanges []*exchange

// first is when the first of them repeats its request, or gives up; zero: none is
// open.
func (xs exchanges) first() time.Time {
	var first time.Time
	for _, x := range xs {
		first = earlier(first, x.nextAt)
	}
	return first
}

// awaits reports whether a request of this kind is open with anybody.
func (xs exchanges) awaits(k wire.Kind) bool {
	return slices.ContainsFunc(xs, func(x *exchange) bool { return x.frame.Kind == k })
}

// awaitsOf reports whether a request of this kind is open with id.
func (xs exchanges) awaitsOf(id wire.ID, k wire.Kind) bool {
	return slices.ContainsFunc(xs, func(x *exchange) bool { return x.to == id && x.frame.Kind == k })
}

// drop ends those of which this holds, without a word to anybody.
func (xs *exchanges) drop(which func(*exchange) bool) { *xs = slices.DeleteFunc(*xs, which) }

func only(x *exchange) func(*exchange) bool { return func(y *exchange) bool { return y == x } }

// end ends the one of this kind and round with id, and reports whether there was
// one.
func (xs *exchanges) end(id wire.ID, k wire.Kind, round uint32) bool {
	was := len(*xs)
	xs.drop(thatOf(id, k, round))
	return len(*xs) < was
}

// isOpen reports whether there is one of this kind and round with id.
func (xs exchanges) isOpen(id wire.ID, k wire.Kind, round uint32) bool {
	return slices.ContainsFunc(xs, thatOf(id, k, round))
}

func thatOf(id wire.ID, k wire.Kind, round uint32) func(*exchange) bool {
	return func(x *exchange) bool { return x.to == id && x.frame.Kind == k && x.frame.Round == round }
}

// Transmissions at most of each request (protocol section 7: retries + 1).
var tryLimit = map[wire.Kind]int{
	wire.Election: 3, wire.Coordinator: 4, wire.Query: 2, wire.Probe: 2,
	wire.Nominate: 3, wire.Prepare: 3, wire.Resign: 4, wire.Roster: 4, wire.Canvass: 3,
}

// ask starts an exchange with p, its first transmission after delay.
func (n *Node) ask(p *peer, f wire.Frame, delay time.Duration) {
	n.exchanges.drop(func(x *exchange) bool { return x.to == p.ID && x.frame.Kind == f.Kind })
	x := &exchange{to: p.ID, frame: f, limit: tryLimit[f.Kind], nextAt: n.now.Add(delay), rto: n.rto(p)}
	x.frame.Flags |= wire.AckReq
	x.frame.Round = n.nextRound()
	n.exchanges = append(n.exchanges, x)
	if delay == 0 {
		n.transmit(x)
	}
}

func (n *Node) nextRound() uint32 {
	n.round++
	return n.round
}

func (n *Node) transmit(x *exchange) {
	f := x.frame
	if x.tries > 0 {
		f.Flags |= wire.Retx
	}
	f.Attempt = uint8(x.tries)
	x.tries++
	if f.Kind == wire.Coordinator && n.isQuorum() && n.state == Claiming {
		n.bind(n.epoch, n.reign.grant) // as each copy renews the others' promises
	}
	n.sendTo(n.peer(x.to), f)
	jitter := time.Duration((n.cfg.Rand.Float64() - 0.5) * 0.4 * float64(x.rto)) // ±20 %
	x.nextAt = n.now.Add(x.rto + jitter)
	x.rto = min(2*x.rto, max(rtoCeiling, n.cfg.Lease)) // else one peer that is cut off holds an election up for seconds
}

// expireExchanges repeats what is due and gives up on what was repeated enough.
func (n *Node) expireExchanges() {
	for _, x := range slices.Clone(n.exchanges) {
		switch {
		case n.now.Before(x.nextAt) || !slices.Contains(n.exchanges, x):
		case n.peer(x.to) == nil:
			n.exchanges.drop(only(x))
		case x.tries < x.limit:
			n.transmit(x)
		default:
			n.exchanges.drop(only(x))
			n.onSilence(n.peer(x.to), x.frame)
		}
	}
}

// answered ends the exchange of this kind and round with p, and reports
// whether there was one: a reply that nobody waits for means nothing.
func (n *Node) answered(p *peer, request wire.Kind, f *wire.Frame) bool {
	isAwaited := n.exchanges.end(p.ID, request, f.Round)
	if !isAwaited {
		n.count("late-reply")
	}
	return isAwaited
}

// giveUpOn ends those exchanges with p, as if it had kept silent for long enough.
func (n *Node) giveUpOn(p *peer, which func(wire.Kind) bool) {
	for _, x := range slices.Clone(n.exchanges) {
		if x.to == p.ID && which(x.frame.Kind) && slices.Contains(n.exchanges, x) {
			n.exchanges.drop(only(x))
			n.onSilence(p, x.frame)
		}
	}
}

// cancelRound ends every exchange that serves an election. RESIGN goes on, since
// it concerns an epoch that has ended.
func (n *Node) cancelRound() {
	n.exchanges.drop(func(x *exchange) bool {
		return x.frame.Kind != wire.Resign && x.frame.Kind != wire.Roster
	})
}

// onSilence is called when p did not answer any of a request's transmissions.
func (n *Node) onSilence(p *peer, f wire.Frame) {
	switch f.Kind {
	case wire.Election:
		p.silent = true
		n.onElectionSilent()
	case wire.Canvass:
		p.silent = true
		n.onCanvassed()
	case wire.Query, wire.Nominate:
		n.onQuerySilent(p)
	case wire.Probe:
		n.onProbeSilent(p)
	case wire.Prepare:
		n.onPrepareSilent(p)
	case wire.Resign:
		n.onResignDone()
	case wire.Coordinator:
		n.onClaimsAnswered()
	}
}
