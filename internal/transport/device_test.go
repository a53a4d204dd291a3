package transport

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deviceOf asks the kernel what a socket is bound to.
func deviceOf(t *testing.T, conn any) (name string) {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) { name, err = unix.GetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE) })
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(name, "\x00")
}

// Every socket of a port is bound to its device: those that listen, and those to others.
func TestAllSocketsAreBoundToTheDevice(t *testing.T) {
	for _, want := range []string{"lo", ""} {
		d := device(want)
		udp, tcp, err := listenBoth(netip.MustParseAddrPort("127.0.0.1:0"), d.listenOnce)
		if err != nil {
			t.Fatal(err)
		}
		defer udp.Close()
		defer tcp.Close()
		to := tcp.Addr().(*net.TCPAddr).AddrPort()
		stream, err := d.dialer(patience).Dial("tcp", to.String())
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		accepted, err := tcp.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		tether, err := d.dialTether(context.Background(), netip.MustParseAddr("127.0.0.2"), to, patience)
		if err != nil {
			t.Fatal(err)
		}
		defer tether.Close()
		for name, conn := range map[string]any{"datagrams": udp, "listener": tcp, "stream": stream, "accepted stream": accepted, "tether": tether} {
			if got := deviceOf(t, conn); got != want {
				t.Errorf("%s: bound to %q, expected %q", name, got, want)
			}
		}
	}
}

// A port with a device works as one without.
func TestTransportOnADevice(t *testing.T) {
	var all [2]*Transport
	for i := range all {
		tr, err := Listen(Config{Bind: netip.MustParseAddrPort("127.0.0.1:0"), Device: "lo"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tr.Shutdown() })
		all[i] = tr
	}
	stream, err := all[0].Dial(all[1].Addr(), patience)
	if err != nil {
		t.Fatal(err)
	}
	if got := deviceOf(t, stream); got != "lo" {
		t.Errorf("a stream to a member is bound to %q", got)
	}
	stream.Close()
	frame := []byte{1, 2, 3}
	heard := make(chan netip.AddrPort, 1)
	go func() {
		if _, from, err := all[1].Read(make([]byte, 100)); err == nil {
			heard <- from
		}
	}()
	if err := all[0].Send(all[1].Addr(), frame); err != nil {
		t.Fatal(err)
	}
	select {
	case from := <-heard:
		if from != all[0].Addr() {
			t.Errorf("a frame came from %v, expected %v", from, all[0].Addr())
		}
	case <-time.After(patience):
		t.Error("no frame came")
	}
}

// A device that is not there is named, with what it means.
func TestNoSuchDevice(t *testing.T) {
	_, err := Listen(Config{Bind: netip.MustParseAddrPort("127.0.0.1:0"), Device: "nosuch0"})
	const want = `listen on udp 127.0.0.1:0: bind to device "nosuch0": no such device; no interface of this host has this name`
	if err == nil || err.Error() != want {
		t.Errorf("%v, expected %s", err, want)
	}
}
