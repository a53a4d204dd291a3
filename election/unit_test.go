package election

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bully-agent/bully-agent/wire"
)

func TestRTT(t *testing.T) {
	var r rtt
	now := time.Unix(1000, 0)
	if got := r.timeout(now); got != rtoUnknown {
		t.Errorf("unknown: %v", got)
	}
	r.sample(200*time.Microsecond, now, weatherFor)
	if got := r.timeout(now); got != rtoFloor {
		t.Errorf("a fast LAN: %v, want the floor", got)
	}
	r = rtt{}
	r.sample(40*time.Millisecond, now, weatherFor)
	if got := r.timeout(now); got != 120*time.Millisecond { // RFC 6298: SRTT + 4·SRTT/2
		t.Errorf("one sample of 40 ms: %v, want 120ms", got)
	}
	for range 100 {
		r.sample(40*time.Millisecond, now, weatherFor)
	}
	if got := r.timeout(now); got != 41*time.Millisecond {
		t.Errorf("a steady 40 ms: %v, want 41ms", got)
	}
	for range 100 {
		r.sample(time.Minute, now, weatherFor)
	}
	if got := r.timeout(now); got != rtoCeiling {
		t.Errorf("a minute: %v, want the ceiling", got)
	}
	r.sample(-time.Second, now, weatherFor) // a clock that was set back
	if r.timeout(now) < rtoFloor {
		t.Errorf("a negative sample: %v", r.timeout(now))
	}
}

// The suspect timeout stays between two and six announced intervals, whatever
// the rhythm and the health.
func TestSuspectTimeoutBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.IntRange(1, 5000).Draw(t, "interval ms")) * time.Millisecond
		n := &Node{cfg: Config{Heartbeat: 50 * time.Millisecond, Lease: 400 * time.Millisecond}}
		n.health = rapid.IntRange(0, 7).Draw(t, "health")
		now := time.Unix(1000, 0)
		var last time.Time
		for _, gap := range rapid.SliceOfN(rapid.IntRange(0, 60000), 0, 40).Draw(t, "gaps ms") {
			now = now.Add(time.Duration(gap) * time.Millisecond)
			n.pulse.beat(now, interval, last)
			last = now
		}
		if n.pulse.interval == 0 {
			interval = n.cfg.Heartbeat
		}
		if got := n.suspectTimeout(); got < 2*interval || got > 6*interval {
			t.Fatalf("suspect timeout %v with an interval of %v", got, interval)
		}
	})
}

func TestPulse(t *testing.T) {
	n := &Node{cfg: Config{Heartbeat: 50 * time.Millisecond, Lease: 400 * time.Millisecond}}
	if got := n.suspectTimeout(); got != 200*time.Millisecond {
		t.Errorf("before the first heartbeat: %v, want 200ms", got)
	}
	now := time.Unix(1000, 0)
	for range 60 {
		n.pulse.beat(now.Add(50*time.Millisecond), 50*time.Millisecond, now)
		now = now.Add(50 * time.Millisecond)
	}
	steady := n.suspectTimeout()
	if steady < 150*time.Millisecond || steady > 155*time.Millisecond {
		t.Errorf("a steady rhythm: %v, want 150ms", steady)
	}
	n.health = 1
	if got := n.suspectTimeout(); got != min(2*steady, 300*time.Millisecond) {
		t.Errorf("health 1: %v, want twice %v", got, steady)
	}
	n.health = 0
	before := n.pulse
	n.pulse.beat(now.Add(time.Second), 50*time.Millisecond, now)
	if n.pulse != before {
		t.Error("an outage changed the rhythm")
	}
	n.pulse.beat(now, 20*time.Millisecond, now)
	if got := n.suspectTimeout(); got != 80*time.Millisecond {
		t.Errorf("a new interval of 20 ms: %v, want 80ms", got)
	}
}

