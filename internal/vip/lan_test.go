package vip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An address comes, comes again, goes under another prefix than it came with, and goes again.
func TestAddressesComeAndGo(t *testing.T) {
	h := newLAN(t, 1).hosts[0]
	const both = "192.0.2.50/32 2001:db8::50/128"
	h.add(ours4, ours6)
	h.add(ours4, ours6)
	if got := h.holds(); got != both {
		t.Errorf("added twice: %s, expected %s", got, both)
	}
	h.add(netip.MustParsePrefix("192.0.2.51/24"), netip.MustParsePrefix("2001:db8::51/64"))
	h.del(netip.MustParsePrefix("192.0.2.50/24"), netip.MustParsePrefix("2001:db8::50/64"))
	if got := h.holds(); got != "192.0.2.51/24 2001:db8::51/64" {
		t.Errorf("after the removal of two of four: %s", got)
	}
	h.del(ours4, ours6)
	slip := []netip.Prefix{netip.MustParsePrefix("192.0.2.51/32")} // of an address that the host has as its own
	for name, err := range map[string]error{
		"add": h.Within(func() error { return Add(slip, "eth0", false, nil) }),
		"del": h.Within(func() error { return Remove(slip, "eth0", nil) }),
	} {
		var c *Complaint
		if !errors.As(err, &c) || c.Class != Refused || c.What != "eth0 has 192.0.2.51/24 as an address of this host" {
			t.Errorf("%s under another prefix: %v", name, err)
		}
	}
	h.del(netip.PrefixFrom(slip[0].Addr(), -1)) // without a prefix: whatever it has
	if got := h.holds(); got != "2001:db8::51/64" {
		t.Errorf("after a removal without a prefix: %s", got)
	}
}

// What the kernel takes with the first address of a network is put back.
func TestOnlyTheNamedAddressGoes(t *testing.T) {
	h := newLAN(t, 1).hosts[0]
	h.add(netip.MustParsePrefix("198.51.100.50/24"), netip.MustParsePrefix("198.51.100.51/24"))
	h.ip("addr add 198.51.100.2/24 dev eth0")
	h.del(netip.MustParsePrefix("198.51.100.50/24"))
	if got := h.ip("-4 -o addr show dev eth0 to 198.51.100.0/24"); strings.Contains(got, "100.50/") || !strings.Contains(got, "100.51/24") || !strings.Contains(got, "100.2/24") {
		t.Errorf("the interface has %s", got)
	}
}

// The host answers at an IPv6 address at once, and does not choose it to send from, though its prefix is the longest.
func TestAnIPv6AddressIsForAnswers(t *testing.T) {
	h := newLAN(t, 1).hosts[0]
	h.add(ours6)
	if shown := h.ip("-6 -o addr show dev eth0 to 2001:db8::50"); strings.Contains(shown, "tentative") || !strings.Contains(shown, "deprecated") {
		t.Errorf("the address is %s", shown)
	}
	if route := h.ip("-6 route get 2001:db8::51"); !strings.Contains(route, "src 2001:db8::1 ") {
		t.Errorf("it sends by %s", route)
	}
}

// Who knows the old host's hardware address learns the new one's from the first announcement, and asks nobody.
func TestStaleNeighboursAreTold(t *testing.T) {
	l := newLAN(t, 3)
	client, from, to := l.hosts[0], l.hosts[1], l.hosts[2]
	from.add(ours4, ours6)
	for _, p := range []netip.Prefix{ours4, ours6} {
		client.asks(p.Addr())
		client.until("the entry is the old host's", func() bool { return client.knows(p.Addr()) == from.mac().String() })
	}
	from.del(ours4, ours6)
	begun := time.Now()
	to.add(ours4, ours6)
	for _, p := range []netip.Prefix{ours4, ours6} {
		client.until("the entry is the new host's", func() bool { return client.knows(p.Addr()) == to.mac().String() })
		t.Logf("%s: told after %v, the adding included", p.Addr(), time.Since(begun).Round(100*time.Microsecond))
	}
}

