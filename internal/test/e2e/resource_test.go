package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// What the leader has, and what neighbours and clients see of it: the rows of kept addresses that need agents on real links.
// `make vip` runs what takes longer.

// has gives all hosts a configuration file.
func (l *lan) has(text string) {
	l.t.Helper()
	for _, h := range l.hosts {
		file := filepath.Join(h.dir, "agent.toml")
		must(l.t, os.WriteFile(file, []byte(text), 0o600))
		h.options = append(h.options, "--config", file)
	}
}

func needsLong(t *testing.T) {
	t.Helper()
	if os.Getenv("BULLY_E2E") != "long" && rounds() == 1 {
		t.Skip("skipped: it takes minutes; BULLY_E2E=long runs it")
	}
}

// manyAddresses gives as many addresses as are asked for, of one network that is routed to the switch.
func (l *lan) manyAddresses(count int) (all []netip.Addr) {
	l.t.Helper()
	l.ip(l.net.Switch(), "route add 10.79.0.0/16 dev "+netlab.Bridge)
	for i := range count {
		all = append(all, netip.AddrFrom4([4]byte{10, 79, byte(i / 250), byte(i%250 + 1)}))
	}
	words := make([]string, count)
	for i, a := range all {
		words[i] = fmt.Sprintf("%q", a.String()+"/32")
	}
	l.has("[[resource]]\naddresses = [" + strings.Join(words, ", ") + "]\ninterface = \"eth0\"\n")
	return all
}

// hardware is what neighbours know h by.
func (l *lan) hardware(h *host) (mac net.HardwareAddr) {
	l.t.Helper()
	must(l.t, h.net.Within(func() error {
		eth, err := net.InterfaceByName(netlab.Interface)
		if err == nil {
			mac = eth.HardwareAddr
		}
		return err
	}))
	return mac
}

// known counts the addresses that the switch, a neighbour of all hosts, has at one of them.
func (l *lan) known(all []netip.Addr, mac net.HardwareAddr) (count int) {
	l.t.Helper()
	must(l.t, l.net.Switch().Within(func() error {
		bridge, err := net.InterfaceByName(netlab.Bridge)
		if err != nil {
			return err
		}
		neighbours, err := netlink.NeighList(bridge.Index, unix.AF_INET)
		for _, n := range neighbours {
			if addr, ok := netip.AddrFromSlice(n.IP); ok && slices.Contains(all, addr.Unmap()) && n.HardwareAddr.String() == mac.String() {
				count++
			}
		}
		return err
	}))
	return count
}

// meets has the switch learn where each address is.
func (l *lan) meets(all []netip.Addr, h *host) {
	l.t.Helper()
	mac := l.hardware(h)
	var socket net.PacketConn
	must(l.t, l.net.Switch().Within(func() (err error) {
		socket, err = net.ListenPacket("udp4", ":0")
		return err
	}))
	defer socket.Close()
	l.eventually(fmt.Sprintf("the switch knows %d addresses at %s", len(all), h), patience, func() error {
		for _, a := range all {
			_, _ = socket.WriteTo([]byte{'?'}, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 9)))
			time.Sleep(2 * time.Millisecond)
		}
		if n := l.known(all, mac); n < len(all) {
			return fmt.Errorf("it knows %d", n)
		}
		return nil
	})
}

