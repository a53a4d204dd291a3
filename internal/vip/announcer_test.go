package vip

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// reign is a leadership as the tests will have it.
type reign struct {
	err   atomic.Pointer[error] // what Holds gives; nil: that it lasts
	asked atomic.Int32
	again chan struct{}

	isWatched atomic.Bool
}

func newReign() *reign { return &reign{again: make(chan struct{})} }

func (r *reign) Holds() error {
	r.asked.Add(1)
	if err := r.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (r *reign) Watch(again func()) {
	r.isWatched.Store(true)
	for range r.again {
		again()
	}
}

func (r *reign) becomes(err error) { r.err.Store(&err) }

// announces has the host tell of addresses for the length of a reign, whose schedule has ended already. over gives the end.
func (h host) announces(r *reign, addresses ...netip.Addr) (over <-chan error) {
	h.t.Helper()
	o := order{index: h.index(), at: now() - schedule[len(schedule)-1] - tooLate - time.Second, addresses: addresses}
	ended := make(chan error, 1)
	go func() { ended <- h.Within(func() error { return announceOn(o, r) }) }()
	h.t.Cleanup(func() { r.becomes(ErrOver); close(r.again) })
	return ended
}

// is stops the test at an error.
func (h host) is(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// index is that of the host's interface.
func (h host) index() (index int) {
	h.t.Helper()
	h.is(h.Within(func() error {
		l, err := find("eth0")
		if err == nil {
			index = l.index()
		}
		return err
	}))
	return index
}

// claims has the host say once that an address is its own.
func (h host) claims(addr netip.Addr) {
	h.t.Helper()
	w := h.wire()
	defer w.close()
	frame := ndpAnnouncement(h.mac(), addr, false)
	if addr.Is4() {
		frame = arpAnnouncements(h.mac(), addr)[0]
	}
	if err := w.send(frame); err != nil {
		h.t.Fatal(err)
	}
}

// Neighbours that have learnt another host learn the leader again at once: after a rival's claim, after a member has come back, and
// after the carrier has. When the leadership has ended nobody is told anything more.
func TestNeighboursLearnTheLeaderAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		after string
		then  func(h, rival host, r *reign)
	}{
		{"the claim of a rival", func(_, rival host, _ *reign) { rival.claims(ours4.Addr()); rival.claims(ours6.Addr()) }},
		{"a member has come back", func(_, _ host, r *reign) { r.again <- struct{}{} }},
		{"the carrier has come back", func(h, _ host, _ *reign) {
			h.is(h.Unplug())
			h.until("the kernel has noticed", func() bool { return strings.Contains(h.ip("-o link show eth0"), "state DOWN") })
			h.is(h.Plug())
		}},
		{"the hardware address is another", func(h, _ host, _ *reign) { h.ip("link set eth0 address 02:00:5e:10:00:07") }},
	} {
		t.Run(tt.after, func(t *testing.T) {
			l := newLAN(t, 3)
			client, h, rival := l.hosts[0], l.hosts[1], l.hosts[2]
			h.ip("addr add " + ours4.String() + " dev eth0")
			h.ip("addr add " + ours6.String() + " dev eth0 nodad")
			r := newReign()
			over := h.announces(r, ours4.Addr(), ours6.Addr())
			h.until("the announcer is there", func() bool { return r.isWatched.Load() })
			for _, p := range []netip.Prefix{ours4, ours6} {
				client.ip("neigh replace " + p.Addr().String() + " lladdr " + rival.mac().String() + " dev eth0 nud reachable")
			}
			began := time.Now()
			tt.then(h, rival, r)
			for _, p := range []netip.Prefix{ours4, ours6} {
				client.until(p.Addr().String()+" is known at the leader", func() bool { return client.knows(p.Addr()) == h.mac().String() })
			}
			t.Logf("known after %v", time.Since(began).Round(time.Millisecond))

			r.becomes(ErrOver)
			time.Sleep(tooLate) // it believes what it was told for so long
			heard := client.listen(time.Second, ours4.Addr())
			r.again <- struct{}{}
			if err := <-over; err != nil {
				t.Error(err)
			}
			if times := <-heard; len(times) > 0 {
				t.Errorf("told %d times after the end of the leadership", len(times))
			}
		})
	}
}

