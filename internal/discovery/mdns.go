package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/mdns"

	"github.com/bully-agent/bully-agent/wire"
)

// The traps of hashicorp/mdns, and what is done about each:
//
//   - It asks only where the kernel has a route for multicast, whatever interface it is given,
//     and says no more than that it could not bind: heard.
//   - What it opened before it fails is left to the garbage collector: heard asks before it does.
//   - It logs what others send: silent.
//   - It takes any answer for one to its question: isOurs.
//   - A server without an interface is on the system's choice of one: a server for each link.
//   - That server hears questions on other links, too, where another program of the host has
//     joined the group, such as avahi: nothing is done, it tells no more there than here.
//   - A query lasts as long as it may, however soon the answers are there: listening is short.

const (
	// service is what hosts are announced as.
	service = "_bully-agent._udp"
	domain  = "local"

	// listening is how long answers are awaited. A higher one finds slower hosts, and each
	// attempt takes as long; RFC 6762 (6) has responders wait 120 ms at most, and ours do not.
	listening = 500 * time.Millisecond

	// maxAnswers bounds what is taken of one question. Arbitrary: as MaxHosts.
	maxAnswers = MaxHosts
)

// groups are where mDNS is spoken.
var groups = map[string]*net.UDPAddr{
	"udp4": {IP: net.IPv4(224, 0, 0, 251), Port: 5353},
	"udp6": {IP: net.ParseIP("ff02::fb"), Port: 5353},
}

// silent is where the library's log goes: most of it was written by others.
var silent = log.New(io.Discard, "", 0)

// multicast is who answers on this host's link. It answers, too, from the first question on.
type multicast struct {
	self  netip.AddrPort
	text  string // what tells the clusters on one link apart
	name  string // this host's, on the link
	links func() ([]net.Interface, error)

	mu       sync.Mutex
	isClosed bool
	servers  map[int]*mdns.Server // by the link's index
}

func newMulticast(cfg Config) *multicast {
	m := &multicast{self: cfg.Self, text: fmt.Sprintf("cluster=%08x", wire.ClusterHash(cfg.Cluster)), servers: map[int]*mdns.Server{}}
	sum := sha256.Sum256([]byte("bully-agent/mdns\x00" + m.self.String()))
	m.name = "bully-agent-" + hex.EncodeToString(sum[:4])
	m.links = func() ([]net.Interface, error) { return linksOf(cfg.Self.Addr()) }
	return m
}

// Find implements Source.
func (m *multicast) Find(ctx context.Context) ([]string, error) {
	links, err := m.links()
	if err != nil {
		return nil, err
	}
	m.leave(links)
	problems := make([]error, len(links))
	found := make([][]string, len(links))
	var group sync.WaitGroup
	for i := range links {
		group.Go(func() {
			told := m.announce(&links[i])
			hosts, err := m.ask(ctx, &links[i])
			if err == nil { // whoever cannot ask cannot be told of either, mostly
				err = told
			}
			found[i], problems[i] = hosts, err
		})
	}
	group.Wait()
	hosts := slices.Concat(found...)
	slices.Sort(hosts)
	return slices.Compact(hosts), errors.Join(problems...)
}

// Close implements Source: this host is announced no more.
func (m *multicast) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isClosed = true
	for _, server := range m.servers {
		_ = server.Shutdown()
	}
	clear(m.servers)
}

// leave has this host answer no more on links that are not among these.
func (m *multicast) leave(links []net.Interface) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for index, server := range m.servers {
		if !slices.ContainsFunc(links, func(l net.Interface) bool { return l.Index == index }) {
			_ = server.Shutdown()
			delete(m.servers, index)
		}
	}
}

// announce has this host answer on a link, unless it does. A link that was made anew has
// another index.
func (m *multicast) announce(link *net.Interface) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosed || m.servers[link.Index] != nil {
		return nil
	}
	zone, err := mdns.NewMDNSService(m.name, service, domain+".", m.name+"."+domain+".", int(m.self.Port()),
		[]net.IP{m.self.Addr().AsSlice()}, []string{m.text})
	if err != nil {
		return fmt.Errorf("announce by mDNS: %w", err)
	}
	server, err := mdns.NewServer(&mdns.Config{Zone: zone, Iface: link, Logger: silent})
	if err != nil {
		return fmt.Errorf("announce by mDNS on %s: %w", link.Name, err)
	}
	m.servers[link.Index] = server
	return nil
}

