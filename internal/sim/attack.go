package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Attack says who writes frames in members' names, beside what the weather does to
// true ones: it drops, delays, doubles and replays them, which is all that anybody can
// do where frames are sealed.
type Attack uint8

// The attacks. Zero draws one, or none.
const (
	AnyAttack Attack = iota
	NoAttack
	// Stranger knows who is there, and has read no frame: it guesses nonces,
	// incarnations, numbers and epochs.
	Stranger
	// Forger has read every frame, and sends whatever it likes as anybody, from any
	// address. It can take the lead, so few invariants hold meanwhile.
	Forger
	// Insider has the cluster's key and an id of its own, where frames are sealed (insider.go).
	Insider
)

// attack is the adversary of a schedule, with a stream of chance of its own.
type attack struct {
	rng      *rand.Rand
	kind     Attack
	seen     [64]wire.Frame // by a forger
	count    int
	insider  *insider
	hasLeapt bool // it has taken a counter as far as one frame can
}

// drawAttack also draws the schedules in which frames could be forged, and are not.
func (w *World) drawAttack(o *Options) {
	a := &w.attack
	a.rng = rand.New(rand.NewPCG(o.Seed, 0xf0e))
	a.kind = o.Attack
	isUsual := o.Usual || w.size > 9
	if a.kind == AnyAttack {
		a.kind = NoAttack
		if draw := a.rng.IntN(16); !isUsual && draw < 2 {
			a.kind = [...]Attack{Stranger, Forger}[draw]
			if w.ports.isSealed {
				a.kind = Insider
			}
		}
	}
	switch {
	case slices.Contains(w.unusual.has, OddTimers): // a departure that was forged is waited out for hours there
		a.kind = NoAttack
	case a.kind == Insider && !w.ports.isSealed: // without a key there is no inside
		a.kind = NoAttack
	}
	if a.kind != NoAttack { // one thing at a time
		w.mixed, w.beyond, w.waived = noFault, noFault, [invariants]bool{}
	}
	w.base.Forgeable = (a.kind != NoAttack || !isUsual && a.rng.IntN(3) == 0) && !w.ports.isSealed
	switch a.kind {
	case Stranger:
		w.waive(Guessed)
	case Forger:
		w.waive(Forged)
	}
}

// attackAgain sends some frames, and comes back.
func (w *World) attackAgain() {
	a := &w.attack
	if a.kind == NoAttack {
		return
	}
	pause := time.Duration(1+a.rng.IntN(200)) * time.Millisecond
	w.after(pause, func() {
		if !w.raging {
			return
		}
		if a.kind == Insider {
			a.insider.scheme()
		} else {
			for range 1 + a.rng.IntN(6) {
				w.forge()
			}
		}
		w.attackAgain()
	})
}

// overhear has a forger read what is sent.
func (a *attack) overhear(f *wire.Frame) {
	if a.kind == Forger {
		a.seen[a.count%len(a.seen)] = *f
		a.count++
	}
}

// forge sends one frame in a member's name.
func (w *World) forge() {
	a := &w.attack
	as, to := pick(a.rng, w.machines...), pick(a.rng, w.machines...)
	source := pick(a.rng, as, as, as, pick(a.rng, w.machines...))
	if !to.runs() || source == to || w.mode == Quorum && !w.isRosterFormed() {
		return // forged departures keep a first roster from forming (docs/security.md)
	}
	f := w.guess(as)
	if a.kind == Forger {
		if a.count == 0 {
			return
		}
		f = w.twist(a.seen[a.rng.IntN(min(a.count, len(a.seen)))], as)
		w.fired(Forged)
	} else {
		w.fired(Guessed)
	}
	w.sayForged(source, to, &f)
	p := w.newPacket()
	p.bytes = wire.Append(p.bytes[:0], &f)
	p.from, p.to, p.source, p.port, p.nature = to, to, source.addr(), to.port, forged
	w.arriveAfter(p, int64(w.net.weather.delay))
}

func (w *World) sayForged(source, to *machine, f *wire.Frame) {
	w.say(nil, "forged as from n%d → n%d %v", source.number, to.number, f)
}

// guess is what a stranger makes: all that is not secret is right.
func (w *World) guess(as *machine) wire.Frame {
	a := &w.attack
	f := w.stamped(as)
	f.Nonce, f.Incarnation, f.Seq = a.rng.Uint32(), uint32(a.rng.IntN(6)), a.rng.Uint32()
	w.fill(&f, as)
	return f
}

