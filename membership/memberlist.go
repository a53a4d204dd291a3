package membership

import (
	"fmt"
	"log"
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
	c.Delegate, c.Events, c.Alive, c.Ping, c.Conflict = d, d, d, d, d
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

// NotifyAlive decides whether a node is let in, at every alive message (P16).
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	member, r := d.m.admit.check(n)
	if r == nil && n.Name != d.m.name {
		r = d.m.checkRoom(member)
	}
	if r == nil {
		return nil
	}
	d.m.notAdmitted(n, r)
	return r
}

// NotifyJoin is also called for our own node, from inside Create (P2), and so
// are the other two for our own update and leave.
func (d delegate) NotifyJoin(n *memberlist.Node) {
	d.m.observe(n, (*lives).joined)
	d.m.ask(n)
}

// NotifyUpdate is called when a member's meta changed.
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.m.observe(n, (*lives).updated) }

// NotifyLeave is called for deaths and departures alike, with a State that says
// alive (P3).
func (d delegate) NotifyLeave(n *memberlist.Node) {
	d.m.observe(n, (*lives).gone)
	d.m.askHeld(n)
}

// observe keeps what memberlist believes of a node.
func (m *Membership) observe(n *memberlist.Node, note func(*lives, Member, time.Time) bool) {
	if n.Name == m.name {
		return
	}
	member, r := m.admit.check(n)
	if r != nil {
		return // NotifyAlive let nobody in for whom this holds
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return // suspicion timers fire after Shutdown
	}
	isNews := note(&m.lives, member, now)
	if isNews {
		m.foundOut(member)
	}
}

// foundOut passes on what lives has learnt. Its caller holds mu.
func (m *Membership) foundOut(member Member) {
	if r := m.lives.byID[member.ID]; r != nil && r.now.Status == Dead {
		m.rejoin.lostMember()
	}
	m.signal()
}

// NotifyConflict is called when a life that is known speaks from another
// address: a copy of a running machine, memory included.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	n := *other
	// memberlist leaves the versions out here; NotifyAlive has checked them.
	n.PMin, n.PMax, n.PCur = existing.PMin, existing.PMax, existing.PCur
	member, r := d.m.admit.check(&n)
	if r != nil || !d.m.log.minutely("clone "+n.Name) {
		return
	}
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if !d.m.closed && d.m.lives.cloned(member) {
		d.m.signal()
	}
}

// NodeMeta gives our meta. It is never above limit, 512 bytes, where memberlist
// would panic (P12).
func (d delegate) NodeMeta(int) []byte {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	return d.m.meta
}

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

// NotifyPingComplete takes the leader record and the round-trip time from the
// answer to a direct ping. It has no lock of memberlist's, but keeps the
// prober waiting.
func (d delegate) NotifyPingComplete(n *memberlist.Node, rtt time.Duration, payload []byte) {
	if len(payload) > 0 {
		d.m.hear(payload)
	}
	if member, r := d.m.admit.check(n); r == nil && n.Name != d.m.name {
		d.m.noteAnswer(member, rtt, time.Now().Add(-rtt))
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
	m.heard, m.heardNew = e, true
	m.signal()
}

// checkRoom refuses members that are too many, or too many lives of one. For a life that has proved itself there is room,
// whatever others make up.
func (m *Membership) checkRoom(member Member) *refusal {
	now := time.Now()
	isProven := m.isProven(member)
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.lives.admit(member, now)
	if r != nil && isProven {
		return nil
	}
	return r
}

// notAdmitted counts an alive message that was not admitted. One line a minute and
// cause says so: whoever wrote it can repeat it a thousand times a second.
func (m *Membership) notAdmitted(n *memberlist.Node, r *refusal) {
	m.count(r.cause)
	if m.log.minutely("refused " + r.cause) {
		m.log.warn("member refused", "member", n.Name, "addr", n.Address(), "cause", r.cause, "err", r.err)
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