// wire is a packet socket on the host's interface; who asks for it closes it.
func (h host) wire() (w *wire) {
	h.t.Helper()
	err := h.Within(func() error {
		l, err := find("eth0")
		if err == nil {
			w, err = openWire(l.index())
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return w
}

// listen hears from now on, for so long, what the host's interface gets of claims to an address.
func (h host) listen(d time.Duration, addr netip.Addr) <-chan []time.Time {
	h.t.Helper()
	w := h.wire()
	heard := make(chan []time.Time, 1)
	go func() {
		defer w.close()
		var times []time.Time
		for end := time.Now().Add(d); ; {
			c, ok, err := w.receive(end)
			if err != nil || !ok {
				heard <- times
				return
			}
			if c.addr == addr {
				times = append(times, time.Now())
			}
		}
	}()
	return heard
}

// All the neighbours are told as often as the schedule says, and no more once the address is not on the interface.
func TestNeighboursAreToldAgainAndAgain(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("skipped: it takes the seconds that announcements take")
	}
	l := newLAN(t, 2)
	neighbour, h := l.hosts[0], l.hosts[1]
	heard := neighbour.listen(schedule[len(schedule)-1]+time.Second, ours6.Addr())
	asked := time.Now()
	h.add(ours6)
	added := time.Now()
	times := <-heard
	const rest = 5 // of the schedule, a second apart; of what is due before, what a busy machine is late for is said once
	if len(times) <= rest || len(times) > len(schedule) {
		t.Fatalf("told %d times, expected %d", len(times), len(schedule))
	}
	for i, at := range times[len(times)-rest:] {
		want := schedule[len(schedule)-rest+i]
		if at.Sub(asked) < want || at.Sub(added) > want+tooLate {
			t.Errorf("an announcement came %v to %v after the address, expected %v", at.Sub(added), at.Sub(asked), want)
		}
	}
	if first := times[0].Sub(added); first > tooLate {
		t.Errorf("the first announcement came %v after the address", first)
	}
	t.Logf("%d times in %v", len(times), times[len(times)-1].Sub(times[0]))

	h.add(ours4, ours6)
	h.del(ours6)
	if times := <-neighbour.listen(1500*time.Millisecond, ours6.Addr()); len(times) > 0 {
		t.Errorf("told %d times of an address that is not there any more", len(times))
	}
	h.del(ours4)
}

// Somebody else who answers is named, and nothing has changed; without one the address is added. An address that the host has
// itself already is asked for, too.
func TestProbeFindsAStranger(t *testing.T) {
	l := newLAN(t, 3)
	h, stranger := l.hosts[0], l.hosts[1]
	probe := func() (time.Duration, error) {
		begun := time.Now()
		_, err := h.does(func(note func(string)) error { return Add([]netip.Prefix{ours4, ours6}, "eth0", true, note) })
		return time.Since(begun), err
	}
	for _, p := range []netip.Prefix{ours4, ours6} {
		stranger.ip("addr add " + p.String() + " dev eth0" + map[bool]string{true: " nodad"}[p.Addr().Is6()])
		took, err := probe()
		var c *Complaint
		want := p.Addr().String() + " is somebody else's: " + stranger.mac().String() + " answers for it"
		if !errors.As(err, &c) || c.Class != Refused || c.What != want || c.Remedy == "" || h.holds() != "" {
			t.Errorf("%v; expected %q; the host has %q", err, want, h.holds())
		}
		t.Logf("%s refused after %v", p.Addr(), took.Round(100*time.Microsecond))
		stranger.ip("addr del " + p.String() + " dev eth0")
	}
	took, err := probe()
	if err != nil || h.holds() != "192.0.2.50/32 2001:db8::50/128" || took < probeTime {
		t.Errorf("with no stranger: %v after %v; the host has %q", err, took, h.holds())
	}
	t.Logf("with no stranger: added after %v", took.Round(100*time.Microsecond))
	stranger.ip("addr add " + ours4.String() + " dev eth0")
	if _, err := probe(); err == nil || h.holds() == "" {
		t.Errorf("where both have the address: %v; the host has %q", err, h.holds())
	}
}

// What is wrong with the host is one line and a remedy, and no address is there that was not before.
func TestTheHostIsLookedAtFirst(t *testing.T) {
	for _, tt := range []struct {
		name    string
		set     func(h host)
		iface   string
		words   string
		class   Class
		says    string
		remedy  string
		removes bool // also Remove complains
	}{
		{name: "no such interface", iface: "eth7", says: `there is no interface "eth7"`, remedy: "this host has eth0, lo", class: Absent},
		{name: "a name that no interface can have", iface: "an-interface-of-a-long-name", says: `there is no interface "an-`, remedy: "this host has eth0, lo", class: Absent},
		{name: "another interface has it", set: func(h host) { h.ip("addr add 192.0.2.50/32 dev eth0") }, iface: "eth7", removes: true,
			says: `there is no interface "eth7"`, remedy: "eth0", class: Absent},
		{name: "loopback", iface: "lo", says: "lo is the loopback interface", remedy: "name the interface of the LAN", class: Host},
		{name: "down", set: func(h host) { h.ip("link set eth0 down") }, says: "eth0 is down", remedy: "ip link set eth0 up", class: Host},
		{name: "IPv6 off", set: func(h host) { h.sysctl("ipv6/conf/eth0/disable_ipv6", "1") }, says: "IPv6 is disabled on eth0",
			remedy: "sysctl net.ipv6.conf.eth0.disable_ipv6=0", class: Host},
		{name: "on another interface", set: func(h host) { h.second("192.0.2.50/32") }, says: "eth1 has 192.0.2.50/32 already",
			remedy: "name eth1, or bully-agent vip del 192.0.2.50 eth1", class: Refused},
		{name: "another interface's network", set: func(h host) { h.second("198.51.100.1/24") }, words: "2001:db8::50/128 198.51.100.50/32",
			says: "198.51.100.50 is in 198.51.100.0/24, the network of eth1: its neighbours are not eth0's", remedy: "name eth1, or choose", class: Elsewhere},
		{name: "the broadcast address", words: "2001:db8::50/128 192.0.2.255/32", says: `"192.0.2.255" is the broadcast address of 192.0.2.0/24`,
			remedy: "choose an address of one host", class: Words},
		{name: "the network's address", words: "192.0.2.0/32", says: `"192.0.2.0" is the address of the network 192.0.2.0/24`,
			remedy: "choose an address of one host", class: Words},
		{name: "all routers", words: "2001:db8::/128", says: `"2001:db8::" is the address of all routers of 2001:db8::/64`,
			remedy: "choose an address of one host", class: Words},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newLAN(t, 1).hosts[0]
			if tt.set != nil {
				tt.set(h)
			}
			if tt.iface == "" {
				tt.iface = "eth0"
			}
			if tt.words == "" {
				tt.words = "192.0.2.50/32 2001:db8::50/128"
			}
			addresses, err := Parse(strings.Fields(tt.words))
			if err != nil {
				t.Fatal(err)
			}
			before := h.holds()
			_, err = h.does(func(note func(string)) error { return Add(addresses, tt.iface, false, note) })
			var c *Complaint
			if !errors.As(err, &c) || c.Class != tt.class || !strings.HasPrefix(c.What, tt.says) || !strings.Contains(c.Remedy, tt.remedy) {
				t.Errorf("it says %v, remedy %+v; expected %q, %q", err, c, tt.says, tt.remedy)
			}
			if _, err := h.does(func(note func(string)) error { return Remove(addresses, tt.iface, note) }); (err != nil) != tt.removes {
				t.Errorf("removal: %v", err)
			}
			if tt.class != Refused && !tt.removes && h.holds() != before || strings.Contains(h.holds(), "db8::50") {
				t.Errorf("the host has %q, and had %q", h.holds(), before)
			}
		})
	}
}

