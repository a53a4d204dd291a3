package sim

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// keeper is the process beside the agent that runs its hooks. What it does is decided by hooks.Lanes
// as they are. What happens to it is drawn here: the order in which it sees what its agent has said,
// what its commands and its journal tell, the agent's death and its own deadline. The last two it
// sees only when all that was said has been read, see hooks.Tick.
type keeper struct {
	host    *machine
	life    int32 // of the agent that it serves
	lanes   hooks.Lanes
	isThere bool // it runs
	isOpen  bool // it has the lock of the state directory, and lanes
	isRun   bool // hooks run as they are ordered
	isOver  bool // it has ended, or was killed

	mail     []order           // of its agent, unread
	facts    []hooks.LaneEvent // of its commands and its journal
	saysAt   int64             // true time at which its last word is heard
	words    []word            // unheard
	isAlone  bool              // the agent is dead: so says the kernel
	sawDeath bool              // and the keeper has seen that
	tickAt   int64             // true time of the tick that is planned; 0: none

	groups     map[hooks.Lane]*group
	isCleaning bool // after an earlier life
	journal    writer
	knowsLost  wire.Epoch // it has heard that its lose hook of that has succeeded
	nonce      uint32     // of the life that it serves
	secret     wire.Secret
	heirs      []netip.AddrPort // whom it tells of its agent's death
	last       effectKind       // carried out last
	isLate     bool             // its threads say late what they have done

	inquiries []*inquiry // the last run of each check
	counts    []counted
	findings  []finding // of checks, unheard

	tenants       []*tenant
	configured    []hooks.Resource // as it was told last
	configuredFor uint64           // the last leadership that has begun by that alone
	ordered       uint64           // the last leadership that it was told of
	ended         uint64           // the last that it has ended by itself
}

// openKeeper gives a keeper its lanes, by what it reads.
func (w *World) openKeeper(k *keeper) {
	m := k.host
	k.isOpen, k.groups = true, map[hooks.Lane]*group{}
	k.configured = m.haves.configured
	k.lanes = hooks.NewLanes(hooks.LanesConfig{Seq: m.hooks.seq, Pause: hooks.FirstPause, RecordWithin: hooks.RecordPatience,
		Budget: w.base.StopBudget / 2, Takeover: lease.LeaderLength(w.base.TakeoverDelay)}, w.hookConfig(m), m.hooks.disk.page)
	if all := w.checks.all; len(all) > 0 {
		k.inquiries, k.counts = make([]*inquiry, len(all)), make([]counted, len(all))
		for i := range k.counts {
			k.counts[i].isKnown = true
		}
		w.stepLanes(k, hooks.Checking{Checks: all})
		w.in(k, 0, func() { w.turn(k) })
	}
}

// hookConfig has a command for each event of a leadership.
func (w *World) hookConfig(m *machine) hooks.Config {
	return hooks.Config{Timeout: w.hookTimes.timeout, Grace: w.hookTimes.timeout / 10, Resources: m.haves.configured,
		Commands: map[hooks.Kind]hooks.Command{hooks.BecomeLeader: {Shell: "take"}, hooks.LoseLeadership: {Shell: "release"}}}
}

// source is what a keeper waits for.
type source uint8

const (
	nothing source = iota
	mail
	facts
	death
	deadline
)

// turn has a keeper take what has come, on a host that runs.
func (w *World) turn(k *keeper) {
	for k.isOpen && !k.isOver && !k.host.suspended {
		switch w.nextSource(k) {
		case nothing:
			w.planTick(k)
			return
		case mail:
			w.readMail(k)
		case facts:
			w.takeFact(k)
		case death:
			w.readMail(k)
			w.seeDeath(k)
		case deadline:
			w.readMail(k)
			w.stepLanes(k, hooks.Tick{})
		}
	}
}

// nextSource draws one of those that have something.
func (w *World) nextSource(k *keeper) source {
	var have [4]source
	n := 0
	for _, is := range []struct {
		so   bool
		what source
	}{{len(k.mail) > 0, mail}, {len(k.facts) > 0, facts}, {k.isAlone && !k.sawDeath, death}, {w.isDue(k), deadline}} {
		if is.so {
			have[n] = is.what
			n++
		}
	}
	switch {
	case n == 0:
		return nothing
	case w.keepers.isPlain:
		return have[0]
	}
	return have[w.keepers.rng.IntN(n)]
}

