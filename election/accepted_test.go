package election

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// Whatever settings New accepts, a group that has them gets a leader, keeps it
// while nothing fails, and changes it once for one failure. The settings are drawn
// from all that may be written, the ends of each range included.
//
// BULLY_SETTINGS=long draws 2,500; BULLY_SETTINGS=<number> draws that one alone.
func TestWhateverIsAcceptedLeads(t *testing.T) {
	first, count := uint64(1), uint64(15)
	switch only := os.Getenv("BULLY_SETTINGS"); only {
	case "":
	case "long":
		count = 2500
	default:
		if _, err := fmt.Sscan(only, &first); err != nil {
			t.Fatalf("BULLY_SETTINGS=%q is neither long nor a number", only)
		}
		count = 1
	}
	wrong := 0
	for number := first; number < first+count; number++ {
		trial := drawTrial(number)
		if problem := trial.run(t); problem != "" {
			t.Errorf("BULLY_SETTINGS=%d: %s\n%v", number, problem, trial)
			if wrong++; wrong == 20 {
				t.Fatal("and more")
			}
		}
	}
}

// trial is a group, its settings and the failure that it must survive.
type trial struct {
	cfg     Config
	hosts   int
	delay   time.Duration // of a frame
	fault   string        // what happens to the leader
	late    bool          // the best host starts when another leads already
	returns bool          // what failed comes back
	ascents int           // how many leaderships there should have been
	w       *world
}

func (x *trial) String() string {
	c := x.cfg
	return fmt.Sprintf("%d hosts, %v away, late=%t, leader is to %s, returns=%t; expect=%d %s settle=%v preempt_delay=%v candidate_set=%d known_minimum=%d min_acks=%d min_members=%d",
		x.hosts, x.delay, x.late, x.fault, x.returns, c.Expect, c.Describe(), c.Settle, c.PreemptDelay, c.CandidateSet, c.KnownMinimum, c.MinAcks, c.MinMembers)
}

// drawTrial makes the same trial of the same number.
func drawTrial(number uint64) *trial {
	rng := rand.New(rand.NewPCG(number, 0xacce97))
	x := &trial{}
	for {
		x.draw(rng)
		if _, err := x.cfg.withDefaults(); err == nil {
			return x
		}
	}
}

func (x *trial) draw(rng *rand.Rand) {
	x.hosts = one(rng, 1, 2, 2, 3, 3, 3, 4, 5, 5, 7, 9)
	x.fault = one(rng, "lose power", "end", "leave")
	x.late, x.returns = x.hosts > 1 && rng.IntN(4) == 0, rng.IntN(2) == 0
	c := Config{ID: hostID(1), Rand: rng}
	c.Algorithm = one(rng, Classic, Enhanced, Smallest)
	c.Preempt = one(rng, PreemptPriority, PreemptAlways, PreemptNever)
	if x.hosts >= 3 && !x.late && rng.IntN(2) == 0 {
		c.Expect = x.hosts
	}
	c.Heartbeat = between(rng, 5*time.Millisecond, time.Minute)
	x.delay = one(rng, 50*time.Microsecond, 500*time.Microsecond, min(c.Heartbeat/5, 5*time.Millisecond))
	c.Lease = between(rng, max(4*c.Heartbeat, 20*time.Millisecond), 10*time.Minute)
	c.StopBudget = between(rng, time.Millisecond, min(c.Lease/2-1, 5*time.Minute))
	c.Settle = between(rng, 2*c.Heartbeat, time.Hour)
	c.PreemptDelay = between(rng, time.Millisecond, 24*time.Hour)
	if rng.IntN(8) == 0 {
		c.PreemptDelay = 1 // zero, as the configuration hands it on
	}
	if rng.IntN(2) == 0 {
		c.TakeoverDelay = between(rng, time.Millisecond, time.Hour)
	}
	c.CandidateSet = rng.IntN(3)
	if rng.IntN(3) == 0 {
		c.KnownMinimum = 1
	}
	c.MinAcks = AutoMinAcks
	if rng.IntN(3) == 0 {
		c.MinAcks = rng.IntN(x.hosts + 2)
	}
	if rng.IntN(3) == 0 {
		c.MinMembers = rng.IntN(x.hosts) // one is to fail
	}
	x.cfg = c
}

func one[T any](rng *rand.Rand, choices ...T) T { return choices[rng.IntN(len(choices))] }

// between draws a span in whole milliseconds, each order of magnitude as likely as
// any other, and the ends often.
func between(rng *rand.Rand, least, most time.Duration) time.Duration {
	switch rng.IntN(8) {
	case 0:
		return least
	case 1:
		return most
	}
	low, high := math.Log(float64(least)), math.Log(float64(most))
	d := time.Duration(math.Exp(low + (high-low)*rng.Float64()))
	return min(max(d.Truncate(time.Millisecond), least), most)
}

