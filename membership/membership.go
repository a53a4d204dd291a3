package membership

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

// Membership is this agent's view of who is on the LAN.
//
// All methods may be called from any goroutine, except that Rejoin runs once.
// It starts two kinds of goroutine: one that writes its log lines, from New to
// Shutdown, and short ones that do what blocks in memberlist, pings among it.
//
// Invariant: mu is never held while memberlist or Sessions are called, and nothing that can
// wait is done under it. memberlist calls our delegates with its own node lock
// held (P1), so a delegate that waited for mu behind a call into memberlist
// would stop both for ever.
type Membership struct {
	name    string // our node's name in memberlist, ID#nonce
	admit   admission
	filter  *filter
	list    *memberlist.Memberlist // set once, after Create: delegates must not use it (P2)
	probing time.Duration          // memberlist's interval between two pings
	timer   *time.Timer            // calls turn
	log     *logSink
	wake    chan struct{}
	rejoin  *rejoin

	// ops serialises Leave and Shutdown, which memberlist does not:
	// it panics when Leave meets Shutdown (P11). A channel, not a mutex, since
	// it is held for as long as Leave takes and tests run that in fake time.
	ops chan struct{}

	sessions Sessions
	saying   sync.Mutex // held before mu: of two cards the newest is said last

	mu       sync.Mutex
	self     Member
	lives    lives
	leader   wire.Epoch // what we spread
	heard    wire.Epoch // newest record of others that was reported, or is to be
	heardNew bool
	ledgers  ledgers
	refused  map[string]uint64 // alive messages, cards and leader records not admitted, by cause
	kept     map[string]uint64 // datagrams and streams kept from memberlist, by cause
	first    firstJoin
	leaving  bool // memberlist's Leave was called: the instance is of no more use (P11)
	closed   bool
}

// Config is what New needs. Self.ID, Self.Name, Cluster, Transport and Sessions
// must be set.
type Config struct {
	// Self describes this agent. Addr may be left out: then the transport says
	// what to advertise. WireMin and WireMax of 0 mean wire.Major. Status and
	// RTT are not used.
	Self Member

	// Cluster is the cluster's name, 1 to 255 bytes. Agents with another name
	// are neither heard nor seen.
	Cluster string

	// Transport carries the gossip. New takes it over: Shutdown closes it.
	Transport memberlist.NodeAwareTransport

	// Hosts is who may be a member, and what each is called; none: whoever has a session.
	Hosts identity.Hosts

	// Seeds are hosts to join by: "name", "name:port", "10.0.0.7:7950",
	// "[fd00::7]:7950", or what Find turns into these. Names are resolved again at every
	// attempt.
	Seeds []string

	// Lost is where members were before this life began: they are looked for until they are met.
	Lost []netip.AddrPort

	// Find is asked at every attempt what hosts a seed stands for; nil: itself.
	Find Finder

	// Resolve looks a seed's name up; nil means the system's resolver. It is
	// called in a goroutine of its own and should end with its context.
	Resolve Resolver

	// DefaultPort is for seeds without a port; 0 means 7950.
	DefaultPort uint16

	// Profile is "lan" (also ""), "fast" or "wan": how often memberlist probes,
	// and so how soon it calls a silent member dead (about 6 s, 1 s, 35 s in a
	// group of five). Faster costs a datagram per probe and believes a short
	// stall of a host to be its death.
	Profile string

	// Sessions show who is there, in which life and where. What gossip says of a life is a hint: the life is dialled, and told
	// once it has shown its card in a session of its own.
	Sessions Sessions

	// Seed is for the jitter of rejoining; 0 takes a random one.
	Seed uint64

	// Logger gets our lines and memberlist's. It may block: lines are dropped
	// then, and counted. Nil discards them.
	Logger hclog.Logger
}

// ErrClosed is returned by Leave after Shutdown.
var ErrClosed = errors.New("membership is shut down")

// New creates the memberlist instance, which from then on answers others, and
// joins nobody: that is Rejoin's work. If it fails the transport is still the
// caller's to shut down.
func New(cfg Config) (*Membership, error) {
	self, err := completeSelf(cfg)
	if err != nil {
		return nil, fmt.Errorf("create membership: %w", err)
	}
	m := &Membership{
		name:    nodeName(self.ID, self.Nonce),
		self:    self,
		admit:   newAdmission(self, cfg.Hosts),
		log:     newLogSink(cfg.Logger),
		wake:    make(chan struct{}, 1),
		ops:     make(chan struct{}, 1),
		rejoin:  newRejoin(cfg),
		refused: make(map[string]uint64),
		kept:    make(map[string]uint64),

		sessions: cfg.Sessions,
	}
	conf, err := m.memberlistConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("create membership: %w", err)
	}
	m.probing = conf.ProbeInterval
	m.lives = newLives(self, conf.ProbeTimeout, m.sessions.IsKnown)
	m.timer = time.AfterFunc(time.Hour, m.turn) // until it is armed
	m.filter = newFilter(cfg.Transport, cfg.Cluster, m.countKept, m.doubt)
	conf.Transport = m.filter
	go m.log.run()
	m.list, err = memberlist.Create(conf)
	if err != nil {
		m.mu.Lock()
		m.closed = true
		m.mu.Unlock()
		m.timer.Stop()
		m.filter.stop()
		m.log.stop()
		return nil, fmt.Errorf("create membership: %w", err)
	}
	m.sessions.Watch(m.onShown)
	m.say()
	return m, nil
}

