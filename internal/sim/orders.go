package sim

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// order is one thing that an agent says to its keeper.
type order struct {
	event hooks.LaneEvent
	// In place of an event; nil: it is one.
	secret *wire.Secret
	heirs  *[]netip.AddrPort
}

// client is the agent's hand on its keeper, in one life (internal/keeper's Client), and what the
// agent makes of results (agent's judgeHook).
type client struct {
	keeper  *keeper // nil: none is open
	beside  bool    // what the last life has left has not ended
	waiting []order // for a keeper that is being started
	open    []asked // events of the leadership without a result
	reign   *hooks.Event
	lease   time.Time // as renewed last
	isLent  bool
	inbox   []hooks.Result // what the keeper has said, unread
	told    []hooks.Result // what the node has not heard of yet
	redo    redo
	again   redoBecome
}

type asked struct {
	order order
	kind  hooks.Kind
	epoch uint64
}

// redo is a lose-leadership hook that failed and is tried again, long after.
type redo struct {
	epoch     uint64
	pause     time.Duration
	isPlanned bool
}

// As agent's redoFirst and redoMost.
const (
	redoFirst = 5 * time.Second
	redoMost  = time.Minute
)

// errKeeperDied is internal/keeper's ErrDied.
var errKeeperDied = errors.New("the keeper died")

// keeperDied is the cause of a step-down after that.
const keeperDied election.Cause = "keeper-died"

func (w *World) startHook(m *machine, e election.StartHook) {
	w.say(m, "%v", e)
	kind := hooks.BecomeLeader
	if e.Hook == election.Lose {
		kind = hooks.LoseLeadership
		w.endHolder(m) // the agent ends it, or has waited for its end
	} else {
		w.i8BecomeIsOnDisk(m, e.Epoch)
	}
	ev := m.hookEvent(kind, e.Epoch, e.Cause)
	ev.IsPlanned = e.Hook == election.Lose && !m.node.Status().Lease.IsZero()
	w.ask(m, ev, e.By)
}

// hurryHook bounds the lose hook of the epoch, which runs or is run now.
func (w *World) hurryHook(m *machine, e election.HurryHook) {
	w.say(m, "%v", e)
	if !e.By.IsZero() {
		m.overLease = m.clock.at(w.now) + int64(e.By.Sub(m.clock.time(w.now))-w.base.TakeoverDelay) // a planned end had renewed it
	}
	w.ask(m, m.hookEvent(hooks.LoseLeadership, e.Epoch, election.LeaseExpired), e.By)
}

func (w *World) stopHook(m *machine, e wire.Epoch) {
	w.give(m, order{event: hooks.Stopped{Epoch: e.Counter}})
}

func (m *machine) hookEvent(kind hooks.Kind, e wire.Epoch, cause election.Cause) hooks.Event {
	return hooks.Event{Kind: kind, Epoch: hooks.Epoch{Counter: e.Counter, Owner: m.id.String()}, Cause: string(cause)}
}

// ask has the hook of an event run; due bounds it, unless that is zero.
func (w *World) ask(m *machine, ev hooks.Event, due time.Time) {
	c := &m.client
	o := order{event: hooks.Asked{Event: ev, Lease: c.lease, Due: due}}
	c.open = append(c.open, asked{o, ev.Kind, ev.Epoch.Counter})
	if ev.Kind == hooks.BecomeLeader {
		c.reign, c.redo = &ev, redo{}
	}
	w.give(m, o)
}

// renewKeeper tells it until when its agent may be silent. An agent that nobody could take over
// from may be for as long as it likes, but what it lends has an end.
func (w *World) renewKeeper(m *machine, until time.Time) {
	is := hooks.Renewed{Lease: until, IsAlone: w.isUnrivalled(m)}
	if is.IsAlone {
		until = time.Time{}
	}
	if c := &m.client; c.lease != until || is.IsAlone && w.hasHolder(m) {
		c.lease = until
		w.give(m, order{event: is})
		if m.state == election.Lead {
			w.stepJobLanes(m, is)
		}
	}
}