// second gives the host another interface with an address.
func (h host) second(address string) {
	h.t.Helper()
	h.ip("link add eth1 type veth peer name peer1")
	h.ip("link set eth1 up")
	h.ip("link set peer1 up")
	h.ip("addr add " + address + " dev eth1")
}

// An address that fails takes back those before it.
func TestAllOrNone(t *testing.T) {
	h := newLAN(t, 1).hosts[0]
	_, err := h.does(func(func(string)) error {
		l, err := find("eth0")
		if err != nil {
			return err
		}
		return l.addAll([]netip.Prefix{ours4, ours6, netip.MustParsePrefix("ff02::50/128")}) // which the kernel does not take
	})
	if err == nil || h.holds() != "" {
		t.Errorf("error %v; the host has %q", err, h.holds())
	}
}

// A tunnel has no neighbours to be told: the address is there all the same.
func TestAnInterfaceWithoutNeighbours(t *testing.T) {
	h := newLAN(t, 1).hosts[0]
	h.ip("link add tun0 type veth peer name peer0")
	h.ip("link set tun0 arp off up")
	notes, err := h.does(func(note func(string)) error {
		return Add([]netip.Prefix{netip.MustParsePrefix("203.0.113.50/32")}, "tun0", true, note)
	})
	if err != nil || !strings.Contains(notes, "tun0 has no neighbours") || h.holds() != "203.0.113.50/32" {
		t.Errorf("error %v, notes %q; the host has %q", err, notes, h.holds())
	}
}

