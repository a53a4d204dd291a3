package vip

import (
	"errors"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// link is an interface as it is now.
type link struct {
	netlink.Link
}

func (l link) name() string { return l.Attrs().Name }
func (l link) index() int   { return l.Attrs().Index }

// hardware is where neighbours send to; ok is false for an interface whose neighbours do not ask: a tunnel, say.
func (l link) hardware() (h hardware, ok bool) {
	a := l.Attrs()
	if len(a.HardwareAddr) != len(h) || a.RawFlags&(unix.IFF_NOARP|unix.IFF_POINTOPOINT|unix.IFF_LOOPBACK) != 0 {
		return hardware{}, false
	}
	return hardware(a.HardwareAddr), true
}

// find looks an interface up by its name, and says which there are if it is not there.
func find(name string) (link, error) {
	if l, err := netlink.LinkByName(name); err == nil {
		return link{l}, nil
	}
	all, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return link{}, complain(Host, "", "list interfaces: %v", err)
	}
	var names []string
	for _, l := range all {
		names = append(names, l.Attrs().Name)
	}
	slices.Sort(names)
	return link{}, complain(Absent, "this host has "+strings.Join(names, ", "), "there is no interface %s", strconv.Quote(name))
}

// Look says of an interface that is not there which ones are.
func Look(name string) error {
	_, err := find(name)
	return err
}

// takes says why no address can be added here now.
func (l link) takes(addresses []netip.Prefix) error {
	flags := l.Attrs().RawFlags
	switch {
	case flags&unix.IFF_LOOPBACK != 0:
		return complain(Host, "name the interface of the LAN", "%s is the loopback interface: nobody else would reach the address", l.name())
	case flags&unix.IFF_UP == 0:
		return complain(Host, "ip link set "+l.name()+" up", "%s is down", l.name())
	case !slices.ContainsFunc(addresses, func(p netip.Prefix) bool { return p.Addr().Is6() }):
		return nil
	}
	off, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv6/conf", l.name(), "disable_ipv6"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return complain(Host, "name IPv4 addresses only", "this kernel has no IPv6 on %s", l.name())
	case err == nil && strings.TrimSpace(string(off)) == "1":
		return complain(Host, "sysctl net.ipv6.conf."+strings.ReplaceAll(l.name(), ".", "/")+".disable_ipv6=0", "IPv6 is disabled on %s", l.name())
	}
	return nil
}

// isRouter reports whether neighbours may use this host as their IPv6 router.
func (l link) isRouter() bool {
	on, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv6/conf", l.name(), "forwarding"))
	return err == nil && strings.TrimSpace(string(on)) != "0"
}

// held is an address that some interface of this host has.
type held struct {
	netlink.Addr
	prefix netip.Prefix
}

// listHeld lists all addresses of this host. A list that others change meanwhile is read again.
func listHeld() (all []held, err error) {
	var found []netlink.Addr
	for range 10 {
		found, err = netlink.AddrList(nil, netlink.FAMILY_ALL)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, complain(Host, "", "list addresses: %v", err)
	}
	for _, a := range found {
		if a.IPNet == nil {
			continue
		}
		ip, ok := netip.AddrFromSlice(a.IP)
		bits, _ := a.Mask.Size()
		if ok {
			all = append(all, held{Addr: a, prefix: netip.PrefixFrom(ip.Unmap(), bits)})
		}
	}
	return all, nil
}

// nameOf is the name of the interface that has the address.
func (h held) nameOf() string {
	l, err := netlink.LinkByIndex(h.LinkIndex)
	if err != nil {
		return "interface " + strconv.Itoa(h.LinkIndex)
	}
	return l.Attrs().Name
}

// lifetime is how many seconds an IPv6 address stays: 68 years, which the library can say where an int has 32 bits.
const lifetime = math.MaxInt32

// add adds an address. An IPv6 address is there at once: duplicate address detection would take a second, and fail while the
// old leader has the address. It is deprecated, so that this host does not send from it what is not an answer: of several,
// the kernel would prefer one with a long prefix (RFC 6724, rule 8), and such connections would end with the leadership.
//
// isNew is false if it is there by now, since somebody else was faster.
func (l link) add(p netip.Prefix) (isNew bool, err error) {
	a := asNetlink(p)
	if p.Addr().Is6() {
		a.Flags, a.ValidLft, a.PreferedLft = unix.IFA_F_NODAD, lifetime, 0
	}
	if err = netlink.AddrAdd(l, a); err == nil || errors.Is(err, unix.EEXIST) {
		return err == nil, nil
	}
	return false, lacks(err, "add "+p.String()+" to "+l.name(), "CAP_NET_ADMIN")
}

// remove removes an address as it is there. That it has gone meanwhile is as good.
func (l link) remove(h held) error {
	err := netlink.AddrDel(l, &h.Addr)
	if err == nil || errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil
	}
	return lacks(err, "remove "+h.prefix.String()+" from "+l.name(), "CAP_NET_ADMIN")
}

func asNetlink(p netip.Prefix) *netlink.Addr {
	ip := p.Addr()
	return &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(p.Bits(), ip.BitLen())}}
}
