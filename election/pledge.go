package election

import (
	"slices"

	"github.com/bully-agent/bully-agent/wire"
)

// pledge is the will that the owner of an epoch has announced in a frame of its own.
type pledge struct {
	epoch              wire.Epoch
	incarnation, nonce uint32 // of the life that leads
	hash               wire.WillHash
}

// maxPledges bounds what a will is compared with: one epoch is followed, one granted, and
// one given up; and one more, so that these never have to make room for each other.
const maxPledges = 4

// Pledges are the wills that would mean something to a Node: of the epochs that it follows
// or has granted. A will can be compared with them outside of the Node, whose loop is not
// for strangers to keep busy.
type Pledges struct {
	cluster uint32
	all     [maxPledges]pledge // the latest first; a zero epoch: none
}

// Match reports whether somebody of these says with this will that its life has ended.
func (p *Pledges) Match(c wire.Commitment) bool {
	_, ok := p.find(c)
	return ok
}

func (p *Pledges) find(c wire.Commitment) (pledge, bool) {
	for _, w := range p.all {
		if !w.epoch.IsZero() && c.Hash(p.cluster, w.epoch, w.incarnation, w.nonce) == w.hash {
			return w, true
		}
	}
	return pledge{}, false
}

// add takes the first pledge of an epoch. It takes the place of the oldest of those that
// need not be kept.
func (p *Pledges) add(w pledge, isKept func(wire.Epoch) bool) {
	if slices.ContainsFunc(p.all[:], func(old pledge) bool { return old.epoch == w.epoch }) {
		return
	}
	i := len(p.all) - 1
	for i > 0 && isKept(p.all[i].epoch) {
		i--
	}
	copy(p.all[1:i+1], p.all[:i])
	p.all[0] = w
}

// forget drops what a host has pledged, whose life is over.
func (p *Pledges) forget(owner wire.ID) {
	for i := range p.all {
		if p.all[i].epoch.Owner == owner {
			p.all[i] = pledge{}
		}
	}
}

// notePledge keeps what f announces, if its epoch is followed or granted here. It is asked
// once that is decided.
func (n *Node) notePledge(f *wire.Frame) {
	isOwners := (f.Kind == wire.Coordinator || f.Kind == wire.Heartbeat) && f.Epoch.Owner == f.Sender
	if isOwners && !f.Will.IsZero() && (f.Epoch == n.epoch || f.Epoch == n.promise.Epoch) {
		n.pledges.cluster = n.cfg.Cluster
		n.pledges.add(pledge{f.Epoch, f.Incarnation, f.Nonce, f.Will}, func(e wire.Epoch) bool {
			return !e.IsZero() && (e == n.epoch || e == n.promise.Epoch || e == n.abandonedEpoch)
		})
	}
}

// Pledges gives those of now.
func (n *Node) Pledges() Pledges { return n.pledges }
