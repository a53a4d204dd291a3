package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/wire"
)

// group is one run of a hook, and its processes.
type group struct {
	keeper    *keeper
	lane      hooks.Lane
	kind      hooks.Kind
	epoch     wire.Epoch
	seq       uint64
	limit     ending.Limit
	isBegun   bool
	isOver    bool
	begun     time.Time // on its host's clock
	takes     time.Duration
	ok        bool
	heedsTerm bool
	plan      int   // what was planned before is void
	saidAt    int64 // true time at which the keeper has heard of it last
}

// hookTimes is how long hooks take in a scenario.
type hookTimes struct {
	become, lose time.Duration // usually, at most
	least        time.Duration // of lose, usually
	timeout      time.Duration // their own bound
	slow, stuck  odds
	fails        odds // or cannot be started
	hangs        odds // in its start, for some seconds
}

var (
	errFailed    = errors.New("exit status 1")
	errUnstarted = errors.New("no such file or directory")
)

// prepare ends what an earlier run has left. Now and then the command cannot be run.
func (w *World) prepare(k *keeper, e hooks.Prepare) {
	w.endLeft(k.host, e.Leaves.Seq)
	prepared := hooks.Prepared{Lane: e.Lane, Number: e.Number}
	if w.isUnstarted(k, e.Kind, false) {
		prepared.Err = errUnstarted
	}
	w.tellKeeper(k, w.looking(k, e.Kind), prepared)
}

// obstacle is why a host's hooks cannot be run, or started, for a while: somebody mends it by the calm.
type obstacle struct {
	until   int64 // true time
	atStart bool  // that is seen only then
}

// isUnstarted draws whether a hook cannot be run, or started.
func (w *World) isUnstarted(k *keeper, kind hooks.Kind, atStart bool) bool {
	h := &k.host.hooks
	if w.now >= h.obstacle.until && w.raging && (w.keepers.happens(w.hookTimes.fails/2) || w.keepers.cut.more && w.keepers.oneIn(60)) {
		h.obstacle = obstacle{w.now + int64(w.keepers.upTo(8*hooks.FirstPause)), atStart}
	}
	if !w.raging || w.now >= h.obstacle.until || atStart != h.obstacle.atStart {
		return false
	}
	w.fired(HookUnstarted)
	w.say(k.host, "%s cannot be started", kind)
	if kind == hooks.LoseLeadership {
		h.sawNoEnd()
	}
	return true
}

// startGroup: the process is there a moment later.
func (w *World) startGroup(k *keeper, e hooks.Start) {
	c := &group{keeper: k, lane: e.Lane, kind: e.Event.Kind, epoch: wire.Epoch{Counter: e.Event.Epoch.Counter, Owner: k.host.id},
		seq: e.Seq, limit: e.Limit}
	c.takes, c.ok, c.heedsTerm = w.hookTakes(c.kind)
	k.groups[e.Lane] = c
	k.host.hooks.seq = max(k.host.hooks.seq, e.Seq)
	takes := w.moment()
	hangs := w.keepers.happens(w.hookTimes.hangs) || w.resources.staysAway && w.keepers.oneIn(3)
	if hangs && c.kind == hooks.BecomeLeader {
		w.fired(HookHangs)
		takes = w.keepers.upTo(3 * w.hookTimes.timeout)
	}
	w.in(k, takes, func() { w.beginGroup(c) })
}

func (w *World) beginGroup(c *group) {
	k := c.keeper
	m := k.host
	why := c.limit.Reason // it was ended before its worker came to it
	if why == nil && w.isUnstarted(k, c.kind, true) {
		why = errUnstarted
	}
	if why != nil {
		c.isOver = true
		w.tellOf(c, hooks.StartFailed{Lane: c.lane, Seq: c.seq, Err: why})
		return
	}
	c.isBegun, c.begun = true, m.clock.time(w.now)
	w.say(m, "%s begins epoch=%v", c.kind, c.epoch)
	w.sawBegin(c)
	w.tellOf(c, hooks.Started{Lane: c.lane, At: c.begun, Wall: c.begun, Entry: c.entry()})
	w.planEnd(c)
}

// tellOf has its keeper know something of a run, in order. What a leadership has ends after its lose hook. A host whose threads say late
// that the hook has ended gives it back after the lease (docs/resources.md): that is not played.
func (w *World) tellOf(c *group, fact hooks.LaneEvent) {
	takes := w.saying(c.keeper)
	if c.kind == hooks.LoseLeadership && w.resources.some {
		takes = min(takes, w.base.StopBudget/32)
	}
	c.saidAt = max(c.saidAt, w.now+int64(takes))
	w.tellKeeper(c.keeper, time.Duration(c.saidAt-w.now), fact)
}

func (c *group) entry() hooks.Entry {
	return hooks.Entry{Hook: c.kind, Epoch: c.epoch.Counter, Seq: c.seq, Group: int(c.seq)}
}

