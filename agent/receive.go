package agent

import (
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/wire"
)

// received is one valid frame on its way to the loop, or a will in its place.
type received struct {
	election.Received
	will wire.Commitment // zero: it is a frame
}

const (
	// sharePerSecond is more frames than any member sends to one other, those about jobs
	// included.
	sharePerSecond = 2000
	// shareAtOnce is half of the inbox.
	shareAtOnce = inboxSize / 2
	// newAtOnce is how full the inbox may be for the frames of hosts that are new. The rest are places of the others: a holder of
	// the key has as many ids as it likes.
	newAtOnce = inboxSize / 2
)

// receive reads frames until the LAN is shut down. What does not parse is
// counted by its reason: anything may come from the network.
func (a *agent) receive() {
	buf := make([]byte, wire.MaxFrame+1) // one more, so that a longer frame is seen to be one
	var r received
	shares := transport.NewShares(sharePerSecond, shareAtOnce)
	for {
		n, from, err := a.lan.ReadFrame(buf)
		if err != nil {
			return // net.ErrClosed: nothing else ends it
		}
		if secret, isWill := wire.ParseWill(buf[:n]); isWill {
			a.hearWill(secret)
			continue
		}
		if err := wire.Parse(buf[:n], &r.Frame); err != nil {
			a.counters.add("frame_" + wire.Cause(err))
			continue
		}
		if r.From = from; !shares.Take(r.Frame.Sender, a.cfg.Now()) || !a.hasPlace(&r) {
			a.counters.add("frame_flood")
			continue
		}
		a.queue(r)
	}
}

// hasPlace reports whether the inbox has one for a frame, and notes whose it is.
func (a *agent) hasPlace(r *received) bool {
	r.IsNew = !a.seal.IsKnown(r.Frame.Sender)
	return !r.IsNew || len(a.inbox) < newAtOnce
}

// take gives the seat what was received.
func (a *agent) take(r *received) {
	if r.will.IsZero() {
		a.hearing.note(r.Frame.Sender, a.cfg.Now())
	}
	a.seat.receive(r)
}

// queue puts what was received into the inbox, or drops it.
func (a *agent) queue(r received) {
	select {
	case a.inbox <- r:
	default:
		a.counters.add("frame_overflow")
	}
}

// heed implements surroundings.
func (a *agent) heed(known election.Pledges) { a.pledges.Store(&known) }

// hearWill has the loop take a will that ends somebody. It costs a stranger's a few hashes,
// and the loop nothing.
func (a *agent) hearWill(s wire.Secret) {
	c := s.Commit()
	if known := a.pledges.Load(); known == nil || !known.Match(c) {
		a.counters.add("will_unknown")
		return
	}
	a.queue(received{will: c})
}
