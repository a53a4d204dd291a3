// Package lantest is a LAN in memory whose cables can be pulled. Its hosts have
// the methods of transport.Transport, so an agent runs on it unchanged, and in a
// testing/synctest bubble an hour of theirs takes seconds.
//
// memberlist's own MockTransport will not do: it blocks for ever on a peer that
// was shut down, and knows neither loss nor delay (protocol 6.2, P18).
package lantest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// How long a datagram takes from host to host until SetDelay says otherwise: a
// switched LAN, with a little reordering.
const (
	defaultLeast = 100 * time.Microsecond
	defaultMost  = 300 * time.Microsecond
)

// LAN is a network of Hosts. All methods may be called at any time, from any
// goroutine.
//
// It starts no goroutine: a datagram under way is a timer. Inside a bubble it
// must have been made in that bubble.
type LAN struct {
	mu       sync.Mutex
	rand     *rand.Rand
	hosts    map[netip.AddrPort]*Host  // those that run
	names    map[netip.AddrPort]string // of all that ever ran: a cable outlives what hangs on it
	cables   map[link]cable
	isolated map[string]bool
	least    time.Duration
	most     time.Duration
	loss     float64
	double   float64
	onBytes  func(Sent)
}

// Sent is what was put on the wire, before it is lost or doubled: a datagram, or what
// was written to a stream at one time.
type Sent struct {
	From, To netip.AddrPort
	Data     []byte
	Stream   bool
}

// link is one direction between two hosts, by name.
type link struct{ from, to string }

// cable is what is wrong with a link; the zero value is a good one.
type cable struct {
	noUDP, noTCP bool
	loss         float64
}

// New makes a LAN without hosts. All chance in it comes from seed; with several
// goroutines sending at once the order of the draws is still theirs.
func New(seed uint64) *LAN {
	return &LAN{
		rand:     rand.New(rand.NewPCG(seed, 0)),
		hosts:    make(map[netip.AddrPort]*Host),
		names:    make(map[netip.AddrPort]string),
		cables:   make(map[link]cable),
		isolated: make(map[string]bool),
		least:    defaultLeast,
		most:     defaultMost,
	}
}

// Host plugs in a host. Names tell which cables are its own; the name and the
// address of a host that was shut down may be used again, which is a restart.
func (l *LAN) Host(name string, addr netip.AddrPort) *Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, taken := l.hosts[addr]; taken {
		panic(fmt.Sprintf("lantest: host %s: address %s belongs to host %s, which is still running", name, addr, other.name))
	}
	h := newHost(l, name, addr)
	l.hosts[addr] = h
	l.names[addr] = name
	return h
}

// Move gives a host another address in place of the one that it has: what is sent to that reaches nobody any more.
func (l *LAN) Move(h *Host, to netip.AddrPort) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hosts, h.Addr())
	h.addr.Store(&to)
	l.hosts[to], l.names[to] = h, h.name
}

// SetDelay makes every datagram take a time between least and most, drawn anew
// for each: where they differ, datagrams overtake each other.
func (l *LAN) SetDelay(least, most time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.least, l.most = least, most
}

// SetLoss loses datagrams with probability p, on every link.
func (l *LAN) SetLoss(p float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loss = p
}

// SetLinkLoss loses datagrams in one direction with probability p, beside what
// SetLoss loses.
func (l *LAN) SetLinkLoss(from, to string, p float64) {
	l.change(from, to, func(c *cable) { c.loss = p })
}

// SetDuplicate delivers datagrams twice with probability p.
func (l *LAN) SetDuplicate(p float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.double = p
}

// Cut stops everything in one direction. Datagrams under way are lost; streams
// stall, for good even after Heal, and new ones are not established.
func (l *LAN) Cut(from, to string) {
	l.change(from, to, func(c *cable) { c.noUDP, c.noTCP = true, true })
}

// CutUDP stops datagrams in one direction and lets streams pass (P19).
func (l *LAN) CutUDP(from, to string) {
	l.change(from, to, func(c *cable) { c.noUDP = true })
}

