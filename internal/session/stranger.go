package session

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
)

const (
	maxStrangers   = 16
	strangerForget = 3 * time.Minute // some attempts to join
)

// Stranger is a host that shares no key with this one, as S15 has both learn of it.
// Nothing proves it: anybody can send such a record, from any address. It is for
// people's eyes, and decides nothing.
type Stranger struct {
	Addr netip.AddrPort // where it is; port 0: only a stream came, whose port says nothing
	Keys []key.ID       // that it says to have, 1 to 4
}

// strangers are those that were met lately, in the order in which they were met first.
//
// Invariant: at most maxStrangers, whatever others send. Who is known keeps its place, so
// that made-up ones do not drive it out.
type strangers []met

type met struct {
	Stranger
	until time.Time
}

// meet notes that whoever is at an address begins with these keys, none of which is ours.
func (s *strangers) meet(now time.Time, at netip.AddrPort, keys []key.ID) {
	s.forget(now)
	if len(keys) == 0 {
		return
	}
	m := met{Stranger{at, keys[:min(len(keys), key.MaxKeys)]}, now.Add(strangerForget)}
	i := slices.IndexFunc(*s, func(old met) bool { return old.isAt(at) })
	switch {
	case i >= 0 && at.Port() == 0:
		m.Addr = (*s)[i].Addr
		fallthrough
	case i >= 0:
		(*s)[i] = m
	case len(*s) < maxStrangers:
		*s = append(*s, m)
	}
}

// isAt: one host has one port, so an address without a port is any of its host's.
func (m met) isAt(at netip.AddrPort) bool {
	return m.Addr.Addr() == at.Addr() && (m.Addr.Port() == at.Port() || m.Addr.Port() == 0 || at.Port() == 0)
}

// forget drops those that were not met for long, or all that share a key by now.
func (s *strangers) forget(now time.Time, ours ...key.ID) {
	*s = slices.DeleteFunc(*s, func(m met) bool {
		return !now.Before(m.until) || slices.ContainsFunc(m.Keys, func(id key.ID) bool { return slices.Contains(ours, id) })
	})
}

// leave drops who is at an address: somebody there has proved to have a key of ours.
func (s *strangers) leave(at netip.AddrPort) {
	*s = slices.DeleteFunc(*s, func(m met) bool { return m.isAt(at) })
}

func (s strangers) describe() (all []Stranger) {
	for _, m := range s {
		all = append(all, Stranger{m.Addr, slices.Clone(m.Keys)})
	}
	return all
}