// completeSelf fills what Config leaves open and refuses what others would
// refuse: better one error here than an agent that nobody sees.
func completeSelf(cfg Config) (Member, error) {
	self := cfg.Self
	self.Status, self.RTT = Alive, 0
	if self.WireMin == 0 && self.WireMax == 0 {
		self.WireMin, self.WireMax = wire.Major, wire.Major
	}
	if n := len(cfg.Cluster); n < 1 || n > memberlist.LabelMaxSize {
		return self, fmt.Errorf("cluster name has %d bytes; expected 1 to %d", n, memberlist.LabelMaxSize)
	}
	if cfg.Transport == nil {
		return self, errors.New("no transport given")
	}
	if cfg.Sessions == nil {
		return self, errors.New("no sessions given")
	}
	want := ""
	if self.Addr.Addr().IsValid() {
		want = self.Addr.Addr().Unmap().String()
	}
	ip, port, err := cfg.Transport.FinalAdvertiseAddr(want, int(self.Addr.Port()))
	if err != nil {
		return self, fmt.Errorf("find own address: %w", err)
	}
	addr, _ := netip.AddrFromSlice(ip)
	self.Addr = netip.AddrPortFrom(addr.Unmap(), uint16(port))
	return self, checkSelf(self)
}

func checkSelf(self Member) error {
	if err := checkAddr(self.Addr); err != nil {
		return fmt.Errorf("advertised address %s: %w", self.Addr, err)
	}
	if self.ID.IsZero() {
		return errors.New("id is zero")
	}
	if err := checkCard(self); err != nil {
		return fmt.Errorf("own description: %w", err)
	}
	return nil
}

// Wake has a signal whenever Events has something. One signal may stand for
// many events, and after Events was called early it may stand for none.
func (m *Membership) Wake() <-chan struct{} { return m.wake }

// Events takes what happened since the last call: for each member only the
// difference between then and now, in the order in which members first changed,
// then what others say of a leader and of jobs, and once that the first join has an outcome.
// After Shutdown there is nothing, whatever memberlist's late timers say.
func (m *Membership) Events() []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	events := m.lives.take()
	if m.heardNew {
		m.heardNew = false
		events = append(events, Event{Kind: LeaderReported, Leader: m.heard})
	}
	for _, b := range m.ledgers.take() {
		events = append(events, Event{Kind: LedgerReceived, Ledger: b})
	}
	if m.first.isNews(&m.lives, time.Now()) {
		events = append(events, Event{Kind: JoinEnded})
	}
	return events
}

// signal may be called with any lock held: it never waits.
func (m *Membership) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// SetLeader sets the leader record that joiners and probing members get from us
// with memberlist's own traffic (protocol 6.3). The zero Epoch means that we
// know of none, and nothing is sent.
func (m *Membership) SetLeader(e wire.Epoch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leader = e
	if m.heard.Compare(e) <= 0 {
		m.heardNew = false // no news any more
	}
}

// SetSelf changes what others see of us. It does not wait until they do.
func (m *Membership) SetSelf(priority uint16, role Role, draining, leaving bool) {
	m.changeSelf(func(self *Member) {
		self.Priority, self.Role, self.Draining, self.Leaving = priority, role, draining, leaving
	})
}

// SetMaintenance says that an operator is at work on this host, and why. Like SetSelf it
// does not wait.
func (m *Membership) SetMaintenance(on bool, reason string) {
	m.changeSelf(func(self *Member) { self.InMaintenance, self.Reason = on, reason })
}

// SetSettled says that this agent has followed a leader or led: one with other
// settings is the one to give way from now on. Like SetSelf it does not wait.
func (m *Membership) SetSettled() { m.changeSelf(func(self *Member) { self.Settled = true }) }

// SetJobs changes the digest of our jobs. Like SetSelf it does not wait.
func (m *Membership) SetJobs(digest uint64) {
	m.changeSelf(func(self *Member) { self.Jobs = digest })
}

func (m *Membership) changeSelf(change func(*Member)) {
	m.mu.Lock()
	change(&m.self)
	isOver := m.closed || m.leaving
	m.mu.Unlock()
	if !isOver {
		m.say()
	}
}

