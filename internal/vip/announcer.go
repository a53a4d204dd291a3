package vip

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// tooLate is for an announcer that was frozen: what it would say may not be so any more. For as long it believes that a
// leadership lasts, once it has asked. Arbitrary.
const tooLate = 500 * time.Millisecond

// noticesRetry is the pause before the kernel is asked again for notices that it has stopped. Arbitrary.
const noticesRetry = time.Second

// Leadership is what an announcer asks of the agent whose become-leader hook has started it.
type Leadership interface {
	// Holds asks now whether it lasts. The error is ErrOver if it does not; any other says that nobody knows.
	Holds() error
	// Watch calls again whenever neighbours may have learnt that another host has the addresses. It does not return.
	Watch(again func())
}

// ErrOver is returned when a leadership has ended.
var ErrOver = errors.New("the leadership has ended")

// announcer tells the neighbours on all ports of one leadership. One goroutine, loop, owns it; others send it what happens.
type announcer struct {
	leadership Leadership       // nil: none to ask
	isKept     bool             // its owner ends it; it has something to say for as long
	rival      func(netip.Addr) // is told of somebody else's claim; nil: nobody is
	rand       func() float64
	held       time.Duration // when it was last known to last
	list       func() ([]held, error)
	ports      []*port

	orders chan request
	heard  chan news
	again  chan struct{}
	links  <-chan netlink.LinkUpdate // nil: the kernel tells nothing
	retry  <-chan time.Time          // when it is asked again to do so
	done   chan struct{}
}

// port is an interface that has neighbours, and what they are told.
type port struct {
	index int
	wire  *wire
	rota  rota
	own   hardware // when it was looked at last
	isUp  bool     // it had a carrier then
}

// request is an order that somebody waits for.
type request struct {
	order
	taken chan error
}

// news is a frame that a port has got.
type news struct {
	port *port
	claim
}

// announceOn tells of the addresses of an order, and of those that come later, until nothing is left to say. A leadership that
// has ended, or of which nobody knows, is as good as none.
func announceOn(first order, leadership Leadership) error {
	a := newAnnouncer()
	defer a.close()
	if leadership != nil && leadership.Holds() == nil {
		a.leadership, a.held = leadership, now()
	}
	if err := a.take(first); err != nil {
		return err
	}
	if a.leadership != nil {
		if stop := a.gather(runName(os.Getenv)); stop != nil {
			defer stop()
		}
		a.subscribe()
		go a.leadership.Watch(a.nudge)
	}
	err := a.loop()
	if errors.Is(err, ErrOver) {
		return nil
	}
	return err
}

func (a *announcer) close() {
	close(a.done)
	for _, p := range a.ports {
		p.wire.close()
	}
}

// nudge begins all schedules anew, as soon as the loop comes to it.
func (a *announcer) nudge() {
	select {
	case a.again <- struct{}{}:
	default: // it is about to
	}
}

// loop ends when there is nothing to say any more.
func (a *announcer) loop() error {
	for {
		at, ok := a.next()
		if !ok {
			return nil
		}
		select {
		case <-time.After(at - now()):
			if err := a.speak(at); err != nil {
				return err
			}
		case n := <-a.heard:
			a.hear(n)
		case r := <-a.orders:
			r.taken <- a.take(r.order)
		case u, isOpen := <-a.links:
			if isOpen {
				a.look(u)
			} else {
				a.links, a.retry = nil, time.After(noticesRetry)
			}
		case <-a.retry:
			a.subscribe()
			a.beginAgain()
		case <-a.again:
			a.beginAgain()
		case <-a.done:
			return nil
		}
	}
}

// next is when there is something to say.
func (a *announcer) next() (at time.Duration, ok bool) {
	for _, p := range a.ports {
		if due, isDue := p.rota.next(); isDue && (!ok || due < at) {
			at, ok = due, true
		}
	}
	return at, ok
}

func (a *announcer) beginAgain() {
	for _, p := range a.ports {
		p.rota.again(now())
	}
}

