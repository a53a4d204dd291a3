package transport

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A tether is a stream that carries nothing but its own end: when a process
// ends, in whatever way, its kernel closes its streams within a millisecond
// (protocol 6.4, E1). The one who wants to know dials, both ends prove themselves,
// and from then on both are silent.

const (
	// tetherDialTimeout bounds a dial. Only a refusal says something about the
	// process. It comes within a round trip, or the dial was dropped.
	tetherDialTimeout = 2 * time.Second

	// redialWait bounds the first dial after an end, or what the last stream took
	// if that is longer; each later dial has twice as long. Linux drops the SYN that
	// meets a listener in the moment of its closing, and the dialling kernel sends
	// the next after a second.
	redialWait = 5 * time.Millisecond

	// refusalWait is how long the host may take to answer the first datagram
	// with "port unreachable"; refusalTries datagrams are sent, each later one
	// with four times as long. The first may be early, for Linux closes a dying
	// process's sockets last opened first, the UDP socket after the listener. All
	// may stay without an answer, for Linux limits these to about one a second
	// after a burst of six; nothing but the next dial waits for them.
	refusalWait  = time.Millisecond
	refusalTries = 3

	// tetherKeepIdle, tetherKeepInterval and tetherUserTimeout notice a host that
	// has vanished, so that its place is free again. That is no evidence, so it
	// may take its time: more would cost a dead tether's place, less packets.
	tetherKeepIdle     = 15 * time.Second
	tetherKeepInterval = 5 * time.Second
	tetherUserTimeout  = 30 * time.Second

	// tetherPause and tetherPauseMax bound the pause between dials, doubling,
	// ±50 % so that a group does not come back in one instant.
	tetherPause    = 200 * time.Millisecond
	tetherPauseMax = 10 * time.Second

	// tetherShortLife and tetherAtOnce: a stream that has lived this long may be
	// dialled again at once when it ends; of shorter ones so many in a row may.
	// The other end may have no place. More than one,
	// since a dying process usually accepts the first: Linux closes its streams
	// before its listener.
	tetherShortLife = time.Second
	tetherAtOnce    = 3
)

// errNotSilent: who speaks on a tether is not an agent.
var errNotSilent = errors.New("the other end of a liveness stream sent bytes")

// Tether holds a stream to the agent at an address until ctx ends or the
// transport is shut down. It calls lost when the stream has ended with FIN or
// RST and dialling again at once was refused: nobody listens there any more (E1). A
// dial that nothing answers is repeated for some two seconds.
// Then it calls refused if a datagram to the same port is answered with "port
// unreachable" (E7). Nothing else is evidence, time-outs and errors of this host
// least of all; then it dials again after a pause, as it does after a report.
//
// The process at the other end may be another by then, if it was restarted: a
// report is about the port. lost and refused are called by the caller's
// goroutine, not after ctx has ended, and should not block.
func (t *Transport) Tether(ctx context.Context, to netip.AddrPort, prove Prove, lost, refused func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	to = unmap(to)
	e := tether{lost: lost, refused: refused, count: &t.count,
		dial:    func(wait time.Duration) (net.Conn, error) { return t.dialProven(ctx, to, wait, prove) },
		refuses: func() bool { return t.device.refusesDatagrams(t.source(), to) }}
	e.keep(ctx)
}

// source is the address that streams and datagrams of one's own leave from; the
// zero value leaves it to the kernel.
func (t *Transport) source() netip.Addr {
	if t.addr.Addr().IsUnspecified() {
		return netip.Addr{}
	}
	return t.addr.Addr()
}

// tether is the dialling end. It belongs to the goroutine in Tether.
type tether struct {
	lost, refused func()
	count         *counters
	dial          func(wait time.Duration) (net.Conn, error) // wait bounds the opening, not the proof
	refuses       func() bool                                // the port, a datagram
	took          time.Duration                              // the last stream to be opened and proven: a refusal takes no longer
}

// keep dials again and again. ended says that the last stream ended a moment
// ago in a way that only its other end can cause, so that a refusal confirms it.
func (e *tether) keep(ctx context.Context) {
	ended := false
	vain, short := 0, 0 // dials since the last long stream; ends of short streams in a row
	for ctx.Err() == nil {
		conn, err := e.reach(ended)
		switch begun := time.Now(); {
		case err == nil:
			ended = isEnd(hold(ctx, conn))
			if time.Since(begun) >= tetherShortLife {
				vain, short = 0, 0
			}
		case errors.As(err, &unproven{}): // says nothing; an end that was evidence still is
			ended = ended && isEnd(err)
		case isEnd(err): // accepted and reset before we knew
			ended = true
		case ended && errors.Is(err, syscall.ECONNREFUSED):
			e.report(ctx)
			fallthrough
		default:
			ended, short = false, 0
		}
		vain++
		if short++; ended && short <= tetherAtOnce {
			continue
		}
		pause(ctx.Done(), tetherBackoff(vain))
		ended = false // a dial that was not at once says nothing about the end before it
	}
}

// reach dials, after an end until something answers.
func (e *tether) reach(ended bool) (net.Conn, error) {
	wait := tetherDialTimeout
	if ended {
		wait = max(redialWait, e.took)
	}
	for {
		begun := time.Now()
		conn, err := e.dial(wait)
		if err == nil {
			e.took = time.Since(begun)
		}
		wait *= 2
		if !isTimeout(err) || wait > tetherDialTimeout {
			return conn, err
		}
	}
}

// isTimeout reports whether nothing answered a dial. What a proof ran into is within err, and is not meant.
func isTimeout(err error) bool {
	late, ok := err.(net.Error)
	return ok && late.Timeout()
}

// isEnd reports whether a stream ended with FIN or RST and in no other way.
func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }

// tetherBackoff is the pause before the dial after n that came to nothing.
func tetherBackoff(n int) time.Duration {
	d := min(tetherPause<<min(n-1, 10), tetherPauseMax)
	return d/2 + rand.N(d)
}

// hold waits for the end of the stream, which it returns.
func hold(ctx context.Context, conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return err
	}
	return errNotSilent
}

// report says what was found, and looks for more.
func (e *tether) report(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	e.count.tethersLost.Add(1)
	e.lost()
	if e.refuses() && ctx.Err() == nil {
		e.count.datagramsRefused.Add(1)
		e.refused()
	}
}

func (d device) dialTether(ctx context.Context, source netip.Addr, to netip.AddrPort, wait time.Duration) (net.Conn, error) {
	dialer := d.dialer(wait)
	dialer.KeepAlive = -1 // ours is set below
	if source.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	keepAlive(conn)
	return conn, nil
}

// keepAlive makes the kernel look after a silent stream. Without it a place is
// free later, so a refusal of the kernel's is no reason for anything.
func keepAlive(conn net.Conn) {
	if proven, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = proven.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: tetherKeepIdle, Interval: tetherKeepInterval, Count: 3})
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(tetherUserTimeout.Milliseconds()))
	})
}

// refusesDatagrams sends datagrams from a connected socket, to which alone the
// kernel gives an answering "port unreachable": on the next call. They are
// empty, which an agent that lives ignores.
func (d device) refusesDatagrams(source netip.Addr, to netip.AddrPort) bool {
	dialer := d.dialer(0)
	if source.IsValid() {
		dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	conn, err := dialer.Dial("udp", to.String())
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	wait := refusalWait
	for range refusalTries {
		_, err := conn.Write(nil)
		if err == nil {
			_ = conn.SetReadDeadline(time.Now().Add(wait))
			_, err = conn.Read(make([]byte, 1))
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return true
		}
		wait *= 4
	}
	return false
}
