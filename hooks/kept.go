package hooks

import (
	"maps"
	"reflect"
	"slices"
	"time"
)

// Kept is what the hooks of one leadership run by. A reload, and the next life of the
// agent, leave that alone until the lose-leadership hook has succeeded: what a
// become-leader hook has taken is released by the hook that was its pair then. Another
// address in both hooks would else leave the first one on this host for ever.
//
// There are two exceptions, without which nobody could mend anything. A hook that the
// leadership has none of is taken from the reload at once: nothing is due by it. And
// when a hook has failed of itself, the next reload holds for this leadership as well.
type Kept struct {
	Epoch   Epoch         `json:"epoch"`
	Become  Command       `json:"become"`
	Lose    Command       `json:"lose"`
	Timeout time.Duration `json:"timeout"`
	Grace   time.Duration `json:"grace"`

	failed bool // the last run of one of its hooks has, of itself
}

func keep(cfg Config, epoch Epoch) *Kept {
	return &Kept{Epoch: epoch, Become: cfg.Commands[BecomeLeader], Lose: cfg.Commands[LoseLeadership],
		Timeout: cfg.Timeout, Grace: cfg.Grace}
}

// in is cfg with what the leadership keeps.
func (k *Kept) in(cfg Config) Config {
	cfg.Commands = maps.Clone(cfg.Commands)
	if cfg.Commands == nil {
		cfg.Commands = make(map[Kind]Command)
	}
	cfg.Commands[BecomeLeader], cfg.Commands[LoseLeadership] = k.Become, k.Lose
	cfg.Timeout, cfg.Grace = k.Timeout, k.Grace
	return cfg
}

// reload is what the leadership keeps when cfg is loaded while it goes on.
func (k *Kept) reload(cfg Config) *Kept {
	next := keep(cfg, k.Epoch)
	if k.failed {
		return next
	}
	same := *k
	if same.Become.IsZero() {
		same.Become = next.Become
	}
	if same.Lose.IsZero() {
		same.Lose = next.Lose
	}
	return &same
}

// isAs reports whether both run the same.
func (k *Kept) isAs(other *Kept) bool {
	mine, theirs := *k, *other
	mine.failed, theirs.failed = false, false
	return reflect.DeepEqual(mine, theirs)
}

// planFor is what a hook of the leadership runs by, and all that it may have.
func (l *Lanes) planFor(epoch uint64) Config {
	plan := l.hooks
	if l.kept != nil && l.kept.Epoch.Counter == epoch {
		plan = l.kept.in(plan)
	}
	plan.Resources = l.book.mayHave(plan.Resources)
	return plan
}

// keepFrom has a leadership keep the configuration that its become-leader hook begins with.
func (l *Lanes) keepFrom(epoch Epoch) {
	if l.kept == nil || l.kept.Epoch != epoch {
		l.kept = keep(l.hooks, epoch)
	}
}

// isDueBefore reports whether the lose-leadership hook of the leadership before is due, and a become-leader brings another one: after that
// nothing would release what the first one is to.
func (l *Lanes) isDueBefore(req request) bool {
	k, owed := l.kept, l.book.page.Owed
	isDue := k != nil && owed != nil && k.Epoch == *owed && k.Epoch != req.Epoch && req.bar == nil && !l.isClosed
	return isDue && !reflect.DeepEqual(k.Lose, l.hooks.Commands[LoseLeadership])
}

// overtake ends a lose-leadership hook that is tried once more, since this node leads again. One that would run first anyway goes on
// instead.
func (l *Lanes) overtake(now time.Time, req *request) {
	t := l.lead
	switch {
	case t == nil || !t.IsRedo:
	case l.isDueBefore(*req) && t.Epoch == l.kept.Epoch && t.due.IsZero() && t.limit.Reason == nil:
		req.isNext = true
	default:
		l.cut(now, t, errOvertaken, now.Add(overtakeGrace))
	}
}

// loseFirst has that hook run once more ahead of the become-leader. It is run once: a leader is wanted.
func (l *Lanes) loseFirst(req request) bool {
	if !l.isDueBefore(req) {
		return false
	}
	k := l.kept
	if req.isNext {
		l.say(Error, "lose-leadership hook given up, since this node leads again by other hooks: what it should release may still be held here",
			"epoch", k.Epoch.Counter, "command", OneLine(k.Lose.String()))
		return false
	}
	req.isNext = true
	l.queue = slices.Insert(l.queue, 0, request{Event: l.redoFor(req.Event, k.Epoch), unasked: true}, req)
	return true
}

// loseLast has that hook run again, after all that waits, if the end of the leadership that it was ahead of has cut it. Others lead soon,
// and nobody else releases what this host holds. Before another leadership it runs anyway.
func (l *Lanes) loseLast(t *task, res Result) {
	isNext := func(q request) bool { return q.Kind == BecomeLeader && q.Epoch.Counter > l.over }
	if !t.IsRedo || !res.IsCut || t.due.IsZero() || l.isClosed || slices.ContainsFunc(l.queue, isNext) {
		return
	}
	again := t.Event
	again.Attempt = l.lostTries
	l.queue = append(l.queue, request{Event: again, unasked: true})
}

// redoFor is the lose-leadership event of an epoch that has ended here, for a host that is about to lead in another one: the members are
// those of now.
func (l *Lanes) redoFor(ev Event, epoch Epoch) Event {
	ev.Kind, ev.Epoch, ev.Cause, ev.Attempt, ev.IsRedo = LoseLeadership, epoch, causeUncleanRestart, 0, true
	ev.Leader, ev.PrevLeader, ev.Time, ev.Ended = Node{}, ev.Self, time.Time{}, nil
	if l.lost.Epoch == epoch.Counter {
		ev.Cause, ev.Attempt = l.lost.Cause, l.lostTries
	}
	return ev
}

// learn draws the conclusions from the end of a leadership hook.
func (l *Lanes) learn(res Result) {
	k := l.kept
	switch {
	case k == nil || k.Epoch.Counter != res.Epoch:
	case res.OK && res.Kind == LoseLeadership:
		l.kept = nil
	case res.OK:
		k.failed = false
	case res.isOwnFailure():
		k.failed = true
		l.book.keep(nil) // to start the agent anew is a reload, too
	}
}

// isOwnFailure reports whether the hook failed of itself, and somebody has been told.
// One that was ended early may be well.
func (res Result) isOwnFailure() bool { return !res.OK && !res.TakenOver && !res.IsCut }

// onReloaded takes the configuration of now.
func (l *Lanes) onReloaded(cfg Config) {
	l.isUnswept = l.isUnswept || slices.ContainsFunc(cfg.Resources, func(r Resource) bool { return !isIn(l.hooks.Resources, r) })
	l.hooks, l.isReloaded = cfg, true
	if l.kept == nil {
		return
	}
	if next := l.kept.reload(cfg); !next.isAs(l.kept) {
		l.kept = next
		l.book.keep(next)
	}
}

// Keeps is the epoch of a leadership whose hooks are not those that are configured
// now, since the configuration was loaded while it went on; false if there is none.
func (l *Lanes) Keeps() (epoch uint64, ok bool) {
	if l.kept == nil || l.kept.isAs(keep(l.hooks, l.kept.Epoch)) {
		return 0, false
	}
	return l.kept.Epoch.Counter, true
}
