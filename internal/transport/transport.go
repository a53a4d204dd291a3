// Package transport carries gossip and election frames over one port: one UDP
// socket and one TCP listener. The first byte tells them apart (protocol
// 6.3): 0xB7 is ours, everything else is memberlist's, whose messages begin
// with 0–13 or 244.
//
// Two things must not wait for each other here. An election frame is worth
// something for milliseconds, while memberlist may stand still for seconds on
// its own lock. So frames go from the kernel's socket buffer straight to the
// caller of ReadFrame, with no queue and no goroutine between, and gossip goes
// to memberlist through a bounded queue that drops when it is full.
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

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/wire"
)

// frameByte is the first byte of every election frame and of nothing that
// memberlist sends.
const frameByte = wire.Magic0

// LAN is the port to the other hosts: gossip for memberlist, election frames
// for the agent. It is implemented by Transport (sockets) and by lantest.Host
// (memory, with cables that can be pulled).
type LAN interface {
	memberlist.NodeAwareTransport

	// ReadFrame blocks until the next election frame, copies it into b and
	// returns its length and sender. One goroutine calls it, for as long as
	// the LAN is open: it drives gossip too. net.ErrClosed means shut down.
	ReadFrame(b []byte) (int, netip.AddrPort, error)

	// SendFrame sends one election frame, at most once, and never blocks.
	// An error says that it did not leave this host; nil promises nothing.
	SendFrame(to netip.AddrPort, b []byte) error

	// Tether holds a stream to the agent at an address until ctx ends or the
	// LAN is shut down, and calls lost and then refused, each in its turn, when
	// it finds that the process there has ended (E1, E7 of protocol 6.4).
	Tether(ctx context.Context, to netip.AddrPort, lost, refused func())

	// Addr is the address that is listened on.
	Addr() netip.AddrPort
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

	// Cluster is the cluster's name. Tethers of other clusters are closed.
	Cluster string

	// Logger gets what an operator can mend. Nil discards it.
	Logger hclog.Logger
}

// Transport is the LAN on real sockets. All methods but ReadFrame may be called
// concurrently.
//
// Its goroutines are the accept loop, and for each accepted stream one that
// waits for the first byte, and for the end if it is a tether. Listen starts the
// loop; Shutdown ends all of them and waits until they are gone. Nothing reads
// the UDP socket but ReadFrame.
type Transport struct {
	addr      netip.AddrPort
	advertise netip.AddrPort
	cluster   uint32
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
	framesIn, framesOut              atomic.Uint64
	gossipIn, gossipOut, gossipDrops atomic.Uint64
	streamsRefused, sendErrors       atomic.Uint64
	tethersLost, datagramsRefused    atomic.Uint64
}

// Stats counts since Listen.
type Stats struct {
	FramesIn, FramesOut uint64 // election frames received, handed to the kernel
	GossipIn, GossipOut uint64 // gossip datagrams queued for memberlist, handed to the kernel
	GossipDropped       uint64 // gossip that found memberlist's queue full, or came in clear where it must not
	StreamsRefused      uint64 // streams closed: too many, silent for too long, or of no kind we know
	SendErrors          uint64 // frames and gossip that the kernel did not take
	TethersHeld         uint64 // tethers that others hold to us, now
	TethersLost         uint64 // tethers of ours that ended, with the dial after it refused (E1)
	DatagramsRefused    uint64 // of these, those whose host refused a datagram as well (E7)
}

// Listen opens both sockets and starts to accept streams. The caller must call
// ReadFrame for anything to be received by UDP, and Shutdown in the end
// (memberlist's Shutdown does so).
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
	t := &Transport{device: dev, cluster: wire.ClusterHash(cfg.Cluster), addr: unmap(udp.LocalAddr().(*net.UDPAddr).AddrPort())}
	t.advertise = advertised(cfg.Advertise, t.addr)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	if t.datagrams, err = newDatagrams(t.ctx, udp, cfg.Logger, &t.count); err != nil {
		t.cancel()
		_, _ = udp.Close(), tcp.Close()
		return nil, fmt.Errorf("listen on %s: %w", t.addr, err)
	}
	t.streams = newStreams(t.ctx, tcp, cfg.Logger, &t.count, t.cluster)
	t.streams.start()
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
		FramesIn:       t.count.framesIn.Load(),
		FramesOut:      t.count.framesOut.Load(),
		GossipIn:       t.count.gossipIn.Load(),
		GossipOut:      t.count.gossipOut.Load(),
		GossipDropped:  t.count.gossipDrops.Load(),
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
// process has ended, so an agent that leads does not call it. ReadFrame returns
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
