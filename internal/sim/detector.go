package sim

import (
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// detector is memberlist as the agents see it: some seconds after a host fell
// silent it is dead for those that cannot reach it, over others if need be; some
// time after it came back it is alive. Each host has beliefs of its own. In a
// storm it also lies.
type detector struct {
	dirty    bool // who reaches whom may have changed
	size     int
	beliefs  []belief      // [of*size+about]
	dead     time.Duration // a death is noticed after up to so long, and half of it at least
	alive    time.Duration // a return is noticed within
	part     []int         // of each machine: 0 is none
	overdue  []func()      // what will be noticed, and is at the latest when all faults end
	worklist []*machine
}

// belief is what one process holds of another machine.
type belief struct {
	at     int64 // when it will change; 0: it has no reason to
	nonce  uint32
	said   election.Presence
	want   election.Presence
	missed bool           // its new life is not noticed
	addr   netip.AddrPort // where it was alive last
}

func (d *detector) of(a, b *machine) *belief { return &d.beliefs[(a.number-1)*d.size+b.number-1] }

// forget begins the beliefs of a new process, which knows nobody.
func (d *detector) forget(w *World, m *machine) {
	for _, other := range w.machines {
		*d.of(m, other) = belief{}
	}
	d.dirty = true
}

// lookAround compares what everybody believes with who reaches whom, and plans
// the changes of mind.
func (w *World) lookAround() {
	d := &w.detector
	d.dirty = false
	w.divide()
	for _, a := range w.machines {
		if !a.isUp() {
			continue
		}
		for _, b := range w.machines {
			if a != b {
				w.look(a, b, d.part[a.number] == d.part[b.number])
			}
		}
	}
}

// divide numbers the parts of the network that reach each other: memberlist's
// indirect probes and gossip go over others.
func (w *World) divide() {
	d := &w.detector
	for i := range d.part {
		d.part[i] = 0
	}
	if !w.anyCut() {
		for _, m := range w.machines {
			if m.isUp() {
				d.part[m.number] = 1
			} else {
				d.part[m.number] = -m.number
			}
		}
		return
	}
	for _, m := range w.machines {
		if d.part[m.number] == 0 {
			d.part[m.number] = m.number
			if !m.isUp() {
				d.part[m.number] = -m.number
				continue
			}
			w.spread(m)
		}
	}
}

func (w *World) anyCut() bool {
	for _, c := range w.net.cut {
		if c {
			return true
		}
	}
	for _, m := range w.machines {
		if !m.linkUp {
			return true
		}
	}
	return false
}

func (w *World) spread(from *machine) {
	d := &w.detector
	d.worklist = append(d.worklist[:0], from)
	for len(d.worklist) > 0 {
		m := d.worklist[len(d.worklist)-1]
		d.worklist = d.worklist[:len(d.worklist)-1]
		for _, other := range w.machines {
			if d.part[other.number] == 0 && other.isUp() && w.talk(m, other) {
				d.part[other.number] = from.number
				d.worklist = append(d.worklist, other)
			}
		}
	}
}

func (w *World) look(a, b *machine, reaches bool) {
	v := w.detector.of(a, b)
	want := v.said
	switch {
	case reaches:
		want = election.Alive
	case v.said == election.Alive && !b.immortal:
		want = election.Dead
	}
	isNewLife := want == election.Alive && reaches && v.nonce != b.nonce && !v.missed
	if want == v.said && !isNewLife {
		v.at = 0
		return
	}
	if v.at != 0 && v.want == want {
		return
	}
	d := &w.detector
	wait := d.dead/2 + w.upTo(d.dead/2)
	if want == election.Alive {
		wait = w.upTo(d.alive)
	}
	w.planBelief(a, b, want, wait)
}

func (w *World) planBelief(a, b *machine, want election.Presence, wait time.Duration) {
	v := w.detector.of(a, b)
	v.want, v.at = want, w.now+int64(wait)
	at := v.at
	w.after(wait, func() {
		if v.at == at && v.want == want {
			w.changeMind(a, b, v)
		}
	})
}

// changeMind tells a process what its detector now believes.
func (w *World) changeMind(a, b *machine, v *belief) {
	v.at = 0
	if !a.isUp() || (v.want == election.Alive && !b.runs()) {
		return
	}
	if v.want == election.Alive && w.isHeld(a, b) {
		w.planBelief(a, b, v.want, time.Second)
		return
	}
	old, was := v.nonce, v.said
	if v.want == election.Alive {
		v.nonce = b.nonce
	}
	v.said = v.want
	isNewLife := was == election.Alive && v.said == election.Alive && old != b.nonce
	joinFirst := isNewLife && w.rng.IntN(2) == 0
	gone := w.believed(b, election.Dead, old) // now: its id may be another's by the time that it is noticed
	if isNewLife && !joinFirst {
		w.fired(LeaveBeforeJoin)
		w.tell(a, b, gone)
	}
	w.tell(a, b, w.believed(b, v.said, v.nonce))
	if joinFirst {
		w.fired(JoinBeforeLeave)
		life := a.life
		w.noticeWithin(w.upTo(w.detector.dead), func() {
			if a.life == life {
				w.tell(a, b, gone)
			}
		})
	}
	if v.said == election.Alive && w.rng.IntN(2) == 0 {
		w.reportLeader(a, b)
	}
}

// isHeld: b is a copy of a host that a hears, or the other way round. Membership believes no life that the port holds (S17).
func (w *World) isHeld(a, b *machine) bool {
	return b.id != a.id && slices.ContainsFunc(w.machines, func(other *machine) bool {
		return other != b && other.id == b.id && other.isUp() && w.talk(a, other) && w.detector.of(a, other).said == election.Alive
	})
}

// noticeWithin lets something be noticed after a while, or soon after the storm.
func (w *World) noticeWithin(d time.Duration, do func()) {
	isDone := false
	once := func() {
		if !isDone {
			isDone = true
			do()
		}
	}
	if w.raging {
		w.detector.overdue = append(w.detector.overdue, once)
	}
	w.after(d, once)
}

// believed is what a detector says of a life of b's.
func (w *World) believed(b *machine, s election.Presence, nonce uint32) election.Member {
	m := b.member(s, nonce, 2*w.net.weather.delay+w.trips.trip)
	if nonce != b.nonce && s != election.Alive && m.Incarnation > 0 && b.runs() {
		m.Incarnation-- // of the life before
	}
	return m
}

// tell has a's detector say m, which is of b.
func (w *World) tell(a, b *machine, m election.Member) {
	if w.trace != nil {
		w.say(a, "detector: n%d %v nonce=%08x", b.number, m.Status, m.Nonce)
	}
	w.hash.mix(uint64(a.number)<<32 | uint64(b.number)<<8 | uint64(m.Status))
	a.viewChangedAt = w.now
	if m.Status == election.Alive {
		w.detector.of(a, b).addr = m.Addr
	}
	if m.ID == a.id {
		w.clash(a, b, m)
		return
	}
	w.step(a, election.MemberChanged{Member: m})
	w.keepWarm(a)
}

// clashToken marks the Command to let go of an agent that has met another of its id.
const clashToken = 11

// clash is what an agent does that meets another of its id: the one that was there before stays, and the other ends.
func (w *World) clash(a, b *machine, m election.Member) {
	if m.Status != election.Alive || a.mustEnd || a.staysBeside(b) {
		return
	}
	w.say(a, "another agent has its id, and stays: n%d", b.number)
	a.refused = true
	w.endFor(a)
}

// endFor has an agent end: one that leads lets go first.
func (w *World) endFor(m *machine) {
	m.mustEnd = true
	if m.state == election.Lead {
		w.command(m, election.Command{Verb: election.Abdicate, Cause: election.Stopped, Token: clashToken})
	}
	w.endIfDue(m)
}

func (m *machine) staysBeside(other *machine) bool {
	isSettled := func(m *machine) bool { return m.state == election.Lead || m.state == election.Follow }
	if isSettled(m) != isSettled(other) {
		return isSettled(m)
	}
	return m.number < other.number // as their lives began
}

// reportLeader lets a hear by gossip whom b follows.
func (w *World) reportLeader(a, b *machine) {
	if b.runs() && !b.leader.IsZero() {
		w.say(a, "gossip: leader epoch=%v", b.epoch)
		w.step(a, election.LeaderReported{Epoch: b.epoch})
	}
}

// reportStale brings a record that was true once, or never.
func (w *World) reportStale(a *machine) {
	e := w.record.anyEpoch(w.rng)
	if e == (wire.Epoch{}) || !a.isUp() {
		return
	}
	w.fired(StaleLeaderRecord)
	w.say(a, "gossip: leader epoch=%v, from long ago", e)
	w.step(a, election.LeaderReported{Epoch: e})
}

// sayLeft: memberlist tells a departure from a death, to those that it reaches.
func (d *detector) sayLeft(w *World, m *machine) {
	for _, a := range w.machines {
		v := d.of(a, m)
		if a == m || !a.isUp() || v.said != election.Alive || v.nonce != m.nonce || d.part[a.number] != d.part[m.number] {
			continue
		}
		v.said, v.at = election.Left, 0
		nonce, life := m.nonce, a.life
		w.after(w.upTo(300*time.Millisecond), func() {
			if a.life == life {
				w.tell(a, m, w.believed(m, election.Left, nonce))
			}
		})
	}
}

// slander says that b is dead, though it lives; soon it is alive again.
func (w *World) slander(a, b *machine, why Fault) {
	v := w.detector.of(a, b)
	if !a.isUp() || !b.runs() || v.said != election.Alive {
		return
	}
	w.fired(why)
	v.said, v.at = election.Dead, 0
	w.tell(a, b, w.believed(b, election.Dead, v.nonce))
	w.detector.dirty = true
}

// buryID lets everybody find out in time that nobody bears m's present id any
// more: the host comes back as somebody else.
func (w *World) buryID(m *machine) {
	for _, a := range w.machines {
		v := w.detector.of(a, m)
		if a == m || !a.runs() || v.said != election.Alive {
			continue
		}
		gone := m.member(election.Dead, v.nonce, 0)
		*v = belief{}
		life := a.life
		w.noticeWithin(w.detector.dead/2+w.upTo(w.detector.dead/2), func() {
			if a.life == life {
				w.say(a, "detector: the former n%d dead nonce=%08x", m.number, gone.Nonce)
				a.viewChangedAt = w.now
				w.step(a, election.MemberChanged{Member: gone})
			}
		})
	}
}

// spreadMeta tells those who know m what its gossiped description says now.
func (w *World) spreadMeta(m *machine) {
	for _, a := range w.machines {
		life := a.life
		w.after(w.upTo(time.Second), func() {
			v := w.detector.of(a, m)
			if a != m && a.life == life && a.isUp() && m.runs() && v.said == election.Alive && v.nonce == m.nonce {
				w.tell(a, m, w.believed(m, election.Alive, m.nonce))
			}
		})
	}
}
