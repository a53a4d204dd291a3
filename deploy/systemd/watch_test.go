package systemd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
	"github.com/bully-agent/bully-agent/internal/test/boot"
)

// What a client of a kept address sees, and what the kernels of the hosts have.

const (
	askEvery  = 20 * time.Millisecond
	lookEvery = 2 * time.Millisecond
	echoPort  = 7007
)

// client is a host of the LAN that asks the kept address, again and again, and notes when it was answered.
type client struct {
	t    *testing.T
	conn *net.UDPConn

	mu      sync.Mutex
	answers []answer
	late    []lateness
}

// lateness is by how much a question came later than it should have: this machine was busy.
type lateness struct {
	at time.Time
	by time.Duration
}

type answer struct {
	asked, at time.Time
	host      string
}

// newClient asks until the test ends. Each of both hosts answers at the kept address, whenever it has that.
func newClient(t *testing.T, lan *boot.LAN) *client {
	t.Helper()
	for _, name := range []string{"alpha", "beta"} {
		echo(t, lan.Cable(name).Namespace, name)
	}
	place, err := lan.Net.AddHost("client", netip.PrefixFrom(boot.Address(100), 24))
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t}
	err = place.Within(func() (err error) {
		c.conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: boot.Address(100).AsSlice()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() { c.ask(done) })
	group.Go(c.listen)
	t.Cleanup(func() {
		close(done)
		c.conn.Close()
		group.Wait()
	})
	return c
}

// echo answers with the host's name, at the kept address alone: it is bound to it before the host has it.
func echo(t *testing.T, place netlab.Namespace, name string) {
	t.Helper()
	free := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_FREEBIND, 1) })
		return errors.Join(failed, err)
	}}
	var conn net.PacketConn
	err := place.Within(func() (err error) {
		conn, err = free.ListenPacket(context.Background(), "udp4", netip.AddrPortFrom(kept, echoPort).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, 64)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = conn.WriteTo(append(buffer[:n:n], name...), from) // the address may have gone
			}
		}
	}()
}

func (c *client) ask(done chan struct{}) {
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(kept, echoPort))
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for due := time.Now(); ; due = due.Add(askEvery) {
		if by := time.Since(due); by > askEvery {
			due = time.Now()
			c.mu.Lock()
			c.late = append(c.late, lateness{due, by})
			c.mu.Unlock()
		}
		_, _ = c.conn.WriteTo(binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano())), to) // the neighbour may not answer now
		select {
		case <-tick.C:
		case <-done:
			return
		}
	}
}

func (c *client) listen() {
	buffer := make([]byte, 64)
	for {
		n, err := c.conn.Read(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n < 8 {
			continue // what the network says of a question before
		}
		asked := time.Unix(0, int64(binary.BigEndian.Uint64(buffer)))
		c.mu.Lock()
		c.answers = append(c.answers, answer{asked, time.Now(), string(buffer[8:n])})
		c.mu.Unlock()
	}
}

// answered waits for the answer to a question that was asked after that time.
func (c *client) answered(after time.Time) {
	c.t.Helper()
	for late := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		c.mu.Lock()
		is := len(c.answers) > 0 && c.answers[len(c.answers)-1].asked.After(after)
		c.mu.Unlock()
		if is {
			return
		}
		if time.Now().After(late) {
			c.t.Fatal("the kept address does not answer")
		}
	}
}

// histogram counts the times between one answer and the next.
type histogram struct {
	counts  []int
	longest time.Duration
	late    time.Duration // of a question, at most
}

// upTo are the bounds of what is counted together.
var upTo = []time.Duration{25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, time.Hour}

func (h histogram) String() string {
	var text []string
	for i, n := range h.counts {
		if n > 0 {
			text = append(text, fmt.Sprintf("≤ %v: %d", upTo[i], n))
		}
	}
	return fmt.Sprintf("%s; longest %v; asked %v late at most", strings.Join(text, ", "), h.longest.Round(time.Millisecond),
		h.late.Round(time.Millisecond))
}

