package vip

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Add has the interface answer for the addresses from now on, and tells the neighbours: once before it returns, and then
// from a process of its own. What is there already stays as it is, and is told again. note gets what is worth a line and
// is no failure.
//
// If probes, nothing is added when somebody else answers for one of the addresses; asking takes a quarter of a second.
//
// Every error is a Complaint, and nothing has changed then.
func Add(addresses []netip.Prefix, name string, probes bool, note func(string)) error {
	l, err := find(name)
	if err != nil {
		return err
	}
	if err := l.takes(addresses); err != nil {
		return err
	}
	missing, err := l.survey(addresses, note)
	if err != nil {
		return err
	}
	own, tells := l.hardware()
	if !tells {
		note(l.name() + " has no neighbours that could be told or asked: it has no Ethernet address, or does not use ARP")
		return l.addAll(missing)
	}
	w, err := openWire(l.index())
	if err != nil {
		return err
	}
	defer w.close()
	if probes {
		if err := w.probe(own, addresses); err != nil {
			return err
		}
	}
	if err := l.addAll(missing); err != nil {
		return err
	}
	announce(l, w, addresses, note)
	return nil
}

// survey says which of the addresses are not on the interface yet. It refuses what is another interface's.
func (l link) survey(addresses []netip.Prefix, note func(string)) (missing []netip.Prefix, err error) {
	all, err := listHeld()
	if err != nil {
		return nil, err
	}
	for _, p := range addresses {
		i := slices.IndexFunc(all, func(h held) bool { return h.prefix.Addr() == p.Addr() && h.LinkIndex == l.index() })
		if i < 0 {
			if err := l.claims(p, all); err != nil {
				return nil, err
			}
			missing = append(missing, p)
		} else if all[i].isHosts(p) {
			return nil, l.ofHost(all[i])
		} else if all[i].prefix != p {
			note(fmt.Sprintf("%s has %s already, and keeps it", l.name(), all[i].prefix))
		}
	}
	return missing, nil
}

// isHosts: the address is there as one of the host's own network, and Add was asked for another prefix: it has not put it
// there. A slip in a hook is the same on all hosts, and would take the address off that it is of.
func (h held) isHosts(p netip.Prefix) bool {
	return p.IsValid() && h.prefix.Bits() < p.Bits()
}

func (l link) ofHost(h held) error {
	return complain(Refused, fmt.Sprintf("name another address; or if it is one that moves, write %s", h.prefix),
		"%s has %s as an address of this host", l.name(), h.prefix)
}

// claims refuses an address that another interface has, whose neighbours are another interface's, or that is no host's in a
// network that this host is in, whatever prefix it came with.
func (l link) claims(p netip.Prefix, all []held) error {
	ip := p.Addr()
	beyond := -1
	for i, h := range all {
		if h.prefix.Contains(ip) && !h.prefix.Addr().IsLoopback() {
			if err := fit(netip.PrefixFrom(ip, h.prefix.Bits()), ip.String()); err != nil {
				return err
			}
		}
		switch isOurs := h.LinkIndex == l.index(); {
		case ip.IsLinkLocalUnicast() && h.prefix.Addr().IsLinkLocalUnicast(): // every interface has that network, and addresses of its own in it
		case h.prefix.Addr() == ip:
			return complain(Refused, fmt.Sprintf("name %s, or bully-agent vip del %s %s", h.nameOf(), ip, h.nameOf()), "%s has %s already", h.nameOf(), h.prefix)
		case !h.prefix.Contains(ip):
		case isOurs:
			beyond = -2
		case beyond == -1:
			beyond = i
		}
	}
	if beyond < 0 {
		return nil
	}
	h := all[beyond]
	return complain(Elsewhere, fmt.Sprintf("name %s, or choose an address of %s's network", h.nameOf(), l.name()),
		"%s is in %s, the network of %s: its neighbours are not %s's", ip, h.prefix.Masked(), h.nameOf(), l.name())
}

// addAll adds all or none.
func (l link) addAll(missing []netip.Prefix) error {
	var added []netip.Prefix
	for _, p := range missing {
		isNew, err := l.add(p)
		if err != nil {
			for _, p := range added {
				_ = l.remove(held{Addr: *asNetlink(p), prefix: p}) // it would fail as the adding does
			}
			return err
		}
		if isNew {
			added = append(added, p)
		}
	}
	return nil
}

// Remove takes the addresses off the interface, except for one that isHosts. One that is not there is as good, and so
// is an interface that is not: it may be unplugged. But then no other may have the address, or the name was wrong.
//
// Every error is a Complaint. All that could be removed is then.
func Remove(addresses []netip.Prefix, name string, note func(string)) error {
	l, missing := find(name)
	if c := (*Complaint)(nil); errors.As(missing, &c) && c.Class != Absent {
		return missing
	}
	all, err := listHeld()
	if err != nil {
		return err
	}
	var failed error
	var removed []held
	for _, p := range addresses {
		for _, h := range all {
			switch {
			case h.prefix.Addr() != p.Addr():
			case missing != nil:
				return complain(Host, "name "+h.nameOf(), "%v, and %s has %s", missing, h.nameOf(), h.prefix)
			case h.LinkIndex != l.index():
			case h.isHosts(p):
				failed = cmp.Or(failed, l.ofHost(h))
			default:
				removed = append(removed, h)
				failed = cmp.Or(failed, l.remove(h))
			}
		}
	}
	if missing != nil {
		note(missing.Error() + ", so it has none of the addresses")
		return nil
	}
	return cmp.Or(failed, l.keep(all, removed))
}

// keep puts back what the kernel has taken with an address that was the first of its network: where promote_secondaries
// is 0, all that came after it.
func (l link) keep(before, removed []held) error {
	if len(removed) == 0 {
		return nil
	}
	after, err := listHeld()
	if err != nil {
		return err
	}
	for _, h := range before {
		is := func(other held) bool { return other.LinkIndex == h.LinkIndex && other.prefix == h.prefix }
		if h.LinkIndex != l.index() || slices.ContainsFunc(removed, is) || slices.ContainsFunc(after, is) {
			continue
		}
		h.Flags &^= unix.IFA_F_SECONDARY
		if err := netlink.AddrReplace(l, &h.Addr); err != nil {
			return lacks(err, "put "+h.prefix.String()+" back on "+l.name(), "CAP_NET_ADMIN")
		}
	}
	return nil
}