// hookTakes draws how long a hook takes, whether it succeeds then, and whether it ends when it is asked to.
func (w *World) hookTakes(kind hooks.Kind) (takes time.Duration, ok, heedsTerm bool) {
	t, k := &w.hookTimes, &w.keepers
	heedsTerm = k.isPlain || !k.oneIn(4)
	switch {
	case k.happens(t.stuck):
		w.fired(HookStuck)
		return 2 * t.timeout, false, heedsTerm
	case k.happens(t.slow):
		w.fired(HookSlow)
		takes = min(k.upTo(t.timeout), 10*max(t.lose, t.become))
	case kind == hooks.BecomeLeader:
		takes = k.upTo(t.become)
	default:
		takes = t.least + k.upTo(t.lose-t.least)
	}
	return takes, !k.happens(t.fails), heedsTerm
}

// bound shortens the time of what runs, or is being started.
func (w *World) bound(k *keeper, e hooks.Bound) {
	if c := k.groups[e.Lane]; c != nil && !c.isOver {
		c.limit = e.Limit
		if c.isBegun {
			w.planEnd(c)
		}
	}
}

// planEnd plans the end of a command by what it does and by its limit.
func (w *World) planEnd(c *group) {
	m := c.keeper.host
	c.plan++
	plan := c.plan
	now := m.clock.time(w.now)
	end := c.begun.Add(c.takes)
	var err error
	if !c.ok {
		err = errFailed
	}
	if asked := later(c.limit.TermBy(c.begun), now); asked.Before(end) {
		err = c.whyEnded()
		if kill := c.limit.KillBy(asked); !c.heedsTerm && kill.Before(end) {
			end = kill
		} else if c.heedsTerm {
			end = asked
		}
	}
	w.endAt(c, plan, m.clock.when(end, w.now), err)
}

func (c *group) whyEnded() error {
	if c.limit.Reason != nil {
		return c.limit.Reason
	}
	return fmt.Errorf("%w in its world", ending.ErrTimedOut)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// endAt ends a command at a true time, on a host that runs, unless that is planned anew.
func (w *World) endAt(c *group, plan int, at int64, err error) {
	w.in(c.keeper, time.Duration(at-w.now), func() {
		if c.plan == plan && !c.isOver {
			w.endGroup(c, err)
		}
	})
}

func (w *World) endGroup(c *group, err error) {
	k := c.keeper
	m := k.host
	c.isOver = true
	switch {
	case errors.Is(err, errFailed):
		w.fired(HookFails)
	case err != nil:
		w.fired(HookKilled)
	}
	if w.trace != nil {
		w.say(m, "%s ends epoch=%v %v", c.kind, c.epoch, err)
	}
	w.sawEnd(c, err == nil)
	end := ending.End{Err: err, Took: m.clock.time(w.now).Sub(c.begun)}
	if err != nil {
		end.Exit = 1
	}
	if m.hooks.hasLeft(w, c) {
		m.hooks.left = append(m.hooks.left, leftover{c.kind, c.epoch.Counter, c.seq})
	}
	w.tellOf(c, hooks.Exited{Lane: c.lane, Seq: c.seq, End: end})
}

// endRun: a keeper was killed, and with it dies what it had started; now and then something of
// that lives on.
func (w *World) endRun(k *keeper) {
	c := k.groups[hooks.Leadership]
	if c == nil || c.isOver || !c.isBegun {
		return
	}
	c.isOver = true
	w.say(k.host, "%s dies with its keeper epoch=%v", c.kind, c.epoch)
	if w.keepers.oneIn(3) {
		k.host.hooks.left = append(k.host.hooks.left, leftover{c.kind, c.epoch.Counter, c.seq})
	}
}

// leftover is something that lives on after its hook: a group of its own, or one whose keeper was
// killed.
type leftover struct {
	kind  hooks.Kind
	epoch uint64
	seq   uint64
}

// hasLeft draws whether a become hook that has ended has left something in the background.
func (h *hookHost) hasLeft(w *World, c *group) bool {
	return c.kind == hooks.BecomeLeader && !w.keepers.isPlain && w.keepers.oneIn(8)
}

// endLeft ends what a run has left.
func (w *World) endLeft(m *machine, seq uint64) {
	m.hooks.left = slices.DeleteFunc(m.hooks.left, func(l leftover) bool { return l.seq == seq })
}

// endOrphans ends what keepers before this one have left running: what the journal has, and hooks of
// the leadership that is due, which are known by what they were told.
func (w *World) endOrphans(k *keeper, e hooks.EndOrphans) {
	w.in(k, w.keeperTakes(2*time.Millisecond), func() {
		h := &k.host.hooks
		h.left = slices.DeleteFunc(h.left, func(l leftover) bool {
			isDue := e.Owed != nil && e.Owed.Counter == l.epoch
			return isDue || slices.ContainsFunc(e.Runs, func(r hooks.Entry) bool { return r.Seq == l.seq })
		})
		w.tellKeeper(k, 0, hooks.OrphansEnded{})
	})
}