// ask asks on a link who is there.
func (m *multicast) ask(ctx context.Context, link *net.Interface) ([]string, error) {
	network := heard(link)
	if network == "" {
		return nil, fmt.Errorf("mDNS on %s: there is no route for multicast: ip route add 224.0.0.0/4 dev %s", link.Name, link.Name)
	}
	entries := make(chan *mdns.ServiceEntry, maxAnswers)
	err := mdns.QueryContext(ctx, &mdns.QueryParam{Service: service, Domain: domain, Timeout: listening, Interface: link,
		Entries: entries, DisableIPv4: network != "udp4", DisableIPv6: network != "udp6", Logger: silent})
	if err != nil {
		return nil, fmt.Errorf("mDNS on %s: %w", link.Name, err)
	}
	var hosts []string
	for len(entries) > 0 {
		hosts = append(hosts, m.hostsOf(<-entries)...)
	}
	return hosts, nil
}

// heard is the family to ask in: IPv4, or else IPv6, that the link has and in which the kernel
// lets multicast be joined without naming a link, which is what the library does; "" if there
// is none. Others answer in both. To ask in both would fail where one of them does, as IPv6
// does while its address is still tentative.
func heard(link *net.Interface) string {
	for _, network := range []string{"udp4", "udp6"} {
		conn, err := net.ListenMulticastUDP(network, nil, groups[network])
		if err != nil {
			continue
		}
		_ = conn.Close()
		if hasFamily(link, network == "udp6") {
			return network
		}
	}
	return ""
}

// hostsOf are the addresses of an answer, if it is one of this cluster's hosts and no other
// than this.
func (m *multicast) hostsOf(e *mdns.ServiceEntry) (hosts []string) {
	if !m.isOurs(e) {
		return nil
	}
	for _, ip := range []net.IP{e.AddrV4, e.AddrV6} {
		addr, ok := netip.AddrFromSlice(ip)
		at := netip.AddrPortFrom(addr.Unmap(), uint16(e.Port))
		if ok && at != m.self && !at.Addr().IsLinkLocalUnicast() && !at.Addr().IsMulticast() && !at.Addr().IsUnspecified() && !at.Addr().IsLoopback() {
			hosts = append(hosts, at.String())
		}
	}
	return hosts
}

func (m *multicast) isOurs(e *mdns.ServiceEntry) bool {
	isService := strings.HasSuffix(strings.ToLower(e.Name), "."+service+"."+domain+".")
	return isService && slices.Contains(e.InfoFields, m.text) && e.Port > 0 && e.Port <= 0xffff
}

// linksOf gives the link that has an address. An address that no link has is passed on to this
// host by something else: then all that carry multicast.
func linksOf(addr netip.Addr) ([]net.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	carries := func(l net.Interface) bool { return l.Flags&net.FlagMulticast != 0 && l.Flags&net.FlagUp != 0 }
	for _, link := range all {
		if !hasAddr(&link, addr) {
			continue
		}
		if !carries(link) {
			return nil, fmt.Errorf("mDNS: %s, which has %s, carries no multicast or is down", link.Name, addr)
		}
		return []net.Interface{link}, nil
	}
	links := slices.DeleteFunc(all, func(l net.Interface) bool { return !carries(l) || l.Flags&net.FlagLoopback != 0 })
	if len(links) == 0 {
		return nil, errors.New("mDNS: no interface of this host carries multicast")
	}
	return links, nil
}

// hasAddr reports whether the link has an address. A loopback link has each of its network (127.0.0.0/8).
func hasAddr(link *net.Interface, addr netip.Addr) bool {
	isLoopback := link.Flags&net.FlagLoopback != 0 && addr.IsLoopback() && addr.Is4()
	return isLoopback || slices.Contains(addrsOf(link), addr)
}

func addrsOf(link *net.Interface) (addrs []netip.Addr) {
	list, _ := link.Addrs() // of a link that has just gone there are none
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, prefix.Addr().Unmap())
		}
	}
	return addrs
}

// hasFamily reports whether the link has an address of the family.
func hasFamily(link *net.Interface, v6 bool) bool {
	return slices.ContainsFunc(addrsOf(link), func(a netip.Addr) bool { return a.Is6() == v6 })
}
