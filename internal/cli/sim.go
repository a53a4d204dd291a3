package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/sim"
)

// simNodes is the size from which a schedule of faults is replaced by one
// failover: what is asked there is what it costs.
const simNodes = 64

var simCommand = command{
	name: "sim", usage: "play schedules of faults in a simulated network",
	about: `Runs the election of many simulated hosts in virtual time, hurts them at random, and checks at every step what must
		always hold. A schedule depends on nothing but its seed, so a failed one can be played again. With more than 64 nodes it
		measures one failover in calm weather instead.`,
	examples: []string{
		program + " sim --schedules 50",
		program + " sim --seed 42 --trace",
		program + " sim --nodes 100",
	},
	options: []option{
		{name: "seed", value: "N", usage: "play this schedule, or begin with it", fallback: "1"},
		{name: "schedules", value: "N", usage: "how many schedules", fallback: "1000; one with --seed"},
		{name: "for", value: "TIME", usage: "play schedules for so long instead"},
		{name: "nodes", value: "N", usage: "hosts in each schedule", fallback: "drawn from the seed"},
		{name: "mode", value: "MODE", offer: fixed("available", "quorum"), usage: "available or quorum", fallback: "drawn from the seed"},
		{name: "algorithm", value: "NAME", offer: fixed("classic", "enhanced", "smallest"), usage: "classic, enhanced or smallest", fallback: "drawn from the seed"},
		{name: "usual", usage: "only usual settings and hosts, as schedules were before there were others"},
		{name: "attack", value: "KIND", offer: fixed("none", "stranger", "forger", "insider"), usage: "who attacks the sealed port: none, a stranger, a forger, which reads all datagrams, or an insider, which has the key", fallback: "drawn from the seed"},
		{name: "port", value: "KIND", offer: fixed("clear", "sealed"), usage: "between the agents and the network: sealed, by the sessions that ship, or clear, by an oracle of what they promise", fallback: "drawn from the seed"},
		{name: "trace", usage: "print each event of the schedule"},
	},
	subcommands: []command{simTablesCommand(), simChartCommand()},
	action:      runSim,
}

func runSim(c *call) error {
	o, err := c.simOptions()
	if err != nil {
		return err
	}
	count, err := c.number("schedules", 1000)
	if err != nil {
		return err
	}
	if c.IsSet("seed") && !c.IsSet("schedules") && !c.IsSet("for") {
		count = 1
	}
	span, err := c.duration("for")
	if err != nil {
		return err
	}
	switch {
	case o.Nodes > simNodes:
		return c.simFailover(o)
	case c.Bool("trace"):
		return c.simTrace(o)
	}
	return c.simMany(o, count, span)
}

func (c *call) simOptions() (sim.Options, error) {
	o := sim.Options{Seed: 1}
	var err error
	if c.IsSet("seed") {
		if o.Seed, err = strconv.ParseUint(c.String("seed"), 10, 64); err != nil {
			return o, usage("", "--seed is %s: expected a number", strconv.Quote(c.String("seed")))
		}
	}
	if o.Nodes, err = c.number("nodes", 0); err != nil {
		return o, err
	}
	if o.Nodes > sim.MaxNodes {
		return o, usage("", "--nodes is %d: expected at most %d", o.Nodes, sim.MaxNodes)
	}
	modes := []string{"", "available", "quorum"}
	mode := slices.Index(modes, c.String("mode"))
	if mode < 0 {
		return o, usage("", "--mode is %s: expected %s", strconv.Quote(c.String("mode")), oneOf(modes[1:]))
	}
	o.Mode = sim.Mode(mode)
	if o.Mode == sim.Quorum && o.Nodes != 0 && (o.Nodes < 3 || o.Nodes > sim.MaxVoters) && o.Nodes <= simNodes {
		return o, usage("", "--mode quorum with --nodes %d: expected 3 to %d voters, or more than %d nodes for one failover", o.Nodes, sim.MaxVoters, simNodes)
	}
	algorithms := []string{"", "classic", "enhanced", "smallest"}
	algorithm := slices.Index(algorithms, c.String("algorithm"))
	if algorithm < 0 {
		return o, usage("", "--algorithm is %s: expected %s", strconv.Quote(c.String("algorithm")), oneOf(algorithms[1:]))
	}
	o.Algorithm = election.Algorithm(algorithm)
	attacks := []string{"", "none", "stranger", "forger", "insider"}
	attack := slices.Index(attacks, c.String("attack"))
	if attack < 0 {
		return o, usage("", "--attack is %s: expected %s", strconv.Quote(c.String("attack")), oneOf(attacks[1:]))
	}
	o.Attack = sim.Attack(attack)
	ports := []string{"", "clear", "sealed"}
	port := slices.Index(ports, c.String("port"))
	if port < 0 {
		return o, usage("", "--port is %s: expected %s", strconv.Quote(c.String("port")), oneOf(ports[1:]))
	}
	o.Port = sim.Port(port)
	if o.Attack > sim.NoAttack && o.Port == sim.ClearPort {
		return o, usage("", "--attack %s with --port clear: expected --port sealed, since an attack is one on sessions", c.String("attack"))
	}
	o.Usual = c.Bool("usual")
	return o, nil
}