func (w *World) isUnrivalled(m *machine) bool {
	return w.mode == Available && !slices.ContainsFunc(w.machines, func(other *machine) bool {
		return other != m && w.detector.of(m, other).said == election.Alive
	})
}

// renewEnding: a planned end goes on renewing the lease, though the node does not lead on it.
func (w *World) renewEnding(m *machine) {
	if m.client.reign == nil || m.state != election.Stopping {
		return
	}
	if until := m.node.Status().Lease; !until.IsZero() {
		w.renewKeeper(m, until)
		w.stepJobLanes(m, hooks.Renewed{Lease: m.client.lease, IsEnding: true})
	}
}

// give passes an order on, now or when there is a keeper.
func (w *World) give(m *machine, o order) {
	c := &m.client
	if k := c.keeper; k != nil {
		k.mail = append(k.mail, o)
		w.in(k, w.moment(), func() { w.turn(k) })
		return
	}
	switch o.event.(type) {
	case hooks.Asked, hooks.Stopped:
		c.waiting = append(c.waiting, o)
	}
}

// take gives a keeper that is open what there is for it.
func (w *World) take(m *machine, k *keeper) {
	c := &m.client
	c.keeper = k
	w.trust(m, k)
	if c.reign != nil {
		w.give(m, order{event: hooks.Adopted{Event: *c.reign, Lease: c.lease}})
	}
	if c.isLent {
		w.give(m, order{event: m.lending()})
	}
	waiting := c.waiting
	c.waiting = nil
	for _, o := range waiting {
		if a, ok := o.event.(hooks.Asked); ok {
			a.Lease = c.lease // renewed since, perhaps
			o.event = a
		}
		w.give(m, o)
	}
	w.give(m, order{event: hooks.Opened{}})
}

// onKeeperLost: the lose hooks that were asked for wait for another keeper; whatever else the last
// one ran has failed.
func (w *World) onKeeperLost(m *machine, k *keeper) {
	c := &m.client
	if c.keeper == k {
		c.keeper = nil
	}
	for _, last := range k.words { // what it has said is in the socket, unless it was killed before that
		if last.at == w.now && w.keepers.oneIn(2) {
			break
		}
		c.inbox = append(c.inbox, last.Result)
	}
	k.words = nil
	for _, r := range c.inbox { // its last words
		c.onResult(r)
	}
	c.inbox = nil
	leads := c.reign != nil
	open := c.open
	c.open = nil
	for _, a := range open {
		leads = false
		if a.kind == hooks.LoseLeadership {
			c.open = append(c.open, a)
			c.waiting = append(c.waiting, a.order)
		} else {
			c.told = append(c.told, hooks.Result{Kind: a.kind, Epoch: a.epoch, Err: errKeeperDied})
		}
	}
	if leads {
		c.told = append(c.told, hooks.Result{Kind: hooks.LoseLeadership, Epoch: c.reign.Epoch.Counter, Err: errKeeperDied, Unasked: true})
	}
	w.replaceKeeper(m)
	life := m.life
	w.after(0, func() {
		if m.life == life {
			w.hear(m)
		}
		if m.life == life && c.keeper == nil {
			w.step(m, election.Entrusted{})
		}
	})
}

// word is something that a keeper has said at a true time, and that its agent has not heard.
type word struct {
	hooks.Result
	at int64
}

// tellAgent passes on how an event ended, in order.
func (w *World) tellAgent(k *keeper, r hooks.Result) {
	m := k.host
	k.saysAt = max(k.saysAt, w.now+int64(50*time.Microsecond+w.keeperTakes(time.Millisecond)))
	k.words = append(k.words, word{r, w.now})
	w.after(time.Duration(k.saysAt-w.now), func() {
		if m.runs() && m.life == k.life && m.client.keeper == k {
			m.client.inbox = append(m.client.inbox, k.words[0].Result)
			k.words = k.words[1:]
			w.hear(m)
		}
	})
}

// hear has an agent take what its keeper has said, and its node hear of that: results come through
// its loop.
func (w *World) hear(m *machine) {
	if m.frozen || m.suspended {
		return
	}
	c := &m.client
	for _, r := range c.inbox {
		c.onResult(r)
	}
	c.inbox = nil
	for m.runs() && !m.isBlocked() && len(c.told) > 0 {
		r := c.told[0]
		c.told = c.told[1:]
		w.onHookResult(m, r)
	}
}

