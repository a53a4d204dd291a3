package election

import (
	"container/heap"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// world is a small LAN in virtual time for transcripts: real Nodes, frames that
// take a fixed delay through the real codec, cables that can be cut, a failure
// detector that says what the transcript makes it say, hooks that take as long
// as it wants. Everything happens in one goroutine and in a fixed order.
//
// It checks, all the time, what no schedule may break: epochs rise at every
// node and on every disk, an epoch has one leader and is on its disk before it
// is shown, hooks alternate, a timer runs, a roster is told from the disk (I1, I2,
// I6, I7, I8, I18, I22, I23).
type world struct {
	t      testing.TB
	now    time.Time
	zero   time.Time
	hosts  []*host
	events timeline
	order  int

	delay    time.Duration
	cuts     map[[2]int]bool
	holds    []hold
	held     []Send
	heldFrom []*host
	lose     time.Duration // how long a lose hook takes
	sends    bool          // frames appear in the trace
	sent     map[wire.Kind]int
	frames   hash.Hash64 // over all frames, in order
	owners   map[wire.Epoch]*host
	ascents  []Transition // to Lead, in order
	trace    strings.Builder
	cfg      Config
	weather  weather
}

// weather is what the network does to frames. The zero weather is calm: each
// arrives once, after world.delay.
type weather struct {
	rng       *rand.Rand
	loss      float64 // of each copy
	duplicate float64 // a second copy
	spike     float64 // a delay of up to spikeUpTo, else up to jitter
	jitter    time.Duration
	spikeUpTo time.Duration
}

// copies gives the delays, beyond the cable's own, of what arrives of one frame.
func (c *weather) copies() []time.Duration {
	if c.rng == nil {
		return []time.Duration{0}
	}
	var out []time.Duration
	for sent := 1; sent > 0; sent-- {
		if len(out) == 0 && c.rng.Float64() < c.duplicate {
			sent++
		}
		span := c.jitter
		if c.rng.Float64() < c.spike {
			span = c.spikeUpTo
		}
		late := time.Duration(c.rng.Float64() * float64(span))
		if c.rng.Float64() >= c.loss {
			out = append(out, late)
		}
	}
	return out
}

type hold struct {
	kind     wire.Kind
	from, to int
}

// host is one machine: its disk outlives its node.
type host struct {
	w        *world
	number   int
	node     *Node // nil: not running
	disk     Saved
	diskFull bool
	sync     time.Duration // how long a save blocks the process
	priority uint16
	part     Part
	nonce    uint32
	frozen   bool
	backlog  []Event
	epoch    wire.Epoch // last shown
	accepted wire.Epoch // the highest that it followed or led, in all its lives
	led      wire.Epoch // epoch whose become hook ran without its lose
	losing   wire.Epoch // epoch whose lose hook runs
	life     int
	reborn   int // how often its disk was lost
	tether   Tether
	will     Will
	missing  []int // from its host list; empty: it has none
}

type timed struct {
	at    time.Time
	order int
	do    func()
}

type timeline []timed

func (q timeline) Len() int { return len(q) }
func (q timeline) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].order < q[j].order
}
func (q timeline) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *timeline) Push(x any)   { *q = append(*q, x.(timed)) }
func (q *timeline) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newWorld(t testing.TB, n int, cfg Config) *world {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w := &world{t: t, now: start, zero: start, delay: time.Millisecond, cuts: map[[2]int]bool{},
		sent: map[wire.Kind]int{}, frames: fnv.New64a(), owners: map[wire.Epoch]*host{}, lose: 5 * time.Millisecond, cfg: cfg}
	for i := range n {
		w.hosts = append(w.hosts, &host{w: w, number: i + 1, priority: uint16(i + 1)})
	}
	return w
}

func hostID(number int) wire.ID { return wire.ID{byte(number), 6: 0x40, 8: 0x80} }

func (h *host) id() wire.ID {
	id := hostID(h.number)
	id[1] = byte(h.reborn)
	return id
}

func (h *host) addr() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(h.number)}), 7950)
}

func (h *host) member(s Presence) Member {
	return Member{ID: h.id(), Addr: h.addr(), Incarnation: h.disk.Incarnation, Nonce: h.nonce,
		Priority: h.priority, Part: h.part, Status: s, RTT: 2 * h.w.delay, List: h.list().Digest}
}