// simTrace plays one schedule and shows all of it.
func (c *call) simTrace(o sim.Options) error {
	var failed error
	o.Trace = func(line string) {
		if failed == nil {
			failed = c.print(line + "\n")
		}
	}
	r := sim.Run(o)
	if failed != nil {
		return failed
	}
	if err := c.print(fmt.Sprintf("hash %016x\n", r.Hash)); err != nil {
		return err
	}
	if r.Violation != nil {
		return outcome(exitNo)
	}
	return nil
}

// simFailover measures one failover of a large group.
func (c *call) simFailover(o sim.Options) error {
	began := time.Now()
	f := sim.Fail(o)
	if f.Violation != nil {
		if err := c.print(f.Violation.Text + "\n"); err != nil {
			return err
		}
		return outcome(exitNo)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes, all started at once: one leader after %v\n", f.Nodes, f.Agreed.Round(time.Millisecond))
	fmt.Fprintf(&b, "its host switched off: all others follow another after %v\n", f.Took.Round(time.Millisecond))
	fmt.Fprintf(&b, "datagrams of that election: %d (%.1f per node); of its detection: %d\n",
		f.Datagrams, float64(f.Datagrams)/float64(f.Nodes), f.Detection)
	fmt.Fprintf(&b, "%d steps in %v\n", f.Steps, time.Since(began).Round(time.Millisecond))
	return c.print(b.String())
}

// simTotals is what many schedules came to.
type simTotals struct {
	mu        sync.Mutex
	schedules int
	lasted    time.Duration
	busy      time.Duration // of all workers
	steps     uint64
	reigns    int
	waived    uint64
	faults    sim.Faults
	failed    []sim.Result
}

// maxFailed ends a run: more of the same tell nothing new.
const maxFailed = 20

// simMany plays schedules on all cores.
func (c *call) simMany(o sim.Options, count int, span time.Duration) error {
	defer debug.SetGCPercent(debug.SetGCPercent(1600)) // little is live, much is garbage
	var totals simTotals
	var next atomic.Uint64
	end := time.Now().Add(span)
	isEnough := func(played uint64) bool {
		if span > 0 {
			return time.Now().After(end)
		}
		return played >= uint64(count)
	}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				played := next.Add(1) - 1
				if isEnough(played) || totals.isFull() {
					return
				}
				mine := o
				mine.Seed += played
				began := time.Now()
				r := sim.Run(mine)
				totals.add(&r, time.Since(began))
			}
		})
	}
	finished := make(chan struct{})
	go func() { workers.Wait(); close(finished) }()
	c.simProgress(&totals, finished)
	return c.simReport(o, &totals)
}

func (t *simTotals) isFull() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failed) >= maxFailed
}

func (t *simTotals) add(r *sim.Result, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.schedules++
	t.lasted += r.Lasted
	t.busy += took
	t.steps += r.Steps
	t.reigns += r.Reigns
	t.waived += r.Waived
	t.faults.Add(&r.Faults)
	if r.Violation != nil {
		t.failed = append(t.failed, *r)
	}
}

// line is one line of progress.
func (t *simTotals) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%d schedules, %.1f cluster-hours, %d steps (%.0f per second and core), %d violations",
		t.schedules, t.lasted.Hours(), t.steps, float64(t.steps)/max(t.busy.Seconds(), 1e-9), len(t.failed))
}

// simProgress shows a terminal how far the workers are, until they are done.
func (c *call) simProgress(t *simTotals, finished <-chan struct{}) {
	isSeen := isTerminal(c.err)
	every := time.NewTicker(500 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-finished:
			if isSeen {
				fmt.Fprint(c.err, "\r\x1b[K")
			}
			return
		case <-every.C:
			if isSeen {
				fmt.Fprint(c.err, "\r\x1b[K"+t.line())
			}
		}
	}
}

// simReport says what came of it: exit code 1 and how to see a violation again.
func (c *call) simReport(o sim.Options, t *simTotals) error {
	var b strings.Builder
	b.WriteString(t.line() + "\n")
	fmt.Fprintf(&b, "%d leaderships; %d violations were expected of faults beyond the promise\nfaults:\n", t.reigns, t.waived)
	for kind, n := range t.faults {
		fmt.Fprintf(&b, "  %-20s %d\n", sim.Fault(kind), n)
	}
	slices.SortFunc(t.failed, func(a, b sim.Result) int { return cmp.Compare(a.Seed, b.Seed) })
	for _, r := range t.failed {
		o.Seed = r.Seed
		fmt.Fprintf(&b, "\n%s\n  %s, at %v\n  %s\n", r.Violation.Text, r.Scenario, r.Violation.At, o.Replay())
	}
	if err := c.print(b.String()); err != nil {
		return err
	}
	if len(t.failed) > 0 {
		return outcome(exitNo)
	}
	return nil
}
