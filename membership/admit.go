package membership

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync/atomic"

	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// admission decides what is taken of what others say: memberlist, which asks for every alive message, direct, gossiped or by
// push/pull (P16: its merge delegate would only see joins), and sessions. It is immutable but for the host list, which is
// replaced as a whole.
type admission struct {
	self  Member
	hosts *atomic.Pointer[identity.Hosts]
}

func newAdmission(self Member, hosts identity.Hosts) admission {
	a := admission{self: self, hosts: new(atomic.Pointer[identity.Hosts])}
	a.hosts.Store(&hosts)
	return a
}

// listed gives a member the name that the host list has for it, or refuses one that the list does not have.
func (a admission) listed(m *Member) *refusal {
	hosts := a.hosts.Load()
	if !hosts.Admits(m.ID) {
		return refuse("not-listed", "hosts does not name %s", m.ID)
	}
	if name := hosts.Name(m.ID); name != "" {
		m.Name = name
	}
	return nil
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

// causePast is why gossip of a life is refused that has ended.
const causePast = "past"

// What memberlist has besides a life's name and address, its meta, is a version and the incarnation, big endian. Nobody acts on
// that: people are told of it.
const (
	metaVersion = 4
	metaSize    = 1 + 4
)

func appendMeta(b []byte, m Member) []byte {
	return binary.BigEndian.AppendUint32(append(b, metaVersion), m.Incarnation)
}

// node turns a node of memberlist into the life that is told of, or says why not. n is only read, and nothing of it is kept
// (P4: it is live state of memberlist).
func (a admission) node(n *memberlist.Node) (Member, *refusal) {
	name, ok := parseNodeName([]byte(n.Name))
	if !ok {
		return Member{}, refuse("name", "node name is no id and nonce")
	}
	if !a.hosts.Load().Admits(name.id) {
		return Member{}, refuse("not-listed", "hosts does not name %s", name.id) // it would be dialled in vain
	}
	if len(n.Meta) != metaSize || n.Meta[0] != metaVersion {
		return Member{}, refuse("meta", "meta has %d bytes, or another version than %d", len(n.Meta), metaVersion)
	}
	if r := checkGossipVersions(n); r != nil {
		return Member{}, r
	}
	ip, _ := netip.AddrFromSlice(n.Addr)
	m := Member{ID: name.id, Nonce: name.nonce, Incarnation: binary.BigEndian.Uint32(n.Meta[1:]), Addr: netip.AddrPortFrom(ip.Unmap(), n.Port), Status: Told}
	if err := a.checkOther(m.Addr); err != nil {
		return m, refuse("addr", "address %s: %w", m.Addr, err)
	}
	return m, nil
}

// card turns what a session shows into a member.
func (a admission) card(s session.Shown) (Member, *refusal) {
	m, err := parseCard(s.Card)
	m.ID, m.Incarnation, m.Nonce, m.Addr, m.RTT, m.List = s.ID, s.Incarnation, binary.BigEndian.Uint32(s.Random[:]), s.Addr, s.RTT, s.List
	if r := a.listed(&m); r != nil {
		return m, r
	}
	switch {
	case errors.Is(err, ErrName):
		return m, refuse("unsafe name", "%w", err)
	case err != nil:
		return m, refuse("card", "%w", err)
	case m.WireMin > a.self.WireMax || m.WireMax < a.self.WireMin:
		return m, refuse("wire-version", "it speaks wire versions %d to %d, we %d to %d", m.WireMin, m.WireMax, a.self.WireMin, a.self.WireMax)
	}
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

// nodeNameSize is the length of each nodeName.
const nodeNameSize = 36 + 1 + 8

// parseNodeName is the inverse of nodeName: one name exists for each life.
func parseNodeName(b []byte) (name lifeName, ok bool) {
	if len(b) != nodeNameSize || b[36] != '#' {
		return name, false
	}
	id, err := wire.ParseID(string(b[:36]))
	nonce, errNonce := strconv.ParseUint(string(b[37:]), 16, 32)
	name = lifeName{id, uint32(nonce)}
	return name, err == nil && errNonce == nil && !id.IsZero() && nodeName(name.id, name.nonce) == string(b)
}
