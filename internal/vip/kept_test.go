package vip

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// keeps is a Kept on a host of a rig.
type keeps struct {
	*Kept
	h host

	isLate atomic.Bool // its lease has ended

	mu    sync.Mutex
	notes []string
	stop  context.CancelFunc
	ended chan error
}

func (h host) keeps(name string, addresses ...netip.Prefix) *keeps {
	k := &keeps{h: h}
	k.Kept = NewKept(addresses, name, shortestBound, func() bool { return !k.isLate.Load() }, k.hear)
	k.spawn = func(f func()) { go func() { _ = h.Within(func() error { f(); return nil }) }() }
	return k
}

func (k *keeps) hear(note string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.notes = append(k.notes, note)
}

func (k *keeps) said() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.notes, "\n")
}

// begin has the host have the addresses, and keep them until the end of the test, or stop.
func (k *keeps) begin() {
	k.h.t.Helper()
	if err := k.tries(); err != nil {
		k.h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	k.stop, k.ended = stop, make(chan error, 1)
	go func() { k.ended <- k.h.Within(func() error { return k.Keep(ctx) }) }()
	k.h.t.Cleanup(stop)
}

func (k *keeps) tries() error { return k.h.Within(func() error { return k.Begin(k.h.t.Context()) }) }

// end stops keeping, and takes the addresses off.
func (k *keeps) end() error { return k.endsBy(k.h.t.Context()) }

// endsBy does so within bounds.
func (k *keeps) endsBy(ctx context.Context) error {
	if k.stop != nil {
		k.stop()
		<-k.ended
	}
	return k.h.Within(func() error { return k.End(ctx) })
}

// fails waits for the reason why they cannot be kept.
func (k *keeps) fails() string {
	k.h.t.Helper()
	select {
	case err := <-k.ended:
		k.ended <- nil
		if err != nil {
			return err.Error()
		}
	case <-time.After(patience):
	}
	k.h.t.Fatal("it has not failed")
	return ""
}

// first is the interface's first address of IPv4, which kubelets and DHCP clients take for the host's.
func (h host) first(name string) string {
	for line := range strings.Lines(h.ip("-4 -o addr show dev " + name)) {
		return strings.Fields(line)[3]
	}
	return "none"
}

// echoes has the host answer on a port of all its addresses.
func (h host) echoes() {
	h.t.Helper()
	var socket net.PacketConn
	if err := h.Within(func() (err error) { socket, err = net.ListenPacket("udp4", ":7007"); return err }); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { socket.Close() })
	go func() {
		b := make([]byte, 64)
		for n, from, err := socket.ReadFrom(b); err == nil; n, from, err = socket.ReadFrom(b) {
			_, _ = socket.WriteTo(b[:n], from)
		}
	}()
}

// pings asks an address every 20 ms, until stop gives the longest time without an answer.
func (h host) pings(addr netip.Addr) (stop func() time.Duration) {
	h.t.Helper()
	var socket net.PacketConn
	if err := h.Within(func() (err error) { socket, err = net.ListenPacket("udp4", ":0"); return err }); err != nil {
		h.t.Fatal(err)
	}
	go func() {
		to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 7007))
		for {
			if _, err := socket.WriteTo([]byte("?"), to); errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	longest := make(chan time.Duration, 1)
	first := make(chan bool, 1)
	go func() {
		var last time.Time
		var most time.Duration
		b := make([]byte, 64)
		for _, _, err := socket.ReadFrom(b); err == nil; _, _, err = socket.ReadFrom(b) {
			if last.IsZero() {
				first <- true
			} else {
				most = max(most, time.Since(last))
			}
			last = time.Now()
		}
		longest <- most
	}()
	select {
	case <-first:
	case <-time.After(patience):
		h.t.Fatal("nobody answers")
	}
	return func() time.Duration {
		socket.Close()
		return <-longest
	}
}