// Ranks take their turns one after the other, the first at once; beyond eight
// the steps grow slower than the ranks.
func TestStagger(t *testing.T) {
	s := storyOf(t, 1, Config{})
	n := s.node
	for rank := range 8 {
		if got, want := n.stagger(rank), time.Duration(rank)*minStagger; got != want {
			t.Errorf("rank %d waits %v, want %v", rank, got, want)
		}
	}
	for rank, want := range map[int][2]time.Duration{8: {200, 300}, 16: {300, 400}, 1024: {900, 1000}} {
		for range 50 {
			got := n.stagger(rank)
			if got < want[0]*time.Millisecond || got > want[1]*time.Millisecond {
				t.Fatalf("rank %d waits %v, want %v–%v ms", rank, got, int64(want[0]), int64(want[1]))
			}
		}
	}
	slow := storyOf(t, 1, Config{}, 2)
	slow.node.peer(hostID(2)).rtt.sample(100*time.Millisecond, slow.now, weatherFor)
	for range 100 {
		slow.node.peer(hostID(2)).rtt.sample(100*time.Millisecond, slow.now, weatherFor)
	}
	if got := slow.node.stagger(1).Round(time.Millisecond); got != 202*time.Millisecond {
		t.Errorf("over a slow link rank 1 waits %v, want two timeouts of 101 ms", got)
	}
}

func TestFlapDamping(t *testing.T) {
	var h flaps
	now := time.Unix(1000, 0)
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60} {
		if got := h.damp(time.Second, now); got != want*time.Second {
			t.Errorf("after %d losses: %v, want %v s", len(h.lost), got, int64(want))
		}
		h.add(wire.Epoch{Counter: uint64(want)}, now)
		h.add(wire.Epoch{Counter: uint64(want)}, now) // no second loss
	}
	if got := h.damp(2*time.Minute, now); got != 2*time.Minute {
		t.Errorf("a base above the bound: %v", got)
	}
	if got := h.damp(time.Second, now.Add(flapWindow+time.Second)); got != time.Second {
		t.Errorf("after ten quiet minutes: %v, want the base", got)
	}
	h = flaps{}
	if got := h.damp(10*time.Millisecond, now); got != 10*time.Millisecond {
		t.Errorf("a short base without a loss: %v", got)
	}
	h.add(wire.Epoch{Counter: 1}, now)
	if got := h.damp(10*time.Millisecond, now); got != 2*time.Second {
		t.Errorf("a short base after a loss: %v, want twice a second", got)
	}
}

func TestConfigErrors(t *testing.T) {
	good := Config{ID: hostID(1), Rand: rand.New(rand.NewPCG(1, 1))}
	for _, tc := range []struct {
		want  string
		spoil func(*Config)
	}{
		{"no id", func(c *Config) { c.ID = wire.ID{} }},
		{"no source of chance", func(c *Config) { c.Rand = nil }},
		{"lease 150ms is shorter than four heartbeats of 50ms", func(c *Config) { c.Lease = 150 * time.Millisecond }},
		{"lease 400ms is not longer than two stop budgets of 200ms", func(c *Config) { c.StopBudget = 200 * time.Millisecond }},
	} {
		cfg := good
		tc.spoil(&cfg)
		_, err := New(cfg, Saved{}, time.Unix(1, 0))
		if err == nil || !strings.HasSuffix(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), ErrConfig.Error()) {
			t.Errorf("error %q, want %q", err, tc.want)
		}
	}
	c, err := good.withDefaults()
	if err != nil || c.Heartbeat != 50*time.Millisecond || c.Lease != 400*time.Millisecond || c.StopBudget != 100*time.Millisecond {
		t.Errorf("defaults %+v, %v", c, err)
	}
}

