package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/wire"
)

// invariants is one more than the highest number of an invariant, those of jobs, resources and checks included.
const invariants = checkedAt + 6

// Violation is a broken invariant.
type Violation struct {
	Invariant int           // its number, of jobs 100 more; 0: the code under test panicked
	At        time.Duration // true time since the start of the schedule
	Text      string
}

// fail notes the first violation and ends the run, unless the scenario waives
// this invariant.
func (w *World) fail(number int, format string, args ...any) {
	if w.waived[number] {
		w.waives[number]++
		return
	}
	if w.failure != nil {
		return
	}
	text := invariantName(number) + ": " + w.named(fmt.Sprintf(format, args...))
	w.failure = &Violation{Invariant: number, At: time.Duration(w.now), Text: text}
	w.say(nil, "%s", text)
}

// record is what the invariants remember of the whole cluster.
type record struct {
	owners   map[wire.Epoch]leadership
	active   map[uint64]wire.ID // by counter
	grants   map[grant]wire.ID
	holders  map[held]bool // of rosters, by what they said themselves
	tries    []try         // [(from*room+to)*kinds+kind]; nil in large groups
	newest   wire.Epoch
	reigns   int
	epochs   []wire.Epoch // some that were shown
	changes  []change     // of leader, since calm
	returned []int64      // when hosts came back since calm
}

// leadership is the life that an epoch belongs to.
type leadership struct {
	who   int
	nonce uint32
	led   bool
}

type grant struct {
	voter   wire.ID
	counter uint64
}

// held is a roster on a voter's disk.
type held struct {
	voter   wire.ID
	version uint32
}

type try struct {
	life  int32
	round uint32
	count uint32
}

// change is a leadership that began.
type change struct {
	at    int64
	cause election.Cause
	who   int
}

const kinds = int(wire.Canvass) + 1

func newRecord(room int) record {
	r := record{owners: map[wire.Epoch]leadership{}, active: map[uint64]wire.ID{}, grants: map[grant]wire.ID{}, holders: map[held]bool{}}
	if room <= 10 {
		r.tries = make([]try, room*room*kinds)
	}
	return r
}

func (r *record) anyEpoch(rng *rand.Rand) wire.Epoch {
	if len(r.epochs) == 0 {
		return wire.Epoch{}
	}
	return r.epochs[rng.IntN(len(r.epochs))]
}

// watchTransition holds a change of state against the invariants and keeps the
// machine's public face.
func (w *World) watchTransition(m *machine, e *election.Transition) {
	w.i6EpochsNeverDecrease(m, e)
	w.i7OneEpochOneLeader(m, e)
	if e.To == election.Claiming {
		m.hasStood = true
		if e.Epoch != m.epoch {
			clear(m.ackAt)
			m.grantAsked = 0
		}
		w.i10NoCoup(m)
		w.i11ClaimantIsElectable(m, e)
		w.i30WaitsForWhoIsOut(m, e)
	}
	if e.To == election.Follow {
		m.followsSince = w.now
	}
	m.state, m.epoch, m.leader = e.To, e.Epoch, e.Leader
	if e.From == election.Lead && e.To != election.Lead {
		m.lostReigns++
		m.lastLost = e.Cause
		w.i25OwnBarsAlone(m, e)
	}
	if e.To != election.Lead {
		if m.lease != 0 {
			m.overLease = m.lease
		}
		m.lease, m.leaseSeen = 0, false
		return
	}
	w.onAscent(m, e)
}

func (w *World) onAscent(m *machine, e *election.Transition) {
	w.i3OneActivePerCounter(m, e)
	m.lease, m.leaseSeen, m.need, m.reign, m.overLease = 0, false, -1, 0, 0
	if len(w.record.epochs) < 256 {
		w.record.epochs = append(w.record.epochs, e.Epoch)
	}
	if !w.raging {
		w.record.changes = append(w.record.changes, change{w.now, e.Cause, m.number})
	}
}

// onLease takes what a leader publishes: until when it may act.
func (w *World) onLease(m *machine, until time.Time) {
	was := m.lease
	m.lease = 0
	if until.IsZero() {
		w.stepJobLanes(m, hooks.LeadershipLost{Cause: jobs.Killed.String()})
		return
	}
	m.lease, m.leaseSeen = int64(until.Sub(epoch)), true
	m.renewHolder()
	w.renewKeeper(m, until)
	now := m.clock.at(w.now)
	need := m.need
	m.need = w.acksNeeded(m)
	if need >= 0 && m.need > need {
		m.forgivenAt = w.now // who has just come had no chance yet
	}
	if m.lease <= now {
		return
	}
	if was <= now {
		w.i5AtMostOneActs(m)
	}
	if m.reign == 0 {
		w.onFirstLease(m)
	}
	w.i14GivesUpWithoutAcks(m)
	w.write(m)
}