// Whatever takes an address away, it is back soon, never before the interface's own, and a client sees no long gap.
func TestAnAddressIsPutBack(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	h, client := l.hosts[0], l.hosts[1]
	k := h.keeps("eth0", ours4, ours6)
	k.begin()
	h.echoes()
	stop := client.pings(ours4.Addr())
	both := ours4.String() + " " + ours6.String()
	back := func(what string) {
		t.Helper()
		h.until("the addresses are back after "+what, func() bool { return h.holds() == both })
		if own := h.first("eth0"); own != "192.0.2.1/24" {
			t.Errorf("after %s the first address is %s", what, own)
		}
	}
	back("the beginning")
	for _, what := range []string{"addr del 192.0.2.50/32 dev eth0", "addr del 2001:db8::50/128 dev eth0"} {
		h.ip(what)
		back(what)
	}
	h.ip("addr flush dev eth0 scope global")
	time.Sleep(200 * time.Millisecond) // its own address is away: nothing may be there meanwhile
	if held := h.holds(); strings.Contains(held, "192.0.2.50") {
		t.Errorf("without an address of its own the interface has %s", held)
	}
	h.ip("addr add 192.0.2.1/24 dev eth0")
	h.ip("addr add 2001:db8::1/64 dev eth0 nodad")
	back("a flush")
	h.ip("link set eth0 down")
	h.ip("link set eth0 up")
	h.ip("addr replace 2001:db8::1/64 dev eth0 nodad")
	back("down and up")
	if gap := stop(); gap > time.Second {
		t.Errorf("the client had no answer for %v", gap)
	}
	if state := k.State(); !strings.Contains(state, "put back") {
		t.Errorf("state %q", state)
	}
	if err := k.end(); err != nil || h.holds() != "" {
		t.Errorf("end: %v, the host has %q", err, h.holds())
	}
}

// An interface that is deleted and made anew, as network managers do with a VLAN, has its address again.
func TestAnInterfaceComesBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, device string
		make         []string // after which the device is there
	}{
		{"cable", "eth0.7", []string{"link add eth0.7 type veth peer name far", "link set far up"}}, // to nowhere
		{"bridge", "br7", []string{"link add br7 type bridge", "link set eth0 master br7"}},
		{"VLAN", "eth0.7", []string{"link add link eth0 name eth0.7 type vlan id 7"}},
		{"macvlan", "eth0.7", []string{"link add link eth0 name eth0.7 type macvlan mode bridge"}},
		{"dummy", "dummy7", []string{"link add dummy7 type dummy"}},
		{"bond", "bond7", []string{"link add bond7 type bond mode active-backup miimon 100", "link set eth0 down", "link set eth0 master bond7"}},
		{"VLAN on a bond", "bond7.7", []string{"link add bond7 type bond mode active-backup miimon 100", "link set eth0 down", "link set eth0 master bond7",
			"link set bond7 up", "link add link bond7 name bond7.7 type vlan id 7"}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			h := newLAN(t, 1).hosts[0]
			h.hasKinds(tt.make)
			h.comesBack(tt.device, tt.make)
		})
	}
}

// hasKinds skips where the kernel has no such kind of interface. What it makes goes again.
func (h host) hasKinds(made []string) {
	h.t.Helper()
	for _, args := range made {
		words := strings.Fields(args)
		i := slices.Index(words, "type")
		if i < 0 {
			continue
		}
		out, err := exec.Command("ip", append([]string{"-n", string(h.Namespace), "link", "add", "name", "try", "link", "eth0"}, words[i:]...)...).CombinedOutput()
		if err != nil && strings.Contains(string(out), "Unknown device type") {
			h.t.Skipf("skipped: this kernel has no %s: %s", words[i+1], strings.TrimSpace(string(out)))
		}
		if err == nil {
			h.ip("link del try")
		}
	}
}

// comesBack has an interface, with an address that is kept, go and come again, and then go for good.
func (h host) comesBack(device string, made []string) {
	h.t.Helper()
	makes := func() {
		for _, args := range made {
			h.ip(args)
		}
		h.ip("link set " + device + " up")
		h.ip("addr add 198.51.100.1/24 dev " + device)
	}
	goes := func() {
		h.ip("link del " + device)
		if base, _, isOn := strings.Cut(device, "."); isOn && strings.HasPrefix(base, "bond") {
			h.ip("link del " + base)
		}
	}
	makes()
	k := h.keeps(device, netip.MustParsePrefix("198.51.100.50/32"))
	k.begin()
	goes()
	makes()
	h.until("the address is back", func() bool { return strings.Contains(h.ip("-o addr show dev "+device), "198.51.100.50/32") })
	if own := h.first(device); own != "198.51.100.1/24" {
		h.t.Errorf("the first address is %s", own)
	}
	goes()
	if why := k.fails(); why != "there is no interface "+device+" any more" {
		h.t.Errorf("it has failed: %s", why)
	}
	if err := k.end(); err != nil {
		h.t.Error(err)
	}
}

