package membership

import (
	"fmt"
	"log"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// memberlistConfig is the one place where memberlist is configured.
func (m *Membership) memberlistConfig(cfg Config) (*memberlist.Config, error) {
	c, err := timing(cfg.Profile)
	if err != nil {
		return nil, err
	}
	c.Name = m.name
	c.Label = cfg.Cluster // in front of every packet and stream; another label is dropped unread (P15)
	c.AdvertiseAddr = m.self.Addr.Addr().String()
	c.AdvertisePort = int(m.self.Addr.Port())
	// memberlist puts BindPort in the place of a port 0 that it receives. With
	// 0 the 0 stays and is refused; the sockets are the transport's matter.
	c.BindPort = 0
	c.ProtocolVersion = memberlist.ProtocolVersionMax
	// Delegate versions stay 0 (P14). What we add has versions of its own.

	// A TCP ping would keep a member alive that election frames, which are
	// UDP, do not reach (P19).
	c.DisableTcpPings = true
	c.TCPTimeout = JoinTimeout
	c.UDPBufferSize = maxGossip - crcSize
	// LZW saves little on packets this small (P6) and is memberlist's costliest
	// thing to receive: the filter takes none.
	c.EnableCompression = false
	// A name is used by one process, so nobody waits for it. Two probe rounds
	// let a process go on whose host got another address (P10).
	c.DeadNodeReclaimTime = 2 * c.ProbeInterval
	// CIDRsAllowed stays nil: an empty list would allow all (P13), and a filled
	// one would check alive messages only.

	d := delegate{m}
	c.Delegate, c.Events, c.Alive, c.Ping = d, d, d, d
	c.Logger = log.New(m.log, "", 0)
	return c, nil
}

// timing gives memberlist's timers for a profile (protocol 6.1).
func timing(profile string) (*memberlist.Config, error) {
	switch profile {
	case "", "lan":
		return memberlist.DefaultLANConfig(), nil
	case "fast":
		c := memberlist.DefaultLANConfig()
		c.ProbeInterval, c.ProbeTimeout = 200*time.Millisecond, 100*time.Millisecond
		c.SuspicionMult = 3
		// Confirmations of a suspicion have 600 ms to arrive, so they are told
		// several times in that.
		c.GossipInterval = 100 * time.Millisecond
		return c, nil
	case "wan":
		return memberlist.DefaultWANConfig(), nil
	}
	return nil, fmt.Errorf("profile %q is not known; expected lan, fast or wan", profile)
}

// delegate is what memberlist calls. A type of its own keeps these methods out
// of Membership's API.
//
// memberlist calls the Notify methods of events and NotifyAlive with its node
// lock held, and others inline in the goroutine that answers pings (P1, P7). So
// none of them calls memberlist, waits, or writes a log line itself: they copy
// what they need (P3, P4) under Membership.mu, which nobody holds for long.
// They run from inside Create on, and after Shutdown has returned (P2).
type delegate struct{ m *Membership }

// NotifyAlive decides whether memberlist hears of a node, at every alive message (P16).
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	member, r := d.m.admit.node(n)
	if r == nil && n.Name != d.m.name {
		d.m.mu.Lock()
		r = d.m.lives.admit(member, time.Now())
		d.m.mu.Unlock()
	}
	if r == nil {
		return nil
	}
	addr, _ := netip.AddrFromSlice(n.Addr)
	d.m.notAdmitted(n.Name, netip.AddrPortFrom(addr, n.Port), r)
	return r
}

// NotifyJoin is also called for our own node, from inside Create (P2), and so is NotifyLeave for our own leave.
func (d delegate) NotifyJoin(n *memberlist.Node) { d.told(n, (*lives).hint) }

// NotifyUpdate is called when a member's meta changed, which means nothing.
func (delegate) NotifyUpdate(*memberlist.Node) {}

// NotifyLeave is called for deaths and departures alike, with a State that says
// alive (P3).
func (d delegate) NotifyLeave(n *memberlist.Node) { d.told(n, (*lives).unhint) }

func (d delegate) told(n *memberlist.Node, note func(*lives, Member, time.Time) bool) {
	if member, r := d.m.admit.node(n); r == nil { // NotifyAlive let nobody in for whom this does not hold
		d.m.told(n.Name, member, note)
	}
}

// NodeMeta gives our meta. It is never above limit, 512 bytes, where memberlist
// would panic (P12).
func (d delegate) NodeMeta(int) []byte { return appendMeta(nil, d.m.admit.self) }

// NotifyMsg drops user messages: nobody of us sends any, since memberlist hands
// them over late, last in first out, and without their sender (P5, P6).
func (delegate) NotifyMsg([]byte) {}

// GetBroadcasts has nothing to add to gossip, for the same reason.
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState gives the leader record and the ledger to the other side of a
// push/pull.
func (d delegate) LocalState(bool) []byte { return d.m.state() }

// MergeRemoteState takes both from the other side of a push/pull.
func (d delegate) MergeRemoteState(b []byte, _ bool) { d.m.hearState(b) }

// AckPayload gives the leader record to whoever pings us (P17).
func (d delegate) AckPayload() []byte { return d.m.record() }

// NotifyPingComplete takes the leader record from the answer to a direct ping. It has no lock of memberlist's, but keeps the
// prober waiting.
func (d delegate) NotifyPingComplete(_ *memberlist.Node, _ time.Duration, payload []byte) {
	if len(payload) > 0 {
		d.m.hear(payload)
	}
}

func (m *Membership) record() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return appendRecord(nil, m.leader)
}

// hear takes a leader record from another. One that is not above our own is no
// news, and neither is one that was reported last. What is pending is the
// newest.
func (m *Membership) hear(b []byte) {
	e, err := parseRecord(b)
	if err != nil {
		m.count("leader-record")
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || e.Compare(m.leader) <= 0 || e == m.heard || m.heardNew && e.Compare(m.heard) < 0 {
		return
	}
	m.heard, m.heardNew, m.lives.leader = e, true, e.Owner
	m.signal()
}

// notAdmitted counts what was not taken of somebody. One line a minute and
// cause says so: whoever wrote it can repeat it a thousand times a second. After a restart others tell of the life before for a while.
func (m *Membership) notAdmitted(name string, addr netip.AddrPort, r *refusal) {
	m.count(r.cause)
	if r.cause != causePast && m.log.minutely("refused "+r.cause) {
		m.log.warn("member refused", "member", name, "addr", addr, "cause", r.cause, "err", r.err)
	}
}

func (m *Membership) count(cause string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused[cause]++
}

func (m *Membership) countKept(cause string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept[cause]++
}