func (w *World) isDue(k *keeper) bool {
	at := k.lanes.Deadline()
	return !at.IsZero() && !k.host.clock.time(w.now).Before(at)
}

// planTick has the keeper wake when its lanes want to be asked.
func (w *World) planTick(k *keeper) {
	at := k.lanes.Deadline()
	if at.IsZero() {
		return
	}
	then := k.host.clock.when(at, w.now)
	if k.tickAt > w.now && k.tickAt <= then {
		return
	}
	k.tickAt = then
	w.in(k, time.Duration(then-w.now), func() {
		if k.tickAt == then {
			k.tickAt = 0
			w.turn(k)
		}
	})
}

// in has something happen on the keeper's host, unless the keeper is over by then. On a suspended host it waits until that goes on,
// behind what waits already: a command's start is told before its end.
func (w *World) in(k *keeper, d time.Duration, do func()) {
	w.after(d, func() {
		switch {
		case k.isOver:
		case k.host.suspended:
			k.host.asleep = append(k.host.asleep, func() { w.in(k, 0, do) })
		default:
			do()
		}
	})
}

// wake has what waited for a host go on.
func (m *machine) wake() {
	waiting := m.asleep
	m.asleep = nil
	for _, goOn := range waiting {
		goOn()
	}
}

// tellKeeper has a keeper come to know something of its commands or its journal.
func (w *World) tellKeeper(k *keeper, in time.Duration, fact hooks.LaneEvent) {
	w.in(k, in, func() {
		k.facts = append(k.facts, fact)
		w.turn(k)
	})
}

func (w *World) readMail(k *keeper) {
	for len(k.mail) > 0 && !k.isOver {
		o := k.mail[0]
		k.mail = k.mail[1:]
		w.obey(k, o)
	}
}

func (w *World) takeFact(k *keeper) {
	fact := k.facts[0]
	k.facts = k.facts[1:]
	if _, isExited := fact.(hooks.Exited); isExited && k.host.hooks.lostBy == k && !w.resources.some {
		k.knowsLost = k.host.hooks.lost
	}
	if _, isPrepared := fact.(hooks.Prepared); isPrepared {
		w.readMail(k) // it is the last look before a hook starts
	}
	if e, isAnswer := fact.(hooks.Consulted); isAnswer {
		w.judgeAnswer(k, e)
	}
	if !k.isOver {
		w.stepLanes(k, fact)
	}
}

// obey does what the agent has said.
func (w *World) obey(k *keeper, o order) {
	switch {
	case o.secret != nil:
		w.hasSecret(k, *o.secret)
		return
	case o.heirs != nil:
		k.heirs = *o.heirs
		return
	}
	_, isRun := o.event.(hooks.Opened)
	k.isRun = k.isRun || isRun
	k.noteOrder(o.event)
	w.stepLanes(k, o.event)
}

// seeDeath: a clean-up goes on, since it is due whoever lives.
func (w *World) seeDeath(k *keeper) {
	k.sawDeath = true
	if k.isRun {
		k.heardEnd(k.ordered)
		w.stepLanes(k, hooks.AgentDied{})
		w.c3EndsWithTheAgent(k)
	} else if !k.isCleaning {
		w.endKeeper(k)
	}
}

// stepLanes has the lanes know of something, and carries out what comes of it.
func (w *World) stepLanes(k *keeper, ev hooks.LaneEvent) {
	for _, e := range slices.Clone(k.lanes.Step(k.host.clock.time(w.now), ev)) {
		if kind := kindOf(e); kind != noEffect {
			if w.cutsBefore(k, kind) {
				return
			}
			k.last = kind
			w.befalls(k, e)
		}
		w.carryOut(k, e)
	}
}

