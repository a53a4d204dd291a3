package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/time/rate"

	"github.com/bully-agent/bully-agent/wire"
)

// What strangers on the link can cost. Anybody there may send, as from any address, and the agent has heartbeats to send: so what is
// read is bounded, and the kernel drops the rest. All are arbitrary.
const (
	// readsPerSecond bounds the datagrams that are read of a link, of whatever kind: some 10 µs each. A large network has some
	// hundred a second.
	readsPerSecond = 500

	// answersPerSecond bounds what is answered: all hosts of the largest cluster may ask in one second.
	answersPerSecond = MaxHosts

	// mostDatagram is how long one may be that is looked at.
	mostDatagram = 1500

	// mostAnswers bounds the datagrams that are read for one question of this host.
	mostAnswers = 4 * MaxHosts

	// listening is how long answers are awaited. A higher one finds slower hosts, and each
	// attempt takes as long; RFC 6762 (6) has responders wait 120 ms at most, and ours do not.
	listening = 500 * time.Millisecond
)

// multicast is who answers on this host's link. It answers, too, from the first question on.
type multicast struct {
	announced
	links func() ([]net.Interface, error)

	mu       sync.Mutex
	isClosed bool
	servers  map[int][]*net.UDPConn // by the link's index
}

func newMulticast(cfg Config) *multicast {
	sum := sha256.Sum256([]byte("bully-agent/mdns\x00" + cfg.Self.String()))
	name := "bully-agent-" + hex.EncodeToString(sum[:4])
	m := &multicast{announced: announced{instance: dnsmessage.MustNewName(name + "." + service), host: dnsmessage.MustNewName(name + ".local."),
		text: fmt.Sprintf("cluster=%08x", wire.ClusterHash(cfg.Cluster)), addr: cfg.Self}, servers: map[int][]*net.UDPConn{}}
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
	m.leave(nil)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isClosed = true
}

// leave has this host answer no more on links that are not among these.
func (m *multicast) leave(links []net.Interface) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for index, conns := range m.servers {
		if !slices.ContainsFunc(links, func(l net.Interface) bool { return l.Index == index }) {
			closeAll(conns)
			delete(m.servers, index)
		}
	}
}

func closeAll(conns []*net.UDPConn) {
	for _, c := range conns {
		_ = c.Close()
	}
}

// announce has this host answer on a link, unless it does: in both families, or in the one that the link has. A link that was made
// anew has another index.
func (m *multicast) announce(link *net.Interface) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosed || m.servers[link.Index] != nil {
		return nil
	}
	conns, err := openEach(link, listenGroup)
	if err != nil {
		return fmt.Errorf("announce by mDNS on %s: %w", link.Name, err)
	}
	for _, c := range conns {
		go m.serve(c)
	}
	m.servers[link.Index] = conns
	return nil
}

// serve answers questions until the socket is closed.
func (m *multicast) serve(conn *net.UDPConn) {
	datagram := make([]byte, mostDatagram)
	reads, answers := rate.NewLimiter(readsPerSecond, readsPerSecond), rate.NewLimiter(answersPerSecond, answersPerSecond)
	for ; ; time.Sleep(reads.Reserve().Delay()) {
		n, from, err := conn.ReadFromUDPAddrPort(datagram)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the link is down, perhaps
			continue
		}
		if reply := m.answer(datagram[:n], from.Port()); reply != nil && answers.Allow() {
			_, _ = conn.WriteToUDPAddrPort(reply, from) // who asks asks again
		}
	}
}

// ask asks on a link who is there.
func (m *multicast) ask(ctx context.Context, link *net.Interface) ([]string, error) {
	conns, err := openEach(link, askGroup)
	if err != nil {
		return nil, fmt.Errorf("mDNS on %s: %w", link.Name, err)
	}
	defer closeAll(conns)
	stop := context.AfterFunc(ctx, func() { closeAll(conns) })
	defer stop()
	found := make([][]string, len(conns))
	var group sync.WaitGroup
	for i, c := range conns {
		group.Go(func() { found[i] = m.hear(c) })
	}
	group.Wait()
	return slices.Concat(found...), ctx.Err()
}

// hear takes the answers to a question, which come to this socket alone.
func (m *multicast) hear(conn *net.UDPConn) (hosts []string) {
	_ = conn.SetReadDeadline(time.Now().Add(listening))
	datagram := make([]byte, mostDatagram)
	for range mostAnswers {
		n, _, err := conn.ReadFromUDPAddrPort(datagram)
		if err != nil {
			break
		}
		for _, host := range m.hostsIn(datagram[:n]) {
			hosts = append(hosts, host.String())
		}
	}
	return hosts
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