// list is the host's own: all but those that are missing.
func (h *host) list() (e HostsChanged) {
	if len(h.missing) == 0 {
		return e
	}
	for _, other := range h.w.hosts {
		if !slices.Contains(h.missing, other.number) {
			e.IDs = append(e.IDs, other.id())
			e.Digest |= 1 << other.number
		}
	}
	slices.SortFunc(e.IDs, wire.ID.Compare)
	return e
}

// unlist has hosts reload without a line. The host that it was is told so, and the others of the new digest.
func (w *world) unlist(lost *host, at []*host, isTold bool) {
	for _, h := range at {
		if h == lost {
			continue
		}
		h.missing = append(h.missing, lost.number)
		if h.node == nil {
			continue
		}
		w.step(h, h.list())
		for _, other := range w.hosts {
			if other != h && other.node != nil && !slices.Contains(h.missing, other.number) {
				w.step(other, MemberChanged{h.member(Alive)})
			}
		}
		if isTold && lost.node != nil && !w.isCut(h, lost) {
			w.step(lost, Barred{Bar: BarListed, On: true})
		}
	}
}

func (w *world) host(number int) *host { return w.hosts[number-1] }

func (w *world) after(d time.Duration, do func()) {
	w.order++
	heap.Push(&w.events, timed{w.now.Add(d), w.order, do})
}

// boot starts a host; it and the others that run learn of each other at once.
func (w *world) boot(h *host) {
	w.start(h)
	for _, other := range w.hosts {
		if other != h && other.node != nil && !w.isCut(other, h) && !w.isCut(h, other) {
			w.step(other, MemberChanged{h.member(Alive)})
			w.step(h, MemberChanged{other.member(Alive)})
		}
	}
}