// relearns waits until the switch has all addresses at h, for as long as is asserted.
func (l *lan) relearns(all []netip.Addr, h *host, since time.Time, bound time.Duration) {
	l.t.Helper()
	mac := l.hardware(h)
	marks := []time.Duration{time.Second, 6 * time.Second, 15 * time.Second}
	for {
		n, took := l.known(all, mac), time.Since(since)
		if len(marks) > 0 && took > marks[0] {
			l.t.Logf("after %v the neighbour has %d of %d addresses at %s", marks[0], n, len(all), h)
			marks = marks[1:]
		}
		switch {
		case n == len(all):
			l.t.Logf("after %v the neighbour has all %d addresses at %s", took.Round(time.Millisecond), n, h)
			return
		case took > bound:
			l.t.Fatalf("after %v the neighbour has %d of %d addresses at %s", took, n, len(all), h)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// passes has the switch pass so many broadcasts a second from each port, as storm control does.
func (l *lan) passes(broadcasts int) {
	l.t.Helper()
	for _, h := range l.hosts {
		l.filter(h, fmt.Sprintf("ether daddr ff:ff:ff:ff:ff:ff limit rate over %d/second burst %d packets counter drop", broadcasts, broadcasts))
	}
}

// filter judges what comes from h at its port, before the switch sees it.
func (l *lan) filter(h *host, rule string) {
	l.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", string(l.net.Switch()), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("table netdev %[1]s {\n chain in {\n type filter hook ingress device %[1]q priority 0;\n %[2]s\n }\n}\n", h.name, rule))
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("nft at the switch: %v: %s", err, out)
	}
}

// unfilter ends that.
func (l *lan) unfilter(h *host) {
	l.t.Helper()
	out, err := exec.Command("ip", "netns", "exec", string(l.net.Switch()), "nft", "delete", "table", "netdev", h.name).CombinedOutput()
	if err != nil {
		l.t.Fatalf("nft at the switch: %v: %s", err, out)
	}
}

// hasRoomForNeighbours lets the kernel know as many neighbours as a test needs: of all namespaces together, until its end.
func hasRoomForNeighbours(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{"gc_thresh1": "4096", "gc_thresh2": "8192", "gc_thresh3": "8192"} {
		file := "/proc/sys/net/ipv4/neigh/default/" + name
		was, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(file, []byte(value), 0o644))
		t.Cleanup(func() { _ = os.WriteFile(file, was, 0o644) })
	}
}

// Behind a switch that passes 100 broadcasts a second all of many addresses are known at the new leader within 31 s, whatever was
// dropped: each round of announcements begins elsewhere, until all were out.
func TestManyAddressesAreKnownSoon(t *testing.T) {
	needsLong(t)
	needsLAN(t)
	hasRoomForNeighbours(t)
	for _, count := range []int{80, 200, 616} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			l := newLAN(t, 3, "--preempt", "never")
			l.hasRoomToLetGo()
			all := l.manyAddresses(count)
			l.start()
			leader := l.agree()
			l.meets(all, leader)
			l.passes(100)
			at := time.Now()
			l.handOver(leader)
			next := l.agree()
			l.relearns(all, next, at, 31*time.Second)
		})
	}
}

// A hundred addresses in one resource make no heartbeat later than a single one does, and go to another host and back, first from
// the one and then to the other. Of the heartbeats the figures are what counts: a busy machine has late ones of its own.
func TestAHundredAddressesComeAndGo(t *testing.T) {
	needsLong(t)
	needsLAN(t)
	hasRoomForNeighbours(t)
	for _, count := range []int{1, 100} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			l := newLAN(t, 3, "--preempt", "never")
			l.comeAndGo(l.manyAddresses(count))
		})
	}
}

// comeAndGo hands the leadership with its addresses over a few times.
func (l *lan) comeAndGo(all []netip.Addr) {
	l.t.Helper()
	seen := map[netip.Addr]*moves{all[0]: {}, all[len(all)-1]: {}}
	for a, m := range seen {
		for _, h := range l.hosts {
			m.watch(h, a.AsSlice())
		}
	}
	l.start()
	leader := l.agree()
	for range 4 {
		l.meets(all, leader)
		at, old := time.Now(), leader
		l.handOver(old)
		leader = l.agree()
		l.relearns(all, leader, at, 6*time.Second)
		for a, m := range seen {
			const toldLate = 10 * time.Millisecond // the kernel tells of one host as fast as of another, but for so much
			left, hasLeft := m.first(old, false, at)
			came, hasCome := m.first(leader, true, at)
			if !hasLeft || !hasCome || left.at.After(came.at.Add(toldLate)) {
				l.t.Errorf("%s left %s %v after the order (%t) and came to %s %v after it (%t)", a, old, left.at.Sub(at), hasLeft, leader, came.at.Sub(at), hasCome)
			}
		}
		heart := l.watchHeart(leader, l.except(leader)[0])
		from := time.Now()
		l.steady(leader, 6*time.Second)
		heart.logRhythm(l.t, fmt.Sprintf("while %d addresses are announced", len(all)), from)
	}
}

// readers are clients of an address that say nothing and wait.
type readers struct {
	ended chan time.Time
}

// serveSilently has h take connections, and never say anything.
func (l *lan) serveSilently(h *host) {
	l.t.Helper()
	var listener net.Listener
	must(l.t, h.net.Within(func() (err error) {
		listener, err = net.Listen("tcp4", fmt.Sprintf(":%d", vipPort))
		return err
	}))
	var mu sync.Mutex
	var taken []net.Conn
	l.t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range taken {
			c.Close()
		}
	})
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			taken = append(taken, c)
			mu.Unlock()
		}
	}()
}

