package packaging

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"

	"github.com/bully-agent/bully-agent/internal/test/boot"
)

// client pings the address from a host of its own, every few milliseconds, and notes when it was answered.
type client struct {
	t *testing.T

	mu      sync.Mutex
	last    time.Time // of the last answer, or of begin
	longest time.Duration
}

// pingEvery is how finely gaps are told.
const pingEvery = 5 * time.Millisecond

func newClient(t *testing.T, lan *boot.LAN) *client {
	t.Helper()
	place, err := lan.Net.AddHost("client", netip.PrefixFrom(boot.Address(100), 24))
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t}
	var conn *icmp.PacketConn
	err = place.Within(func() (err error) {
		conn, err = icmp.ListenPacket("ip4:icmp", boot.Address(100).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { c.hear(conn) })
	running.Go(func() { ask(conn, done) })
	t.Cleanup(func() {
		close(done)
		conn.Close()
		running.Wait()
	})
	return c
}

// ask sends a question at each tick. That one cannot be sent is an answer that does not come.
func ask(conn *icmp.PacketConn, done chan struct{}) {
	to := &net.IPAddr{IP: net.ParseIP(vip)}
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		question := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: 7950, Seq: n & 0xffff}}
		if datagram, err := question.Marshal(nil); err == nil {
			_, _ = conn.WriteTo(datagram, to)
		}
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

func (c *client) hear(conn *icmp.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if m, err := icmp.ParseMessage(1, buf[:n]); err != nil || m.Type != ipv4.ICMPTypeEchoReply || from.String() != vip {
			continue
		}
		c.mu.Lock()
		now := time.Now()
		if !c.last.IsZero() {
			c.longest = max(c.longest, now.Sub(c.last))
		}
		c.last = now
		c.mu.Unlock()
	}
}

// begin forgets the gaps so far.
func (c *client) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = 0
}

// await waits until the address answers again, and has for a second.
func (c *client) await() {
	c.t.Helper()
	answered := 0
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		c.mu.Lock()
		isNow := time.Since(c.last) < 100*time.Millisecond
		c.mu.Unlock()
		if answered++; !isNow {
			answered = 0
		}
		if answered == 10 {
			return
		}
	}
	c.t.Fatal("the address does not answer")
}

// gap is the longest time without an answer since begin.
func (c *client) gap() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.longest
}