// Without a carrier for a second the address is kept no more.
func TestNoCarrierIsAFailure(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	k := h.keeps("eth0", ours4)
	k.begin()
	if err := h.Unplug(); err != nil {
		t.Fatal(err)
	}
	if why := k.fails(); why != "eth0 has no carrier" {
		t.Errorf("it has failed: %s", why)
	}
	if err := k.end(); err != nil || h.holds() != "" {
		t.Errorf("end: %v, the host has %q", err, h.holds())
	}
}

// What the administrator has put there is refused, and stays.
func TestTheAdministratorsAddressStays(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	h.ip("addr add " + ours4.String() + " dev eth0")
	k := h.keeps("eth0", ours4)
	want := "eth0 has 192.0.2.50/32 already, and not by this agent"
	if err := k.tries(); err == nil || err.Error() != want {
		t.Errorf("begin: %v", err)
	}
	if err := k.end(); err == nil || err.Error() != want || h.holds() != ours4.String() {
		t.Errorf("end: %v, the host has %q", err, h.holds())
	}
}

// From the pause on nothing is put back; what is there stays there until the end, longer than the kernel has it by itself.
func TestNothingIsPutBackDuringAPause(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	k := h.keeps("eth0", ours4, ours6)
	k.begin()
	k.Pause()
	h.ip("addr del 2001:db8::50/128 dev eth0")
	time.Sleep(shortestBound + 1500*time.Millisecond)
	if held := h.holds(); held != ours4.String() {
		t.Errorf("the host has %q", held)
	}
	if err := k.end(); err != nil || h.holds() != "" {
		t.Errorf("end: %v, the host has %q", err, h.holds())
	}
}

// Nobody keeps it any more: the kernel takes it off. A next life takes off what the last one has left.
func TestAnAddressEndsByItself(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	k := h.keeps("eth0", ours4, ours6)
	if err := k.tries(); err != nil {
		t.Fatal(err)
	}
	next := h.keeps("eth0", ours4, ours6)
	if err := next.end(); err != nil || h.holds() != "" {
		t.Errorf("end: %v, the host has %q", err, h.holds())
	}
	if err := k.tries(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	h.until("the kernel has taken them off", func() bool { return h.holds() == "" })
	if took := time.Since(begun); took > shortestBound+10*time.Second {
		t.Errorf("that took %v", took)
	}
}

// Somebody else claims the address: it is counted, and the address stays.
func TestARivalIsCounted(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	h, rival := l.hosts[0], l.hosts[1]
	k := h.keeps("eth0", ours4)
	k.begin()
	h.until("the neighbour knows", func() bool { rival.asks(ours4.Addr()); return rival.knows(ours4.Addr()) == h.mac().String() })
	h.until("the claim is counted", func() bool {
		rival.claims(ours4.Addr()) // again, until somebody listens
		return strings.Contains(k.State(), "another host has claimed 192.0.2.50")
	})
	if held := h.holds(); held != ours4.String() {
		t.Errorf("the host has %q", held)
	}
	if n := strings.Count(k.said(), "another host claims 192.0.2.50"); n != 1 {
		t.Errorf("notes %q, want one of the claims", k.said())
	}
}

// What others say of addresses that are none of ours is nothing to count: the frames of a whole LAN come by.
func TestAClaimOfAnotherAddressIsNotCounted(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	h, rival := l.hosts[0], l.hosts[1]
	k := h.keeps("eth0", ours4)
	k.begin()
	rival.asks(ours4.Addr())
	h.until("a claim is counted", func() bool {
		rival.claims(netip.MustParseAddr("192.0.2.77"))
		rival.claims(ours4.Addr()) // is heard after it
		return strings.Contains(k.State(), "another host has claimed 192.0.2.50")
	})
	if all := k.State() + k.said(); strings.Contains(all, "192.0.2.77") {
		t.Errorf("it says %q", all)
	}
}

// Once the schedule has ended neighbours are told twice a minute. When some may have learnt another host they are told at once.
func TestNeighboursOfWhatIsKeptAreToldAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it takes the seconds that announcements take")
	}
	t.Parallel()
	l := newLAN(t, 2)
	h, neighbour := l.hosts[0], l.hosts[1]
	k := h.keeps("eth0", ours4)
	k.begin()
	<-neighbour.listen(schedule[len(schedule)-1]+time.Second, ours4.Addr())
	heard := neighbour.listen(2*time.Second, ours4.Addr())
	k.Again()
	if times := <-heard; len(times) < 2 {
		t.Errorf("told %d times", len(times))
	}
}

