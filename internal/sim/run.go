package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// MaxVoters bounds the nodes of a schedule in quorum mode.
const MaxVoters = wire.MaxVoters

// Options say which schedule to play. The same Options play the same one.
type Options struct {
	Seed      uint64
	Nodes     int                // 0: drawn
	Mode      Mode               // zero: drawn
	Algorithm election.Algorithm // zero: drawn
	// Trace is given each line of the trace; nil: none is written. It does not
	// change the run.
	Trace func(line string)
	// Beats adds heartbeats and their acknowledgements to the trace.
	Beats bool

	// Usual leaves out what few clusters have: settings far from the defaults, late
	// timers, late hosts. It is what seeds meant before the simulator drew these.
	Usual bool

	// Port is what lies between the agents and the network; zero: drawn.
	Port Port

	// Attack is who writes frames in members' names; zero: drawn.
	Attack Attack

	x25519    bool     // sessions compute with the curve that ships, not with its model
	noJobs    bool     // in no case
	resources bool     // leaders have some
	checks    bool     // hosts have some
	noChecks  bool     // bars come by themselves, as before there were checks
	cuts      bool     // keepers are killed between two effects, in any case
	aim       *aim     // where; nil: nowhere but at
	cutAt     []uint64 // these places
	beyond    Fault    // the fault beyond the promise, in place of another oddity; zero: drawn
}

// Result is what came of a schedule.
type Result struct {
	Seed      uint64
	Scenario  string
	Hash      uint64        // over all frames, transitions and faults
	Lasted    time.Duration // simulated
	Steps     uint64        // of all Nodes
	Frames    uint64        // sent
	Machines  int
	Reigns    int // leaderships
	Faults    Faults
	Pairs     Pairs    // effects of keepers that came one after the other
	Cuts      Pairs    // between which one was killed
	cutAt     []uint64 // where
	Jobs      JobCounts
	Waived    uint64     // violations that were expected
	Violation *Violation // nil: none
}

// Run plays one schedule.
func Run(o Options) (r Result) {
	w := newWorld(&o)
	defer func() {
		if p := recover(); p != nil {
			w.failure = &Violation{At: time.Duration(w.now), Text: fmt.Sprintf("panic: %v", p)}
			w.say(nil, "%s", w.failure.Text)
		}
		r = w.result()
	}()
	w.populate()
	w.record = newRecord(w.net.size)
	w.say(nil, "%s", w.describe())
	w.begin()
	w.beginJobs()
	w.runUntil(int64(w.lasts), nil)
	if w.failure == nil {
		w.calm()
		w.settle()
		w.c5ChecksGoOn()
	}
	return r
}

func newWorld(o *Options) *World {
	w := &World{rng: rand.New(rand.NewPCG(o.Seed, 0x51b0111)), trace: o.Trace}
	w.drawPorts(o)
	w.drawScenario(o)
	w.drawUnusual(o)
	w.drawMinMembers(o)
	w.drawAttack(o)
	w.drawKeepers(o)
	w.drawStalls(o)
	w.drawSlews(o)
	w.drawJobs(o)
	w.drawBars(o)
	w.drawChecks(o)
	w.drawLists(o)
	w.drawLinks(o)
	w.drawTrips(o)
	w.drawResources(o)
	w.traceBeats = o.Beats
	return w
}

func (w *World) result() Result {
	r := Result{Seed: w.seed, Scenario: w.describe(), Hash: uint64(w.hash), Lasted: time.Duration(w.now), Steps: w.steps,
		Frames: w.frames, Machines: len(w.machines), Reigns: w.record.reigns, Faults: w.faults, Pairs: w.pairs, Cuts: w.keeperCuts, cutAt: w.cutAt, Violation: w.failure}
	if w.jobs != nil {
		r.Hash, r.Jobs = r.Hash^uint64(w.jobs.hash), w.jobs.counts
	}
	for _, count := range w.waives {
		r.Waived += count
	}
	return r
}

// Replay is the command that plays the schedule of these Options again.
func (o Options) Replay() string {
	text := fmt.Sprintf("bully-agent sim --seed %d", o.Seed)
	if o.Nodes > 0 {
		text += fmt.Sprintf(" --nodes %d", o.Nodes)
	}
	switch o.Mode {
	case Available:
		text += " --mode available"
	case Quorum:
		text += " --mode quorum"
	}
	if o.Algorithm != 0 {
		text += " --algorithm " + o.Algorithm.String()
	}
	switch o.Attack {
	case NoAttack:
		text += " --attack none"
	case Stranger:
		text += " --attack stranger"
	case Forger:
		text += " --attack forger"
	case Insider:
		text += " --attack insider"
	}
	switch o.Port {
	case ClearPort:
		text += " --port clear"
	case SealedPort:
		text += " --port sealed"
	}
	if o.Usual {
		text += " --usual"
	}
	return text + " --trace"
}
