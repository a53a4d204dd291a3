package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
)

// LinkWatch watches the link of this host that has an address, until ctx ends.
// It calls changed(false) when the carrier or the address is lost or the
// interface set down, changed(true) when all are back, and no other time: it
// begins with "up". An error says why there is nothing to watch.
type LinkWatch func(ctx context.Context, addr netip.Addr, changed func(up bool)) error

// noticesWaiting is how many notices may wait for the watch; more wait in the
// socket. Arbitrary.
const noticesWaiting = 16

// linkRetry is the pause before the kernel is asked again for notices that it
// has stopped, which is what it does when they are not read fast enough.
const linkRetry = time.Second

var (
	errLoopback  = errors.New("a loopback address has no link to lose")
	errNotOurs   = errors.New("no interface of this host has this address")
	errNoNotices = errors.New("the kernel stopped its notices")
	errNoAddress = errors.New("no address says which link is meant")
)

// watchLink runs until the life of the agent ends. Without a link to watch the
// missing acknowledgements still tell a leader that it is alone.
func (a *agent) watchLink(ctx context.Context) {
	addr := a.linkAddr()
	err := a.cfg.WatchLink(ctx, addr, func(up bool) {
		select {
		case a.links <- up:
		case <-ctx.Done():
		}
	})
	if err != nil && ctx.Err() == nil {
		a.log.Debug("own link not watched", "addr", addr, "err", err)
	}
}

// linkAddr says by its address which link is watched: the one that is bound, or
// with a wildcard the one that others are told.
func (a *agent) linkAddr() netip.Addr {
	if bound := a.lan.Addr().Addr(); !bound.IsUnspecified() {
		return bound
	}
	return a.view.self.Addr.Addr()
}

// onLink: a leader that cannot be heard steps down, and a host that is back
// looks for the others.
func (a *agent) onLink(up bool) {
	cause, level, text := election.LinkLost, hclog.Warn, "own link lost"
	if up {
		cause, level, text = election.LinkBack, hclog.Info, "own link came back"
	}
	a.isCut = !up
	a.log.Log(level, text, "addr", a.linkAddr())
	a.event(control.Event{Type: "link", Cause: string(cause), Text: text})
	a.seat.step(election.LinkChanged{Up: up})
	if up {
		a.members.Nudge()
	}
}

// linkTrouble says what is wrong with the link that was lost, and what mends it; "": nothing is, so it is about to come back,
// or nobody may ask. The kernel is asked now: a cable that was pulled first may have been followed by the interface.
func linkTrouble(addr netip.Addr) (trouble, remedy string) {
	index, up, err := findLink(addr)
	switch {
	case err != nil || up:
		return "", ""
	case index == 0:
		return fmt.Sprintf("%v, at which the others reach this host, is on no interface of it any more", addr),
			"put the address back, and the agent goes on; or restart it with another bind or advertise"
	}
	name := fmt.Sprintf("interface %d", index)
	if link, err := net.InterfaceByIndex(index); err == nil {
		name = link.Name
	}
	return fmt.Sprintf("%s, which has %v, at which the others reach this host, is down or has no carrier", name, addr),
		"see ip link, the cable and the switch; the agent goes on when it is up"
}

// NetlinkWatch is the LinkWatch of a real host. The kernel needs no privilege
// for it.
func NetlinkWatch(ctx context.Context, addr netip.Addr, changed func(up bool)) error {
	switch {
	case !addr.IsValid(), addr.IsUnspecified():
		return errNoAddress
	case addr.IsLoopback():
		return errLoopback
	}
	if index, _, err := findLink(addr); err != nil || index == 0 {
		return errors.Join(err, errNotOurs)
	}
	w := linkWatcher{addr: addr.Unmap(), changed: changed, up: true}
	for {
		err := w.watch(ctx)
		if !errors.Is(err, errNoNotices) {
			return err
		}
		select {
		case <-time.After(linkRetry):
		case <-ctx.Done():
			return nil
		}
	}
}

// linkWatcher knows the link by its address: an interface may go and come back
// under another number.
type linkWatcher struct {
	addr    netip.Addr
	index   int // of the interface; 0: none has the address
	up      bool
	changed func(up bool)
}

// watch looks once, and then whenever the kernel tells of a change. It returns
// nil when ctx ends.
func (w *linkWatcher) watch(ctx context.Context) error {
	done := make(chan struct{})
	links, addrs := make(chan netlink.LinkUpdate, noticesWaiting), make(chan netlink.AddrUpdate, noticesWaiting)
	if err := netlink.LinkSubscribe(links, done); err != nil {
		return fmt.Errorf("subscribe to links: %w", err)
	}
	if err := netlink.AddrSubscribe(addrs, done); err != nil {
		close(addrs)
		unsubscribe(done, links, addrs)
		return fmt.Errorf("subscribe to addresses: %w", err)
	}
	defer unsubscribe(done, links, addrs)
	for {
		if err := w.look(); err != nil {
			return err
		}
		if err := w.wait(ctx, links, addrs); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// unsubscribe returns when the subscriptions' goroutines have ended, which may
// be about to send.
func unsubscribe(done chan struct{}, links <-chan netlink.LinkUpdate, addrs <-chan netlink.AddrUpdate) {
	close(done)
	for range links {
	}
	for range addrs {
	}
}

// wait returns when something about our link may have changed.
func (w *linkWatcher) wait(ctx context.Context, links <-chan netlink.LinkUpdate, addrs <-chan netlink.AddrUpdate) error {
	for {
		select {
		case u, ok := <-links:
			switch {
			case !ok:
				return errNoNotices
			case int(u.Index) == w.index:
				return nil
			}
		case u, ok := <-addrs:
			switch {
			case !ok:
				return errNoNotices
			case isAddr(u.LinkAddress.IP, w.addr):
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// look asks the kernel how things are, whatever it told: notices may be lost,
// and the last of several counts.
func (w *linkWatcher) look() error {
	index, up, err := findLink(w.addr)
	if err != nil {
		return err
	}
	w.index = index
	if up != w.up {
		w.up = up
		w.changed(up)
	}
	return nil
}

// findLink gives the interface that has an address, 0 for none, and whether it
// is up and has a carrier.
func findLink(addr netip.Addr) (index int, up bool, err error) {
	all, err := listAddrs()
	if err != nil {
		return 0, false, err
	}
	for _, a := range all {
		if !isAddr(a.IP, addr) {
			continue
		}
		link, err := netlink.LinkByIndex(a.LinkIndex)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			continue // it went meanwhile
		}
		if err != nil {
			return 0, false, fmt.Errorf("ask for link %d: %w", a.LinkIndex, err)
		}
		const wanted = unix.IFF_UP | unix.IFF_LOWER_UP
		return a.LinkIndex, link.Attrs().RawFlags&wanted == wanted, nil
	}
	return 0, false, nil
}

// listAddrs asks again when something changed while the kernel answered.
func listAddrs() (all []netlink.Addr, err error) {
	for range 10 {
		all, err = netlink.AddrList(nil, netlink.FAMILY_ALL)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	return all, nil
}

func isAddr(ip net.IP, addr netip.Addr) bool {
	a, ok := netip.AddrFromSlice(ip)
	return ok && a.Unmap() == addr.Unmap()
}
