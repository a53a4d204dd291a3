package vip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// How addresses are kept, and how they go.

// keeper is one Keep.
type keeper struct {
	*Kept
	keeping
	link  link
	lost  []netip.Prefix // what is missing, and may be put there now
	ahead []held         // what is there, and has become the interface's first
	tells *announcer     // nil: nobody is told

	addrs  chan netlink.AddrUpdate
	links  chan netlink.LinkUpdate
	closed chan struct{} // of the subscriptions
}

// Keep sees to it that they stay until ctx ends. Else it gives the reason why they cannot be kept any more.
func (k *Kept) Keep(ctx context.Context) error {
	r := &keeper{Kept: k}
	defer r.close()
	r.subscribe()
	renewal := time.NewTicker(k.bound / 4)
	defer renewal.Stop()
	if l, err := find(k.name); err == nil {
		r.link = l
		r.announce()
	}
	for {
		until, err := r.look()
		if err != nil {
			return err
		}
		if !r.wait(ctx, until, renewal.C) {
			return nil
		}
	}
}

// wait returns when it is time to look, and does what is due meanwhile; false: ctx has ended.
func (r *keeper) wait(ctx context.Context, until time.Time, renewals <-chan time.Time) bool {
	var late <-chan time.Time
	if !until.IsZero() {
		late = time.After(time.Until(until))
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-renewals:
			r.renewOurs()
		case <-late:
		case <-r.wake:
			r.again()
		case u, isOpen := <-r.addrs:
			if isOpen && r.isStill(u) {
				continue
			}
			r.heed(isOpen)
		case _, isOpen := <-r.links:
			r.heed(isOpen)
		}
		return true
	}
}

// isStill: the kernel tells of an address that it has been given anew, as it does at each renewal of each.
func (r *keeper) isStill(u netlink.AddrUpdate) bool {
	addr, ok := netip.AddrFromSlice(u.LinkAddress.IP)
	return ok && u.NewAddr && r.away.IsZero() && r.isOneOf(addr.Unmap())
}

func (r *keeper) close() {
	r.unsubscribe()
	r.hush()
}

// unsubscribe returns when the subscriptions' goroutines have ended, which may be about to send.
func (r *keeper) unsubscribe() {
	if r.closed == nil {
		return
	}
	close(r.closed)
	if r.addrs != nil {
		for range r.addrs {
		}
	}
	if r.links != nil {
		for range r.links {
		}
	}
}

// subscribe has the kernel tell of addresses and interfaces. Where it does not, the renewals look.
func (r *keeper) subscribe() {
	r.unsubscribe()
	r.closed, r.addrs, r.links = make(chan struct{}), make(chan netlink.AddrUpdate, 64), make(chan netlink.LinkUpdate, 64)
	ignore := func(error) {}
	if err := netlink.AddrSubscribeWithOptions(r.addrs, r.closed, netlink.AddrSubscribeOptions{ErrorCallback: ignore}); err != nil {
		r.addrs = nil
	}
	if err := netlink.LinkSubscribeWithOptions(r.links, r.closed, netlink.LinkSubscribeOptions{ErrorCallback: ignore}); err != nil {
		r.links = nil
	}
}

// heed subscribes anew when the kernel has lost count of what it had to tell. What is so is looked at in any case.
func (r *keeper) heed(isOpen bool) {
	if !isOpen {
		time.Sleep(subscribePause)
		r.subscribe()
		return
	}
	drain(r.addrs)
	drain(r.links)
}

// drain forgets what has come: one look is enough for all of it. Each renewal of an address is told, too.
func drain[T any](updates chan T) {
	for {
		select {
		case _, isOpen := <-updates:
			if !isOpen {
				return // the next wait sees it
			}
		default:
			return
		}
	}
}

// subscribePause keeps a kernel that closes each subscription from making a host busy. Arbitrary.
const subscribePause = 50 * time.Millisecond

// look sees how it is, and puts back what is missing.
func (r *keeper) look() (until time.Time, err error) {
	if r.paused() != nil {
		r.keeping = keeping{}
		return time.Time{}, nil
	}
	s, err := r.see()
	if err != nil {
		return time.Now().Add(subscribePause), nil // the kernel does not tell: the next look may
	}
	puts, until, failed := r.keeping.look(time.Now(), s)
	if failed != nil || !puts {
		return until, failed
	}
	if err = r.stepBack(); err == nil {
		err = r.renew(r.link, r.lost, r.paused)
	}
	if errors.Is(err, errPaused) {
		return time.Time{}, nil
	}
	r.put(time.Now(), err)
	if err != nil {
		return time.Now().Add(subscribePause), nil
	}
	r.noteputs()
	r.announce()
	return time.Now(), nil
}

