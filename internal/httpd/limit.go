package httpd

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// sourceBits of an IPv6 address are one source: who has one has its whole network.
const sourceBits = 64

// bounded is a listener that closes at once what is too much: waiting in the kernel's queue,
// what one source sends would keep all others out. A connection that is one too many has cost
// an accept and a close: a TLS handshake begins after Accept, and costs a thousand times that.
type bounded struct {
	net.Listener
	limits limits
	budget *budget // of new connections

	mu   sync.Mutex
	all  int
	from map[netip.Addr]int // no entry is 0
}

func newBounded(l net.Listener, lim limits, opened allowance) *bounded {
	return &bounded{Listener: l, limits: lim, budget: newBudget(opened), from: map[netip.Addr]int{}}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := sourceOf(c.RemoteAddr())
		if _, within := b.budget.take(time.Now(), source); within && b.enter(source) {
			return &boundedConn{Conn: c, leave: sync.OnceFunc(func() { b.leave(source) })}, nil
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

func (b *bounded) enter(source netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all >= b.limits.conns || b.from[source] >= b.limits.fromOne {
		return false
	}
	b.all++
	b.from[source]++
	return true
}

func (b *bounded) leave(source netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	if b.from[source]--; b.from[source] == 0 {
		delete(b.from, source)
	}
}

// boundedConn gives its place back when it is closed.
type boundedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
