package membership

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/wire"
)

// admission decides which of the members that gossip brings are let in. It is
// immutable and asked for every alive message, direct, gossiped or by push/pull
// (P16: memberlist's merge delegate would only see joins).
type admission struct {
	self    Member
	cluster uint32 // wire.ClusterHash of our cluster
}

// refusal is an error with a word to count by.
type refusal struct {
	cause string
	err   error
}

func (r *refusal) Error() string { return r.cause + ": " + r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(cause, format string, args ...any) *refusal {
	return &refusal{cause, fmt.Errorf(format, args...)}
}

// check turns a node of memberlist into a Member, or says why not. n is only
// read, and nothing of it is kept (P4: it is live state of memberlist).
func (a admission) check(n *memberlist.Node) (Member, *refusal) {
	m, cluster, err := parseMeta(n.Meta)
	switch {
	case errors.Is(err, ErrName):
		return m, refuse("unsafe name", "%w", err)
	case err != nil:
		return m, refuse("meta", "%w", err)
	case n.Name != nodeName(m.ID, m.Nonce):
		// Also catches the id in capitals and any byte before or after.
		return m, refuse("name", "node name is not the id and nonce of its meta")
	case cluster != a.cluster:
		return m, refuse("cluster", "cluster hash is %08x, ours is %08x", cluster, a.cluster)
	case m.WireMin > a.self.WireMax || m.WireMax < a.self.WireMin:
		return m, refuse("wire-version", "it speaks wire versions %d to %d, we %d to %d", m.WireMin, m.WireMax, a.self.WireMin, a.self.WireMax)
	}
	if r := checkGossipVersions(n); r != nil {
		return m, r
	}
	addr, _ := netip.AddrFromSlice(n.Addr)
	if n.Port != m.Addr.Port() {
		return m, refuse("addr", "port is %d for gossip and %d in meta", n.Port, m.Addr.Port())
	}
	m.Addr = netip.AddrPortFrom(addr.Unmap(), n.Port)
	if err := a.checkOther(m.Addr); err != nil {
		return m, refuse("addr", "address %s: %w", m.Addr, err)
	}
	return m, nil
}

// checkGossipVersions keeps out a node that would stop the whole cluster's
// push/pull: memberlist refuses to merge with anybody as long as one node that
// it knows is outside the common range of versions (P14).
func checkGossipVersions(n *memberlist.Node) *refusal {
	const ours = memberlist.ProtocolVersionMax
	if n.PMin > n.PCur || n.PCur > n.PMax || n.PMin > ours || n.PMax < ours || n.PCur != ours {
		return refuse("gossip-version", "gossip versions %d, %d to %d; ours is %d", n.PCur, n.PMin, n.PMax, ours)
	}
	if n.DMin != 0 || n.DMax != 0 || n.DCur != 0 {
		return refuse("gossip-version", "delegate versions %d, %d to %d; ours is 0", n.DCur, n.DMin, n.DMax)
	}
	return nil
}

func (a admission) checkOther(addr netip.AddrPort) error {
	if addr.Addr().IsLoopback() && !a.self.Addr.Addr().IsLoopback() {
		// Debian gives a host's own name 127.0.1.1: a member that advertises
		// this sends everybody to themselves.
		return errors.New("loopback means another host to everybody")
	}
	return checkAddr(addr)
}

// checkAddr refuses addresses to which nothing can be sent, or not to one host.
func checkAddr(addr netip.AddrPort) error {
	ip := addr.Addr()
	switch {
	case !ip.IsValid():
		return errors.New("not an IP address")
	case addr.Port() == 0:
		return errors.New("port is 0")
	case ip.IsUnspecified():
		return errors.New("it stands for every address of a host; set the one that others shall use")
	case ip.IsMulticast(), ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return errors.New("it is not of one host")
	case ip.Is6() && ip.IsLinkLocalUnicast():
		return errors.New("a link-local address needs a zone, which means something else on every host; use a global or unique-local one")
	}
	return nil
}

// nodeName is a life's name in memberlist. It is new at each start, so that
// memberlist never takes a restart for the life before (P9).
func nodeName(id wire.ID, nonce uint32) string { return fmt.Sprintf("%s#%08x", id, nonce) }

// parseNodeName is the inverse of nodeName.
func parseNodeName(b []byte) (id wire.ID, nonce uint32, ok bool) {
	if !isNodeName(b) {
		return wire.ID{}, 0, false
	}
	id, err := wire.ParseID(string(b[:36]))
	n, errNonce := strconv.ParseUint(string(b[37:]), 16, 32)
	return id, uint32(n), err == nil && errNonce == nil
}

// nodeNameSize is the length of each nodeName.
const nodeNameSize = 36 + 1 + 8

// isNodeName: b could be one.
func isNodeName(b []byte) bool {
	if len(b) != nodeNameSize || b[36] != '#' {
		return false
	}
	for i, c := range b {
		isHex := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
		if !isHex && c != '-' && i != 36 {
			return false
		}
	}
	return true
}
