package transport

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// members are the addresses of those who belong here, for whom places are kept. The
// zero value is nobody.
type members struct {
	addrs atomic.Pointer[map[netip.Addr]bool]
}

// Know replaces the addresses of members: most places for streams and tethers are kept
// for them. They are those that have been heard, since anybody can name any.
func (t *Transport) Know(addrs []netip.Addr) {
	known := make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		known[a.Unmap()] = true
	}
	t.streams.members.addrs.Store(&known)
}

func (m *members) has(a netip.Addr) bool {
	known := m.addrs.Load()
	return known != nil && (*known)[a]
}

// patience is how long a stream from an address may take to prove itself.
func (m *members) patience(a netip.Addr) time.Duration {
	if m.has(a) {
		return proofTimeout
	}
	return strangerTimeout
}
