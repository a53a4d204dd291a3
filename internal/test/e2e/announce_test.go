package e2e

import (
	bytesof "encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// announcement is one frame that has told all of the LAN who has an address.
type announcement struct {
	at  time.Time // by the kernel, when the switch had it
	mac string    // whose
}

// ear hears the announcements of IPv4 addresses at the switch. It ends with the test.
type ear struct {
	mu    sync.Mutex
	heard []announcement
}

func listen(l *lan, ip net.IP) *ear {
	t := l.t
	t.Helper()
	e := &ear{}
	var socket int
	must(t, l.net.Switch().Within(func() (err error) {
		port, err := net.InterfaceByName(netlab.Bridge)
		if err != nil {
			return err
		}
		arp := bytesof.NativeEndian.Uint16([]byte{unix.ETH_P_ARP >> 8, unix.ETH_P_ARP & 0xff})
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		look := unix.NsecToTimeval(int64(100 * time.Millisecond))
		return errors.Join(
			unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
			unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &look),
			unix.Bind(socket, &unix.SockaddrLinklayer{Ifindex: port.Index, Protocol: arp}))
	}))
	over, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(over); <-done; _ = unix.Close(socket) })
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			default:
				e.hear(socket, ip.To4())
			}
		}
	}()
	return e
}

// hear waits for one packet. Of the two of an announcement it notes the request.
func (e *ear) hear(socket int, ip net.IP) {
	packet, control := make([]byte, 64), make([]byte, 128)
	n, size, _, _, err := unix.Recvmsg(socket, packet, control, 0)
	if err != nil || n < 28 || packet[7] != 1 || !ip.Equal(packet[14:18]) || !ip.Equal(packet[24:28]) {
		return
	}
	messages, err := unix.ParseSocketControlMessage(control[:size])
	if err != nil || len(messages) == 0 {
		return
	}
	seconds, nanos := bytesof.NativeEndian.Uint64(messages[0].Data), bytesof.NativeEndian.Uint64(messages[0].Data[8:])
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, announcement{at: time.Unix(int64(seconds), int64(nanos)), mac: net.HardwareAddr(packet[8:14]).String()})
}

// of gives when h has announced the address since a time, in order.
func (e *ear) of(h *host, since time.Time) (all []time.Time) {
	h.lan.t.Helper()
	var own string
	must(h.lan.t, h.net.Within(func() error {
		eth, err := net.InterfaceByName(netlab.Interface)
		if err == nil {
			own = eth.HardwareAddr.String()
		}
		return err
	}))
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.heard {
		if a.mac == own && !a.at.Before(since) {
			all = append(all, a.at)
		}
	}
	return all
}

// What announces an address is ended before the lose hook starts: a hook that takes longer than the pause between two
// announcements hears none, though the address is there still.
func TestNothingIsAnnouncedOnceLoseHasBegun(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	for name, fault := range map[string]func(l *lan, h *host){
		"handed over": (*lan).handOver,
		"killed":      func(_ *lan, h *host) { h.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3, "--preempt", "never")
			v := newVirtual(l, ipv4)
			for _, h := range l.hosts {
				h.onLose = "sleep 1.2; " + h.onLose
			}
			if name == "killed" { // then it has the rest of the lease, or is cut and begins again: give it enough
				l.env = append(l.env, "BULLY_TAKEOVER_DELAY=3s")
			}
			heard := listen(l, v.ip)
			l.start()
			leader := l.agree()
			l.eventually(fmt.Sprintf("%s announces the address", leader), patience, func() error {
				if n := len(heard.of(leader, l.journal.begun)); n < 3 {
					return fmt.Errorf("it has been announced %d times", n)
				}
				return nil
			})
			fault(l, leader)
			l.eventually(fmt.Sprintf("%s has let go", leader), patience, func() error {
				if l.journal.last(leader, loseEnd).Node == "" {
					return errors.New("its lose hook runs")
				}
				return nil
			})
			begun := l.journal.when(l.journal.last(leader, loseBegin))
			times := heard.of(leader, l.journal.begun)
			t.Logf("announced %d times, the last %v before the lose hook", len(times), begun.Sub(times[len(times)-1]).Round(time.Millisecond))
			if i := slices.IndexFunc(times, func(at time.Time) bool { return at.After(begun) }); i >= 0 {
				t.Errorf("%s announced the address %v after its lose hook had begun", leader, times[i].Sub(begun))
			}
		})
	}
}