// stepBack takes off what has become the interface's first, to be put back behind the interface's own.
func (r *keeper) stepBack() error {
	if len(r.ahead) == 0 {
		return nil
	}
	all, err := listHeld()
	if err != nil {
		return err
	}
	for _, h := range r.ahead {
		if err := r.link.remove(h); err != nil {
			return err
		}
		r.lost = append(r.lost, h.prefix)
	}
	return r.link.keep(all, r.ahead)
}

func (r *keeper) noteputs() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ahead) > 0 {
		r.note(fmt.Sprintf("put behind the own address of %s, which had come back", r.name))
		return
	}
	r.state = keptState{puts: r.state.puts + 1, last: time.Now()}
	r.note(fmt.Sprintf("put back on %s, from which something has taken it", r.name))
}

// see asks the kernel.
func (r *keeper) see() (sight, error) {
	s := sight{name: r.name}
	found, err := netlink.LinkByName(r.name)
	switch {
	case errors.As(err, &netlink.LinkNotFoundError{}):
		s.missing = len(r.addresses)
		return s, nil
	case err != nil:
		return s, err
	}
	all, err := listHeld()
	if err != nil {
		return s, err
	}
	r.link, r.lost, r.ahead = link{found}, nil, nil
	flags := found.Attrs().RawFlags
	s.isThere, s.isUp, s.hasCarrier = true, flags&unix.IFF_UP != 0, flags&unix.IFF_RUNNING != 0
	owns := r.owns(r.link, all)
	r.hadOwn = [2]bool{r.hadOwn[0] || owns[0], r.hadOwn[1] || owns[1]}
	if owns[0] {
		r.ahead = r.isAhead(all)
	}
	for _, p := range r.addresses {
		if slices.ContainsFunc(all, func(h held) bool { return h.LinkIndex == r.link.index() && h.prefix == p }) {
			continue
		}
		s.missing++
		if f := family(p.Addr()); owns[f] || !r.hadOwn[f] {
			r.lost = append(r.lost, p)
		}
	}
	s.mayBe, s.isAhead = len(r.lost) > 0, len(r.ahead) > 0
	return s, nil
}

// isAhead gives the kept addresses of IPv4 that the kernel has before the first one of the interface's own: those come first that
// were there first. Of IPv6 the order says nothing: what is kept is deprecated, and nothing sends from it by itself.
func (r *keeper) isAhead(all []held) (ahead []held) {
	for _, h := range all {
		switch addr := h.prefix.Addr(); {
		case h.LinkIndex != r.link.index() || addr.Is6() || addr.IsLinkLocalUnicast():
		case r.isOneOf(addr):
			ahead = append(ahead, h)
		case !r.isOurs(h):
			return ahead
		}
	}
	return nil
}

// renewOurs has the kernel keep what is there. What is missing is look's matter, except while nothing is put back.
func (r *keeper) renewOurs() {
	if r.link.Link == nil {
		return // the interface went before the first look
	}
	all, err := listHeld()
	if err != nil {
		return
	}
	there := slices.DeleteFunc(slices.Clone(r.addresses), func(p netip.Prefix) bool {
		return !slices.ContainsFunc(all, func(h held) bool { return h.prefix == p && h.LinkIndex == r.link.index() && r.isOurs(h) })
	})
	_ = r.renew(r.link, there, r.late) // what fails is missing soon, and seen then
}

// announce begins to tell the neighbours, anew.
func (r *keeper) announce() {
	r.hush()
	own, tells := r.link.hardware()
	if !tells || r.paused() != nil {
		return
	}
	a := newAnnouncer()
	a.isKept, a.rival = true, r.onRival
	a.list = func() ([]held, error) {
		if err := r.paused(); err != nil {
			return nil, err
		}
		return listHeld()
	}
	o := order{index: r.link.index(), at: now()}
	for _, p := range r.addresses {
		o.addresses = append(o.addresses, p.Addr())
	}
	if err := a.take(o); err != nil {
		r.note(fmt.Sprintf("the neighbours are not told: %v", err))
		return
	}
	r.tells = a
	for _, p := range r.addresses[:min(len(r.addresses), burst/2)] { // a rival answers, and is heard
		question := arpProbe
		if p.Addr().Is6() {
			question = ndpProbe
		}
		_ = a.ports[0].wire.send(question(own, p.Addr()))
	}
	a.subscribe()
	r.spawn(func() { _ = a.loop() })
}