// onFirstLease begins a leadership that is in force. One that was shown after its lease, by
// a process that was stopped before, never is, and nobody acts in it.
func (w *World) onFirstLease(m *machine) {
	w.i20NewerLeadershipsHaveHigherTokens(m)
	w.record.reigns++
	m.reign = w.record.reigns
}

// acts: the machine leads, and its own clock says that it still may. Whether it
// is frozen does not matter: it would act if it went on now.
func (w *World) acts(m *machine) bool {
	return m.runs() && m.state == election.Lead && m.lease > m.clock.at(w.now)
}

// watchFrame holds what a machine sends against the invariants.
func (w *World) watchFrame(m, to *machine, f *wire.Frame) {
	if f.Epoch.Owner == m.id {
		w.i2EpochIsOnDiskBeforeItIsShown(m, f)
	}
	switch f.Kind {
	case wire.Coordinator, wire.Heartbeat:
		w.i2AnnouncedByItsOwnerAlone(m, f)
		w.i15NothingAfterTheLease(m, f)
	case wire.Resign:
		w.i2AnnouncedByItsOwnerAlone(m, f)
		w.i18ResignsAfterItsLoseHook(m, f)
	case wire.CoordAck, wire.HeartAck:
		if w.mode == Quorum {
			w.i4OneGrantPerCounter(m, to, f)
		}
	case wire.Roster, wire.RosterAck:
		w.i23RosterIsOnDiskBeforeItIsTold(m, f)
	case wire.Cid:
		if f.Knowledge == wire.Leads {
			w.i15NothingAfterTheLease(m, f)
		}
	}
	if f.Kind == wire.Heartbeat || f.Kind == wire.Coordinator {
		m.asked.note(to.number, f.Seq, w.now)
	}
	w.i19FewRepetitions(m, to, f)
	w.i29OlderStatesPromiseNothing(m, f)
}

// watchArrival notes what a machine takes in.
func (w *World) watchArrival(m, from *machine, f *wire.Frame) {
	if m.state == election.Lead && w.detector.of(m, from).said != election.Alive {
		m.viewChangedAt = w.now // it counts again, if it did not
	}
	switch f.Kind {
	case wire.Coordinator:
		if f.Phase == wire.Claim {
			m.claimsSeen[m.claimsCount%len(m.claimsSeen)] = claimSeen{from.number, f.Seq}
			m.claimsCount++
		}
	case wire.HeartAck, wire.CoordAck:
		if f.AckVerdict == wire.Accept && f.Epoch == m.epoch {
			m.ackAt[from.number-1] = max(m.ackAt[from.number-1], m.asked.at(from.number, f.EchoSeq, w.now))
		}
	}
}

// watchTaken notes what a machine has taken in and believed.
func (w *World) watchTaken(m *machine, f *wire.Frame) {
	if f.Kind == wire.Heartbeat && f.Epoch.Owner == f.Sender {
		m.hear(w, f.Epoch)
	}
}

// hear keeps since when a leader's heartbeats come without a gap, by half an
// interval's margin to the least T_s.
func (m *machine) hear(w *World, e wire.Epoch) {
	if m.heardEpoch != e || w.now-m.heardAt > int64(w.base.Heartbeat)*3/2 {
		m.freshFrom = w.now
	}
	m.heardEpoch, m.heardAt = e, w.now
}

// askings are a leader's last frames that were to be acknowledged, and when each was sent: an acknowledgement counts from
// the sending that it echoes, by whatever session it comes (I14).
type askings struct {
	sent [128]asking
	next int
}

type asking struct {
	to  int
	seq uint32
	at  int64
}

func (a *askings) note(to int, seq uint32, now int64) {
	a.sent[a.next%len(a.sent)] = asking{to, seq, now}
	a.next++
}

// at is when the frame with this number was sent; of one that is not known any more, now.
func (a *askings) at(to int, seq uint32, now int64) int64 {
	for _, s := range a.sent {
		if s.to == to && s.seq == seq {
			return s.at
		}
	}
	return now
}

// hasClaimed reports whether from sent m a CLAIM with this number.
func (m *machine) hasClaimed(from int, seq uint32) bool {
	for _, c := range m.claimsSeen {
		if c.from == from && c.seq == seq {
			return true
		}
	}
	return false
}

// roster gives who may vote, as a machine's disk has it.
func (m *machine) roster() []wire.ID { return m.disk.state.Roster.IDs }

// noteNeed sees a leader's need of acknowledgements fall though its lease, and so
// what it publishes, stays as it is: if it rises again, that is news (I14).
func (w *World) noteNeed(m *machine) {
	if w.mode == Available && m.state == election.Lead && m.need > 0 {
		m.need = min(m.need, w.acksNeeded(m))
	}
}

// acksNeeded is how many others' acknowledgements a leader's lease rests on.
func (w *World) acksNeeded(m *machine) int {
	if w.mode == Quorum {
		return quorum.Size(len(m.roster())) - 1
	}
	return m.node.Status().NeedAcks
}
