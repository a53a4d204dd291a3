// Package netlab makes a LAN on one machine, as root: hosts that are network namespaces, each with one cable to a
// switch. It knows nothing of what runs on the hosts.
//
// The switch has a namespace of its own, with bridges in it, and not the machine's: so neither the machine's firewall
// (br_netfilter with Docker's FORWARD policy drops what crosses a bridge) nor its addresses have a say, and nothing of
// the machine is touched. In bad weather the switch is a wire in this process instead (wire.go).
//
//	bl<pid>-lan                  bl<pid>-n1
//	┌──────────────┐             ┌──────────────────┐
//	│ br0 ── n1 ───┼── veth ─────┼─ eth0 10.77.0.1  │
//	│   └─── n2 ───┼── veth ──┐  └──────────────────┘
//	│ br1          │          │  bl<pid>-n2
//	└──────────────┘          └──┼─ eth0 10.77.0.2  │
package netlab

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// Interface is the name of each host's interface.
	Interface = "eth0"
	// Bridge is the switch's own interface, where all hosts are at first. In bad weather there is none.
	Bridge = "br0"

	otherBridge = "br1"
	switchName  = "lan"
)

// LAN is a switch with hosts. One goroutine owns it; that of a host may be another.
type LAN struct {
	name   string
	spaces []Namespace // made so far

	ports   *netlink.Handle // nil in bad weather, as bridges
	bridges map[side]netlink.Link
	wire    *wire // nil in fine weather
}

// side is a part of the switch that hears nothing of the others.
type side uint8

const (
	nowhere   side = iota // a cable that is cut
	mainPart              // where all are that nobody has moved
	splitPart             // where Split moves hosts
)

// New makes a LAN without hosts, whose namespaces are called name-lan, name-n1 and so on. A name that begins with a kind
// and the number of this process lets Orphans find what it leaves behind when it is killed. On an error nothing remains.
func New(name string, sky Weather) (*LAN, error) {
	l := &LAN{name: name}
	if !sky.IsFine() {
		l.wire = newWire(sky)
		return l, nil
	}
	if err := l.openSwitch(); err != nil {
		l.Close()
		return nil, fmt.Errorf("make switch: %w", err)
	}
	return l, nil
}

// Switch is where the bridges are. In bad weather there is no such namespace.
func (l *LAN) Switch() Namespace { return Namespace(l.name + "-" + switchName) }

func (l *LAN) openSwitch() (err error) {
	if err := l.newNamespace(l.Switch()); err != nil {
		return err
	}
	if l.ports, err = l.Switch().links(); err != nil {
		return err
	}
	l.bridges = map[side]netlink.Link{}
	for part, name := range map[side]string{mainPart: Bridge, splitPart: otherBridge} {
		// A new bridge has STP off, and its ports forward at once. Snooping would keep multicast from who has not asked.
		snooping := false
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}, MulticastSnooping: &snooping}
		if err := l.ports.LinkAdd(bridge); err != nil {
			return fmt.Errorf("add bridge: %w", err)
		}
		if err := l.ports.LinkSetUp(bridge); err != nil {
			return fmt.Errorf("set bridge up: %w", err)
		}
		l.bridges[part] = bridge
	}
	return nil
}

func (l *LAN) newNamespace(n Namespace) error {
	l.spaces = append(l.spaces, n) // first, so that Close removes what was made half way
	return n.make()
}

// Host is a host of a LAN: a namespace with one interface. Its methods plug its cable in and out; the last call counts.
type Host struct {
	Namespace
	cable cable
}

// cable is the switch's end of a host's cable.
type cable interface {
	// to connects it with a part of the switch. The host's interface has its carrier, also in the case of nowhere.
	to(side) error
	// pull takes it out, and the carrier goes.
	pull() error
}