func (r *keeper) again() {
	if r.tells != nil {
		r.tells.nudge()
	}
}

// hush ends the telling.
func (r *keeper) hush() {
	if r.tells != nil {
		r.tells.close()
		r.tells = nil
	}
}

// onRival counts a claim of somebody else's. Epochs decide who has the addresses, and no frame of a neighbour.
func (r *keeper) onRival(addr netip.Addr) {
	if !r.isOneOf(addr) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if line := r.rivals.count(addr); line != "" {
		r.note(line)
	}
}

// End takes them off the interface, and ends the connections to them: clients that only read would not notice. An address that
// this agent has not put there stays, and is an error.
func (k *Kept) End(ctx context.Context) error {
	k.isPaused.Store(true)
	all, err := listHeld()
	if err != nil {
		return err
	}
	if by, isBound := ctx.Deadline(); !isBound || time.Until(by) > roomForConnections {
		k.endConnections() // while the kernel can tell the other side
	}
	failed := k.takeAll(all)
	if failed == nil {
		failed = k.verify()
	}
	k.endConnections() // those that have come meanwhile
	k.forgetFlows()
	return failed
}

// roomForConnections is what an end must have for that: of many thousands the list alone takes its time, and a lease that is
// lost waits for nobody.
const roomForConnections = time.Second

// takeAll takes off what is ours of them, wherever it is.
func (k *Kept) takeAll(all []held) (failed error) {
	on := map[int][]held{} // by the interface
	for _, h := range all {
		if k.isOneOf(h.prefix.Addr()) {
			on[h.LinkIndex] = append(on[h.LinkIndex], h)
		}
	}
	for index, some := range on {
		if found, err := netlink.LinkByIndex(index); err == nil { // else it has gone with its addresses
			failed = errors.Join(failed, k.takeFrom(link{found}, some, all))
		}
	}
	return failed
}

// takeFrom takes off what is ours on one interface.
func (k *Kept) takeFrom(l link, some, all []held) (failed error) {
	var removed []held
	for _, h := range some {
		switch {
		case k.isOurs(h):
			removed = append(removed, h)
			failed = errors.Join(failed, l.remove(h))
		case l.name() == k.name:
			failed = errors.Join(failed, l.foreign(h))
		}
	}
	return errors.Join(failed, l.keep(all, removed))
}

func (k *Kept) isOneOf(addr netip.Addr) bool {
	return slices.ContainsFunc(k.addresses, func(p netip.Prefix) bool { return p.Addr() == addr })
}

// verify looks whether the kernel has them still.
func (k *Kept) verify() error {
	all, err := listHeld()
	for _, h := range all {
		if k.isOneOf(h.prefix.Addr()) && k.isOurs(h) {
			return fmt.Errorf("%s has %s still", h.nameOf(), h.prefix)
		}
	}
	return err
}

// endConnections ends the connections to the addresses.
func (k *Kept) endConnections() {
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, err := netlink.SocketDiagTCP(family)
		if err != nil {
			continue // a kernel that does not tell
		}
		k.destroy(sockets)
	}
}

func (k *Kept) destroy(sockets []*netlink.Socket) {
	for _, s := range sockets {
		from, ok := netip.AddrFromSlice(s.ID.Source)
		if !ok || !k.isOneOf(from.Unmap()) || s.ID.DestinationPort == 0 || s.State == netlink.TCP_TIME_WAIT { // which some kernels refuse to end
			continue
		}
		if err := destroySocket(s); errors.Is(err, unix.EOPNOTSUPP) {
			k.note("connections to addresses that have gone are not ended: this kernel cannot")
			return
		}
	}
}

func newAnnouncer() *announcer {
	return &announcer{list: listHeld, orders: make(chan request), heard: make(chan news), again: make(chan struct{}, 1), done: make(chan struct{}), rand: rand.Float64}
}
