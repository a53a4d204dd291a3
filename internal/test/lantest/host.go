package lantest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bully-agent/bully-agent/internal/transport"
)

const (
	// inboxSize is how many datagrams wait for Read, in the place of the
	// kernel's socket buffer: 2 MiB hold about so many small ones.
	inboxSize = 2048

	// backlog is how many streams wait for memberlist to take them.
	backlog = 64

	// proofTimeout is transport's: how long a stream may take to prove itself.
	proofTimeout = 3 * time.Second
)

// Host is one host's port on the LAN, with transport.Transport's methods and
// promises: Read drives the datagrams; Send never blocks; Shutdown ends both.
type Host struct {
	lan  *LAN
	name string
	addr atomic.Pointer[netip.AddrPort]

	inbox chan datagram
	taken chan net.Conn    // memberlist's streams
	down  chan struct{}    // closed by Shutdown
	prove transport.Accept // set by Serve, before anybody dials; nil: nothing is accepted

	mu      sync.Mutex
	streams map[*conn]struct{} // this host's ends, to be closed with it; nil when it is down
}

var _ transport.LAN = (*Host)(nil)

// datagram is what arrives by UDP.
type datagram struct {
	from netip.AddrPort
	data []byte
}

func newHost(l *LAN, name string, addr netip.AddrPort) *Host {
	h := &Host{
		lan:     l,
		name:    name,
		inbox:   make(chan datagram, inboxSize),
		taken:   make(chan net.Conn, backlog),
		down:    make(chan struct{}),
		streams: make(map[*conn]struct{}),
	}
	h.addr.Store(&addr)
	return h
}

// Addr is the host's address.
func (h *Host) Addr() netip.AddrPort { return *h.addr.Load() }

// receive puts a datagram into the inbox, or drops it when that is full.
func (h *Host) receive(d datagram) {
	select {
	case h.inbox <- d:
	default:
	}
}

// Read blocks until the next datagram, copies it into b and returns its length and sender.
// One goroutine calls it. After Shutdown it returns net.ErrClosed.
func (h *Host) Read(b []byte) (int, netip.AddrPort, error) {
	for {
		select {
		case <-h.down:
			return 0, netip.AddrPort{}, net.ErrClosed
		case d := <-h.inbox:
			switch {
			case h.isDown():
				return 0, netip.AddrPort{}, net.ErrClosed
			case len(d.data) > 0:
				return copy(b, d.data), d.from, nil
			}
		}
	}
}

// Send sends one datagram. It never blocks, and nil promises nothing: the way may be
// cut, the other host gone.
func (h *Host) Send(to netip.AddrPort, b []byte) error {
	if h.isDown() {
		return fmt.Errorf("send to %s: %w", to, net.ErrClosed)
	}
	h.lan.send(h.Addr(), to, b)
	return nil
}

// FinalAdvertiseAddr gives memberlist the host's address.
func (h *Host) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return h.Addr().Addr().AsSlice(), int(h.Addr().Port()), nil
}

// Serve begins to accept streams. Until it is called those that are opened say nothing.
func (h *Host) Serve(accept transport.Accept) <-chan net.Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.prove = accept
	return h.taken
}

// Dial opens a stream. If the way is cut in either direction it times out; if no host runs
// there it is refused at once, for a machine whose agent has died still answers (pull its
// cable for one that is dead itself).
func (h *Host) Dial(to netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	near, err := h.dial(to, timeout, nil)
	if err != nil {
		return nil, err // not a nil *conn in a net.Conn
	}
	return near, nil
}

// dial opens a stream unless cancelled is closed first.
func (h *Host) dial(to netip.AddrPort, timeout time.Duration, cancelled <-chan struct{}) (*conn, error) {
	if !h.lan.streamsPass(h.Addr(), to) || !h.lan.streamsPass(to, h.Addr()) {
		return nil, dialError(to, h.waitInVain(timeout, cancelled))
	}
	peer := h.lan.lookup(to)
	if peer == nil {
		return nil, dialError(to, syscall.ECONNREFUSED)
	}
	near, err := connect(h, peer)
	if err != nil {
		return nil, dialError(to, err)
	}
	return near, nil
}

// dialError has the type by which memberlist knows a failure of the other end.
func dialError(to netip.AddrPort, err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: err}
}

// waitInVain waits for an answer that cannot come.
func (h *Host) waitInVain(timeout time.Duration, cancelled <-chan struct{}) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-timer.C:
		return os.ErrDeadlineExceeded
	case <-cancelled:
		return context.Canceled
	case <-h.down:
		return net.ErrClosed
	}
}

// Shutdown is the death of the host's process: it leaves the LAN without a word,
// except that its kernel closes its streams. It may be called more than once.
func (h *Host) Shutdown() error {
	h.lan.remove(h)
	h.mu.Lock()
	open := h.streams
	h.streams = nil
	if open != nil {
		close(h.down)
	}
	h.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
	return nil
}

func (h *Host) isDown() bool {
	select {
	case <-h.down:
		return true
	default:
		return false
	}
}

// arrive has the other end of a stream prove itself, as package transport does. A tether is
// held in silence until either end closes it. A question has nobody who answers.
func (h *Host) arrive(c *conn) {
	h.mu.Lock()
	prove := h.prove
	h.mu.Unlock()
	if prove == nil {
		return
	}
	_ = c.SetDeadline(time.Now().Add(proofTimeout))
	proven, kind, err := prove(c)
	_ = c.SetDeadline(time.Time{})
	switch {
	case err == nil && kind == transport.Tether:
		_, _ = proven.Read(make([]byte, 1))
		_ = proven.Close()
		return
	case err == nil && kind == transport.Gossip:
		select {
		case h.taken <- proven:
			return
		default: // nobody takes them
		}
	}
	_ = c.Close()
}

// adopt makes c one of the host's streams, unless the host is down.
func (h *Host) adopt(c *conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams == nil {
		return false
	}
	h.streams[c] = struct{}{}
	return true
}

func (h *Host) disown(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, c)
}