func (c *client) onResult(r hooks.Result) {
	c.told = append(c.told, r)
	if r.Unasked || r.IsLater {
		return
	}
	if len(c.open) > 0 { // results come in the order of the events
		c.open = c.open[1:]
	}
	if r.Kind == hooks.LoseLeadership && c.reign != nil && c.reign.Epoch.Counter <= r.Epoch {
		c.reign = nil
	}
}

// onHookResult passes the end of a leadership hook on, and draws the conclusions.
func (w *World) onHookResult(m *machine, r hooks.Result) {
	life := m.life
	if !r.Unasked && !r.IsLater {
		e := election.HookEnded{Hook: election.Become, Epoch: wire.Epoch{Counter: r.Epoch, Owner: m.id}, OK: r.OK}
		if r.Kind == hooks.LoseLeadership {
			e.Hook = election.Lose
		}
		if w.trace != nil {
			w.say(m, "%v hook ended epoch=%d ok=%t %v", e.Hook, r.Epoch, r.OK, r.Err)
		}
		w.step(m, e)
	}
	if m.life == life && m.runs() {
		w.judgeHook(m, r)
	}
}

// judgeHook is the agent's.
func (w *World) judgeHook(m *machine, r hooks.Result) {
	s := m.node.Status()
	leads := s.State == election.Lead && s.Epoch.Counter == r.Epoch
	switch {
	case r.Unasked && errors.Is(r.Err, errKeeperDied):
		if leads {
			w.command(m, election.Command{Verb: election.StepDown, Cause: keeperDied, Token: w.tokenOfKeeperDied()})
		}
	case errors.Is(r.Err, hooks.ErrNotRecorded) && leads:
		w.onSaveFailed(m, election.SaveFailed{State: m.disk.state})
	case r.Kind == hooks.BecomeLeader && r.Resource != "" && leads:
		w.onHasNot(m, r)
	case r.Kind == hooks.LoseLeadership && leads && r.TakenOver:
		w.command(m, election.Command{Verb: election.Abdicate, Cause: election.AgentFrozen, Token: 6})
	case r.Kind == hooks.LoseLeadership && !r.OK && s.State != election.Lead && s.State != election.Stopping:
		w.redoLose(m, r)
	case r.Kind == hooks.LoseLeadership && r.OK && m.client.redo.epoch == r.Epoch:
		m.client.redo = redo{}
	}
}

// redoLose has a lose hook tried again: the first time at once if it was cut.
func (w *World) redoLose(m *machine, r hooks.Result) {
	d := &m.client.redo
	isFirst := d.epoch != r.Epoch
	switch {
	case !isFirst && (r.IsRepeat || d.isPlanned):
		return
	case isFirst:
		*d = redo{epoch: r.Epoch, pause: redoFirst / 2}
	}
	wait := time.Duration(0)
	if !r.IsCut || !isFirst {
		d.pause = min(2*d.pause, redoMost)
		wait = d.pause
	}
	d.isPlanned = true
	w.after(wait, func() { w.tryAgain(m, m.life, r.Epoch) })
}

// tryAgain is the background's next attempt.
func (w *World) tryAgain(m *machine, life int32, epoch uint64) {
	d := &m.client.redo
	switch {
	case m.life != life || d.epoch != epoch:
	case m.isBlocked():
		w.after(10*time.Millisecond, func() { w.tryAgain(m, life, epoch) })
	default:
		if s := m.node.Status().State; s == election.Lead || s == election.Stopping {
			*d = redo{}
			return
		}
		d.isPlanned = false
		ev := m.hookEvent(hooks.LoseLeadership, wire.Epoch{Counter: epoch, Owner: m.id}, election.HookFailed)
		ev.IsRedo = true
		w.ask(m, ev, time.Time{})
	}
}

// isIdle: the node waits for no end of a hook.
func (c *client) isIdle() bool { return len(c.open) == 0 && len(c.inbox) == 0 && len(c.told) == 0 }
