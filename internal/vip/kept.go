package vip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Kept is addresses that this host has for as long as it leads. What takes them away, a restart of a network manager, say, does
// so for a moment: they are put back. The neighbours are told of them for as long.
//
// The kernel has them for bound only, and that is renewed: should this process be killed, and nobody take its place, they end by
// themselves. By this Kept knows its own: what has no such short life was put there by somebody else, and is never taken away.
//
// Its owner calls Begin, Keep and End one at a time, Pause, Again and State at any time.
type Kept struct {
	addresses []netip.Prefix
	name      string        // of the interface
	bound     time.Duration // that the kernel has them after the last renewal
	note      func(string)
	holds     func() bool  // as in NewKept
	spawn     func(func()) // starts a goroutine; tests have it live in another network namespace

	isPaused atomic.Bool
	wake     chan struct{} // holds a token when Keep is to look around
	hadOwn   [2]bool       // by family: the interface had an address of its own when they came, and they are not to be its first

	mu     sync.Mutex
	state  keptState
	rivals claimed
}

type keptState struct {
	puts int       // times that they were put back
	last time.Time // the last of these
}

// NewKept makes a Kept of which nothing is there yet. bound is in whole seconds, rounded up; note gets what is worth a line in
// the log. holds says whether the lease still holds by which they are kept: whoever was frozen, or suspended, past its end wakes
// up where another host has them. Any goroutine calls both.
func NewKept(addresses []netip.Prefix, name string, bound time.Duration, holds func() bool, note func(string)) *Kept {
	return &Kept{addresses: addresses, name: name, bound: max(bound, shortestBound), holds: holds, note: note, spawn: func(f func()) { go f() }, wake: make(chan struct{}, 1)}
}

// shortestBound leaves room for some renewals.
const shortestBound = 2 * time.Second

// life is the bound in whole seconds.
func (k *Kept) life() int { return int((k.bound + time.Second - 1) / time.Second) }

// isOurs: it has a life that only this program gives to an address.
func (k *Kept) isOurs(h held) bool {
	return h.Flags&unix.IFA_F_PERMANENT == 0 && h.ValidLft <= max(k.life(), longestBound)
}

// longestBound is what another configuration of this agent may have given to an address. No lease of a DHCP server is as short.
const longestBound = 30 // seconds

// Begin has the interface answer for the addresses; Keep tells the neighbours. Once ctx has ended no further address comes.
func (k *Kept) Begin(ctx context.Context) error {
	k.isPaused.Store(false)
	l, err := find(k.name)
	if err != nil {
		return err
	}
	if err := l.takes(k.addresses); err != nil {
		return err
	}
	all, err := listHeld()
	if err != nil {
		return err
	}
	for _, p := range k.addresses {
		if err := k.may(l, p, all); err != nil {
			return err
		}
	}
	k.hadOwn = k.owns(l, all)
	return k.renew(l, k.addresses, ctx.Err)
}

// may says why an address cannot be put on the interface.
func (k *Kept) may(l link, p netip.Prefix, all []held) error {
	if err := l.fits(p, all); err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(h held) bool { return h.LinkIndex == l.index() && h.prefix.Addr() == p.Addr() })
	switch {
	case i < 0:
		return l.claims(p, all)
	case k.isOurs(all[i]):
		return nil
	}
	return l.foreign(all[i])
}

// foreign refuses an address that this agent has not put there.
func (l link) foreign(h held) error {
	return complain(Host, fmt.Sprintf("stop what put it there, such as keepalived, or, if nothing needs it, ip addr del %s dev %s", h.prefix, l.name()),
		"%s has %s already, and not by this agent", l.name(), h.prefix)
}

// owns says of each family whether the interface has an address that nobody keeps there.
func (k *Kept) owns(l link, all []held) (has [2]bool) {
	for _, h := range all {
		addr := h.prefix.Addr()
		if h.LinkIndex == l.index() && !k.isOneOf(addr) && !k.isOurs(h) && !addr.IsLinkLocalUnicast() {
			has[family(addr)] = true
		}
	}
	return has
}

// family is 0 for an address of IPv4, 1 for one of IPv6.
func family(addr netip.Addr) int {
	if addr.Is6() {
		return 1
	}
	return 0
}

// renew puts the addresses on the interface, or has the kernel keep those that are there. An error of stop, which is asked
// before each, ends it.
func (k *Kept) renew(l link, addresses []netip.Prefix, stop func() error) error {
	for _, p := range addresses {
		if err := stop(); err != nil {
			return err
		}
		a := asNetlink(p)
		a.ValidLft, a.PreferedLft = k.life(), k.life()
		if p.Addr().Is6() {
			a.Flags, a.PreferedLft = unix.IFA_F_NODAD, 0
		}
		if err := netlink.AddrReplace(l, a); err != nil {
			return lacks(err, "keep "+p.String()+" on "+l.name(), "CAP_NET_ADMIN")
		}
	}
	return nil
}

// Pause has nothing put back and nothing announced from now on, until the next Begin. What is there stays, until End.
func (k *Kept) Pause() { k.isPaused.Store(true) }

var errPaused = errors.New("nothing is put back or announced any more")

func (k *Kept) paused() error {
	if k.isPaused.Load() {
		return errPaused
	}
	return k.late()
}

// late: the lease has ended. The kernel takes off what is there then, unless it is renewed.
func (k *Kept) late() error {
	if !k.holds() {
		return errPaused
	}
	return nil
}

// Again has what is missing put back, as it is not while the lease has ended, and the neighbours told once more: they may have learnt another host.
func (k *Kept) Again() { k.nudge() }

func (k *Kept) nudge() {
	select {
	case k.wake <- struct{}{}:
	default: // it is about to
	}
}

// State says what has become of them, in one line; empty: nothing is worth a word.
func (k *Kept) State() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	others := k.rivals.of(k.addresses)
	switch puts := fmt.Sprintf("put back %s, last %s", count(k.state.puts), k.state.last.Format(time.TimeOnly)); {
	case k.state.puts == 0:
		return others
	case others == "":
		return puts
	default:
		return puts + "; " + others
	}
}