// read connects so many clients to an address. Their kernel sends nothing by itself either, as it would to find out who is still alive.
func (l *lan) read(ip net.IP, count int) *readers {
	l.t.Helper()
	r := &readers{ended: make(chan time.Time, count)}
	silent := net.Dialer{Timeout: patience, KeepAlive: -1}
	for range count {
		var conn net.Conn
		must(l.t, l.net.Switch().Within(func() (err error) {
			conn, err = silent.Dial("tcp4", netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip.To4())), vipPort).String())
			return err
		}))
		l.t.Cleanup(func() { conn.Close() })
		go func() {
			_, _ = conn.Read(make([]byte, 1))
			r.ended <- time.Now()
		}()
	}
	return r
}

// end waits until all of them have seen the end, and gives when the last one did.
func (r *readers) end(t *testing.T, count int) (last time.Time) {
	t.Helper()
	enough := time.After(patience)
	for n := range count {
		select {
		case last = <-r.ended:
		case <-enough:
			t.Fatalf("%d of %d readers have seen an end within %v", n, count, patience)
		}
	}
	return last
}

// Clients that only read notice that the address has gone: their connections are ended with it, by the leader that gives it up, and
// by the keeper of one that was killed.
func TestIdleReadersSeeTheEnd(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	const count = 200
	for name, fault := range map[string]func(l *lan, h *host){
		"handed over": (*lan).handOver,
		"killed":      func(_ *lan, h *host) { h.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3, "--preempt", "never")
			l.hasRoomToLetGo()
			v := newVirtual(l, ipv4)
			v.keep()
			for _, h := range l.hosts {
				l.serveSilently(h)
			}
			l.start()
			leader := l.agree()
			v.isAt(leader)
			r := l.read(v.ip, count)
			at := time.Now()
			fault(l, leader)
			target(t, fmt.Sprintf("%s: the last of %d readers saw the end after", name, count), r.end(t, count).Sub(at), 2*time.Second)
			v.isAt(l.agree(l.running()...))
		})
	}
}

// They notice as much when the whole host was killed, if the next leader knows of them (reset = true). Without it none of them would within
// the test's time: their connections are as they were, and nobody sends anything.
func TestIdleReadersOfADeadHostSeeTheEnd(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	const count = 50
	l := newLAN(t, 3, "--preempt", "never")
	l.hasRoomToLetGo()
	v := newVirtual(l, ipv4)
	v.keep("reset = true\n")
	for _, h := range l.hosts {
		l.serveSilently(h)
	}
	l.start()
	leader := l.agree()
	v.isAt(leader)
	r := l.read(v.ip, count)
	l.hearsOfClients(l.except(leader))
	at := time.Now()
	l.cut(leader)
	leader.killWithKeeper()
	target(t, fmt.Sprintf("the last of %d readers saw the end after", count), r.end(t, count).Sub(at), 2*time.Second)
	v.isAt(l.agree(l.running()...))
}

// hearsOfClients waits until hosts have heard a list of the leader's clients that was begun from now on: the second from now.
func (l *lan) hearsOfClients(hosts []*host) {
	l.t.Helper()
	heard := func(h *host) uint64 {
		s, err := h.status()
		must(l.t, err)
		return s.Counters["clients_heard"]
	}
	for _, h := range hosts {
		before := heard(h)
		l.eventually(fmt.Sprintf("%s hears of the leader's clients", h), patience, func() error {
			if n := heard(h) - before; n < 2 {
				return fmt.Errorf("%d lists", n)
			}
			return nil
		})
	}
}