// gaps is of the answers between two times.
func (c *client) gaps(from, to time.Time) histogram {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := histogram{counts: make([]int, len(upTo))}
	last := from
	for _, a := range c.answers {
		if a.at.Before(from) || a.at.After(to) {
			continue
		}
		gap := a.at.Sub(last)
		last = a.at
		i := 0
		for gap > upTo[i] {
			i++
		}
		h.counts[i]++
		h.longest = max(h.longest, gap)
	}
	h.longest = max(h.longest, to.Sub(last))
	for _, l := range c.late {
		if !l.at.Before(from) && !l.at.After(to) {
			h.late = max(h.late, l.by)
		}
	}
	return h
}

// watch looks at the addresses of both hosts, often.
type watch struct {
	mu   sync.Mutex
	seen sightings
}

type sightings struct {
	looks, both int
	away        span // neither host has it
	ahead       span // it comes before the host's own
}

// span is how often something was so, and for how long.
type span struct {
	times   int
	since   time.Time // zero: it is not so
	longest time.Duration
}

func (s *span) mark(at time.Time, isSo bool) {
	switch {
	case !isSo:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = at
		s.times++
	default:
		s.longest = max(s.longest, at.Sub(s.since))
	}
}

func (s span) String() string {
	return fmt.Sprintf("%d times, %v at most", s.times, s.longest.Round(time.Millisecond))
}

// spot is one host's interface.
type spot struct {
	handle *netlink.Handle
	link   netlink.Link
	own    netip.Addr
}

func newWatch(t *testing.T, lan *boot.LAN, owns map[string]netip.Addr) *watch {
	t.Helper()
	var spots []spot
	for name, own := range owns {
		place, err := netns.GetFromPath(lan.Cable(name).Path())
		if err != nil {
			t.Fatal(err)
		}
		defer place.Close()
		handle, err := netlink.NewHandleAt(place, unix.NETLINK_ROUTE)
		if err != nil {
			t.Fatal(err)
		}
		link, err := handle.LinkByName(netlab.Interface)
		if err != nil {
			t.Fatal(err)
		}
		spots = append(spots, spot{handle, link, own})
	}
	w := &watch{}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			w.look(spots)
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		<-ended
		for _, s := range spots {
			s.handle.Close()
		}
	})
	return w
}

// look sees what each host has. The first is asked again where both seem to have the address: it may have moved meanwhile.
func (w *watch) look(spots []spot) {
	var has, ahead bool
	both := true
	for _, s := range append(spots[:len(spots):len(spots)], spots[0]) {
		is, isAhead, ok := s.look()
		if !ok {
			return // the list changed while it was read
		}
		has, ahead, both = has || is, ahead || isAhead, both && is
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now()
	w.seen.looks++
	if both {
		w.seen.both++
	}
	w.seen.away.mark(at, !has)
	w.seen.ahead.mark(at, ahead)
}

// look says whether the host has the kept address, and whether that comes before its own.
func (s spot) look() (has, isAhead, ok bool) {
	all, err := s.handle.AddrList(s.link, netlink.FAMILY_V4)
	if err != nil {
		return false, false, false
	}
	for _, a := range all {
		switch addr, _ := netip.AddrFromSlice(a.IP.To4()); addr {
		case kept:
			has = true
		case s.own:
			return has || s.hasKept(all), has, true
		}
	}
	return has, false, true
}

func (s spot) hasKept(all []netlink.Addr) bool {
	for _, a := range all {
		if a.IP.Equal(kept.AsSlice()) {
			return true
		}
	}
	return false
}

// reset forgets what was seen.
func (w *watch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = sightings{}
}

func (w *watch) all() sightings {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

func (s sightings) String() string {
	return fmt.Sprintf("%d looks: nobody had it %v, it was before the host's own %v, both hosts had it %d times", s.looks, s.away, s.ahead, s.both)
}
