// Package transport is the sockets of one port: a UDP socket and a TCP listener. It
// reads nothing of what they carry: package sealed, above it, has all of it proven and
// sealed (protocol 10).
//
// A datagram may carry an election frame, which is worth something for milliseconds. So
// datagrams go from the kernel's socket buffer straight to the caller of Read, with no
// queue and no goroutine between.
package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
)

// LAN is the port to the other hosts: datagrams, and streams that prove themselves before
// anything else. It is implemented by Transport (sockets) and by lantest.Host (memory, with
// cables that can be pulled); lantest.Contract is that of both.
type LAN interface {
	// Read blocks until the next datagram that is not empty, and gives its length and
	// sender. One that is longer than b is cut off. One goroutine calls it, for as long as
	// the LAN is open. net.ErrClosed means shut down.
	Read(b []byte) (int, netip.AddrPort, error)

	// Send sends one datagram, at most once, and never blocks. An error says that it did
	// not leave this host; nil promises nothing.
	Send(to netip.AddrPort, b []byte) error

	// Serve begins to accept streams. Each proves itself by accept, for which it has little
	// time; those for memberlist come out of the channel. It is called once.
	Serve(accept Accept) <-chan net.Conn

	// Dial opens a stream, which has proved nothing yet. Shutdown cuts it short. An error
	// is net's own, by whose type memberlist knows a failure of the other end.
	Dial(to netip.AddrPort, timeout time.Duration) (net.Conn, error)

	// Tether holds a stream to the agent at an address until ctx ends or the
	// LAN is shut down, and calls lost and then refused, each in its turn, when
	// it finds that the process there has ended (E1, E7 of protocol 6.4).
	Tether(ctx context.Context, to netip.AddrPort, prove Prove, lost, refused func())

	// Addr is the address that is listened on.
	Addr() netip.AddrPort

	// FinalAdvertiseAddr is what others are told to send to, as memberlist asks for it.
	FinalAdvertiseAddr(ip string, port int) (net.IP, int, error)

	// Shutdown closes the port.
	Shutdown() error
}

var _ LAN = (*Transport)(nil)

// Config says where to listen and what others are told about it.
type Config struct {
	// Bind is the address and port of both sockets. 0.0.0.0 takes IPv4 only,
	// [::] takes IPv6 and IPv4. Port 0 picks one that is free for both.
	Bind netip.AddrPort

	// Advertise is what other hosts are told to send to. Zero means Bind, and
	// port 0 the bound port. It must be set when Bind is 0.0.0.0 or [::].
	Advertise netip.AddrPort

	// Device is the interface or VRF that all sockets are bound to, those to others included; "" is none. Before Linux 5.7 that
	// needs CAP_NET_RAW, also after Listen.
	Device string

	// Logger gets what an operator can mend. Nil discards it.
	Logger hclog.Logger
}

// Transport is the LAN on real sockets. All methods but Read may be called
// concurrently.
//
// Its goroutines are the accept loop, and for each accepted stream one that
// has it prove itself, and waits for the end if it is a tether. Serve starts the
// loop; Shutdown ends all of them and waits until they are gone. Nothing reads
// the UDP socket but Read.
type Transport struct {
	addr      netip.AddrPort
	advertise netip.AddrPort
	device    device
	datagrams *datagrams
	streams   *streams
	count     counters

	// ctx ends with Shutdown: it cuts dials and waiting streams short.
	ctx    context.Context
	cancel context.CancelFunc
	close  sync.Once
}

// counters are shared by the two halves of a Transport.
type counters struct {
	datagramsIn, datagramsOut     atomic.Uint64
	streamsRefused, sendErrors    atomic.Uint64
	tethersLost, datagramsRefused atomic.Uint64
}

// Stats counts since Listen.
type Stats struct {
	DatagramsIn, DatagramsOut uint64 // received, handed to the kernel
	StreamsRefused            uint64 // streams closed: too many, unproven for too long, or of no kind we know
	SendErrors                uint64 // datagrams that the kernel did not take
	TethersHeld               uint64 // tethers that others hold to us, now
	TethersLost               uint64 // tethers of ours that ended, with the dial after it refused (E1)
	DatagramsRefused          uint64 // of these, those whose host refused a datagram as well (E7)
}

// Listen opens both sockets. The caller must call Read for anything to be received
// by UDP, Serve for streams, and Shutdown in the end.
//
// A port in use gives an error that wraps syscall.EADDRINUSE and names the
// protocol and the address. A device that is not there gives syscall.ENODEV.
func Listen(cfg Config) (*Transport, error) {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	bind, err := checkBind(cfg.Bind)
	if err != nil {
		return nil, err
	}
	dev := device(cfg.Device)
	udp, tcp, err := listenBoth(bind, dev.listenOnce)
	if err != nil {
		return nil, err
	}
	t := &Transport{device: dev, addr: unmap(udp.LocalAddr().(*net.UDPAddr).AddrPort())}
	t.advertise = advertised(cfg.Advertise, t.addr)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	if t.datagrams, err = newDatagrams(t.ctx, udp, cfg.Logger, &t.count); err != nil {
		t.cancel()
		_, _ = udp.Close(), tcp.Close()
		return nil, fmt.Errorf("listen on %s: %w", t.addr, err)
	}
	t.streams = newStreams(t.ctx, tcp, cfg.Logger, &t.count)
	return t, nil
}

