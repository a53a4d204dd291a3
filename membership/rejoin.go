package membership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	defaultPort = 7950

	// JoinTimeout bounds one attempt to connect to a host, and one exchange with it. A push/pull of 2,000 members is
	// some 400 KB.
	JoinTimeout = 3 * time.Second

	// How long to wait between attempts: protocol 6.2, P8. The upper bound
	// there is 30 s, in which a cut is to be healed; two of them are for the
	// exchange itself and for the gossip that follows.
	quickLow, quickHigh   = 1 * time.Second, 5 * time.Second // within quickFor of losing a member
	steadyLow, steadyHigh = 5 * time.Second, 28 * time.Second
	quickFor              = time.Minute

	// Hosts that start together must find each other before they have settled,
	// or each would lead alone: whoever comes first finds nobody at its first
	// attempt.
	firstLow, firstHigh = 100 * time.Millisecond, 300 * time.Millisecond
	firstFor            = 10 * time.Second

	// maxJoining bounds the attempts under way. One to a host that is off takes
	// pings times memberlist's ProbeTimeout, 1.5 s: maxEnded lost members are
	// all tried within 12 s.
	maxJoining = 32

	// maxHinted bounds those beside maxJoining to what a source gave: who lies to one can
	// name many addresses where nobody answers, and seeds and lost members do not wait for
	// these. Arbitrary.
	maxHinted = 8

	pings = 3 // one in eight attempts fails by chance if a third of all datagrams is lost

	resolveTimeout = 5 * time.Second
)

// settled are the ages at which a young agent exchanges lists with its seeds once
// more, though they live. When many hosts start together, each learns from its
// seed of those who came before it and by gossip of the later ones, but memberlist
// repeats a piece of news only as often as the number of members it knew by then
// warrants: one in a hundred times somebody misses somebody, until a push/pull
// happens to mend it, half a minute or more later.
var settled = []time.Duration{2 * time.Second, 8 * time.Second}

// Resolver gives the addresses of a host's name, as net.Resolver does.
type Resolver func(ctx context.Context, host string) ([]netip.Addr, error)

// Finder gives the hosts that a seed stands for, in the forms of Config.Seeds: itself alone,
// or what somebody else knows of now, which is tried after what is known here. There may be hosts and an error: what was found in
// spite of it. It is called in a goroutine of its own, for a seed never twice at a time, and
// must end by itself, sooner if its context does.
type Finder func(ctx context.Context, seed string) (hosts []string, err error)

// rejoin is the state of the loop that looks for members who are not there: the
// seeds, and everybody who died without leaving. memberlist forgets a dead
// member after half a minute and never speaks to it again (P8), so
// without this loop a partition that lasts longer is for ever.
type rejoin struct {
	find        Finder
	resolve     Resolver
	defaultPort uint16
	random      *rand.Rand    // the loop's
	began       time.Time     // the loop's
	exchanges   int           // the loop's: how many of settled have passed
	nudged      chan struct{} // try at once
	lost        chan struct{} // a member was lost: do not sleep for long
	joining     chan struct{} // a token for each attempt under way at a seed or a lost member
	hinted      chan struct{} // a token for each attempt under way at what else a source gave

	mu       sync.Mutex
	seeds    []string
	before   map[netip.AddrPort]bool // where members were before this life, and nobody was met yet
	lostAt   time.Time               // when a member was lost last, or the link came back
	next     time.Time               // when all are tried again
	failing  map[string]SeedFailure
	underWay map[string]bool         // seeds and addresses that are being tried
	failures map[netip.AddrPort]bool // where an attempt has failed since the last that succeeded
	state    JoinState               // but Seeds, Failing, Lost, Refused and Kept
}

