package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// readBuffer is asked of the kernel, in bytes of payload: what arrives while
	// the reader does not run. Some 2 s of a 1,000-member cluster's traffic,
	// and memberlist's own choice.
	readBuffer = 2 << 20

	// readErrorDelay bounds the pause after repeated read errors, which no
	// known state of a UDP socket gives for long.
	readErrorDelay = time.Second
)

var (
	errSendFull   = errors.New("the kernel's send buffer is full")
	errOtherProto = errors.New("an IPv4 socket cannot reach an IPv6 address; bind [::] for both")
	errLinkLocal  = errors.New("link-local addresses are not supported")
)

// datagrams is the UDP socket: what is read from it, and what is sent.
type datagrams struct {
	conn   *net.UDPConn
	log    hclog.Logger
	count  *counters
	closed <-chan struct{}

	// These belong to the goroutine in Read.
	raw   syscall.RawConn
	read  func(fd uintptr) bool // recvfrom, made into a func value once; its argument and results:
	recv  []byte
	size  int
	from  netip.AddrPort
	errno syscall.Errno

	looks looks
	out   sender
}

func newDatagrams(ctx context.Context, conn *net.UDPConn, log hclog.Logger, count *counters) (*datagrams, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	d := &datagrams{
		conn:   conn,
		log:    log,
		count:  count,
		closed: ctx.Done(),
	}
	d.raw, d.read = raw, d.recvfrom
	d.out.raw = raw
	d.out.write = d.out.sendto
	d.out.ipv4 = conn.LocalAddr().(*net.UDPAddr).IP.To4() != nil
	if granted := growReadBuffer(conn, raw); granted < readBuffer/2 {
		log.Warn("receive buffer clipped by the kernel", "addr", conn.LocalAddr(),
			"cause", fmt.Sprintf("%d bytes granted, %d asked; raise net.core.rmem_max to %d", granted, readBuffer, readBuffer))
	}
	return d, nil
}

// growReadBuffer asks for readBuffer and returns what the socket has. The kernel
// clips to net.core.rmem_max in silence, except for SO_RCVBUFFORCE, which needs
// CAP_NET_ADMIN.
func growReadBuffer(conn *net.UDPConn, raw syscall.RawConn) int {
	_ = conn.SetReadBuffer(readBuffer) // a refusal shows in the size
	granted := 0
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, readBuffer)
		granted, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
	})
	return granted / 2 // socket(7): the kernel shows twice the value, for its bookkeeping
}

// Read blocks until the next datagram that is not empty, and gives its length and sender;
// one that is longer than b is cut off.
//
// One goroutine calls it. It drives the UDP socket: nothing is heard while nobody calls
// it. After Shutdown it returns net.ErrClosed, and no other error ends it: an ICMP message
// or a passing shortage is not a reason to be deaf.
func (t *Transport) Read(b []byte) (int, netip.AddrPort, error) { return t.datagrams.next(b) }

func (d *datagrams) next(b []byte) (int, netip.AddrPort, error) {
	failures := 0
	d.recv = b
	for {
		n, from, err := d.receive()
		switch {
		case err == nil:
			failures = 0
			if d.looks.note(from.Addr().Unmap()); n > 0 {
				d.count.datagramsIn.Add(1)
				return n, unmap(from), nil
			}
		case d.mayReadAgain(err, failures):
			failures++
		default:
			return 0, netip.AddrPort{}, net.ErrClosed
		}
	}
}

// receive waits for the next datagram, in recv.
func (d *datagrams) receive() (int, netip.AddrPort, error) {
	if err := d.raw.Read(d.read); err != nil {
		return 0, netip.AddrPort{}, err
	}
	if d.errno != 0 {
		return 0, netip.AddrPort{}, d.errno
	}
	return d.size, d.from, nil
}

// recvfrom makes the system call, and says whether it is to be waited for no longer.
func (d *datagrams) recvfrom(fd uintptr) bool {
	for {
		d.size, d.from, d.errno = recvfrom(fd, d.recv)
		if d.errno != syscall.EINTR {
			return d.errno != syscall.EAGAIN
		}
	}
}

// mayReadAgain reports whether the socket is still open, and pauses if it has
// failed before: 1 ms, doubling. The first failure costs nothing, since an ICMP
// error is delivered once and stands in front of good datagrams.
func (d *datagrams) mayReadAgain(err error, failures int) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	if failures == 0 {
		d.log.Debug("datagram not read", "err", err)
		return true
	}
	if failures == 1 {
		d.log.Warn("datagrams not read", "err", err)
	}
	return pause(d.closed, min(time.Millisecond<<min(failures-1, 10), readErrorDelay))
}

// Send sends one datagram. It never blocks, does not allocate unless it fails, and may
// be called concurrently; b is not kept. An error says that the datagram did not leave this
// host; nil promises nothing.
func (t *Transport) Send(to netip.AddrPort, b []byte) error {
	if err := t.datagrams.out.send(to, b); err != nil {
		t.count.sendErrors.Add(1)
		return fmt.Errorf("send to %s: %w", to, err)
	}
	t.count.datagramsOut.Add(1)
	return nil
}

func (d *datagrams) close() { _ = d.conn.Close() }

// sender writes datagrams without ever waiting for the socket. Go's own WriteTo
// waits when the send buffer is full, and holds the socket's write lock while
// it does, so gossip would go through here even if it might wait.
type sender struct {
	raw  syscall.RawConn
	ipv4 bool // the socket's family

	mu sync.Mutex // guards what follows, for the length of one system call

	// write is sendto, made into a func value once; its arguments and result
	// are the fields below, since a closure for each datagram would be garbage.
	write func(fd uintptr) bool
	b     []byte
	to    netip.AddrPort
	errno syscall.Errno
}

func (s *sender) send(to netip.AddrPort, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.setTo(unmap(to)); err != nil {
		return err
	}
	s.b, s.errno = b, 0
	err := s.raw.Write(s.write)
	s.b = nil
	switch {
	case errors.Is(err, net.ErrClosed):
		return net.ErrClosed
	case err != nil:
		return err
	case s.errno == syscall.EAGAIN, s.errno == syscall.ENOBUFS:
		return errSendFull
	case s.errno != 0:
		return s.errno
	}
	return nil
}

// setTo takes an address that the socket can reach: an IPv4 address goes to an IPv6
// socket in its mapped form.
func (s *sender) setTo(to netip.AddrPort) error {
	addr := to.Addr()
	switch {
	case !addr.IsValid():
		return errors.New("no address")
	case addr.Zone() != "":
		return errLinkLocal
	case s.ipv4 && !addr.Is4():
		return errOtherProto
	}
	s.to = to
	return nil
}

// sendto makes the system call and always says "done": false would wait until
// the socket has room.
func (s *sender) sendto(fd uintptr) bool {
	for {
		if s.errno = sendto(fd, s.b, s.to, s.ipv4); s.errno != syscall.EINTR {
			return true
		}
	}
}

// pause waits and reports true, or reports false as soon as closed is.
func pause(closed <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-closed:
		return false
	}
}
