package session

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/wire"
)

// Peer is another host, as the seal knows it.
type Peer struct {
	ID    wire.ID
	Addr  netip.AddrPort // where it is reached; zero: not known yet
	Keys  []key.ID       // that it says to have, in its order; nil: not said yet
	InUse []key.ID       // of sessions with it that still open something, each once
}

// Report is what a table knows of its sessions.
type Report struct {
	Peers    []Peer            // with a session; sorted by id and address
	Sessions int               // alive, those that only receive included
	Begun    uint64            // sessions, ever
	Odd      []Stranger        // that share no key with this host, 16 at most
	Out      []Refusal         // hosts that this one's list does not have, and that were here lately, 16 at most
	By       []Refusal         // hosts whose lists do not have this one, likewise
	Dropped  map[string]uint64 // datagrams and streams that were not taken, by cause
}

// Heard is what the sessions with one life show: who it is, where it is reached, and how long ago something last came in them. A
// life without a session is none.
func (t *Table) Heard(now time.Time, id wire.ID, nonce uint32) (who Sender, ago time.Duration, ok bool) {
	for _, p := range t.peers {
		if p.ID == id && p.Nonce() == nonce && p.cur != nil && p.addr.IsValid() && !p.isOut(now) {
			return p.sender(), now.Sub(p.heard), true
		}
	}
	return Sender{}, 0, false
}

// Report describes the present.
func (t *Table) Report(now time.Time) Report {
	r := Report{Begun: t.opened, Dropped: make(map[string]uint64)}
	t.odd.forget(now)
	r.Odd = t.odd.describe()
	t.gate.out.expire(now)
	r.Out, r.By = slices.Clone(t.gate.out), slices.Clone(t.gate.by)
	for c, n := range t.count {
		if n > 0 {
			r.Dropped[Cause(c).String()] = n
		}
	}
	for _, p := range t.peers {
		r.Sessions += len(p.sessions())
		if p.cur != nil && !p.isOut(now) {
			r.Peers = append(r.Peers, p.describe())
		}
	}
	slices.SortFunc(r.Peers, func(a, b Peer) int { return cmp.Or(a.ID.Compare(b.ID), a.Addr.Compare(b.Addr)) })
	return r
}

func (p *peer) describe() Peer {
	out := Peer{ID: p.ID, Addr: p.addr, Keys: slices.Clone(p.keys)}
	for _, s := range p.sessions() {
		if !slices.Contains(out.InUse, s.key) {
			out.InUse = append(out.InUse, s.key)
		}
	}
	return out
}