// Partition cuts, both ways, between any two hosts of different groups. Hosts in
// no group keep their cables.
func (l *LAN) Partition(groups ...[]string) {
	for i, group := range groups {
		others := slices.Concat(slices.Concat(groups[:i]...), slices.Concat(groups[i+1:]...))
		for _, from := range group {
			for _, to := range others {
				l.Cut(from, to)
			}
		}
	}
}

// Isolate pulls the host's own cable: it hears nobody and nobody hears it, hosts
// that are plugged in later included.
func (l *LAN) Isolate(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isolated[name] = true
}

// Plug puts back the cable that Isolate pulled.
func (l *LAN) Plug(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.isolated, name)
}

// Heal removes all cuts and isolations. Loss stays.
func (l *LAN) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.isolated)
	for at, c := range l.cables {
		c.noUDP, c.noTCP = false, false
		l.cables[at] = c
	}
}

// OnBytes calls f for all that is put on the wire, as somebody who listens there would
// see it; nil: no more. The sender's goroutine calls it: f may be called concurrently,
// and has the data for itself.
func (l *LAN) OnBytes(f func(Sent)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onBytes = f
}

// Forge puts a datagram on the wire that says to come from an address.
func (l *LAN) Forge(from, to netip.AddrPort, b []byte) { l.send(from, to, b) }

// overhear tells OnBytes.
func (l *LAN) overhear(from, to netip.AddrPort, b []byte, isStream bool) {
	l.mu.Lock()
	f := l.onBytes
	l.mu.Unlock()
	if f != nil {
		f(Sent{from, to, slices.Clone(b), isStream})
	}
}

func (l *LAN) change(from, to string, f func(*cable)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.cables[link{from, to}]
	f(&c)
	l.cables[link{from, to}] = c
}

// cable is the state of the way between two addresses. A host always reaches
// itself. The caller holds l.mu.
func (l *LAN) cable(from, to netip.AddrPort) cable {
	at := link{l.names[from], l.names[to]}
	switch {
	case from == to:
		return cable{}
	case l.isolated[at.from], l.isolated[at.to]:
		return cable{noUDP: true, noTCP: true}
	}
	return l.cables[at]
}

// send puts a copy of b on the wire. It never blocks and says nothing about its
// fate, like UDP.
func (l *LAN) send(from, to netip.AddrPort, b []byte) {
	l.mu.Lock()
	delays := l.fate(from, to)
	l.mu.Unlock()
	l.overhear(from, to, b, false)
	if len(delays) == 0 {
		return
	}
	d := datagram{from: from, data: slices.Clone(b)}
	for _, delay := range delays {
		time.AfterFunc(delay, func() { l.deliver(to, d) })
	}
}

// fate draws when the copies of one datagram arrive: none if it is lost. The
// caller holds l.mu.
func (l *LAN) fate(from, to netip.AddrPort) []time.Duration {
	c := l.cable(from, to)
	if c.noUDP || l.happens(l.loss) || l.happens(c.loss) {
		return nil
	}
	delays := []time.Duration{l.delay()}
	if l.happens(l.double) {
		delays = append(delays, l.delay())
	}
	return delays
}

func (l *LAN) happens(p float64) bool { return p > 0 && l.rand.Float64() < p }

func (l *LAN) delay() time.Duration {
	if l.most <= l.least {
		return l.least
	}
	return l.least + time.Duration(l.rand.Int64N(int64(l.most-l.least)+1))
}

// deliver hands d to whoever has the address by now: to a host that was
// restarted meanwhile, or to nobody. A cable that was cut takes with it what was
// on the way.
func (l *LAN) deliver(to netip.AddrPort, d datagram) {
	l.mu.Lock()
	h := l.hosts[to]
	if l.cable(d.from, to).noUDP {
		h = nil
	}
	l.mu.Unlock()
	if h != nil {
		h.receive(d)
	}
}

// streamsPass reports whether data of a stream gets from one address to the
// other.
func (l *LAN) streamsPass(from, to netip.AddrPort) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.cable(from, to).noTCP
}

// lookup finds the host that runs at an address, or nil.
func (l *LAN) lookup(addr netip.AddrPort) *Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hosts[addr]
}

// remove takes a host off the LAN unless another has its address by now.
func (l *LAN) remove(h *Host) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts[h.Addr()] == h {
		delete(l.hosts, h.Addr())
	}
}
