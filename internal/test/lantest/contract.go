package lantest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/transport"
)

// Say begins a stream of a kind: one byte, which the other end repeats. It stands in the place of a proof, and proves nothing.
func Say(k transport.Kind) transport.Prove {
	return func(c net.Conn) (net.Conn, error) {
		if _, err := c.Write([]byte{byte(k)}); err != nil {
			return nil, err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return c, err
	}
}

// Hear is the accepting end of Say.
func Hear(c net.Conn) (net.Conn, transport.Kind, error) {
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return nil, 0, err
	}
	if b[0] == 0 || transport.Kind(b[0]) > transport.Question {
		return nil, 0, errors.New("no such kind of stream")
	}
	_, err := c.Write(b[:])
	return c, transport.Kind(b[0]), err
}

// Open makes a port that is shut down with the test.
type Open func(t *testing.T) transport.LAN

// Contract is what transport.LAN promises, of sockets and in memory alike. around runs each part.
func Contract(t *testing.T, around func(t *testing.T, part func(t *testing.T, open Open))) {
	for name, part := range map[string]func(t *testing.T, open Open){
		"datagrams":         datagramsArrive,
		"shutdown":          shutdownEndsAll,
		"streams":           streamsProveThemselves,
		"unproven streams":  unprovenStreamsAreClosed,
		"nobody":            nobodyRefuses,
		"tether":            tetherTells,
		"tether's end":      endedTetherIsSilent,
		"unproven tether":   unprovenTetherIsNoEvidence,
		"advertised":        advertisesWhereItListens,
		"question unheard":  questionIsNotMemberlists,
		"streams that wait": streamsWaitForServe,
	} {
		t.Run(name, func(t *testing.T) { around(t, part) })
	}
}

// contractPatience bounds the waits. It is never waited out unless the test fails.
const contractPatience = 10 * time.Second

// soon waits for what no event announces.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(contractPatience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: did not become true", what)
		}
	}
}

// read gives the next datagram.
func read(t *testing.T, l transport.LAN, b []byte) (string, netip.AddrPort) {
	t.Helper()
	n, from, err := l.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n]), from
}

func datagramsArrive(t *testing.T, open Open) {
	a, b := open(t), open(t)
	for _, text := range []string{"", "\xb7\x1e a frame", "\x07gossip", "much longer than who reads has room for"} {
		if err := a.Send(b.Addr(), []byte(text)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // in memory one may overtake another
	}
	for _, want := range []string{"\xb7\x1e a frame", "\x07gossip", "much longer than"} {
		if got, from := read(t, b, make([]byte, 16)); got != want[:min(len(want), 16)] || from != a.Addr() {
			t.Errorf("read %q from %s, want %q from %s", got, from, want, a.Addr())
		}
	}
	gone := open(t)
	_ = gone.Shutdown()
	if err := a.Send(gone.Addr(), []byte("to nobody")); err != nil {
		t.Errorf("to nobody: %v", err)
	}
}

func shutdownEndsAll(t *testing.T, open Open) {
	a, b := open(t), open(t)
	ended := make(chan error, 1)
	go func() {
		_, _, err := a.Read(make([]byte, 16))
		ended <- err
	}()
	time.Sleep(10 * time.Millisecond)
	_, _ = a.Shutdown(), a.Shutdown()
	if err := <-ended; err != net.ErrClosed {
		t.Errorf("a read that waits ends with %v", err)
	}
	if _, _, err := a.Read(nil); err != net.ErrClosed {
		t.Errorf("a read after it: %v", err)
	}
	if err := a.Send(b.Addr(), []byte{1}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a datagram after it: %v", err)
	}
	if _, err := a.Dial(b.Addr(), time.Second); err == nil {
		t.Error("a stream after it")
	}
}

// gossips opens a proven stream for memberlist.
func gossips(t *testing.T, from transport.LAN, to netip.AddrPort) net.Conn {
	t.Helper()
	c, err := from.Dial(to, contractPatience)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Say(transport.Gossip)(c); err != nil {
		t.Fatal(err)
	}
	return c
}

func streamsProveThemselves(t *testing.T, open Open) {
	a, b := open(t), open(t)
	taken := b.Serve(Hear)
	near := gossips(t, a, b.Addr())
	far := <-taken
	defer far.Close()
	for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
		if _, err := io.WriteString(from, "push-pull"); err != nil {
			t.Fatal(err)
		}
		heard := make([]byte, 9)
		if _, err := io.ReadFull(to, heard); err != nil || string(heard) != "push-pull" {
			t.Errorf("read %q, %v", heard, err)
		}
	}
	_ = near.Close()
	if n, err := far.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read %d bytes, %v, want the end", n, err)
	}
}