// JoinState is what status shows of joining.
type JoinState struct {
	Seeds       []string
	Failing     []SeedFailure     // seeds of which not all that was asked for was found, by name
	Lost        int               // addresses of members that died without leaving, all tried again and again
	LastSuccess time.Time         // when another agent last exchanged its list of members with us at our request
	LastError   string            // of the last attempt at an address that failed
	LastErrorAt time.Time         // zero if none failed
	Refused     map[string]uint64 // alive messages and leader records that were not taken, by cause
	Kept        map[string]uint64 // datagrams and streams that memberlist did not get, by cause
}

// SeedFailure is a seed that could not be turned into addresses, or not wholly.
type SeedFailure struct {
	Seed string
	Err  string
	Next time.Time // of the next attempt
}

// firstJoin is whether a new life knows yet who is there: its first attempts at seeds. One that leads before may lead
// beside others. It belongs to Membership.mu.
type firstJoin struct {
	hasEnded bool // all first attempts have
	isTold   bool
}

// isNews reports once that the first join has an outcome: a member is here, or all attempts have ended and nobody who is told of
// has still to answer. A copy of this host is no member. It has a moment to show itself, since one of the two goes.
func (j *firstJoin) isNews(l *lives, now time.Time) bool {
	if j.isTold || l.awaitsCopies(now) || l.countHere() == 0 && (!j.hasEnded || l.awaitsDials(now)) {
		return false
	}
	j.isTold = true
	return true
}

// round is one look for absent members: what its attempts have in common.
type round struct {
	again bool           // living members are asked as well
	open  sync.WaitGroup // attempts under way
}

// endFirstJoin waits for the first attempts.
func (m *Membership) endFirstJoin(first *round) {
	first.open.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.first.hasEnded = true
	m.signal()
}

func newRejoin(cfg Config) *rejoin {
	r := &rejoin{
		find:        cfg.Find,
		resolve:     cfg.Resolve,
		defaultPort: cfg.DefaultPort,
		nudged:      make(chan struct{}, 1),
		lost:        make(chan struct{}, 1),
		joining:     make(chan struct{}, maxJoining),
		hinted:      make(chan struct{}, maxHinted),
		seeds:       slices.Clone(cfg.Seeds),
		before:      make(map[netip.AddrPort]bool),
		underWay:    make(map[string]bool),
		failing:     make(map[string]SeedFailure),
		failures:    make(map[netip.AddrPort]bool),
	}
	for _, addr := range cfg.Lost {
		r.before[addr] = true
	}
	if r.find == nil {
		r.find = func(_ context.Context, seed string) ([]string, error) { return []string{seed}, nil }
	}
	if r.resolve == nil {
		r.resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if r.defaultPort == 0 {
		r.defaultPort = defaultPort
	}
	seed := cfg.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	r.random = rand.New(rand.NewPCG(seed, 0))
	return r
}

// Rejoin looks for absent members until ctx ends, and returns ctx.Err(). The
// first attempt is at once, the next ones as often as protocol 2.5 says. Attempts
// that are under way then end by themselves, within two of memberlist's
// TCPTimeouts. It is to be called once, for as long as the agent runs.
func (m *Membership) Rejoin(ctx context.Context) error {
	m.rejoin.began = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	next, hasLooked := time.Now(), false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.rejoin.lost:
			if quick := time.Now().Add(m.rejoin.pause()); quick.Before(next) {
				next = quick
				m.rejoin.tellNext(next)
				timer.Reset(time.Until(next))
			}
			continue
		case <-m.rejoin.nudged:
		case <-timer.C:
		}
		next = time.Now().Add(m.rejoin.pause())
		m.rejoin.tellNext(next)
		this := m.lookForAbsent(ctx)
		if !hasLooked {
			hasLooked = true
			go m.endFirstJoin(this)
		}
		timer.Reset(time.Until(next))
	}
}

// Nudge makes Rejoin try at once: our own link came back.
func (m *Membership) Nudge() {
	m.rejoin.quicken()
	notify(m.rejoin.nudged)
}