func TestHashCoversWhatMembersMustAgreeOn(t *testing.T) {
	base := Config{}
	seen := map[uint32]string{base.Hash(): "the defaults"}
	for name, change := range map[string]func(*Config){
		"preempt always": func(c *Config) { c.Preempt = PreemptAlways },
		"preempt never":  func(c *Config) { c.Preempt = PreemptNever },
		"heartbeat":      func(c *Config) { c.Heartbeat = 60 * time.Millisecond; c.Lease = 400 * time.Millisecond },
		"lease":          func(c *Config) { c.Lease = 500 * time.Millisecond; c.StopBudget = 100 * time.Millisecond },
		"stop budget":    func(c *Config) { c.StopBudget = 90 * time.Millisecond },
		"takeover delay": func(c *Config) { c.TakeoverDelay = time.Second },
	} {
		cfg := base
		change(&cfg)
		if other, taken := seen[cfg.Hash()]; taken {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[cfg.Hash()] = name
	}
	own := Config{ID: hostID(1), Nonce: 5, Priority: 9, Part: Observer, PreemptDelay: time.Minute, Settle: time.Minute, MinAcks: 3, MinMembers: 3}
	if own.Hash() != base.Hash() {
		t.Error("what each member may choose for itself changes the hash")
	}
	written := Config{Algorithm: Classic, Heartbeat: 50 * time.Millisecond, Lease: 400 * time.Millisecond, StopBudget: 100 * time.Millisecond}
	if written.Hash() != base.Hash() {
		t.Error("defaults written out have another hash")
	}
}

// Every event, effect, state and status has one line of text.
func TestEverythingHasOneLine(t *testing.T) {
	e := wire.Epoch{Counter: 3, Owner: hostID(2)}
	m := Member{ID: hostID(2), Status: Dead, Incarnation: 4, Priority: 9}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for want, value := range map[string]fmt.Stringer{
		"tick":                            Tick{},
		"received HEARTBEAT":              Received{Frame: wire.Frame{Kind: wire.Heartbeat, Sender: hostID(2), Epoch: e}},
		"member 02000000 dead life=4 pri": MemberChanged{m},
		"leader reported epoch=3/":        LeaderReported{e},
		"health score=3":                  HealthChanged{3},
		"become hook ended epoch=3/":      HookEnded{Hook: Become, Epoch: e, OK: true},
		"command leave":                   Command{Verb: Leave},
		"command priority=7":              Command{Verb: Reprioritise, Priority: 7},
		"save failed":                     SaveFailed{},
		"save recovered":                  SaveRecovered{},
		"save life=2 counter=5 promoted=": Save{State: Saved{Incarnation: 2, MaxCounter: 5, Promoted: e}},
		"send QUERY":                      Send{Frame: wire.Frame{Kind: wire.Query}},
		"follow → lead leader=02000000 e": Transition{From: Follow, To: Lead, Leader: hostID(2), Epoch: e, Cause: Boot},
		"lose hook epoch=3/02000000 caus": StartHook{Hook: Lose, Epoch: e, Cause: Stopped, By: time.Unix(1, 0)},
		"stop hook epoch=3/":              StopHook{e},
		"lease none":                      LeaseUntil{},
		"lease until 12:00:00.000":        LeaseUntil{now},
		"reply ok":                        Reply{Token: 1},
		"reply election configuration":    Reply{Err: ErrConfig},
		"ignored duplicate":               Counted{"duplicate"},
		"departed 02000000 life=4":        Departed{hostID(2), 4, 9},
		"lead since 2026":                 Status{State: Lead, Since: now, Leader: hostID(2), Epoch: e, Cause: Boot},
	} {
		if got := value.String(); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%T says %q, want %q…", value, got, want)
		}
	}
	for s := Start; s <= Observe; s++ {
		if s.String() == "unknown" || s.Role().String() == "unknown" {
			t.Errorf("state %d is called %s, role %s", s, s, s.Role())
		}
	}
	for _, word := range []fmt.Stringer{State(0), State(99), Role(0), Presence(0)} {
		if word.String() != "unknown" {
			t.Errorf("%T %v has a name", word, word)
		}
	}
}

// An old frame leaves the node as it was, and only owners
// resign: the tombstone of CE8.
func TestTombstone(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 4)
	late := n.actor(3).heartbeat(4)
	n.hearsAndForgets(n.actor(3).says(wire.Frame{Kind: wire.Resign, Flags: wire.AckReq, Epoch: n.actor(3).epoch(4)}))
	n.hears(late)
	n.expects("ignored resigned-epoch")
	if n.node.leaderKnown {
		t.Error("a heartbeat that came after the RESIGN brought the leader back")
	}
	n.hears(n.actor(3).coordinator(5))
	n.forgets()
	n.is(Follow)
}
