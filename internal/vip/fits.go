package vip

import (
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
)

// Fits says, before any leader needs them, why addresses could not be kept on an interface as they are written. It changes
// nothing, and of an interface that is not there it says nothing. bound is that of NewKept: this agent may have them
// by now. Every error is a Complaint.
func Fits(addresses []netip.Prefix, name string, bound time.Duration) (faults []error) {
	found, err := netlink.LinkByName(name)
	if err != nil || len(addresses) == 0 {
		return nil
	}
	l := link{found}
	if err := l.takes(addresses); err != nil {
		return []error{err}
	}
	all, err := listHeld()
	if err != nil {
		return nil // whoever begins them says so
	}
	k := NewKept(addresses, name, bound, nil, nil)
	for _, p := range addresses {
		if err := k.may(l, p, all); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// Astray says which addresses no network of the interface has, though it has some of their family: a slip, unless routes lead to
// them. bound is that of Fits. Every error is a Complaint.
func Astray(addresses []netip.Prefix, name string, bound time.Duration) (doubts []error) {
	found, err := netlink.LinkByName(name)
	if err != nil {
		return nil
	}
	all, err := listHeld()
	if err != nil {
		return nil
	}
	l, k := link{found}, NewKept(addresses, name, bound, nil, nil)
	for _, p := range addresses {
		if err := k.astray(l, p, all); err != nil {
			doubts = append(doubts, err)
		}
	}
	return doubts
}

func (k *Kept) astray(l link, p netip.Prefix, all []held) error {
	var own []string
	for _, h := range all {
		addr := h.prefix.Addr()
		switch {
		case k.isOneOf(addr) || k.isOurs(h) || h.prefix.IsSingleIP():
		case h.prefix.Contains(p.Addr()):
			return nil // of another interface's Fits says what is wrong
		case h.LinkIndex == l.index() && family(addr) == family(p.Addr()) && !addr.IsLinkLocalUnicast():
			own = append(own, h.prefix.String())
		}
	}
	if len(own) == 0 || p.Addr().IsLinkLocalUnicast() {
		return nil
	}
	return complain(Elsewhere, "choose an address of such a network, or leave it so if routes lead to this one",
		"%s is in no network of %s, which has %s: no neighbour there looks for it", p.Addr(), l.name(), strings.Join(own, ", "))
}

// fits says why an address could not be kept: another interface has it, or its prefix is neither that of the interface's own
// network nor a single host's. The kernel would reach a network of another size through it.
func (l link) fits(p netip.Prefix, all []held) error {
	for _, h := range all {
		network := h.prefix.Masked()
		switch {
		case h.prefix.Addr() == p.Addr() && h.LinkIndex != l.index():
			return complain(Refused, "name that interface, or another address", "%s is on %s already", p.Addr(), h.nameOf())
		case h.prefix.Addr() == p.Addr() || h.LinkIndex != l.index() || !network.Contains(p.Addr()) || h.prefix.IsSingleIP():
		case p.Bits() != h.prefix.Bits() && !p.IsSingleIP():
			return complain(Refused, "write "+netip.PrefixFrom(p.Addr(), h.prefix.Bits()).String(),
				"%s has another prefix than %s on %s: expected /%d, or /%d", p, h.prefix, l.name(), h.prefix.Bits(), p.Addr().BitLen())
		}
	}
	return nil
}