// SetSeeds replaces the seeds; they are tried at once.
func (m *Membership) SetSeeds(seeds []string) {
	m.rejoin.mu.Lock()
	m.rejoin.seeds = slices.Clone(seeds)
	maps.DeleteFunc(m.rejoin.failing, func(seed string, _ SeedFailure) bool { return !slices.Contains(seeds, seed) })
	m.rejoin.mu.Unlock()
	notify(m.rejoin.nudged)
}

// JoinState returns a copy.
func (m *Membership) JoinState() JoinState {
	m.rejoin.mu.Lock()
	s := m.rejoin.state
	s.Seeds = slices.Clone(m.rejoin.seeds)
	for _, seed := range slices.Sorted(maps.Keys(m.rejoin.failing)) {
		f := m.rejoin.failing[seed]
		f.Next = m.rejoin.next
		s.Failing = append(s.Failing, f)
	}
	m.rejoin.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	_, lost := m.lives.addresses()
	s.Lost = len(lost)
	s.Refused, s.Kept = maps.Clone(m.refused), maps.Clone(m.kept)
	return s
}

// lostMember may be called with any lock held but rejoin's own.
func (r *rejoin) lostMember() {
	r.quicken()
	notify(r.lost)
}

func (r *rejoin) quicken() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lostAt = time.Now()
}

// pause is for the loop's goroutine only.
func (r *rejoin) pause() time.Duration {
	r.mu.Lock()
	quick := !r.lostAt.IsZero() && time.Since(r.lostAt) < quickFor
	r.mu.Unlock()
	switch {
	case time.Since(r.began) < firstFor:
		return r.between(firstLow, firstHigh)
	case quick || time.Since(r.began) < quickFor:
		return r.between(quickLow, quickHigh)
	}
	return r.between(steadyLow, steadyHigh)
}

func (r *rejoin) between(low, high time.Duration) time.Duration {
	return low + time.Duration(r.random.Int64N(int64(high-low)))
}

// lookForAbsent starts one attempt for each seed and each lost member. None
// waits for another: a name server that hangs delays the seeds that it knows.
func (m *Membership) lookForAbsent(ctx context.Context) *round {
	this := &round{}
	m.mu.Lock()
	alive, lost := m.lives.addresses()
	over := m.closed || m.leaving
	m.mu.Unlock()
	if over {
		return this
	}
	m.rejoin.mu.Lock()
	seeds := m.rejoin.seeds
	maps.DeleteFunc(m.rejoin.before, func(at netip.AddrPort, _ bool) bool { return alive[at] || lost[at] })
	before := slices.Collect(maps.Keys(m.rejoin.before))
	m.rejoin.mu.Unlock()
	if len(seeds)+len(alive)+len(lost) == 0 && m.log.minutely("no seeds") {
		m.log.info("alone without seeds: waiting for others to join us")
	}
	this.again = m.rejoin.passed()
	for _, seed := range seeds {
		m.rejoin.start(this, "seed "+seed, func() { m.trySeed(ctx, this, seed) })
	}
	for addr := range lost {
		m.tryAddr(ctx, this, addr, false)
	}
	for _, addr := range before {
		m.tryAddr(ctx, this, addr, false)
	}
	return this
}

// passed reports that one more of the ages in settled was reached. It is for the
// loop's goroutine only.
func (r *rejoin) passed() bool {
	if r.exchanges == len(settled) || time.Since(r.began) < settled[r.exchanges] {
		return false
	}
	r.exchanges++
	return true
}

// start runs try in a goroutine unless one for the same key is under way.
func (r *rejoin) start(this *round, key string, try func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.underWay[key] {
		return
	}
	r.underWay[key] = true
	this.open.Go(func() {
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.underWay, key)
		}()
		try()
	})
}

// trySeed finds out what hosts a seed stands for and resolves their names, again at each
// attempt, and tries what it finds. No name waits for another.
func (m *Membership) trySeed(ctx context.Context, this *round, seed string) {
	hosts, err := m.rejoin.find(ctx, seed)
	isHint := !slices.Equal(hosts, []string{seed})
	problems := make([]error, len(hosts))
	var group sync.WaitGroup
	for i, host := range hosts {
		group.Go(func() {
			addrs, err := m.rejoin.lookup(ctx, host)
			for _, addr := range addrs {
				m.tryAddr(ctx, this, addr, isHint)
			}
			problems[i] = err
		})
	}
	group.Wait()
	if ctx.Err() == nil {
		m.noteSeed(seed, inOneLine(errors.Join(err, errors.Join(problems...))))
	}
}