func unprovenStreamsAreClosed(t *testing.T, open Open) {
	a, b := open(t), open(t)
	taken := b.Serve(Hear)
	for _, says := range []string{"\x00", "\xb7T\x01\x00\x00\x00\x00\x00", "\x06push-pull", ""} {
		c, err := a.Dial(b.Addr(), contractPatience)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, says)
		_ = c.SetReadDeadline(time.Now().Add(contractPatience))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q is answered: %v", says, err)
		}
		_ = c.Close()
	}
	select {
	case <-taken:
		t.Error("memberlist gets an unproven stream")
	default:
	}
}

func nobodyRefuses(t *testing.T, open Open) {
	a, gone := open(t), open(t)
	_ = gone.Shutdown()
	_, err := a.Dial(gone.Addr(), contractPatience)
	if _, ok := err.(*net.OpError); !ok || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%T %v: memberlist knows a failed dial by *net.OpError alone", err, err)
	}
}

// bound is a tether in a goroutine of its own.
type bound struct {
	mu    sync.Mutex
	found []string
	end   context.CancelFunc
	over  chan struct{}
}

func bind(t *testing.T, from transport.LAN, to netip.AddrPort) *bound {
	ctx, cancel := context.WithCancel(context.Background())
	w := &bound{end: cancel, over: make(chan struct{})}
	find := func(what string) func() {
		return func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.found = append(w.found, what)
		}
	}
	go func() {
		defer close(w.over)
		from.Tether(ctx, to, Say(transport.Tether), find("lost"), find("refused"))
	}()
	t.Cleanup(w.ends)
	return w
}

func (w *bound) ends() {
	w.end()
	<-w.over
}

func (w *bound) has(what ...string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Equal(w.found, what)
}

// heard serves, and says how many streams of a kind have proved themselves.
func heard(l transport.LAN, k transport.Kind) (taken <-chan net.Conn, count func() int) {
	var mu sync.Mutex
	n := 0
	taken = l.Serve(func(c net.Conn) (net.Conn, transport.Kind, error) {
		proven, kind, err := Hear(c)
		mu.Lock()
		defer mu.Unlock()
		if err == nil && kind == k {
			n++
		}
		return proven, kind, err
	})
	return taken, func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func tetherTells(t *testing.T, open Open) {
	follower, leader := open(t), open(t)
	taken, held := heard(leader, transport.Tether)
	w := bind(t, follower, leader.Addr())
	soon(t, "the tether is held", func() bool { return held() == 1 })
	time.Sleep(20 * time.Millisecond)
	if len(taken) > 0 || !w.has() || held() != 1 {
		t.Errorf("while it is held: %d streams for memberlist, found %q, %d proofs", len(taken), w.found, held())
	}
	_ = leader.Shutdown()
	soon(t, "lost, then refused", func() bool { return w.has("lost", "refused") })
}

func endedTetherIsSilent(t *testing.T, open Open) {
	follower, leader := open(t), open(t)
	_, held := heard(leader, transport.Tether)
	w := bind(t, follower, leader.Addr())
	soon(t, "the tether is held", func() bool { return held() == 1 })
	w.ends()
	w = bind(t, follower, leader.Addr())
	soon(t, "another one is held", func() bool { return held() == 2 })
	_ = follower.Shutdown()
	<-w.over // without its context
	_ = leader.Shutdown()
	if !w.has() {
		t.Errorf("found %q after its end", w.found)
	}
}

// Who cannot prove itself may be anybody: that it is gone says nothing of who should be there.
func unprovenTetherIsNoEvidence(t *testing.T, open Open) {
	follower, stranger := open(t), open(t)
	tried := make(chan struct{}, 100)
	stranger.Serve(func(net.Conn) (net.Conn, transport.Kind, error) {
		tried <- struct{}{}
		return nil, 0, errors.New("a stranger")
	})
	w := bind(t, follower, stranger.Addr())
	<-tried
	_ = stranger.Shutdown()
	time.Sleep(300 * time.Millisecond) // some dials
	if !w.has() {
		t.Errorf("found %q of a stranger", w.found)
	}
}

func advertisesWhereItListens(t *testing.T, open Open) {
	l := open(t)
	ip, port, err := l.FinalAdvertiseAddr("", 0)
	if addr, _ := netip.AddrFromSlice(ip); err != nil || netip.AddrPortFrom(addr.Unmap(), uint16(port)) != l.Addr() {
		t.Errorf("%v port %d, %v, want %s", ip, port, err, l.Addr())
	}
}

func questionIsNotMemberlists(t *testing.T, open Open) {
	a, b := open(t), open(t)
	taken := b.Serve(Hear)
	c, err := a.Dial(b.Addr(), contractPatience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := Say(transport.Question)(c); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(contractPatience))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nobody answers, and it reads %d bytes, %v", n, err)
	}
	if len(taken) > 0 {
		t.Error("memberlist gets a question")
	}
}

// Before it serves a port accepts nothing that it would not have proven.
func streamsWaitForServe(t *testing.T, open Open) {
	a, b := open(t), open(t)
	c, err := a.Dial(b.Addr(), contractPatience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write([]byte{byte(transport.Gossip)})
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("it was answered: %d bytes, %v", n, err)
	}
}
