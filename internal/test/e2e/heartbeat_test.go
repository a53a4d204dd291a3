package e2e

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/internal/test/attack"
	"github.com/bully-agent/bully-agent/wire"
)

// ecg watches the heartbeats that one host sends to another, at the switch: what is
// seen there has left the host. It tells them by their length.
type ecg struct {
	socket   int
	from, to netip.AddrPort

	mu    sync.Mutex
	beats []time.Time
	ended sync.WaitGroup
}

// watchHeart begins to watch until the test ends.
func (l *lan) watchHeart(from, to *host) *ecg {
	l.t.Helper()
	e := &ecg{from: from.addr, to: to.addr}
	err := l.net.Switch().Within(func() (err error) {
		port, err := net.InterfaceByName(from.name)
		if err != nil {
			return err
		}
		const all = unix.ETH_P_ALL << 8 // in network order; a bridge takes a port's packets before those who ask for one protocol
		if e.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		quarter := unix.NsecToTimeval(int64(250 * time.Millisecond))
		return errors.Join(unix.Bind(e.socket, &unix.SockaddrLinklayer{Protocol: all, Ifindex: port.Index}),
			unix.SetsockoptTimeval(e.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &quarter))
	})
	must(l.t, err)
	over := make(chan struct{})
	e.ended.Go(func() { e.read(over) })
	l.t.Cleanup(func() {
		close(over)
		e.ended.Wait()
		_ = unix.Close(e.socket)
	})
	return e
}

func (e *ecg) read(over <-chan struct{}) {
	buf := make([]byte, 4096)
	for {
		select {
		case <-over:
			return
		default:
		}
		n, _, err := unix.Recvfrom(e.socket, buf, 0)
		if err == nil && e.isBeat(buf[:n]) {
			e.mu.Lock()
			e.beats = append(e.beats, time.Now())
			e.mu.Unlock()
		}
	}
}

// beatSize is a heartbeat's, sealed: to whoever has no part in its session it is a datagram that long. Gossip seldom is.
var beatSize = len(wire.Append(nil, &wire.Frame{Kind: wire.Heartbeat})) + session.MaxDatagram - session.MaxInner

// isBeat takes an IPv4 packet apart.
func (e *ecg) isBeat(packet []byte) bool {
	if len(packet) < 20 || packet[0]>>4 != 4 || packet[9] != unix.IPPROTO_UDP {
		return false
	}
	head := int(packet[0]&0xf) * 4
	if len(packet) < head+8 {
		return false
	}
	from, to := netip.AddrFrom4([4]byte(packet[12:16])), netip.AddrFrom4([4]byte(packet[16:20]))
	port := uint16(packet[head])<<8 | uint16(packet[head+1])
	length := int(packet[head+4])<<8 | int(packet[head+5])
	return from == e.from.Addr() && to == e.to.Addr() && port == e.from.Port() && length-8 == beatSize && attack.IsSealed(packet[head+8:])
}

// since gives the intervals between the heartbeats from begun on, in order of length.
func (e *ecg) since(begun time.Time) (intervals []time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, at := range e.beats {
		if i > 0 && at.After(begun) {
			intervals = append(intervals, at.Sub(e.beats[i-1]))
		}
	}
	slices.Sort(intervals)
	return intervals
}

// logRhythm says how regular the heartbeats were since begun.
func (e *ecg) logRhythm(t *testing.T, when string, begun time.Time) {
	t.Helper()
	all := e.since(begun)
	if len(all) == 0 {
		t.Errorf("%s: no heartbeats", when)
		return
	}
	at := func(share float64) time.Duration {
		return all[int(share*float64(len(all)-1))].Round(100 * time.Microsecond)
	}
	t.Logf("heartbeats %s: %d, every %v (p50), %v (p95), %v (max)", when, len(all), at(0.5), at(0.95), at(1))
}
