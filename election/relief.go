package election

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// relief is how a leader that a bar holds back is relieved by another (M32): when it
// asks again. Its zero value asks at once.
type relief struct {
	at    time.Time     // not before
	pause time.Duration // after the last round in vain
}

// whyYield is the cause for which a leader with these bars hands over; empty: none.
func (s Bars) whyYield() Cause {
	for b := barCount; b > 0; b-- { // what an operator wants before what a check says
		if s.Has(b-1) && barTable[b-1].comes != "" {
			return barTable[b-1].comes
		}
	}
	return ""
}

// Successor is who would be asked first to lead after this node, if it leads; zero: nobody
// may.
func (n *Node) Successor() wire.ID {
	if living := n.living(); n.state == Lead && len(living) > 0 {
		return living[0].ID
	}
	return wire.ID{}
}

// onLeaderBarred: a leader hands over, or stays, since what spoke against it has gone
// before anything of its leadership ended.
func (n *Node) onLeaderBarred() {
	if n.told.whyYield() == "" {
		n.cancelYield()
		return
	}
	n.seekRelief()
}

// seekRelief looks whether somebody else may lead, when a bar comes and with each
// heartbeat, which costs nothing. Whoever may is asked to get ready; where nobody does,
// there is a pause that doubles. As long as nobody is found this node goes on leading:
// a service that limps is better than none.
func (n *Node) seekRelief() {
	cause, r := n.told.whyYield(), &n.reign.relief
	if cause == "" || n.state != Lead || n.leaving || !n.reign.transfer.to.IsZero() || n.now.Before(r.at) || n.livingCount() == 0 {
		return
	}
	r.pause = min(max(2*r.pause, 2*n.cfg.Heartbeat), maxBackoff)
	r.at = n.now.Add(r.pause)
	n.prepare(cause)
}

// cancelYield takes PREPARE back: the successor has promised nothing. What an operator
// asked for goes on, and so does a stop.
func (n *Node) cancelYield() {
	n.reign.relief = relief{}
	t := n.reign.transfer
	if t.to.IsZero() || t.token != 0 || n.leaving || !isYield(t.cause) {
		return
	}
	n.exchanges.drop(func(x *exchange) bool { return x.frame.Kind == wire.Prepare })
	n.reign.transfer = transfer{}
}

// takeBack: an operator who wanted this leader barred does not any more, and nothing has
// ended yet. A stop goes on.
func (n *Node) takeBack() {
	t := &n.reign.transfer
	if n.leaving {
		t.bars, t.cause = 0, Stopped
		return
	}
	n.exchanges.drop(func(x *exchange) bool { return x.frame.Kind == wire.Prepare })
	n.refuseTransfer(ErrTakenBack)
}

// isYield: a leader hands over for this cause since a bar holds it back.
func isYield(c Cause) bool {
	return slices.ContainsFunc(barTable[:], func(row barRow) bool { return row.comes == c })
}