// noteSeed keeps, and says each minute, what has not been found of a seed; nil: all was.
func (m *Membership) noteSeed(seed string, err error) {
	r := m.rejoin
	r.mu.Lock()
	isWanted := slices.Contains(r.seeds, seed)
	if err == nil || !isWanted {
		delete(r.failing, seed)
	} else {
		r.failing[seed] = SeedFailure{Seed: seed, Err: err.Error()}
	}
	r.mu.Unlock()
	if err == nil || !isWanted {
		return
	}
	if m.log.minutely("seed not resolved " + seed) {
		m.log.info("seed not resolved, trying again", "addr", seed, "err", err)
	}
}

// inOneLine makes one line of an error of several, the first of them and how many more there
// are; nil of nil.
func inOneLine(err error) error {
	const most = 3 // arbitrary: a log line is cut at maxLine
	if err == nil {
		return nil
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) == 1 {
		return err
	}
	text := strings.Join(lines[:min(len(lines), most)], "; ")
	if more := len(lines) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return errors.New(text)
}

// lookup gives the addresses of "host", "host:port", "IP", "IP:port" or
// "[IP]:port".
func (r *rejoin) lookup(ctx context.Context, seed string) ([]netip.AddrPort, error) {
	host, port, err := splitSeed(seed, r.defaultPort)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), port)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips, err := r.resolve(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", host, err)
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("look up %s: no addresses", host)
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip.Unmap(), port)
	}
	return addrs, nil
}

