package vip

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Class is what a Complaint is about.
type Class int

const (
	Words     Class = iota // the command line: it is wrong on every host
	Refused                // the address is somebody else's, or another interface's
	Elsewhere              // the address is of another interface's network, as this host's addresses are now
	Absent                 // the interface, which is not there
	Host                   // its state, or the rights of this process
)

// Complaint is every error of this package: what is wrong in one line, and what to do.
type Complaint struct {
	Class  Class
	What   string
	Remedy string // "": nothing is known
}

func (c *Complaint) Error() string { return c.What }

func complain(class Class, remedy, format string, args ...any) error {
	return &Complaint{Class: class, What: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Parse reads addresses to add: ADDRESS/PREFIX each, at least one, none twice.
func Parse(words []string) ([]netip.Prefix, error) { return parse(words, true) }

// ParseBare reads addresses to remove. One that comes without a prefix is an invalid Prefix, which has its address.
func ParseBare(words []string) ([]netip.Prefix, error) { return parse(words, false) }

func parse(words []string, needsPrefix bool) (all []netip.Prefix, err error) {
	if len(words) == 0 {
		return nil, complain(Words, "write 192.168.1.50/32 eth0, say", "an address is missing: expected ADDRESS/PREFIX, and the interface last")
	}
	seen := map[netip.Addr]bool{}
	for _, word := range words {
		p, err := parseWord(word, needsPrefix)
		if err != nil {
			return nil, err
		}
		if err := fit(p, word); err != nil {
			return nil, err
		}
		if seen[p.Addr()] {
			return nil, complain(Words, "name each address once", "%s is named twice", p.Addr())
		}
		seen[p.Addr()] = true
		if !strings.Contains(word, "/") {
			p = netip.PrefixFrom(p.Addr(), -1)
		}
		all = append(all, p)
	}
	return all, nil
}

func parseWord(word string, needsPrefix bool) (netip.Prefix, error) {
	bare, bits, hasPrefix := strings.Cut(word, "/")
	addr, err := netip.ParseAddr(bare)
	quoted := strconv.Quote(word)
	switch {
	case err != nil:
		return netip.Prefix{}, complain(Words, "addresses are ADDRESS/PREFIX, such as 192.168.1.50/32 or 2001:db8::50/128, and the interface comes last",
			"%s is not an address", quoted)
	case addr.Zone() != "":
		return netip.Prefix{}, complain(Words, "leave %"+addr.Zone()+" out: the interface is named by itself", "%s has a zone", quoted)
	case addr.Is4In6():
		plain := addr.Unmap().String()
		if needsPrefix {
			plain += "/32"
		}
		return netip.Prefix{}, complain(Words, "write "+plain, "%s is an IPv4 address in the form of an IPv6 address", quoted)
	case !hasPrefix && needsPrefix:
		return netip.Prefix{}, complain(Words, fmt.Sprintf("write %s/%d, or the prefix of the network", addr, addr.BitLen()), "%s has no prefix", quoted)
	case !hasPrefix:
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(word)
	if err != nil || p.Bits() == 0 {
		return netip.Prefix{}, complain(Words, fmt.Sprintf("write %s/%d, or the prefix of the network", addr, addr.BitLen()),
			"%s has the prefix %s: expected 1 to %d", quoted, strconv.Quote(bits), addr.BitLen())
	}
	return p, nil
}

// fit says why an address cannot be one host's, and then another's.
func fit(p netip.Prefix, word string) error {
	addr, network := p.Addr(), p.Masked()
	isHost := addr.BitLen()-p.Bits() < 2 // RFC 3021, RFC 6164: the two addresses of such a network are hosts'
	why := ""
	switch {
	case addr.IsUnspecified():
		why = "is no host's address"
	case addr.IsLoopback():
		why = "is a loopback address, which every host has for itself"
	case addr.IsMulticast():
		why = "is a multicast address, which many hosts have at once"
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		why = "is the broadcast address of every network"
	case !isHost && addr.Is4() && addr == last(network):
		why = "is the broadcast address of " + network.String()
	case !isHost && addr.Is4() && addr == network.Addr():
		why = "is the address of the network " + network.String()
	case !isHost && addr == network.Addr():
		why = "is the address of all routers of " + network.String()
	case noHosts(addr):
		why = "is no host's address"
	default:
		return nil
	}
	return complain(Words, "choose an address of one host", "%s %s", strconv.Quote(word), why)
}

// last is the last address of an IPv4 network.
func last(network netip.Prefix) netip.Addr {
	a := network.Addr().As4()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])|^uint32(0)>>network.Bits())
	return netip.AddrFrom4(a)
}

// Owner is a host of the cluster, by an address at which its agent is reached.
type Owner struct {
	Addr netip.Addr
	Name string // "": this host
}

// Spare refuses to touch an address that is an owner's: it would be on two hosts, or leave the one that it is of.
func Spare(addresses []netip.Prefix, owners []Owner) error {
	for _, p := range addresses {
		for _, o := range owners {
			if p.Addr() != o.Addr {
				continue
			}
			if o.Name == "" {
				return complain(Refused, "name the address that moves", "%s is this host's own, at which the other agents reach it", o.Addr)
			}
			return complain(Refused, "name the address that moves", "%s is the own address of %s, at which the other agents reach it", o.Addr, o.Name)
		}
	}
	return nil
}

// noHosts: of a block that has no hosts (IANA's registries of special addresses).
func noHosts(addr netip.Addr) bool {
	return slices.ContainsFunc([]netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("::/96"),
	}, func(block netip.Prefix) bool { return block.Contains(addr) })
}
