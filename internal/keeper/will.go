package keeper

import (
	"crypto/rand"
	"net"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// The will (docs/protocol.md, M24): each keeper is given a secret, which nobody else keeps,
// and says it if its agent is dead and nothing of a leadership is left. The agent's frames
// announce its hash once the keeper is known to have it.

// trust is the secret that a keeper was given.
type trust struct {
	commitment wire.Commitment
	known      <-chan struct{} // closed once the keeper has it
}

// entrust gives a new keeper its secret, and forgets it; the caller holds mu.
func (c *Client) entrust(k *process) {
	var s wire.Secret
	_, _ = rand.Read(s[:]) // it never fails
	known := k.give(order{Do: toTrust, Secret: s[:]}, answerPatience)
	c.trust = trust{s.Commit(), known}
	go func() {
		select {
		case <-known:
			c.wakeAgent()
		case <-k.gone:
		}
	}()
}

// Commitment is that of the secret which the keeper of now has; zero while there is none
// that has one. Checked receives when it may be another.
func (c *Client) Commitment() wire.Commitment {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeper == nil {
		return wire.Commitment{}
	}
	select {
	case <-c.trust.known:
		return c.trust.commitment
	default:
		return wire.Commitment{}
	}
}

// Will says who is to be told of this process's death, in place of those before. They are
// lost with the keeper: what that ran may not have ended as it should.
func (c *Client) Will(heirs []netip.AddrPort) { c.order(order{Do: toWill, Heirs: heirs}) }

// will is what a keeper has to say at its agent's end.
type will struct {
	secret wire.Secret
	heirs  []netip.AddrPort // none: nobody is told
}

// trust takes the secret. A keeper has one in its life.
func (k *keeper) trust(secret []byte) {
	if len(secret) != len(k.will.secret) || k.will.secret != (wire.Secret{}) {
		k.noteRefusal(string(toTrust), "it is no secret, or a second one")
		return
	}
	k.will.secret = wire.Secret(secret)
}

// bequeath takes the heirs.
func (k *keeper) bequeath(heirs []netip.AddrPort) {
	k.will.heirs = nil
	if !areHeirs(heirs) {
		k.noteRefusal(string(toWill), "they are no heirs")
		return
	}
	k.will.heirs = heirs
}

// Lend says that somebody is about to be told until when the lease lasts, and may act on
// that: there is no will until Return. It waits until the keeper knows; false if that
// cannot be, and then nobody must be told.
func (c *Client) Lend() bool {
	c.mu.Lock()
	c.isLent = true
	k := c.keeper
	var known <-chan struct{}
	if k != nil {
		known = k.give(c.lending(), answerPatience)
	}
	c.mu.Unlock()
	if k == nil {
		return true // a keeper to come is told that first
	}
	select {
	case <-known:
		return true
	case <-k.gone:
		return false
	}
}

// lending is the order that says until when others act on the lease, also on one that does not end by itself.
func (c *Client) lending() order { return order{Do: toLend, Lease: c.renewed.deadline} }

// Return says that nobody acts on the lease any more who was told of it.
func (c *Client) Return() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isLent = false
	c.give(order{Do: toReturn})
}

const (
	// A will is said so often, so far apart: a LAN may lose one, and whoever gets none waits
	// for the lease as without a will. Both arbitrary.
	willTimes = 3
	willPause = 20 * time.Millisecond
)

// say tells the heirs. It takes as long as that takes.
func (w will) say() {
	if len(w.heirs) == 0 || w.secret == (wire.Secret{}) {
		return
	}
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return // the lease is waited for
	}
	defer conn.Close()
	datagram := wire.AppendWill(nil, w.secret)
	for i := range willTimes {
		if i > 0 {
			time.Sleep(willPause)
		}
		for _, to := range w.heirs {
			_, _ = conn.WriteToUDPAddrPort(datagram, to) // lost, as a datagram may be
		}
	}
}
