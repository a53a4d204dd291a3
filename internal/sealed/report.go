package sealed

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/wire"
)

// Peer is another host, as the seal knows it.
type Peer struct {
	ID    wire.ID
	Addr  netip.AddrPort // where it is reached; zero: not known yet
	Keys  []key.ID       // that it says to have, in its order; nil: not said yet
	InUse []key.ID       // of sessions with it that still open something, each once
	Heard time.Duration  // ago
}

// Report is what status shows.
type Report struct {
	Keys     []key.ID          // ours, in their order
	Peers    []Peer            // with a session; sorted by id and address
	Sessions int               // alive, those that only receive included
	Begun    uint64            // sessions, ever
	Sealed   uint64            // frames and gossip out
	Opened   uint64            // and in
	Odd      []Stranger        // that share no key with this host, 16 at most
	Dropped  map[string]uint64 // datagrams and streams that were not taken, by cause
}

// Report describes the present.
func (l *LAN) Report() (r Report) {
	l.locked(func(t *table, now time.Time) {
		r = Report{Keys: t.ids(), Begun: t.opened, Sealed: l.sealed, Opened: l.opened, Dropped: make(map[string]uint64)}
		t.odd.forget(now)
		r.Odd = t.odd.describe()
		for c, n := range t.count {
			if n > 0 {
				r.Dropped[Cause(c).String()] = n
			}
		}
		for _, p := range t.peers {
			r.Sessions += len(p.sessions())
			if p.cur != nil {
				r.Peers = append(r.Peers, p.describe(now))
			}
		}
	})
	slices.SortFunc(r.Peers, func(a, b Peer) int {
		if c := bytes.Compare(a.ID[:], b.ID[:]); c != 0 {
			return c
		}
		return a.Addr.Compare(b.Addr)
	})
	return r
}

func (p *peer) describe(now time.Time) Peer {
	out := Peer{ID: p.id, Addr: p.addr, Keys: slices.Clone(p.keys), Heard: now.Sub(p.heard)}
	for _, s := range p.sessions() {
		if !slices.Contains(out.InUse, s.key) {
			out.InUse = append(out.InUse, s.key)
		}
	}
	return out
}

// Stats are those of the LAN below, if it counts: sealed datagrams are frames to it.
func (l *LAN) Stats() transport.Stats {
	if below, ok := l.LAN.(interface{ Stats() transport.Stats }); ok {
		return below.Stats()
	}
	return transport.Stats{}
}