// run plays the trial and says what went wrong, or "".
func (x *trial) run(t *testing.T) string {
	x.w = newWorld(t, x.hosts, x.cfg)
	w := x.w
	w.delay, w.lose = x.delay, min(5*time.Millisecond, x.cfg.StopBudget/2)
	for _, h := range w.hosts {
		if !x.late || h != x.best() {
			w.boot(h)
		}
	}
	if problem := x.expectLeader(x.cfg.Settle, "after the start"); problem != "" || x.hosts == 1 {
		return problem
	}
	if x.late {
		return x.join(x.best(), "after the best came late")
	}
	leader := w.leaders()[0]
	x.fail(leader)
	if problem := x.expectLeader(x.cfg.TakeoverDelay, "after the failure"); problem != "" || !x.returns {
		return problem
	}
	return x.join(leader, "after its return")
}

// best is the host that outranks all others.
func (x *trial) best() *host {
	if x.cfg.Algorithm == Smallest {
		return x.w.host(1)
	}
	return x.w.host(x.hosts)
}

// expectLeader: there is one more leader, after this time and what an election may
// take, and it stays.
func (x *trial) expectLeader(after time.Duration, when string) string {
	x.ascents++
	x.w.runUntil(x.w.now.Add(after+x.patience()), func() bool { return x.isSettled() || len(x.w.ascents) > x.ascents })
	if !x.isSettled() {
		return x.says("no leader that all follow " + when)
	}
	return x.expectCalm(when)
}

// expectCalm lets pass enough time to see a leader lose what it should keep: some
// leases, or many heartbeats where they are a small part of a lease. One heartbeat
// is lost on its way to all.
func (x *trial) expectCalm(when string) string {
	leader := x.w.leaders()[0]
	x.w.after(3*x.cfg.Heartbeat, func() { x.cut(leader, true) })
	x.w.after(4*x.cfg.Heartbeat, func() { x.cut(leader, false) })
	while := min(max(4*x.cfg.Lease, 20*x.cfg.Heartbeat), 3000*x.cfg.Heartbeat)
	x.w.runUntil(x.w.now.Add(while), func() bool { return len(x.w.ascents) > x.ascents })
	if !x.isSettled() {
		return x.says("the leader changed " + when)
	}
	return ""
}

// cut keeps what a host sends from all others, or no more.
func (x *trial) cut(h *host, is bool) {
	for _, other := range x.w.hosts {
		x.w.cuts[[2]int{h.number, other.number}] = is
	}
}

// join starts a host under a living leader. It becomes the next one if it is better
// and the policy allows it, and otherwise nothing changes.
func (x *trial) join(h *host, when string) string {
	leader := x.w.leaders()[0]
	x.w.boot(h)
	wait := max(x.cfg.PreemptDelay, x.cfg.Settle)
	if x.cfg.Expect > 0 {
		wait = max(wait, x.cfg.TakeoverDelay) // its hold
	}
	if !x.cfg.mayPreempt(h.priority, h.id(), leader.priority, leader.id()) || wait > 5000*x.cfg.Heartbeat {
		return x.expectCalm(when)
	}
	return x.expectLeader(wait, when)
}

// patience is how long an election may take beyond what the settings ask to be
// waited for: the lease, the silence that is suspicious, the failure detector, and
// some pauses.
func (x *trial) patience() time.Duration { return 2*x.cfg.Lease + 20*x.cfg.Heartbeat + 20*time.Second }

func (x *trial) fail(h *host) {
	w := x.w
	switch x.fault {
	case "leave":
		w.step(h, Command{Verb: Leave, Token: 1})
		return
	case "end":
		w.die(h)
	default:
		w.kill(h)
	}
	w.after(6*time.Second, func() {
		for _, other := range w.hosts {
			w.step(other, MemberChanged{h.member(Dead)})
		}
	})
}

// isSettled: everybody who stays follows the one leader, which is the latest expected.
func (x *trial) isSettled() bool {
	for _, h := range x.w.hosts {
		if h.node != nil && h.node.leaving && h.node.state == Observe {
			x.w.kill(h)
		}
	}
	return x.w.agreed() && len(x.w.ascents) == x.ascents
}

func (x *trial) says(problem string) string {
	lines := strings.Split(strings.TrimSuffix(x.w.trace.String(), "\n"), "\n")
	if len(lines) > 40 {
		lines = slices.Concat(lines[:20], []string{"…"}, lines[len(lines)-20:])
	}
	return problem + "\n" + strings.Join(lines, "\n")
}