// A hook that is tried again adds the address once more, while the announcer that it left before still tells the neighbours:
// what this host says itself is nobody else's claim.
func TestProbeTakesNoNoticeOfThisHost(t *testing.T) {
	h := newLAN(t, 1).hosts[0]
	h.add(ours4, ours6)
	if _, err := h.does(func(note func(string)) error { return Add([]netip.Prefix{ours4, ours6}, "eth0", true, note) }); err != nil {
		t.Errorf("it has the address and is asked for it again: %v", err)
	}
}

// The questions are asked one after the other, so that one that is lost is asked again while there is time for the answer.
func TestProbeAsksMoreThanOnce(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	neighbour, h := l.hosts[0], l.hosts[1]
	const tries, gap = 5, probeTime / probeTimes / 2
	var gaps []time.Duration
	for range tries { // on a busy machine what was sent apart may be read together
		heard := neighbour.listenFor(probeTime+time.Second, func(frame []byte) bool { // ARP, a request, from nowhere
			return len(frame) >= 42 && frame[12] == 0x08 && frame[13] == 0x06 && frame[21] == 1 && netip.AddrFrom4([4]byte(frame[38:42])) == ours4.Addr() && [4]byte(frame[28:32]) == [4]byte{}
		})
		if _, err := h.does(func(note func(string)) error { return Add([]netip.Prefix{ours4}, "eth0", true, note) }); err != nil {
			t.Fatal(err)
		}
		h.del(ours4)
		times := <-heard
		if len(times) != probeTimes {
			t.Fatalf("asked %d times, expected %d", len(times), probeTimes)
		}
		gaps = nil
		for i := range times[1:] {
			gaps = append(gaps, times[i+1].Sub(times[i]))
		}
		if slices.Min(gaps) >= gap {
			return
		}
	}
	t.Errorf("in none of %d attempts were the questions %v apart; in the last %v", tries, gap, gaps)
}

// listenFor hears from now on, for so long, when frames that it is asked for come to the host's interface. The times are the kernel's:
// a test on a busy machine reads late what came apart.
func (h host) listenFor(d time.Duration, isIt func(frame []byte) bool) <-chan []time.Time {
	h.t.Helper()
	w := h.wire()
	h.is(unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1))
	heard := make(chan []time.Time, 1)
	go func() {
		defer w.close()
		var times []time.Time
		frame, beside := make([]byte, frameRoom), make([]byte, unix.CmsgSpace(int(unsafe.Sizeof(unix.Timespec{}))))
		for end := time.Now().Add(d); time.Now().Before(end); {
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}, 10)
			if n, size, _, _, err := unix.Recvmsg(w.fd, frame, beside, unix.MSG_DONTWAIT); err == nil && isIt(frame[:n]) {
				times = append(times, cameAt(beside[:size]))
			}
		}
		heard <- times
	}()
	return heard
}

// cameAt is when the kernel has taken a frame in, by what it says beside it.
func cameAt(beside []byte) time.Time {
	said, err := unix.ParseSocketControlMessage(beside)
	if err != nil || len(said) != 1 || said[0].Header.Type != unix.SCM_TIMESTAMPNS {
		panic(fmt.Sprintf("a frame without a time: %v, %v", said, err)) // not of a socket that was asked for it
	}
	var at unix.Timespec
	if _, err := binary.Decode(said[0].Data, binary.NativeEndian, &at); err != nil {
		panic(err) // not of its size
	}
	return time.Unix(at.Unix())
}

// An announcer that was frozen says nothing of what it is too late for: others may have the address by then, and the lose hook
// that takes it off here may not have run yet.
func TestLateAnnouncementsAreLeftOut(t *testing.T) {
	l := newLAN(t, 2)
	neighbour, h := l.hosts[0], l.hosts[1]
	h.ip("addr add 192.0.2.50/32 dev eth0") // without an announcer of its own
	heard := neighbour.listen(500*time.Millisecond, ours4.Addr())
	err := h.Within(func() error {
		l, err := find("eth0")
		if err != nil {
			return err
		}
		long := schedule[len(schedule)-1] + tooLate + time.Second
		return announceOn(order{index: l.index(), at: now() - long, addresses: []netip.Addr{ours4.Addr()}}, nil)
	})
	if times := <-heard; err != nil || len(times) > 0 {
		t.Errorf("told %d times, %v", len(times), err)
	}
}

// Of an address of that number which another interface has, as this host's own, a removal knows nothing.
func TestRemovalIsOfItsInterfaceAlone(t *testing.T) {
	h := newLAN(t, 1).hosts[0]
	h.second("198.51.100.50/24")
	h.del(netip.MustParsePrefix("198.51.100.50/32"))
	if got := h.holds(); got != "198.51.100.50/24" {
		t.Errorf("the host has %q", got)
	}
}
