package lantest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// frameByte tells election frames from gossip, as in package transport.
	frameByte = 0xB7

	// inboxSize is how many datagrams wait for ReadFrame, in the place of the
	// kernel's socket buffer: 2 MiB hold about so many small ones.
	inboxSize = 2048

	// gossipQueue is transport's: gossip that waits for memberlist.
	gossipQueue = 256

	// backlog is how many streams wait for memberlist to take them.
	backlog = 64
)

// Host is one host's port on the LAN, with transport.Transport's methods and
// promises: ReadFrame drives the datagrams, memberlist hears none of its own
// while nobody calls it; SendFrame never blocks; Shutdown ends both.
type Host struct {
	lan  *LAN
	name string
	addr atomic.Pointer[netip.AddrPort]

	inbox  chan datagram
	gossip chan *memberlist.Packet
	guard  atomic.Pointer[guard]
	down   chan struct{} // closed by Shutdown

	mu      sync.Mutex
	streams map[*conn]struct{} // this host's ends, to be closed with it; nil when it is down
}

var _ memberlist.NodeAwareTransport = (*Host)(nil)

// datagram is what arrives by UDP.
type datagram struct {
	from netip.AddrPort
	data []byte
}

func isFrame(b []byte) bool { return len(b) > 0 && b[0] == frameByte }

func newHost(l *LAN, name string, addr netip.AddrPort) *Host {
	h := &Host{
		lan:     l,
		name:    name,
		inbox:   make(chan datagram, inboxSize),
		gossip:  make(chan *memberlist.Packet, gossipQueue),
		down:    make(chan struct{}),
		streams: make(map[*conn]struct{}),
	}
	h.addr.Store(&addr)
	h.guard.Store(&guard{taken: make(chan net.Conn, backlog)})
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

// ReadFrame blocks until the next election frame, copies it into b and returns
// its length and sender. Gossip read on the way goes to memberlist. One
// goroutine calls it. After Shutdown it returns net.ErrClosed.
func (h *Host) ReadFrame(b []byte) (int, netip.AddrPort, error) {
	for {
		select {
		case <-h.down:
			return 0, netip.AddrPort{}, net.ErrClosed
		case d := <-h.inbox:
			switch {
			case h.isDown():
				return 0, netip.AddrPort{}, net.ErrClosed
			case isFrame(d.data):
				return copy(b, d.data), d.from, nil
			case len(d.data) > 0:
				h.handGossip(d)
			}
		}
	}
}

func (h *Host) handGossip(d datagram) {
	if h.guard.Load().proof != nil {
		return // in clear, where it must not be
	}
	select {
	case h.gossip <- &memberlist.Packet{Buf: d.data, From: net.UDPAddrFromAddrPort(d.from), Timestamp: time.Now()}:
	default:
	}
}

// SendFrame sends one election frame. It never blocks, and nil promises nothing:
// the way may be cut, the other host gone.
func (h *Host) SendFrame(to netip.AddrPort, b []byte) error {
	switch {
	case !isFrame(b):
		return errors.New("send frame: not an election frame: the first byte is not 0xb7")
	case h.isDown():
		return fmt.Errorf("send frame to %s: %w", to, net.ErrClosed)
	}
	h.lan.send(h.Addr(), to, b)
	return nil
}

// FinalAdvertiseAddr gives memberlist the host's address.
func (h *Host) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return h.Addr().Addr().AsSlice(), int(h.Addr().Port()), nil
}

// WriteTo is WriteToAddress for those who do not know the member's name.
func (h *Host) WriteTo(b []byte, addr string) (time.Time, error) {
	return h.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress sends one gossip datagram.
func (h *Host) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr.Addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("send gossip: parse address: %w", err)
	}
	if h.isDown() {
		return time.Time{}, fmt.Errorf("send gossip to %s: %w", to, net.ErrClosed)
	}
	h.lan.send(h.Addr(), to, b)
	return time.Now(), nil
}

// PacketCh gives memberlist its gossip.
func (h *Host) PacketCh() <-chan *memberlist.Packet { return h.gossip }

// StreamCh gives memberlist its streams.
func (h *Host) StreamCh() <-chan net.Conn { return h.guard.Load().taken }

// DialTimeout is DialAddressTimeout for those who do not know the member's name.
func (h *Host) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return h.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream. If the way is cut in either direction it
// times out; if no host runs there it is refused at once, for a machine whose
// agent has died still answers (pull its cable for one that is dead itself).
func (h *Host) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr.Addr)
	if err != nil {
		return nil, fmt.Errorf("dial: parse address: %w", err)
	}
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
