package agent

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/internal/session"
)

// sealer is somebody who seals what it sends, heard by an agent that has no key. Anybody
// can send such a datagram: people are told, and nothing else comes of it.
type sealer struct {
	addr netip.AddrPort
	told time.Time // when a line said so
}

// sealerPause is between two lines about sealers, whoever they are, and half of how long
// status shows one that is not heard any more.
const sealerPause = time.Minute

// noteSealer is called on the goroutine that reads frames, with what was none. It reports
// whether it was sealed, and this agent has no key.
func (a *agent) noteSealer(datagram []byte, from netip.AddrPort) bool {
	if a.seal != nil || !session.IsSealed(datagram) {
		return false
	}
	now := a.cfg.Now()
	if last := a.sealer.Load(); last == nil || now.Sub(last.told) >= sealerPause {
		a.sealer.Store(&sealer{from, now})
		a.log.Warn("not taken: the other host has a key, and this one has none", "cause", "sealed", "addr", from)
	}
	return true
}

// sealerNote says in status whom this host cannot hear without a key; empty: nobody.
func (a *agent) sealerNote() string {
	s := a.sealer.Load()
	if s == nil || a.cfg.Now().Sub(s.told) >= 2*sealerPause {
		return ""
	}
	return fmt.Sprintf("%v seals what it sends, and this host has no key: copy the cluster's key to this host, and restart the agent", s.addr)
}