// start begins a new life of a host; nobody knows of it yet, and it of nobody.
func (w *world) start(h *host) {
	h.life++
	h.disk.Incarnation++
	h.nonce = uint32(h.number<<8 | h.life)
	h.frozen, h.backlog = false, nil
	h.losing = wire.Epoch{}
	h.tether, h.will = Tether{}, Will{}
	h.epoch = wire.Epoch{} // claims too must not fall, in one life
	cfg := w.cfg
	cfg.ID, cfg.Nonce, cfg.Priority, cfg.Part = h.id(), h.nonce, h.priority, h.part
	cfg.Rand = rand.New(rand.NewPCG(uint64(h.number), uint64(h.life)))
	node, err := New(cfg, h.disk, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	if h.led != (wire.Epoch{}) {
		w.say(h, "lose hook epoch=%v cause=%s", h.led, UncleanRestarted)
		h.led, h.disk.Promoted = wire.Epoch{}, wire.Epoch{}
	}
	h.node = node
	h.node.saved.Promoted = h.disk.Promoted
	h.node.commitment = h.secret().Commit()
	w.arm(h)
}

// secret is what the keeper of the host's life says in a will.
func (h *host) secret() wire.Secret { return wire.Secret{byte(h.number), byte(h.life)} }

func (w *world) kill(h *host) { h.node = nil }

// die ends the process of a host that goes on: its kernel ends the streams to
// it and refuses new ones.
func (w *world) die(h *host) {
	nonce := h.nonce
	w.kill(h)
	for _, other := range w.hosts {
		if other.node == nil || other.tether.ID != h.id() || w.isCut(h, other) || w.isCut(other, h) {
			continue
		}
		w.after(w.delay, func() { w.step(other, TetherLost{h.id(), nonce}) })
		w.after(2*w.delay, func() { w.step(other, Refused{h.id(), nonce}) })
	}
}

// bequeath lets what ran the hooks of a dead process say its will, once the lose hook has
// ended, three times to each heir.
func (w *world) bequeath(h *host) {
	if !h.led.IsZero() {
		w.say(h, "lose hook ended epoch=%v", h.led)
		h.led = wire.Epoch{}
	}
	w.say(h, "%v", h.will)
	will := wire.AppendWill(nil, h.secret())
	for copies := range 3 {
		for _, to := range h.will.To {
			heir := w.host(int(to.Addr().As4()[3]))
			w.after(time.Duration(copies)*20*time.Millisecond, func() { w.sayWill(h, heir, will) })
		}
	}
}

// sayWill takes a will over the cable; a port hands on those alone that mean something.
func (w *world) sayWill(from, to *host, b []byte) {
	if w.sends {
		w.say(from, "→ n%d WILL", to.number)
	}
	w.frames.Write(b)
	w.after(w.delay, func() {
		secret, isWill := wire.ParseWill(b)
		if !isWill {
			w.t.Fatalf("will %x does not survive the codec", b)
		}
		c := secret.Commit()
		if to.node == nil || w.isCut(from, to) {
			return
		}
		if known := to.node.Pledges(); known.Match(c) {
			w.step(to, WillHeard{c})
		}
	})
}

// wipe gives a host that is down a new disk; its agent has a new id then.
func (w *world) wipe(h *host) { h.disk, h.accepted, h.reborn = Saved{}, wire.Epoch{}, h.reborn+1 }

func (w *world) freeze(h *host, d time.Duration) {
	h.frozen = true
	life := h.life
	w.after(d, func() {
		if h.life == life {
			w.thaw(h)
		}
	})
}

// thaw ends a freeze: the timers fire first, then come the frames that waited.
func (w *world) thaw(h *host) {
	if h.node == nil || !h.frozen {
		return
	}
	h.frozen = false
	backlog := h.backlog
	h.backlog = nil
	w.step(h, Tick{})
	for _, ev := range backlog {
		w.step(h, ev)
	}
}

func (w *world) isCut(from, to *host) bool { return w.cuts[[2]int{from.number, to.number}] }

// step gives one event to a host's node and carries out what it says.
func (w *world) step(h *host, ev Event) {
	if h.node == nil {
		return
	}
	if h.frozen {
		h.backlog = append(h.backlog, ev)
		return
	}
	if e, ok := ev.(HookEnded); ok && e.Hook == Lose {
		h.losing = wire.Epoch{}
	}
	w.carryOut(h, slices.Clone(h.node.Step(w.now, ev)))
	w.checkArmed(h)
	w.checkOneLeader()
	w.arm(h)
}

// carryOut does what a step said. A slow disk blocks the process in the middle.
func (w *world) carryOut(h *host, effects []Effect) {
	for i, effect := range effects {
		if !w.apply(h, effect) {
			w.step(h, SaveFailed(effect.(Save)))
			return
		}
		if _, isSave := effect.(Save); !isSave || h.sync == 0 {
			continue
		}
		h.frozen = true
		life := h.life
		w.after(h.sync, func() {
			if h.life != life || h.node == nil {
				return
			}
			h.frozen = false
			w.carryOut(h, effects[i+1:])
			h.frozen, h.backlog = true, slices.Insert(h.backlog, 0, Event(DiskTimed{h.sync}))
			w.thaw(h)
		})
		return
	}
}

// checkOneLeader: in quorum mode no two hosts may act at one time, frozen ones
// included (I5).
func (w *world) checkOneLeader() {
	if w.cfg.Expect == 0 {
		return
	}
	var acts *host
	for _, h := range w.hosts {
		if h.node == nil || h.node.state != Lead || !w.now.Before(h.node.leaseEnd()) {
			continue
		}
		if acts != nil {
			w.t.Fatalf("I5: hosts %d and %d lead at one time, in epochs %v and %v", acts.number, h.number, acts.node.epoch, h.node.epoch)
		}
		acts = h
	}
}

// checkArmed: a node always waits for some time, unless it takes no part or
// waits for its lose hook (I22).
func (w *world) checkArmed(h *host) {
	if h.node.Deadline().IsZero() && h.node.state != Observe && h.losing.IsZero() {
		w.t.Fatalf("I22: host %d waits for nothing in %s", h.number, h.node.state)
	}
}

func (w *world) arm(h *host) {
	at := h.node.Deadline()
	if at.IsZero() {
		return
	}
	life := h.life
	w.after(max(at.Sub(w.now), 0), func() {
		if h.node != nil && h.life == life && !h.frozen && !h.node.Deadline().IsZero() && !w.now.Before(h.node.Deadline()) {
			w.step(h, Tick{})
		}
	})
}

// apply carries out one effect; false: it failed, and what follows is dropped.
func (w *world) apply(h *host, effect Effect) bool {
	switch e := effect.(type) {
	case Save:
		if h.diskFull {
			w.say(h, "disk is full")
			return false
		}
		if e.State.MaxCounter < h.disk.MaxCounter || e.State.Incarnation < h.disk.Incarnation {
			w.t.Fatalf("I1: host %d: disk went back from %+v to %+v", h.number, h.disk, e.State)
		}
		h.disk = e.State
	case Send:
		w.send(h, e)
	case Tether:
		h.tether = e
	case Will:
		h.will = e
	case Transition:
		w.say(h, "%v", e)
		w.checkTransition(h, e)
	case StartHook:
		w.say(h, "%v", e)
		w.startHook(h, e)
	case Departed, Reached:
		w.say(h, "%v", effect)
	case Reply:
		w.say(h, "%v", effect)
	}
	return true
}

func (w *world) checkTransition(h *host, e Transition) {
	lostDuel := w.cfg.Expect > 0 && e.Epoch.Counter == h.epoch.Counter && h.epoch.Owner == h.id() && w.owners[h.epoch] == nil
	if e.Epoch.Compare(h.epoch) < 0 && h.life > 0 && !lostDuel {
		w.t.Fatalf("I6: host %d went from epoch %v to %v", h.number, h.epoch, e.Epoch)
	}
	if e.Epoch.Owner == h.id() && e.Epoch.Counter > h.disk.MaxCounter {
		w.t.Fatalf("I2: host %d shows epoch %v with counter %d on disk", h.number, e.Epoch, h.disk.MaxCounter)
	}
	h.epoch = e.Epoch
	w.checkAccepted(h, e)

	if e.To == Lead {
		if owner := w.owners[e.Epoch]; owner != nil || e.Epoch.Owner != h.id() {
			w.t.Fatalf("I7: epoch %v has two leaderships", e.Epoch)
		}
		w.owners[e.Epoch] = h
		w.ascents = append(w.ascents, e)
	}
}

// checkAccepted: what a host follows or leads in never falls, over its restarts
// too, unless its disk took no writes (I6).
func (w *world) checkAccepted(h *host, e Transition) {
	if e.To != Lead && (e.To != Follow || e.Leader.IsZero()) {
		return
	}
	isSaved := e.Epoch.Compare(h.disk.Accepted) <= 0 || e.Epoch == h.disk.Vote
	switch {
	case e.Epoch.Compare(h.accepted) < 0:
		w.t.Fatalf("I6: host %d accepts epoch %v after %v in a life before", h.number, e.Epoch, h.accepted)
	case h.diskFull:
	case !isSaved:
		w.t.Fatalf("I6: host %d accepts epoch %v with %v on disk", h.number, e.Epoch, h.disk.Accepted)
	default:
		h.accepted = e.Epoch
	}
}

// checkFrame: an epoch is on its owner's disk before a frame shows it, is
// announced and resigned by its owner alone, and is not resigned before its
// lose hook has ended (I2, I18).
func (w *world) checkFrame(from *host, f *wire.Frame) {
	isOwn := f.Epoch.Owner == from.id()
	switch {
	case isOwn && f.Epoch.Counter > from.disk.MaxCounter:
		w.t.Fatalf("I2: host %d sends %v with counter %d on disk", from.number, f, from.disk.MaxCounter)
	case !isOwn && (f.Kind == wire.Coordinator || f.Kind == wire.Heartbeat || f.Kind == wire.Resign):
		w.t.Fatalf("I2: host %d sends %v of another's epoch", from.number, f)
	case f.Kind == wire.Resign && f.Epoch == from.led:
		w.t.Fatalf("I18: host %d resigns %v before its lose hook has ended", from.number, f.Epoch)
	case f.Kind == wire.Roster && f.Phase == wire.Formed && !isOnDisk(from, f),
		f.Kind == wire.RosterAck && f.AckVerdict == wire.Accept && f.RosterVersion != from.disk.Roster.Version:
		w.t.Fatalf("I23: host %d sends %v with %+v on disk", from.number, f, from.disk.Roster)
	}
}

// isOnDisk: the host has the roster that f carries on disk, as one that holds.
func isOnDisk(h *host, f *wire.Frame) bool {
	r := h.disk.Roster
	return r.Formed && f.RosterVersion == r.Version && slices.Equal(f.Voters[:f.Count], r.IDs)
}

func (w *world) startHook(h *host, e StartHook) {
	took := w.lose
	switch {
	case e.Hook == Become && !h.led.IsZero():
		w.t.Fatalf("I8: host %d becomes leader of %v before it lost %v", h.number, e.Epoch, h.led)
	case e.Hook == Become && h.disk.Promoted != e.Epoch:
		w.t.Fatalf("I8: host %d runs the become hook of %v with %v on disk", h.number, e.Epoch, h.disk.Promoted)
	case e.Hook == Lose && h.led != e.Epoch:
		w.t.Fatalf("I8: host %d runs the lose hook of %v after the become hook of %v", h.number, e.Epoch, h.led)
	case e.Hook == Become:
		h.led, took = e.Epoch, time.Millisecond
	case !e.By.IsZero():
		took = min(took, e.By.Sub(h.node.now))
	}
	if e.Hook == Lose {
		h.losing = e.Epoch
	}
	life := h.life
	w.after(took, func() {
		if h.life != life || h.node == nil {
			return
		}
		if e.Hook == Lose {
			w.say(h, "lose hook ended epoch=%v", e.Epoch)
			h.led = wire.Epoch{}
		}
		w.step(h, HookEnded{Hook: e.Hook, Epoch: e.Epoch, OK: true})
	})
}

func (w *world) send(from *host, s Send) {
	w.checkFrame(from, &s.Frame)
	w.sent[s.Frame.Kind]++
	to := w.host(int(s.To.Addr().As4()[3]))
	if w.sends && s.Frame.Kind != wire.Heartbeat && s.Frame.Kind != wire.HeartAck {
		w.say(from, "→ n%d %s", to.number, w.describeFrame(&s.Frame))
	}
	for _, h := range w.holds {
		if h.kind == s.Frame.Kind && h.from == from.number && h.to == to.number {
			w.held = append(w.held, s)
			w.heldFrom = append(w.heldFrom, from)
			return
		}
	}
	w.carry(from, to, s)
}

// carry takes a frame through the codec and the cable.
func (w *world) carry(from, to *host, s Send) {
	b := wire.Append(nil, &s.Frame)
	w.frames.Write(b)
	for _, late := range w.weather.copies() {
		w.after(w.delay+late, func() { w.deliver(from, to, b) })
	}
}

func (w *world) deliver(from, to *host, b []byte) {
	if w.isCut(from, to) {
		return
	}
	var f wire.Frame
	if err := wire.Parse(b, &f); err != nil {
		w.t.Fatalf("frame %x does not survive the codec: %v", b, err)
	}
	w.step(to, Received{From: from.addr(), Frame: f})
}

func (w *world) describeFrame(f *wire.Frame) string {
	var words []string
	for _, word := range strings.Fields(f.String()) {
		if name, _, _ := strings.Cut(word, "="); name == "seq" || name == "round" || name == "echo" || name == "from" || name == "prio" {
			continue
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// say writes a line of the trace; ids become n1, n2, ….
func (w *world) say(h *host, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	for _, other := range w.hosts {
		line = strings.ReplaceAll(line, other.id().Short(), fmt.Sprintf("n%d", other.number))
	}
	fmt.Fprintf(&w.trace, "%7.3f n%d %s\n", w.now.Sub(w.zero).Seconds(), h.number, line)
}

// runFor lets time pass.
func (w *world) runFor(d time.Duration) { w.runUntil(w.now.Add(d), func() bool { return false }) }

// runUntil lets time pass until the limit, or until done says so.
func (w *world) runUntil(limit time.Time, done func() bool) bool {
	for len(w.events) > 0 && !w.events[0].at.After(limit) {
		next := heap.Pop(&w.events).(timed)
		w.now = next.at
		next.do()
		if done() {
			return true
		}
	}
	w.now = later(w.now, limit)
	return done()
}

// leaders gives the hosts that lead now.
func (w *world) leaders() []*host {
	var out []*host
	for _, h := range w.hosts {
		if h.node != nil && h.node.state == Lead {
			out = append(out, h)
		}
	}
	return out
}

// agreed: every running host follows or is the one leader.
func (w *world) agreed() bool {
	leaders := w.leaders()
	if len(leaders) != 1 {
		return false
	}
	for _, h := range w.hosts {
		if h.node != nil && (h.node.epoch.Owner != leaders[0].id() || !h.node.leaderKnown || !h.node.leaderIsFresh()) {
			return false
		}
	}
	return true
}

// tail gives the last lines of a trace.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
