package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/advertise"
)

// LinkWatch calls saw with the host's links and addresses, at first and whenever they have changed, until ctx ends. An error
// says why there is nothing to watch.
type LinkWatch func(ctx context.Context, saw func(advertise.Sight)) error

// noticesWaiting is how many notices may wait for the watch; more wait in the
// socket. Arbitrary.
const noticesWaiting = 16

// linkRetry is the pause before the kernel is asked again for notices that it
// has stopped, which is what it does when they are not read fast enough.
const linkRetry = time.Second

var errNoNotices = errors.New("the kernel stopped its notices")

// watchLink runs until the life of the agent ends. Without links to watch the
// missing acknowledgements still tell a leader that it is alone.
func (a *agent) watchLink(ctx context.Context) {
	err := a.cfg.WatchLink(ctx, func(s advertise.Sight) {
		select {
		case a.sights <- s:
		case <-ctx.Done():
		}
	})
	if err != nil && ctx.Err() == nil {
		a.log.Debug("own links not watched", "err", err)
	}
}

// NetlinkWatch is the LinkWatch of a real host. The kernel needs no privilege
// for it.
func NetlinkWatch(ctx context.Context, saw func(advertise.Sight)) error {
	w := linkWatcher{saw: saw}
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

// linkWatcher tells of what differs from what it told last.
type linkWatcher struct {
	told   advertise.Sight
	held   map[place]bool // the addresses of that
	hasOne bool
	saw    func(advertise.Sight)
}

// place is an address on an interface.
type place struct {
	link int // its index
	addr netip.Addr
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

// wait returns when something may have changed, and leaves no notice of the same burst behind.
func (w *linkWatcher) wait(ctx context.Context, links <-chan netlink.LinkUpdate, addrs <-chan netlink.AddrUpdate) error {
	for isOpen, mayDiffer := true, false; isOpen; {
		if !mayDiffer {
			select {
			case _, isOpen = <-links:
				mayDiffer = true
			case u, open := <-addrs:
				isOpen, mayDiffer = open, !w.knows(u)
			case <-ctx.Done():
				return nil
			}
			continue
		}
		select {
		case _, isOpen = <-links:
		case _, isOpen = <-addrs:
		default:
			return nil
		}
	}
	return errNoNotices
}

// knows: an address is there still, and that was told. The kernel says so of each that is renewed, a kept one twice a second.
func (w *linkWatcher) knows(u netlink.AddrUpdate) bool {
	addr, ok := netip.AddrFromSlice(u.LinkAddress.IP)
	return ok && u.NewAddr && w.held[place{u.LinkIndex, addr.Unmap()}]
}

// look asks the kernel how things are, whatever it told: notices may be lost,
// and the last of several counts.
func (w *linkWatcher) look() error {
	s, held, err := readSight()
	if err != nil {
		return err
	}
	w.held = held
	if !w.hasOne || !reflect.DeepEqual(s, w.told) {
		w.told, w.hasOne = s, true
		w.saw(s)
	}
	return nil
}

// readSight asks the kernel for all links and their addresses.
func readSight() (s advertise.Sight, held map[place]bool, err error) {
	links, err := dumped("links", netlink.LinkList)
	if err != nil {
		return s, nil, err
	}
	addrs, err := dumped("addresses", func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return s, nil, err
	}
	held = map[place]bool{}
	for _, l := range links {
		const wanted = unix.IFF_UP | unix.IFF_LOWER_UP
		under := slices.IndexFunc(links, func(m netlink.Link) bool { return m.Attrs().Index == l.Attrs().MasterIndex })
		link := advertise.Link{Name: l.Attrs().Name, Down: l.Attrs().RawFlags&wanted != wanted, Inner: isInner(l, links)}
		if under >= 0 {
			link.Under = links[under].Attrs().Name
		}
		for _, a := range addrs {
			if ip, ok := netip.AddrFromSlice(a.IP); ok && a.LinkIndex == l.Attrs().Index {
				bits, _ := a.Mask.Size()
				link.Addrs, link.Networks = append(link.Addrs, ip.Unmap()), append(link.Networks, netip.PrefixFrom(ip.Unmap(), bits))
				held[place{a.LinkIndex, ip.Unmap()}] = true
			}
		}
		s.Links = append(s.Links, link)
	}
	s.Routes = [2]netip.Addr{OutgoingAddr(false), OutgoingAddr(true)}
	return s, held, nil
}

// isInner: l is a bridge, and nothing is plugged into it but what leads to containers and machines of this host.
func isInner(l netlink.Link, all []netlink.Link) bool {
	return l.Type() == "bridge" && !slices.ContainsFunc(all, func(port netlink.Link) bool {
		return port.Attrs().MasterIndex == l.Attrs().Index && port.Type() != "veth" && port.Type() != "tuntap"
	})
}

// dumped asks again when something changed while the kernel answered.
func dumped[T any](what string, list func() ([]T, error)) (all []T, err error) {
	for range 10 {
		all, err = list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", what, err)
	}
	return all, nil
}

// OutgoingAddr asks the kernel which address it would send from by the default route; invalid without one. Connecting a UDP
// socket sends nothing.
func OutgoingAddr(v6 bool) netip.Addr {
	// Addresses for documentation (RFC 5737, RFC 3849): routed by the default route, and nobody's.
	network, anywhere := "udp4", "198.51.100.1:9"
	if v6 {
		network, anywhere = "udp6", "[2001:db8::1]:9"
	}
	conn, err := net.Dial(network, anywhere)
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
}

// placeTrouble says what is wrong with where this host is reached, and what mends it; "": nothing is.
func placeTrouble(p advertise.Place, v advertise.View, sharers []string) (trouble, remedy string) {
	goesOn := "the agent looks by itself, and goes on with the first address that others can reach"
	switch v.Trouble {
	case advertise.Gone:
		remedy = "put the address back, and the agent goes on; or restart it with another bind or advertise"
		if !p.IsFixed {
			remedy = "put the address back, or another one on " + v.Link + ": " + goesOn
		}
		return fmt.Sprintf("%v, at which the others reach this host, is on no interface of it any more", p.Addr), remedy
	case advertise.Down:
		return fmt.Sprintf("%s, which has %v, at which the others reach this host, is down or has no carrier", v.Link, p.Addr),
			"see ip link, the cable and the switch; the agent goes on when it is up"
	case advertise.Loopback:
		return fmt.Sprintf("this host has no address but %v, which only it can reach", p.Addr),
			"see ip addr, DHCP and the cable; " + goesOn
	case advertise.Shared:
		return fmt.Sprintf("%v, at which the others reach this host, is where %s is reached, too", p.Addr, strings.Join(sharers, ", ")),
			"set bind or advertise to an address that no other host has"
	case advertise.Inner:
		return fmt.Sprintf("%v, at which the others reach this host, is on %s, a bridge that leads to nothing outside of it", p.Addr, v.Link),
			"see ip addr, DHCP and the cable; or set bind or advertise; " + goesOn
	}
	return "", ""
}

// levelOf is how a change of the own link is logged.
func levelOf(up bool) hclog.Level {
	if up {
		return hclog.Info
	}
	return hclog.Warn
}