// carryOut does one effect; what comes of it comes later.
func (w *World) carryOut(k *keeper, effect hooks.LaneEffect) {
	switch e := effect.(type) {
	case hooks.Note:
		if d := e.Page.Done; d != nil && d.Epoch.Counter == k.host.hooks.lost.Counter { // the only word of a lose hook that nobody has asked for
			w.h2NothingIsLeft(k, hooks.Result{Kind: hooks.LoseLeadership, Epoch: d.Epoch.Counter, OK: true})
		}
		w.note(k, e)
	case hooks.EndOrphans:
		w.endOrphans(k, e)
	case hooks.Prepare:
		w.prepare(k, e)
	case hooks.Start:
		w.startGroup(k, e)
	case hooks.Bound:
		w.bound(k, e)
		w.boundInquiry(k, e)
	case hooks.Consult:
		w.startInquiry(k, e)
	case hooks.TellCheck:
		w.tellCheck(k, e.Report)
	case hooks.BeginResource:
		w.beginResource(k, e)
	case hooks.Freeze:
		w.freezeResources(k)
	case hooks.EndResource:
		w.endResource(k, e)
	case hooks.Tell:
		w.noteResult(k, e.Result)
		w.tellAgent(k, e.Result)
	case hooks.Cleaned:
		w.h2NothingIsLeft(k, e.Result)
		w.onCleaned(k, e.Result)
	case hooks.Over:
		w.onOver(k, e)
	}
}

// moment is what a thread takes to do something and to say so. Others would make a hook late by
// it, so it is short also where keepers are slow.
func (w *World) moment() time.Duration {
	if w.keepers.isPlain {
		return 0
	}
	return w.keepers.upTo(500 * time.Microsecond)
}

// saying is what a thread takes to say what it has done: seldom long, so that something can come before that.
func (w *World) saying(k *keeper) time.Duration {
	if k.isLate || w.keepers.cut.more && w.keepers.oneIn(8) {
		return w.keepers.upTo(50 * time.Millisecond)
	}
	return w.moment()
}

// noteResult counts what is done in the agent's stead, and what is refused.
func (w *World) noteResult(k *keeper, r hooks.Result) {
	w.h2NothingIsLeft(k, r)
	switch isUnstarted := r.Kind == hooks.BecomeLeader && !r.Ran; {
	case r.IsLater:
	case r.Unasked:
		k.ended = max(k.ended, r.Epoch)
		w.fired(KeeperLose)
		w.say(k.host, "keeper: the agent is silent or dead, and loses epoch=%d", r.Epoch)
	case isUnstarted && !errors.Is(r.Err, hooks.ErrNotRecorded):
		w.fired(LateOrder)
		w.say(k.host, "keeper: become hook not started epoch=%d: %v", r.Epoch, r.Err)
	}
}

// endKeeper: it has nothing left to do, but for the last note, which it gives a while.
func (w *World) endKeeper(k *keeper) { w.endWhenWritten(k, w.now+int64(diskPatience)) }

// diskPatience is hookrun's. Arbitrary.
const diskPatience = time.Second

func (w *World) endWhenWritten(k *keeper, latest int64) {
	if k.journal.isBusy && w.now < latest {
		w.in(k, time.Millisecond, func() { w.endWhenWritten(k, latest) })
		return
	}
	w.buryKeeper(k)
	w.say(k.host, "keeper ends")
}

// buryKeeper takes a keeper away, and its lock; whoever waits for that opens.
func (w *World) buryKeeper(k *keeper) {
	k.isOver = true
	w.leaveThings(k)
	w.passLastFindings(k)
	h := &k.host.hooks
	if h.keeper == k {
		h.keeper = nil
		if next := h.next; next != nil {
			h.next = nil
			w.takeLock(next)
		}
	} else if h.next == k {
		h.next = nil
	}
}

// killKeeper ends the keeper that works, and what it runs. An agent that lives starts another; else
// the next start does what is due.
func (w *World) killKeeper(m *machine, why Fault) {
	if k := m.hooks.keeper; k != nil && k.isOpen && !m.hostDown && !m.suspended {
		w.killOne(k, why)
	}
}

func (w *World) killOne(k *keeper, why Fault) {
	m := k.host
	w.fired(why)
	w.say(m, "keeper killed: %v", why)
	if !m.isUp() {
		w.fired(BothDie)
	}
	w.endRun(k)
	w.breakOff(k)
	m.hooks.unminded = m.hooks.acting
	w.buryKeeper(k)
	switch {
	case w.isBeginning(m, k): // what was due is asked of another
		w.after(0, func() {
			if w.isBeginning(m, k) {
				w.launch(m, k.life)
			}
		})
	case m.runs() && m.life == k.life:
		w.onKeeperLost(m, k)
	}
}