// take adds the addresses of an order.
func (a *announcer) take(o order) error {
	i := slices.IndexFunc(a.ports, func(p *port) bool { return p.index == o.index })
	if i < 0 {
		w, err := openWire(o.index)
		if err != nil {
			return err
		}
		p := &port{index: o.index, wire: w, rota: rota{forever: a.isKept || a.leadership != nil, rand: a.rand}}
		if l, err := netlink.LinkByIndex(o.index); err == nil {
			p.see(link{l})
		}
		a.ports, i = append(a.ports, p), len(a.ports)
		go a.listen(p)
	}
	a.ports[i].rota.add(o.at, o.addresses, o.told)
	return nil
}

// listen hands on what a port gets, until the port is closed.
func (a *announcer) listen(p *port) {
	for {
		c, ok, err := p.wire.receive(time.Now().Add(time.Hour))
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil: // the interface goes down, say: that is told once
			select {
			case <-time.After(noticesRetry):
			case <-a.done:
				return
			}
		case ok:
			select {
			case a.heard <- news{port: p, claim: c}:
			case <-a.done:
				return
			}
		}
	}
}

// hear takes what was on the wire: a rival's claim, or what another process of this host has said.
func (a *announcer) hear(n news) {
	switch p := n.port; {
	case n.isSent:
		p.rota.heard(now())
	case n.by != p.own:
		p.rota.rival(now(), n.addr)
		if a.rival != nil {
			a.rival(n.addr)
		}
	}
}

// subscribe has the kernel tell of interfaces. Where it does not, the slow rounds are what is left.
func (a *announcer) subscribe() {
	links := make(chan netlink.LinkUpdate, 16)
	a.links, a.retry = links, nil
	if err := netlink.LinkSubscribeWithOptions(links, a.done, netlink.LinkSubscribeOptions{ErrorCallback: func(error) {}}); err != nil {
		a.links = nil
	}
}

// look begins anew where a carrier has come back, or the hardware address is another: a bond's or a bridge's may be. Nobody could
// hear us, or they know the old one.
func (a *announcer) look(u netlink.LinkUpdate) {
	l := link{u.Link}
	for _, p := range a.ports {
		if p.index != l.index() || u.Header.Type != unix.RTM_NEWLINK {
			continue
		}
		was := *p
		if p.see(l); p.isUp && (!was.isUp || p.own != was.own) {
			p.rota.again(now())
		}
	}
}

// see notes how the interface is.
func (p *port) see(l link) {
	p.own, _ = l.hardware()
	p.isUp = l.Attrs().RawFlags&unix.IFF_RUNNING != 0
}

// speak says what was due at a time. If that was long ago this process was frozen, and others may have the addresses: it is left
// out, and so is what the agent does not vouch for, or the kernel. The error is ErrOver.
func (a *announcer) speak(at time.Duration) error {
	if now() <= at+tooLate {
		switch err := a.holds(); {
		case errors.Is(err, ErrOver):
			return err
		case err == nil && now() <= at+tooLate && a.say() == nil:
			return nil
		}
	}
	for _, p := range a.ports {
		p.rota.skip(now())
	}
	return nil
}

// holds asks the agent, if it has not been asked for a while.
func (a *announcer) holds() error {
	if a.leadership == nil || now() <= a.held+tooLate {
		return nil
	}
	err := a.leadership.Holds()
	if err == nil {
		a.held = now()
	}
	return err
}

// say says all that is due and may go, of the addresses that are on their interfaces still, and forgets the others. An error
// says that the kernel does not tell which these are.
func (a *announcer) say() error {
	all, err := a.list()
	if err != nil {
		return err
	}
	for _, p := range a.ports {
		l, err := netlink.LinkByIndex(p.index)
		isGone := errors.As(err, &netlink.LinkNotFoundError{})
		if err != nil && !isGone {
			return err
		}
		isHere := func(addr netip.Addr) bool {
			return !isGone && slices.ContainsFunc(all, func(h held) bool { return h.LinkIndex == p.index && h.prefix.Addr() == addr })
		}
		for {
			addr, ok := p.rota.turn(now())
			if !ok {
				break
			}
			if !isHere(addr) {
				p.rota.drop(addr)
				continue
			}
			_ = p.wire.tell(link{l}, addr) // fails while the interface is down
		}
	}
	return nil
}