func splitSeed(seed string, port uint16) (string, uint16, error) {
	if _, err := netip.ParseAddr(seed); err == nil || !strings.Contains(seed, ":") {
		if seed == "" {
			return "", 0, errors.New("seed is empty; expected host or host:port")
		}
		return strings.Trim(seed, "[]"), port, nil
	}
	host, text, err := net.SplitHostPort(seed)
	if err != nil {
		return "", 0, fmt.Errorf("%w; expected host, host:port or [IPv6]:port", err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || host == "" {
		return "", 0, fmt.Errorf("%q is not host:port with a port from 1 to 65535", seed)
	}
	return host, uint16(n), nil
}

// tryAddr exchanges lists of members with addr unless it is ours, or a living
// member's and not wanted again. A hint is what a source gave, and has slots and a key of
// its own, for a lost member or a seed at that address not to wait for it.
func (m *Membership) tryAddr(ctx context.Context, this *round, addr netip.AddrPort, isHint bool) {
	if m.isSelf(addr) {
		return
	}
	m.mu.Lock()
	alive, lost := m.lives.addresses()
	m.mu.Unlock()
	if alive[addr] && !this.again {
		return
	}
	key, slots := addr.String(), m.rejoin.joining
	if isHint && !lost[addr] {
		key, slots = "hint "+key, m.rejoin.hinted
	}
	m.rejoin.start(this, key, func() {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return
		}
		m.join(addr, lost[addr], len(alive) == 0)
	})
}

// isSelf knows our address, and a loopback address with our port as well: on
// Debian a host's own name resolves to 127.0.1.1.
func (m *Membership) isSelf(addr netip.AddrPort) bool {
	own := m.admit.self.Addr
	return addr == own || addr.Port() == own.Port() && addr.Addr().IsLoopback() && !own.Addr().IsLoopback()
}

// join blocks for up to pings times memberlist's ProbeTimeout, and then twice
// the TCPTimeout.
func (m *Membership) join(addr netip.AddrPort, wasLost, alone bool) {
	err := m.exchange(addr, wasLost)
	if err != nil {
		m.rejoin.failed(fmt.Sprintf("%s: %v", addr, err))
	}
	m.mu.Lock()
	members := m.lives.countHere() + m.lives.hints
	m.mu.Unlock()
	switch {
	case err != nil && alone:
		if !m.rejoin.isFirstFailure(addr) { // a session may know more than a stream that was closed, and end this agent
			m.sayMinutely("join failed", addr.String(), err)
		}
	case err != nil:
		m.log.debug("rejoin failed", "addr", addr, "err", err)
	case members == 0:
		// Another address of ours, or a host that admission refuses.
		m.log.debug("nobody joined", "addr", addr)
	case alone:
		m.rejoin.succeeded()
		m.log.info("joined", "addr", addr)
	default:
		m.rejoin.succeeded()
		m.log.debug("rejoined", "addr", addr)
	}
}

// exchange merges our list of members with addr's, by TCP. A member that was
// lost must first answer by UDP: where a firewall lets only TCP pass, memberlist
// would take it back after each exchange and lose it again some seconds later,
// for ever, while no election frame reaches it (P19).
func (m *Membership) exchange(addr netip.AddrPort, wasLost bool) error {
	if err := checkAddr(addr); err != nil {
		return err
	}
	if wasLost && !m.answers(addr) {
		return fmt.Errorf("no answer by UDP: it is off or cut off, or a firewall stops port %d/udp", addr.Port())
	}
	_, err := m.list.Join([]string{addr.String()})
	// Who is there need not wait for its turn among all who are told of; and who has closed the stream says why in a session: this
	// host may have had a later life (S19).
	m.sessions.Ask(addr)
	if err != nil {
		return explain(err)
	}
	return nil
}

// Reaches reports whether whoever is at addr answers a ping before ctx ends.
func (m *Membership) Reaches(ctx context.Context, addr netip.AddrPort) bool {
	if checkAddr(addr) != nil {
		return false
	}
	answered := make(chan bool, 1)
	go func() { answered <- m.answers(addr) }() // a ping cannot be cut short
	select {
	case reached := <-answered:
		return reached
	case <-ctx.Done():
		return false
	}
}

// answers pings whoever is at addr, under any name: a restart has a new one.
// memberlist's Ping blocks (P17), so this is for the goroutine of an attempt.
func (m *Membership) answers(addr netip.AddrPort) bool {
	for range pings {
		if _, err := m.list.Ping("", net.UDPAddrFromAddrPort(addr)); err == nil {
			return true
		}
	}
	return false
}

// explain shortens what memberlist says of one address to its cause. It comes as
// a list of one error over two lines which repeats the address, without types to
// ask.
func explain(err error) error {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	text := strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "* ")
	if rest, found := strings.CutPrefix(text, "failed to join "); found {
		_, text, _ = strings.Cut(rest, ": ")
	}
	for _, end := range []string{"EOF", "connection reset by peer", "broken pipe"} {
		if strings.HasSuffix(text, end) {
			return errors.New("connection closed without an answer: it is in another cluster, has a key while this host has none, or is no bully-agent")
		}
	}
	return errors.New(text)
}

// sayMinutely is for what goes on until somebody mends it.
func (m *Membership) sayMinutely(msg, addr string, err error) {
	if m.log.minutely(msg + " " + addr) {
		m.log.info(msg+", trying again", "addr", addr, "err", err)
	}
}

func (r *rejoin) tellNext(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = at
}

func (r *rejoin) failed(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.LastError, r.state.LastErrorAt = text, time.Now()
}

// isFirstFailure: no attempt at addr had failed since the last that succeeded, or so many have that this is forgotten.
func (r *rejoin) isFirstFailure(addr netip.AddrPort) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failures[addr] {
		return false
	}
	if len(r.failures) >= maxThrottled { // seeds may give ever new addresses
		clear(r.failures)
	}
	r.failures[addr] = true
	return true
}

func (r *rejoin) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.failures)
	r.state.LastSuccess = time.Now()
}

func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
