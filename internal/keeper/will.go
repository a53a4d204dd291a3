package keeper

import (
	"net"
	"net/netip"
	"time"
)

// The will (docs/protocol.md, M24): what the agent wants the others to be told if it is
// dead and nothing of its leadership is left. The keeper does not know what it says.

// Letter is one datagram of a will, finished.
type Letter struct {
	To       netip.AddrPort
	Datagram []byte
}

// Will replaces what was left before; no letters withdraw it. It is lost with the keeper:
// what that ran may not have ended as it should.
func (c *Client) Will(letters []Letter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeper != nil {
		c.give(order{Do: toWill, Letters: letters})
	}
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
		known = k.give(order{Do: toLend}, answerPatience)
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

// Return says that nobody acts on the lease any more who was told of it.
func (c *Client) Return() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isLent = false; c.keeper != nil {
		c.give(order{Do: toReturn})
	}
}

const (
	// Each letter is sent so often, so far apart: a LAN may lose one, and whoever gets
	// none waits for the lease as without a will. Both arbitrary.
	willTimes = 3
	willPause = 20 * time.Millisecond
)

// send sends a will; of no letters it sends none. It takes as long as that takes.
func send(letters []Letter) {
	if len(letters) == 0 {
		return
	}
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		return // the lease is waited for
	}
	defer conn.Close()
	for i := range willTimes {
		if i > 0 {
			time.Sleep(willPause)
		}
		for _, l := range letters {
			_, _ = conn.WriteToUDPAddrPort(l.Datagram, l.To) // lost, as a datagram may be
		}
	}
}
