package httpd

import (
	"net"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/internal/places"
)

// sourceBits of an IPv6 address are one source: who has one has its whole network.
const sourceBits = 64

// bounded is a listener that closes at once what is too much: waiting in the kernel's queue,
// what one source sends would keep all others out. A connection that is one too many has cost
// an accept and a close: a TLS handshake begins after Accept, and costs a thousand times that.
type bounded struct {
	net.Listener
	budget *budget // of new connections
	places *places.Places[netip.Addr]
}

func newBounded(l net.Listener, lim limits, opened allowance) *bounded {
	return &bounded{Listener: l, budget: newBudget(opened), places: places.New[netip.Addr](lim.conns, lim.fromOne)}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := sourceOf(c.RemoteAddr())
		if _, within := b.budget.take(time.Now(), source); within {
			if leave, ok := b.places.Enter(source); ok {
				return places.Conn(c, leave), nil
			}
		}
		_ = c.Close()
	}
}

// sourceOf is what counts as one source.
func sourceOf(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip
	}
	network, _ := ip.Prefix(sourceBits) // an IPv6 address has so many bits
	return network.Addr()
}