// checkBind refuses what could be opened but not be used.
func checkBind(bind netip.AddrPort) (netip.AddrPort, error) {
	switch {
	case !bind.Addr().IsValid():
		return bind, errors.New("listen: no bind address given; expected address:port, such as 192.0.2.7:7950")
	case bind.Addr().Zone() != "":
		// memberlist tells members' addresses without their zone.
		return bind, fmt.Errorf("listen on %s: a link-local address means something else on every host; bind a global or unique-local one", bind)
	}
	return unmap(bind), nil
}

// portAttempts bounds the search for a port that is free for UDP and for TCP.
// One try nearly always does; the number is arbitrary.
const portAttempts = 32

// listenBoth opens both sockets on the same port. With port 0 the kernel finds
// one that is free for UDP, which says nothing about TCP.
func listenBoth(bind netip.AddrPort, once func(netip.AddrPort) (*net.UDPConn, *net.TCPListener, error)) (*net.UDPConn, *net.TCPListener, error) {
	for attempt := 1; ; attempt++ {
		udp, tcp, err := once(bind)
		retry := bind.Port() == 0 && errors.Is(err, syscall.EADDRINUSE) && attempt < portAttempts
		if !retry {
			return udp, tcp, err
		}
	}
}

// listenOnce opens both sockets or none.
func (d device) listenOnce(bind netip.AddrPort) (*net.UDPConn, *net.TCPListener, error) {
	packets, err := d.listener().ListenPacket(context.Background(), "udp"+family(bind.Addr()), bind.String())
	if err != nil {
		return nil, nil, listenError("udp", bind, err)
	}
	udp := packets.(*net.UDPConn)
	// The kernel chose the port if bind has none.
	both := netip.AddrPortFrom(bind.Addr(), uint16(udp.LocalAddr().(*net.UDPAddr).Port))
	tcp, err := d.listener().Listen(context.Background(), "tcp"+family(bind.Addr()), both.String())
	if err != nil {
		_ = udp.Close()
		return nil, nil, listenError("tcp", both, err)
	}
	return udp, tcp.(*net.TCPListener), nil
}

// family is the suffix of Go's network names. Without one, 0.0.0.0 would be
// taken for "any address of any family", which is what [::] says.
func family(a netip.Addr) string {
	switch {
	case a.Is4():
		return "4"
	case a.IsUnspecified():
		return ""
	}
	return "6"
}

// listenError says what was asked for and, where we know, how to mend it.
func listenError(proto string, at netip.AddrPort, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // its own text repeats protocol and address
	}
	hint := ""
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		hint = fmt.Sprintf("; another program has this port, find it with `ss -lnp --%s 'sport = :%d'` or choose another port", proto, at.Port())
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		hint = "; no interface of this host has this address"
	case errors.Is(err, syscall.ENODEV):
		hint = "; no interface of this host has this name"
	case errors.Is(err, syscall.EPERM):
		hint = "; before Linux 5.7 a device needs CAP_NET_RAW"
	case errors.Is(err, syscall.EACCES):
		hint = "; ports below 1024 need CAP_NET_BIND_SERVICE"
	}
	return fmt.Errorf("listen on %s %s: %w%s", proto, at, err, hint)
}

// advertised completes what others are told: the zero value if that is not
// known, because the bind address stands for all of this host's addresses.
func advertised(want, bound netip.AddrPort) netip.AddrPort {
	switch {
	case !want.Addr().IsValid() && bound.Addr().IsUnspecified():
		return netip.AddrPort{}
	case !want.Addr().IsValid():
		return bound
	case want.Port() == 0:
		return netip.AddrPortFrom(want.Addr().Unmap(), bound.Port())
	}
	return unmap(want)
}

// Addr is the bound address with the real port.
func (t *Transport) Addr() netip.AddrPort { return t.addr }

// Stats returns the counters, each exact, not taken at one instant.
func (t *Transport) Stats() Stats {
	return Stats{
		DatagramsIn:    t.count.datagramsIn.Load(),
		DatagramsOut:   t.count.datagramsOut.Load(),
		StreamsRefused: t.count.streamsRefused.Load(),
		SendErrors:     t.count.sendErrors.Load(),

		TethersHeld:      uint64(t.streams.tethers.open()),
		TethersLost:      t.count.tethersLost.Load(),
		DatagramsRefused: t.count.datagramsRefused.Load(),
	}
}

// FinalAdvertiseAddr gives memberlist the address that it tells others. An ip
// from memberlist's own configuration comes first, then Config.Advertise, then
// the bind address; a wildcard is none of them.
func (t *Transport) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	final := t.advertise
	if ip != "" {
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			return nil, 0, fmt.Errorf("advertise: parse address: %w", err)
		}
		final = netip.AddrPortFrom(addr.Unmap(), uint16(port))
	}
	if !final.IsValid() || final.Addr().IsUnspecified() {
		return nil, 0, fmt.Errorf("advertise: %s is bound to every address of this host, so others must be told which one to use; set the advertise address", t.addr)
	}
	return final.Addr().AsSlice(), int(final.Port()), nil
}

// Shutdown closes both sockets, then the tethers that others hold to us, and
// returns when the accept loop and all waiting streams are gone: to others the
// process has ended, so an agent that leads does not call it. Read returns
// net.ErrClosed. Streams that memberlist has already taken stay with it. It may
// be called more than once.
func (t *Transport) Shutdown() error {
	t.close.Do(func() {
		t.cancel()
		t.datagrams.close()
		t.streams.close()
	})
	return nil
}

// unmap turns ::ffff:192.0.2.7, which a dual-stack socket shows for IPv4, into
// 192.0.2.7, so that one host has one address.
func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