// SetHosts replaces the host list. Whom it leaves out is a member no more: now, or after parting if that one leads. All others
// have the names of the list.
func (m *Membership) SetHosts(hosts identity.Hosts, leader wire.ID, parting time.Duration) {
	m.admit.hosts.Store(&hosts)
	m.mu.Lock()
	ids := m.lives.relist(hosts, leader, time.Now(), parting)
	if len(m.lives.dirty) > 0 {
		m.signal()
	}
	m.arm()
	m.mu.Unlock()
	for _, id := range ids {
		m.sessions.ShowAgain(id)
	}
}

// SetName changes what others see us called, where they have no list of their own.
func (m *Membership) SetName(name string) { m.changeSelf(func(self *Member) { self.Name = name }) }

// MarkLeft says that this life of a member announced its departure by a LEAVE
// frame. Departed is emitted at once, and the death that memberlist will notice is
// no Failed. Should something come in its session long afterwards, it is Joined again.
func (m *Membership) MarkLeft(id wire.ID, nonce uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed && m.lives.markLeft(lifeName{id, nonce}, time.Now()) {
		m.signal()
		m.arm()
	}
}

// Leave tells the others that we go of our own will, and returns when the
// announcement was sent often enough or timeout has ended: half of it at most for the
// flag on our card, by which they tell a departure from a death (P3), and the
// rest for memberlist's own message. An error means that some may see us fail
// instead. The instance cannot join again (P11); Shutdown is still due.
func (m *Membership) Leave(timeout time.Duration) error {
	m.ops <- struct{}{}
	defer func() { <-m.ops }()
	m.mu.Lock()
	if m.closed || m.leaving {
		defer m.mu.Unlock()
		if m.closed {
			return fmt.Errorf("leave: %w", ErrClosed)
		}
		return nil
	}
	m.self.Leaving = true
	m.mu.Unlock()

	deadline := time.Now().Add(timeout)
	m.say()
	errCard := m.waitUntilSaid(time.Now().Add(min(timeout/2, sayWithin)))
	m.mu.Lock()
	m.leaving = true
	m.mu.Unlock()
	errLeave := m.list.Leave(max(time.Until(deadline), time.Nanosecond))
	if err := errors.Join(errCard, errLeave); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// sayWithin is how long the last card is waited for: some round trips. Who misses it has the LEAVE frame, or finds a death.
const sayWithin = 300 * time.Millisecond

// waitUntilSaid waits until those who are there have this host's card.
func (m *Membership) waitUntilSaid(deadline time.Time) error {
	for !m.sessions.HasSaid() {
		if !time.Now().Before(deadline) {
			return errors.New("not all members know")
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

// Shutdown ends memberlist and closes the transport. Without Leave before it
// the others see us fail. From its first moment no event is delivered. It may
// be called more than once.
func (m *Membership) Shutdown() error {
	m.mu.Lock()
	closed := m.closed
	m.closed = true
	m.mu.Unlock()
	if closed {
		return nil
	}
	select {
	case <-m.wake:
	default:
	}
	m.timer.Stop()
	m.ops <- struct{}{}
	defer func() { <-m.ops }()
	err := m.list.Shutdown()
	m.log.stop()
	if err != nil {
		return fmt.Errorf("shut membership down: %w", err)
	}
	return nil
}

// Release is Shutdown, but leaves the transport open for another Membership.
func (m *Membership) Release() error {
	m.filter.leavesLAN.Store(true)
	return m.Shutdown()
}

// Health is memberlist's opinion of this host: 0 is good, up to 7 for one whose
// own probes fail or who has to deny its death often.
func (m *Membership) Health() int { return m.list.GetHealthScore() }

// Heard says how long ago something last came in a session of a member that is or was here, and whether it ever did.
func (m *Membership) Heard(id wire.ID) (ago time.Duration, ever bool) {
	m.mu.Lock()
	h := m.lives.byID[id]
	if h == nil || !h.wasHere() {
		m.mu.Unlock()
		return 0, false
	}
	nonce, ago := h.now.Nonce, time.Since(h.heard)
	m.mu.Unlock()
	if _, _, inSession, ok := m.sessions.Heard(id, nonce); ok && inSession < ago {
		ago = inSession
		m.mu.Lock()
		if h.now.Nonce == nonce {
			h.heard = time.Now().Add(-ago) // a session that nobody uses is forgotten
		}
		m.mu.Unlock()
	}
	return ago, true
}

// TwoRounds is how long memberlist takes to ping every living member twice: it
// goes through all that it believes alive, those that others made up too, in a new
// random order each round, one in each interval. The two intervals more let one ping
// be lost.
func (m *Membership) TwoRounds() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(2*max(m.lives.countHere(), m.lives.hints)+2) * m.probing
}

// Known returns the last known state of all other members, those that died or
// left included (the last 256), sorted by id.
func (m *Membership) Known() []Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lives.known(time.Now())
}

// Told returns those that others tell of and that were dialled in vain, sorted by id. They have no names, and
// others may have made them up.
func (m *Membership) Told() []Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lives.told(time.Now())
}