// All that one run of a hook adds has one announcer, and what another user or run hands over is not taken.
func TestARunHasOneAnnouncer(t *testing.T) {
	l := newLAN(t, 2)
	client, h := l.hosts[0], l.hosts[1]
	for name, value := range map[string]string{"BULLY_EVENT": "become-leader", "BULLY_SOCKET": "/nowhere", "BULLY_TIME": t.Name()} {
		t.Setenv(name, value)
	}
	h.ip("addr add 192.0.2.50/32 dev eth0")
	h.ip("addr add 2001:db8::50/128 dev eth0 nodad")
	r := newReign()
	h.announces(r, ours4.Addr())
	order := order{index: h.index(), at: now(), addresses: []netip.Addr{ours6.Addr()}}
	handsOver := func(run string) (taken bool) {
		h.is(h.Within(func() error { taken = handOver(run, order); return nil }))
		return taken
	}
	heard := client.listen(2*time.Second, ours6.Addr())
	h.until("the announcer takes an order", func() bool { return handsOver(runName(os.Getenv)) })
	if times := <-heard; len(times) < 5 {
		t.Errorf("what was handed over was said %d times in 2 s, expected at least 5", len(times))
	}
	t.Setenv("BULLY_TIME", "another")
	if handsOver(runName(os.Getenv)) {
		t.Error("the announcer of another run took the order")
	}
	t.Setenv("BULLY_EVENT", "lose-leadership")
	if run := runName(os.Getenv); run != "" {
		t.Errorf("a lose hook's run has the name %q", run)
	}
}

// Nobody is told more than a switch lets through, however many addresses and commands there are.
func TestAPortIsPaced(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	neighbour, h := l.hosts[0], l.hosts[1]
	var all []netip.Prefix
	for _, addr := range numbered(80) {
		all = append(all, netip.PrefixFrom(addr, 32))
	}
	known := map[netip.Addr]bool{}
	frames := neighbour.listenFor(6*time.Second, func(frame []byte) bool {
		c, ok := parseClaim(frame)
		if ok && c.by == h.mac() && frame[0]&1 == 1 {
			known[c.addr] = true
		}
		return ok && c.by == h.mac()
	})
	h.add(all...)
	at := <-frames
	if len(known) < len(all) {
		t.Errorf("%d of %d addresses were said in 6 s", len(known), len(all))
	}
	for i := range at {
		n := 0
		for _, other := range at[i:] {
			if other.Sub(at[i]) < time.Second {
				n++
			}
		}
		if n > burst+int(time.Second/frameGap)+20 { // the sender may be held up between its clock and the wire
			t.Fatalf("%d frames in a second", n)
		}
	}
	t.Logf("%d frames in %v", len(at), at[len(at)-1].Sub(at[0]))
}

// What the kernel does not tell once is left out, and said at the next time: the announcer goes on.
func TestAnErrorOfTheKernelEndsNothing(t *testing.T) {
	p := &port{rota: rota{forever: true, rand: func() float64 { return 0.5 }}}
	a := &announcer{ports: []*port{p}, list: func() ([]held, error) { return nil, unix.ENOBUFS }}
	begun := now()
	p.rota.add(begun, []netip.Addr{ours4.Addr()}, 0)
	if err := a.speak(begun); err != nil {
		t.Fatalf("it ends with %v", err)
	}
	if at, ok := a.next(); !ok || at <= begun {
		t.Errorf("what is next is at %v, %t; it began at %v", at, ok, begun)
	}
}

// failing is a listener that fails once.
type failing struct {
	net.Listener
	hasFailed bool
}

func (f *failing) Accept() (net.Conn, error) {
	if !f.hasFailed {
		f.hasFailed = true
		return nil, unix.EMFILE
	}
	return f.Listener.Accept()
}

// A host that has no file descriptor for a moment takes orders again after it.
func TestOrdersAreTakenAfterAnError(t *testing.T) {
	run := "@bully-announcer-test-" + t.Name()
	l, err := net.Listen("unixpacket", run)
	if err != nil {
		t.Fatal(err)
	}
	a := &announcer{orders: make(chan request), done: make(chan struct{})}
	ended := make(chan struct{})
	go func() { a.accept(&failing{Listener: l}); close(ended) }()
	go func() {
		for r := range a.orders {
			r.taken <- nil
		}
	}()
	o := order{index: 1, at: now(), addresses: []netip.Addr{ours4.Addr()}}
	isTaken := false
	for late := time.Now().Add(patience); !isTaken && time.Now().Before(late); {
		isTaken = handOver(run, o)
	}
	if !isTaken {
		t.Error("no order is taken any more")
	}
	l.Close()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("it has not ended with its socket")
	}
	close(a.orders)
}
