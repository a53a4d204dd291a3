package attack

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Crowd is streams that are opened and say little. Its methods are called in the attacker's
// namespace, by one goroutine.
type Crowd struct {
	From []netip.Addr // addresses that the attacker has
	To   netip.AddrPort

	open []net.Conn
}

// dialTimeout bounds one dial: a host whose queue is full answers nothing.
const dialTimeout = time.Second

// Dial opens n streams, from each address in turn, says the same on each, and gives how many
// there are. They stay open until Close, or until the other end has enough.
func (c *Crowd) Dial(ctx context.Context, n int, say []byte) (opened int) {
	for i := range n {
		if ctx.Err() != nil {
			return opened
		}
		if conn := c.dial(ctx, c.From[i%len(c.From)]); conn != nil {
			_, _ = conn.Write(say)
			c.open, opened = append(c.open, conn), opened+1
		}
	}
	return opened
}

func (c *Crowd) dial(ctx context.Context, from netip.Addr) net.Conn {
	d := net.Dialer{Timeout: dialTimeout, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	conn, err := d.DialContext(ctx, "tcp4", c.To.String())
	if err != nil {
		return nil
	}
	return conn
}

// Kept is how many of the streams the other end has not closed. It waits for none.
func (c *Crowd) Kept() (kept int) {
	var count sync.Mutex
	var all sync.WaitGroup
	for _, conn := range c.open {
		all.Go(func() {
			_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			_, err := conn.Read(make([]byte, 1))
			if e, ok := err.(net.Error); ok && e.Timeout() {
				count.Lock()
				defer count.Unlock()
				kept++
			}
		})
	}
	all.Wait()
	return kept
}

// Close ends all streams.
func (c *Crowd) Close() {
	for _, conn := range c.open {
		_ = conn.Close()
	}
	c.open = nil
}

// Pour opens a stream, says what it says first, and sends n bytes of zeros after it, as far as the
// other end takes them within some seconds.
func (c *Crowd) Pour(ctx context.Context, first []byte, n int) (poured int) {
	conn := c.dial(ctx, c.From[0])
	if conn == nil {
		return 0
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write(first); err != nil {
		return 0
	}
	chunk := make([]byte, 64<<10)
	for poured < n && ctx.Err() == nil {
		wrote, err := conn.Write(chunk[:min(len(chunk), n-poured)])
		poured += wrote
		if err != nil {
			break
		}
	}
	return poured
}

// Tether is what begins a stream that will be held in silence, in clear.
func Tether(cluster string) []byte {
	return binary.BigEndian.AppendUint32([]byte{wire.Magic0, 'T', 1, 0}, wire.ClusterHash(cluster))
}