// stamped is a frame with what every frame of a member's has, and anybody can know.
func (w *World) stamped(as *machine) wire.Frame {
	var f wire.Frame
	if as.node != nil {
		as.node.Stamp(&f)
	}
	f.Sender, f.Algo, f.ConfigHash = as.id, w.algo(), as.cfg.Hash()
	return f
}

func (w *World) algo() wire.Algo {
	var f wire.Frame
	for _, m := range w.machines {
		if m.node != nil && !w.isOdd(m) {
			m.node.Stamp(&f)
			break
		}
	}
	return f.Algo
}

// twist makes another frame of one that was read.
func (w *World) twist(f wire.Frame, as *machine) wire.Frame {
	a := &w.attack
	if a.rng.IntN(3) == 0 && as.runs() {
		g := w.stamped(as)
		f.Sender, f.Incarnation, f.Nonce, f.Algo, f.ConfigHash, f.Cluster = g.Sender, g.Incarnation, g.Nonce, g.Algo, g.ConfigHash, g.Cluster
	}
	if a.rng.IntN(8) == 0 { // a life to come
		f.Nonce, f.Incarnation = a.rng.Uint32(), f.Incarnation+uint32(a.rng.IntN(3))
	}
	f.Seq += pick[uint32](a.rng, 0, 1, 1, 2, 60, 1000, 1<<20, 1<<31-100)
	if a.rng.IntN(3) > 0 {
		w.fill(&f, as)
	}
	return f
}

// fill gives a frame a kind and what goes with it, by chance.
func (w *World) fill(f *wire.Frame, as *machine) {
	a := &w.attack
	id := func() wire.ID { return pick(a.rng, w.machines...).id }
	f.Kind = wire.Kind(1 + a.rng.IntN(kinds-1))
	f.Flags = wire.Flags(a.rng.Uint32())
	f.Round, f.EchoSeq = pick(a.rng, f.Round, a.rng.Uint32N(40)), pick(a.rng, f.EchoSeq, a.rng.Uint32())
	f.Epoch = w.forgedEpoch(as)
	f.Reason, f.Verdict, f.AckVerdict = wire.Reason(a.rng.IntN(11)), wire.Verdict(a.rng.IntN(8)), wire.AckVerdict(a.rng.IntN(6))
	f.Phase, f.Knowledge, f.Purpose = wire.Phase(a.rng.IntN(4)), wire.Knowledge(a.rng.IntN(4)), wire.Purpose(a.rng.IntN(4))
	f.Standing, f.IsReady = wire.Standing(a.rng.IntN(7)), a.rng.IntN(2) == 0
	span := func() uint32 { return pick[uint32](a.rng, 0, 1, 50, 400, 5000, 1<<32-1) }
	f.Lease, f.Interval, f.ETA, f.Remain, f.HeartbeatAge = span(), span(), span(), span(), span()
	f.Successor, f.FailedCounter = id(), f.Epoch.Counter
	f.RosterVersion = pick[uint32](a.rng, 0, 1, 2, uint32(16*f.Epoch.Counter), 1<<32-1)
	f.Count = uint8(a.rng.IntN(len(w.machines) + 1))
	var voters []wire.ID
	for range f.Count {
		voters = append(voters, id())
	}
	slices.SortFunc(voters, wire.ID.Compare)
	f.Count = uint8(copy(f.Voters[:], slices.Compact(voters)))
}

// forgedEpoch is one that was shown, or a little above; once in a schedule as far above
// as one frame can take a node.
func (w *World) forgedEpoch(as *machine) wire.Epoch {
	a := &w.attack
	e := w.record.anyEpoch(a.rng)
	if a.kind == Stranger {
		e.Counter = a.rng.Uint64N(20)
	}
	e.Counter += pick[uint64](a.rng, 0, 0, 0, 1, 2, 20)
	if a.kind == Forger && !a.hasLeapt && a.rng.IntN(50) == 0 {
		a.hasLeapt = true
		e.Counter += 1 << 19
	}
	if a.kind == Stranger && a.rng.IntN(4) == 0 {
		e.Counter += pick[uint64](a.rng, 1<<20+1, 1<<40)
	}
	if a.rng.IntN(4) > 0 {
		e.Owner = as.id
	}
	e.Counter = min(e.Counter, wire.MaxCounter+1)
	return e
}
