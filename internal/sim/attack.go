package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Attack says who attacks the sealed port, beside what the weather does to datagrams: it drops, delays, doubles and replays them.
type Attack uint8

// The attacks. Zero draws one, or none.
const (
	AnyAttack Attack = iota
	NoAttack
	// Stranger has no key and has read nothing. It makes up frames and datagrams of sessions, as from any address.
	Stranger
	// Forger has no key and reads every datagram. It sends each again, to anybody, as from any address, changed or not.
	Forger
	// Insider has the cluster's key and an id of its own (insider.go).
	Insider
)

// attack is the adversary of a schedule, with a stream of chance of its own.
type attack struct {
	rng      *rand.Rand
	kind     Attack
	seen     [64]captured // by a forger
	count    int
	insider  *insider
	hasLeapt bool // it has taken a counter as far as one frame can
}

// drawAttack gives a quarter of the schedules with sealed ports somebody who attacks them.
func (w *World) drawAttack(o *Options) {
	a := &w.attack
	a.rng = rand.New(rand.NewPCG(o.Seed, 0xf0e))
	a.kind = o.Attack
	if a.kind == AnyAttack {
		a.kind = NoAttack
		if draw := a.rng.IntN(16); !o.Usual && w.size <= 9 && draw < 4 {
			a.kind = [...]Attack{Stranger, Forger, Insider, Insider}[draw]
		}
	}
	if !w.ports.isSealed || slices.Contains(w.unusual.has, OddTimers) { // an insider's departure is waited out for hours there
		a.kind = NoAttack
	}
	if a.kind != NoAttack { // one thing at a time
		w.mixed, w.beyond, w.waived = noFault, noFault, [invariants]bool{}
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
func (a *attack) overhear(p *packet) {
	if a.kind == Forger {
		a.seen[a.count%len(a.seen)].keep(p)
		a.count++
	}
}

// forge sends one datagram as from some host's address.
func (w *World) forge() {
	a := &w.attack
	source, to := pick(a.rng, w.machines...), pick(a.rng, w.machines...)
	p := w.newPacket()
	if a.kind == Forger {
		if a.count == 0 {
			return
		}
		w.fired(Forged)
		a.seen[a.rng.IntN(min(a.count, len(a.seen)))].again(p)
		w.twist(p, to)
	} else {
		w.fired(Guessed)
		p.bytes = w.guess(p.bytes[:0], source)
		p.nature, p.from, p.to, p.port = alien, to, to, to.port
	}
	p.source = source.addr()
	w.say(nil, "forged as from n%d → n%d %d bytes", source.number, p.to.number, len(p.bytes))
	w.arriveAfter(p, int64(w.net.weather.delay))
}

// twist has a datagram that was read go to somebody else, or changes it, or leaves it as it is.
func (w *World) twist(p *packet, to *machine) {
	a := &w.attack
	if a.rng.IntN(3) == 0 && to != p.to {
		p.to, p.port, p.nature = to, to.port, alien
	}
	switch a.rng.IntN(3) {
	case 0:
		p.bytes[a.rng.IntN(len(p.bytes))] ^= 1 << a.rng.IntN(8)
		p.nature = alien
	case 1:
		p.bytes = p.bytes[:a.rng.IntN(len(p.bytes))]
		p.nature = alien
	}
}

// guess is what a stranger makes: a frame in clear, of which all that is not secret is right, or a datagram of a session, of
// which the header is.
func (w *World) guess(b []byte, as *machine) []byte {
	a := &w.attack
	if a.rng.IntN(2) == 0 {
		f := w.stamped(as)
		f.Nonce, f.Incarnation, f.Seq = a.rng.Uint32(), uint32(a.rng.IntN(6)), a.rng.Uint32()
		w.fill(&f, as)
		return wire.Append(b, &f)
	}
	const version = 2
	typ := 1 + a.rng.IntN(6)
	size := [...]int{1: 140, 2: 140, 3: 100, 4: 24, 5: 140, 6: 72}[typ] // protocol 10.2
	b = append(b, 0xb7, 0x5e, version<<4|byte(typ), 0)
	for len(b) < size {
		b = append(b, byte(a.rng.Uint32()))
	}
	return b
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
	e.Counter += pick[uint64](a.rng, 0, 0, 0, 1, 2, 20)
	switch {
	case !a.hasLeapt && a.rng.IntN(50) == 0:
		a.hasLeapt = true
		e.Counter += 1 << 19
	case a.rng.IntN(8) == 0:
		e.Counter += pick[uint64](a.rng, 1<<20+1, 1<<40)
	}
	if a.rng.IntN(4) > 0 {
		e.Owner = as.id
	}
	e.Counter = min(e.Counter, wire.MaxCounter+1)
	return e
}