// A leader whose interface for the address goes for good hands over; the cause says why.
func TestAnInterfaceThatGoesMovesTheLeadership(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	l := newLAN(t, 3, "--preempt", "never")
	l.hasRoomToLetGo()
	const address = "10.80.0.50"
	m := &moves{}
	for i, h := range l.hosts {
		l.ip(h.net.Namespace, "link add lan1 type veth peer name far1", "link set far1 up", "link set lan1 up",
			fmt.Sprintf("addr add 10.80.0.%d/24 dev lan1", i+1))
		m.watch(h, net.ParseIP(address))
	}
	l.has("[[resource]]\naddress = \"" + address + "/32\"\ninterface = \"lan1\"\n")
	l.start()
	leader := l.agree()
	started := time.Now()
	l.eventually("the leader has the address", patience, func() error {
		if _, ok := m.first(leader, true, started.Add(-time.Minute)); !ok {
			return errors.New("it does not")
		}
		return nil
	})
	at := time.Now()
	l.befalls(leader, isOrdered, "link del lan1")
	var came move
	var next *host
	l.eventually("another host has it", patience, func() error {
		for _, h := range l.except(leader) {
			if v, ok := m.first(h, true, at); ok {
				came, next = v, h
				return nil
			}
		}
		return errors.New("none has it")
	})
	l.agreeOn(next)
	target(t, "after the interface went the next leader had the address within", came.at.Sub(at), 3*time.Second)
	if lose := l.journal.last(leader, loseBegin); lose.Cause != "resource-failed" {
		t.Errorf("the lose hook ran because of %q, expected resource-failed", lose.Cause)
	}
}

// Two leaders of a torn network have the address each. Once it heals one has it, and the neighbours know which.
func TestOneHolderAfterAHeal(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	l := newLAN(t, 2, "--preempt", "never")
	l.hasRoomToLetGo()
	l.mayOverlap("the network is torn, in available mode")
	v := newVirtual(l, ipv4)
	v.keep()
	l.start()
	leader := l.agree()
	v.isAt(leader)
	other := l.except(leader)[0]
	l.split(other)
	l.agreeOn(leader, leader)
	l.agreeOn(other, other)
	l.eventually("both have the address", patience, func() error {
		if !v.isOn(leader) || !v.isOn(other) {
			return errors.New("they do not")
		}
		return nil
	})
	l.steady(other, 2*time.Second, other)
	at := time.Now()
	l.plug(other)
	stays := l.agree()
	v.isAt(stays)
	left, ok := v.moves.first(l.except(stays)[0], false, at)
	if !ok {
		t.Fatalf("nobody has seen the address leave")
	}
	target(t, "after the heal the address left the other host within", left.at.Sub(at), time.Second)
	target(t, "after the heal the client was answered by the other host for", v.wrong(stays, at), time.Second)
}

// A neighbour that has learnt the old leader's hardware address learns the new one's, though all that was announced at first was
// dropped: a switch port that does not forward yet, say.
func TestANeighbourLearnsLate(t *testing.T) {
	needsLong(t)
	needsLAN(t)
	l := newLAN(t, 3, "--preempt", "never")
	l.hasRoomToLetGo()
	all := l.manyAddresses(1)
	l.start()
	leader := l.agree()
	l.meets(all, leader)
	for _, h := range l.except(leader) {
		l.filter(h, "ether type arp drop")
	}
	l.handOver(leader)
	next := l.agree()
	time.Sleep(10 * time.Second) // as long as a spanning tree listens, and longer than the first announcements
	if n := l.known(all, l.hardware(next)); n != 0 {
		t.Fatalf("the neighbour knows %d of what was dropped", n)
	}
	for _, h := range l.except(leader) {
		l.unfilter(h)
	}
	l.relearns(all, next, time.Now(), 31*time.Second)
}

// A command that does not heed TERM has its share of the time, and the address that ends after it is off in time all the same: in
// quorum mode no other host has it before.
func TestWhatSticksKeepsNoAddress(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	l := newLAN(t, 3, "--preempt", "never", "--expect", "3")
	l.hasRoomToLetGo()
	v := newVirtual(l, ipv4)
	v.keep()
	for _, h := range l.hosts {
		file := filepath.Join(h.dir, "agent.toml")
		text, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(file, append(text, "[[resource]]\nname = \"stubborn\"\ncommand = [\"/bin/sh\", \"-c\", \"trap '' TERM; while :; do sleep 0.2; done\"]\n"...), 0o600))
	}
	l.start()
	leader := l.agree()
	v.isAt(leader)
	at := time.Now()
	l.cut(leader)
	next := l.agree(l.except(leader)...)
	l.eventually("the next leader has the address", patience, func() error {
		if _, ok := v.moves.first(next, true, at); !ok {
			return errors.New("it does not")
		}
		return nil
	})
	came, _ := v.moves.first(next, true, at)
	left, hasLeft := v.moves.first(leader, false, at)
	if !hasLeft || left.at.After(came.at) {
		t.Errorf("the address left %s %v after the cut (%t), and came to %s %v after it", leader, left.at.Sub(at), hasLeft, next, came.at.Sub(at))
	}
	l.plug(leader)
	l.agreeOn(next)
	v.isAt(next)
}