// A client that only reads notices that the address has gone.
func TestConnectionsEndWithTheAddress(t *testing.T) {
	t.Parallel()
	for _, ours := range []netip.Prefix{ours4, ours6} {
		t.Run(ours.Addr().String(), func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 2)
			h, client := l.hosts[0], l.hosts[1]
			k := h.keeps("eth0", ours)
			k.begin()
			at := netip.AddrPortFrom(ours.Addr(), 7000).String()
			var served net.Listener
			var plain net.ListenConfig
			plain.SetMultipathTCP(false) // of which the kernel ends no listener, asked or not
			if err := h.Within(func() (err error) { served, err = plain.Listen(t.Context(), "tcp", at); return err }); err != nil {
				t.Fatal(err)
			}
			defer served.Close()
			accepted := make(chan net.Conn, 1)
			go func() { c, _ := served.Accept(); accepted <- c }()
			var conn net.Conn
			if err := client.Within(func() (err error) { conn, err = net.Dial("tcp", at); return err }); err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			defer (<-accepted).Close()
			if err := k.end(); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(k.said(), "this kernel cannot") {
				t.Skip("skipped: this kernel cannot destroy sockets (CONFIG_INET_DIAG_DESTROY)")
			}
			_ = served.(*net.TCPListener).SetDeadline(time.Now().Add(50 * time.Millisecond))
			if _, err := served.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("who listens has %v, want that it listens on: it serves whoever has the address next", err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the reader has %v", err)
			}
		})
	}
}

// Who has little time left takes the address off first: another host may have it by then. Its connections end all the same,
// but this host cannot tell the clients any more.
func TestAHurriedEndTakesTheAddressFirst(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	h, client := l.hosts[0], l.hosts[1]
	k := h.keeps("eth0", ours4)
	k.begin()
	at := netip.AddrPortFrom(ours4.Addr(), 7000).String()
	var served net.Listener
	if err := h.Within(func() (err error) { served, err = net.Listen("tcp", at); return err }); err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	var conn net.Conn
	if err := client.Within(func() (err error) { conn, err = net.Dial("tcp", at); return err }); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server, err := served.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	hurry, stop := context.WithTimeout(t.Context(), roomForConnections/2)
	defer stop()
	if err := k.endsBy(hurry); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(k.said(), "this kernel cannot") {
		t.Skip("skipped: this kernel cannot destroy sockets (CONFIG_INET_DIAG_DESTROY)")
	}
	_ = server.SetReadDeadline(time.Now().Add(patience))
	if _, err := server.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the server has %v, want the end of its connection", err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the client has %v: it was told before the address was taken off", err)
	}
}

// Each refusal is one line, and changes nothing.
func TestWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	for name, c := range map[string]struct {
		iface, address, want string
	}{
		"no such interface": {"eth9", "192.0.2.50/32", `there is no interface "eth9"`},
		"the loopback":      {"lo", "192.0.2.50/32", "lo is the loopback interface: nobody else would reach the address"},
		"another prefix":    {"eth0", "192.0.2.50/25", "192.0.2.50/25 has another prefix than 192.0.2.1/24 on eth0: expected /24, or /32"},
		"the host's own":    {"eth0", "192.0.2.1/24", "eth0 has 192.0.2.1/24 already, and not by this agent"},
	} {
		t.Run(name, func(t *testing.T) {
			k := h.keeps(c.iface, netip.MustParsePrefix(c.address))
			if err := k.tries(); err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if held := h.holds(); held != "" {
				t.Errorf("the host has %q", held)
			}
		})
	}
	h.sysctl("ipv6/conf/eth0/disable_ipv6", "1")
	if err := h.keeps("eth0", ours6).tries(); err == nil || err.Error() != "IPv6 is disabled on eth0" {
		t.Errorf("without IPv6: %v", err)
	}
}

// Whoever was frozen past the end of its lease puts nothing back and renews nothing: another host has the address by then. With
// another lease it goes on.
func TestNothingIsPutBackAfterTheLease(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	k := h.keeps("eth0", ours4, ours6)
	k.begin()
	k.isLate.Store(true)
	h.ip("addr del 2001:db8::50/128 dev eth0")
	h.until("the kernel has taken off the other one", func() bool { return h.holds() == "" })
	time.Sleep(100 * time.Millisecond)
	if held := h.holds(); held != "" {
		t.Errorf("the host has %q", held)
	}
	k.isLate.Store(false)
	k.Again()
	h.until("both are back", func() bool { return h.holds() == ours4.String()+" "+ours6.String() })
	if err := k.end(); err != nil {
		t.Error(err)
	}
}
