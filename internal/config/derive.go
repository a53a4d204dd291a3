package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/advertise"
)

// derive fills in what depends on other settings or on the host. It passes over settings that failed, so that one
// mistake is reported once.
func (l *loader) derive() {
	l.deriveName()
	l.deriveRole()
	l.derivePaths()
	l.deriveTimers()
	l.deriveAddresses()
	l.deriveJobs()
	l.deriveResources()
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// deriveName makes a name of the host's.
func (l *loader) deriveName() {
	if l.isSet("node.name") {
		return
	}
	host, err := l.host.hostname()
	name := notInName.ReplaceAllString(host, "-")
	name = strings.TrimLeft(name, "._-")
	name = strings.TrimRight(name[:min(len(name), 63)], "._-")
	switch {
	case err != nil:
		l.report(wrong("the host's name cannot be read: %s", err).hint("set it with --name").at(place{}, "node.name"))
	case name == "":
		l.report(wrong("the host's name %s makes no name: expected %s", quote(host), labelExpected).
			hint("set it with --name").at(place{}, "node.name"))
	}
	l.config.Node.Name = name
}

// deriveRole makes one of the two ways to say that a node does not lead. Both may be written, if they agree.
func (l *loader) deriveRole() {
	n := &l.config.Node
	switch {
	case l.failed["node.role"] || l.failed["node.voter"]:
	case !n.Voter && !l.isSet("node.role"):
		n.Role = "observer"
	case l.isSet("node.voter") && (n.Voter != (n.Role == "voter") || n.Role == "witness"): // it votes, and does not lead
		l.report(wrong("%t contradicts role %s", n.Voter, quote(n.Role)).hint("leave voter out").
			at(l.config.places["node.voter"], "node.voter"))
	default:
		n.Voter = n.Role == "voter"
	}
}

// derivePaths chooses the directories: the system's for root, the user's otherwise.
func (l *loader) derivePaths() {
	if !l.isSet("node.state_dir") {
		l.config.Node.StateDir = l.defaultStateDir()
		if l.config.Node.StateDir == "" {
			l.report(wrong("there is no home directory to keep state in: expected HOME or XDG_STATE_HOME to be the absolute path of one that this user may search").
				hint("set --state-dir").at(place{}, "node.state_dir"))
			return
		}
	}
	if !l.isSet("network.key") {
		l.config.Network.Key = l.defaultKey()
	}
	if l.isSet("control.socket") || l.failed["node.state_dir"] {
		return
	}
	l.config.Control.Socket = l.defaultSocket(l.config.Node.StateDir)
	if err := checkSocket(l.config.Control.Socket); err != nil {
		l.report(err.hint("set --socket").at(place{}, "control.socket"))
	}
}

// profiles are the presets of heartbeat and lease (protocol 2.5). The stop budget is a quarter of the lease in all
// (protocol 2.5), and so also of a lease that was set by hand.
var profiles = map[string]struct{ heartbeat, lease time.Duration }{
	"lan":  {50 * time.Millisecond, 400 * time.Millisecond},
	"fast": {20 * time.Millisecond, 160 * time.Millisecond},
	"wan":  {time.Second, 8 * time.Second},
}

func (l *loader) deriveTimers() {
	e, preset := &l.config.Election, profiles[l.config.Network.Profile]
	if !l.isSet("election.heartbeat") {
		e.Heartbeat = preset.heartbeat
	}
	if !l.isSet("election.lease") {
		e.Lease = preset.lease
	}
	if !l.isSet("election.stop_budget") {
		e.StopBudget = e.Lease / 4
	}
}

// deriveAddresses completes the addresses: which one others are told, which link it is on, and the ports left out.
func (l *loader) deriveAddresses() {
	if l.failed["network.bind"] {
		return
	}
	n := &l.config.Network
	links, err := l.host.links()
	if err != nil {
		l.failed["network.advertise"] = true
		l.report(wrong("the host's interfaces cannot be read: %s", err).at(place{}, "network.advertise"))
		return
	}
	if !l.isSet("network.bind") && !hasFamily(links, false) && hasFamily(links, true) {
		// The default must work on a host that has IPv6 only.
		n.Bind = netip.AddrPortFrom(netip.IPv6Unspecified(), n.Bind.Port())
	}
	n.Join = hostPorts(l.seeds, n.Bind.Port())
	if l.failed["network.advertise"] {
		return
	}
	n.Advertise = l.chooseAdvertise(reachedBy(links, n.Device))
	n.Interface = interfaceOf(links, n.Advertise.Addr())
	l.noteAdvertise(links)
}

// reachedBy gives the links that sockets bound to a device may be reached at: it, and what belongs to it, if these have addresses.
func reachedBy(links []link, device string) []link {
	var its []link
	for _, l := range links {
		if device != "" && (l.Name == device || l.Under == device) {
			its = append(its, l)
		}
	}
	if hasFamily(its, false) || hasFamily(its, true) {
		return its
	}
	return links
}

func (l *loader) chooseAdvertise(links []link) netip.AddrPort {
	bind := l.config.Network.Bind
	if l.advertise.host != "" {
		port := l.advertise.port
		if port == 0 {
			port = bind.Port()
		}
		return netip.AddrPortFrom(netip.MustParseAddr(l.advertise.host), port)
	}
	if !bind.Addr().IsUnspecified() {
		return bind
	}
	l.config.Network.AdvertiseIsChosen = true
	s := advertise.Sight{Links: links, Routes: [2]netip.Addr{l.host.outgoing(false), l.host.outgoing(true)}}
	return netip.AddrPortFrom(advertise.Choose(s, bind.Addr().Is6()), bind.Port())
}

// noteAdvertise says what the user may not expect of the address.
func (l *loader) noteAdvertise(links []link) {
	n := &l.config.Network
	addr := n.Advertise.Addr()
	note := func(format string, args ...any) {
		l.config.Notes = append(l.config.Notes, fmt.Sprintf(format, args...))
	}
	passing := func(format string, args ...any) {
		l.config.Passing = append(l.config.Passing, fmt.Sprintf(format, args...))
	}
	switch {
	case addr.IsLoopback() && n.Bind.Addr().IsLoopback(): // asked for
	case n.Interface == "" && !addr.IsLoopback() && l.advertise.host != "":
		note("advertising %s, which no interface of this host has: right only where something passes that address on to this host "+
			"(NAT, a floating address), else the others never reach it", addr)
	case addr.IsLoopback() && n.Bind.Addr().Is4() && hasFamily(links, true):
		passing("advertising %s, which only this host can reach: it has no IPv4 address; bind to [::]:%d for IPv6", addr, n.Bind.Port())
	case addr.IsLoopback():
		passing("advertising %s, which only this host can reach: the agent looks again by itself, and goes on with the first address that others can reach", addr)
	case isDown(links, n.Interface):
		passing("advertising %s of %s, which is down or has no cable: others reach this host once that is mended", addr, n.Interface)
	case n.Insecure && !addr.IsPrivate() && n.Interface != "" && l.advertise.host == "" && n.Bind.Addr().IsUnspecified():
		note("advertising %s, which is not a private address: without a key each host that reaches it can join", addr)
	}
}