// AddHost connects a new host. On an error the LAN is of no use but to be closed.
func (l *LAN) AddHost(name string, addr netip.Prefix) (*Host, error) {
	h := &Host{Namespace: Namespace(l.name + "-" + name)}
	err := l.newNamespace(h.Namespace)
	if err == nil {
		h.cable, err = l.lay(name, h.Namespace)
	}
	if err == nil {
		err = h.setUp(addr)
	}
	if err == nil {
		err = h.Plug()
	}
	if err != nil {
		return nil, fmt.Errorf("add host %s: %w", name, err)
	}
	return h, nil
}

// Plug ends what Cut, Unplug and Split did.
func (h *Host) Plug() error { return h.cable.to(mainPart) }

// Cut takes the host off the switch. Its interface keeps its carrier: like a fault behind the next switch, and unlike a
// pulled plug, it is silent.
func (h *Host) Cut() error { return h.cable.to(nowhere) }

// Unplug takes the host off the switch, and its carrier goes.
func (h *Host) Unplug() error { return h.cable.pull() }

// Split moves the host to another part of the switch, where all are that were split off.
func (h *Host) Split() error { return h.cable.to(splitPart) }

// lay makes the interface of a host, with the cable that it hangs on.
func (l *LAN) lay(name string, host Namespace) (cable, error) {
	if l.wire != nil {
		var end tap
		err := host.Within(func() (err error) {
			end, err = openTap(Interface)
			return err
		})
		if err != nil {
			return nil, err
		}
		return wired{l.wire.attach(end), end}, nil
	}
	space, err := host.open()
	if err != nil {
		return nil, err
	}
	defer space.Close()
	port := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: Interface, PeerNamespace: netlink.NsFd(space)}
	if err := l.ports.LinkAdd(port); err != nil {
		return nil, fmt.Errorf("add veth: %w", err)
	}
	return bridged{l, port}, nil
}

// setUp gives the host's end of the cable its address.
func (h *Host) setUp(addr netip.Prefix) error {
	links, err := h.links()
	if err != nil {
		return err
	}
	defer links.Close()
	for _, name := range []string{"lo", Interface} {
		link, err := links.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		if name == Interface {
			if err := links.AddrAdd(link, asNetlink(addr)); err != nil {
				return fmt.Errorf("add address: %w", err)
			}
		}
		if err := links.LinkSetUp(link); err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
	}
	return nil
}

func asNetlink(addr netip.Prefix) *netlink.Addr {
	ip := addr.Addr()
	a := &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(addr.Bits(), ip.BitLen())}}
	if ip.Is6() {
		a.Flags = unix.IFA_F_NODAD // it is ours alone, and a second's wait for nobody's objection
	}
	return a
}

// bridged is a veth pair to a bridge.
type bridged struct {
	lan  *LAN
	port netlink.Link
}

func (b bridged) to(part side) error {
	join := func() error { return b.lan.ports.LinkSetMaster(b.port, b.lan.bridges[part]) }
	if part == nowhere {
		join = func() error { return b.lan.ports.LinkSetNoMaster(b.port) }
	}
	if err := join(); err != nil {
		return err
	}
	return b.lan.ports.LinkSetUp(b.port)
}

func (b bridged) pull() error { return b.lan.ports.LinkSetDown(b.port) }

// wired is a tap with a wire behind it.
type wired struct {
	jack *jack
	tap  tap
}

func (w wired) to(part side) error {
	w.jack.connect(part)
	return w.tap.carrier(true)
}

func (w wired) pull() error {
	w.jack.connect(nowhere)
	return w.tap.carrier(false)
}

// Close takes everything away: interfaces, addresses and bridges go with their namespaces. What runs on a host goes on
// there, with its namespace, and should have ended before.
func (l *LAN) Close() {
	if l == nil {
		return
	}
	if l.wire != nil {
		l.wire.close()
	}
	if l.ports != nil {
		l.ports.Close()
	}
	for _, n := range l.spaces {
		n.Remove()
	}
}
