package e2e

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Faults in random order, each on a cluster that has got over the one before.
// BULLY_E2E_SEED repeats a run's choices, though not its timing.

// Each of these faults hits one host and leaves the others in reach of each
// other, so at no time may two lead.
func TestChaosOfSingleHosts(t *testing.T) {
	isLong(t)
	t.Parallel()
	c := newChaos(t)
	c.run(2*time.Minute, map[string]func(){
		"kill":          func() { h := c.any(); h.kill(); c.settle(); h.start() },
		"kill leader":   func() { h := c.leader(); h.kill(); c.settle(); h.start() },
		"kill, restart": func() { h := c.any(); h.kill(); h.start() },
		"stop":          func() { h := c.any(); c.stop(h); c.settle(); h.start() },
		"stop leader":   func() { h := c.leader(); c.stop(h); h.start() },
		"cut leader":    func() { h := c.leader(); c.lan.cut(h); c.settle(h); c.lan.plug(h) },
		"unplug":        func() { h := c.any(); c.lan.unplug(h); c.settle(h); c.lan.plug(h) },
		"flap":          c.flap,
		"pause a while": c.pauseWithinLease,
	})
}

// These may leave two parts with a leader each, or a leader that cannot let go
// in time. What still holds is each node's own sequence, epochs that are used
// once, and one leader in the end.
func TestChaosOfTheNetwork(t *testing.T) {
	isLong(t)
	t.Parallel()
	c := newChaos(t)
	c.lan.mayOverlap("available mode: parts that cannot reach each other")
	faults := map[string]func(){
		"split":        c.split,
		"pause":        func() { h := c.any(); h.pause(); c.settle(h); h.resume() },
		"pause leader": func() { h := c.leader(); h.pause(); c.settle(h); h.resume() },
		"kill two":     func() { a, b := c.any(), c.leader(); c.killBoth(a, b) },
		"all lost":     c.unplugAll,
	}
	if _, err := exec.LookPath("nft"); err == nil {
		faults["one way"] = c.oneWay
	}
	c.run(2*time.Minute, faults)
}

// A cable that comes and goes once a second does not make the leadership do so:
// each loss doubles the wait before the next preemption (protocol 2.5).
func TestFlappingCable(t *testing.T) {
	isLong(t)
	t.Parallel()
	l := newLAN(t, 3)
	l.mayOverlap("available mode: the cut host may lead its own part")
	l.start()
	best := l.best()
	l.agreeOn(best)
	const flaps = 30
	for range flaps {
		l.unplug(best)
		time.Sleep(500 * time.Millisecond)
		l.plug(best)
		time.Sleep(500 * time.Millisecond)
	}
	l.agree()
	becomes := l.journal.becomes()
	t.Logf("%d flaps, %d leaderships: %v", flaps, len(becomes), becomes)
	if len(becomes) > flaps/2 {
		t.Errorf("the leadership moved %d times in %d flaps", len(becomes), flaps)
	}
}

// chaos is five hosts, a source of chance, and how long things took.
type chaos struct {
	t      *testing.T
	lan    *lan
	random *rand.Rand
	took   map[string][]time.Duration // fault → from its end to agreement
}

func newChaos(t *testing.T) *chaos {
	l := newLAN(t, 5)
	l.hasRoomToLetGo()
	return chaosOn(l)
}

// chaosOn starts the hosts and waits until they agree.
func chaosOn(l *lan) *chaos {
	t := l.t
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("BULLY_E2E_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("BULLY_E2E_SEED=%d", seed)
	c := &chaos{t: t, lan: l, random: rand.New(rand.NewPCG(seed, 0)), took: make(map[string][]time.Duration)}
	c.lan.start()
	c.lan.agreeOn(c.lan.best())
	return c
}

// run inflicts faults for d, each kind as often as the others.
func (c *chaos) run(d time.Duration, faults map[string]func()) {
	c.t.Helper()
	names := slices.Sorted(maps.Keys(faults))
	for begun := time.Now(); time.Since(begun) < d; {
		c.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			c.t.Logf("%v: %s", time.Since(begun).Round(time.Millisecond), name)
			faults[name]()
			over := time.Now()
			c.settle()
			c.took[name] = append(c.took[name], time.Since(over))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.took)) {
		took := c.took[name]
		slices.Sort(took)
		c.t.Logf("%-14s %3d times; agreed again after %v in the median, %v at most", name, len(took),
			took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	}
	c.t.Logf("%d leaderships", len(c.lan.journal.becomes()))
}

// settle waits until all that run agree, except for these.
func (c *chaos) settle(but ...*host) {
	c.t.Helper()
	c.lan.agree(c.lan.except(but...)...)
}

func (c *chaos) any() *host { return c.lan.hosts[c.random.IntN(len(c.lan.hosts))] }

func (c *chaos) leader() *host {
	c.t.Helper()
	return c.lan.agree()
}

func (c *chaos) stop(h *host) {
	c.t.Helper()
	if code := h.stop(); code != 0 {
		c.t.Fatalf("the agent of %s exited with %d after SIGTERM", h, code)
	}
}

// between gives a random time in [low, high).
func (c *chaos) between(low, high time.Duration) time.Duration {
	return low + time.Duration(c.random.Int64N(int64(high-low)))
}

// flap pulls a cable for less than anybody should take notice of, and more.
func (c *chaos) flap() {
	h := c.any()
	c.lan.unplug(h)
	time.Sleep(c.between(20*time.Millisecond, 300*time.Millisecond))
	c.lan.plug(h)
}

// pauseWithinLease stops an agent for so short a time that its lease goes on.
func (c *chaos) pauseWithinLease() {
	h := c.any()
	h.pause()
	time.Sleep(c.between(20*time.Millisecond, 200*time.Millisecond))
	h.resume()
}

// split separates two or three hosts from the rest until both parts agree. A
// host that is alone leads only when memberlist has given up all others, which
// without anybody to confirm it takes close to a minute.
func (c *chaos) split() {
	hosts := slices.Clone(c.lan.hosts)
	c.random.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	part := hosts[:2+c.random.IntN(2)]
	byName := func(a, b *host) int { return cmp.Compare(a.name, b.name) }
	slices.SortFunc(part, byName)
	c.lan.split(part...)
	c.lan.agree(part...)
	c.lan.agree(c.lan.except(part...)...)
	for _, h := range part {
		c.lan.plug(h)
	}
}

func (c *chaos) killBoth(a, b *host) {
	a.kill()
	if b != a {
		b.kill()
	}
	c.settle()
	a.start()
	if b != a {
		b.start()
	}
}

// unplugAll is a switch that loses its power for a while.
func (c *chaos) unplugAll() {
	for _, h := range c.lan.hosts {
		c.lan.unplug(h)
	}
	time.Sleep(c.between(100*time.Millisecond, 8*time.Second))
	for _, h := range c.lan.hosts {
		c.lan.plug(h)
	}
}

// oneWay loses what one host sends to another, the other direction is well.
func (c *chaos) oneWay() {
	from, to := c.any(), c.any()
	if from == to {
		return
	}
	c.lan.dropDatagrams(from, to)
	time.Sleep(c.between(100*time.Millisecond, 5*time.Second))
	c.lan.nft(to, "delete table inet e2e")
}
