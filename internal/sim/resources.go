package sim

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// In some schedules, and in those that ask for it, leaders have resources: addresses, which stay where they are when their keeper is
// killed until the kernel takes them off, and commands, which die with their keeper. Hosts are configured with one
// to three of a few. hooks.Lanes decide what begins and ends; this file stands in for package resourcerun, for the
// kernel, and for whoever takes resources away. It has a stream of chance of its own.
type resources struct {
	rng       *rand.Rand
	some      bool // in this schedule
	hurt      bool // they fail, get lost and hang
	all       []hooks.Resource
	first     []hooks.Resource // what hosts are configured with at the start
	takes     time.Duration    // to begin or to end, usually, at most
	exchanges bool             // hosts are configured anew
	staysAway bool             // what a leadership may be without often does not begin, and all is slow to begin
}

func (w *World) drawResources(o *Options) {
	r := &w.resources
	r.rng = rand.New(rand.NewPCG(o.Seed, 0x4a5e))
	r.some = w.size <= 9 && (o.resources || !o.Usual && r.oneIn(6))
	r.hurt, r.exchanges, r.staysAway = !r.oneIn(4), r.oneIn(2), w.keepers.cut.more && r.oneIn(2)
	r.exchanges = r.exchanges || r.staysAway
	r.takes = pick(r.rng, time.Millisecond, 5*time.Millisecond, 50*time.Millisecond)
	for _, name := range []string{"a1", "a2", "c1", "c2"} {
		r.all = append(r.all, r.draw(name))
	}
	r.first = r.drawSome()
}

// draw makes a resource; what is called a… is an address. All hosts mean the same by a name.
func (r *resources) draw(name string) hooks.Resource {
	res := hooks.Resource{Name: name, Stays: r.oneIn(4) || r.staysAway && r.oneIn(2), Timeout: 2 * time.Second, Grace: 300 * time.Millisecond}
	if name[0] == 'a' {
		res.Addresses = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, name[1]}), 24)}
		res.Interface = "eth0"
	} else {
		res.Command = hooks.Command{Shell: name}
	}
	return res
}

func (r *resources) oneIn(n int) bool { return r.rng.IntN(n) == 0 }

func (r *resources) upTo(d time.Duration) time.Duration {
	return time.Duration(r.rng.Float64() * float64(d))
}

// haves is what a host has of resources, as the world sees it. It outlives agents and keepers.
type haves struct {
	things     []*thing // one of each that there is
	configured []hooks.Resource
	noLink     bool // the interface of addresses is gone
}

// thing is a resource on one host.
type thing struct {
	hooks.Resource
	isHere      bool
	epoch       wire.Epoch // of the leadership that it is here by; zero: somebody has put it here by hand
	begun       wire.Epoch // the last leadership that it has begun in
	isOverdue   bool       // it could not be ended in its time
	isOrphan    bool       // its keeper was killed
	isOverslept bool       // its host was suspended past the lease
	plan        int        // what the kernel had planned before is void
}

func (x *thing) isAddress() bool { return len(x.Addresses) > 0 }

// tenant is what a keeper makes of a thing, as resourcerun's.
type tenant struct {
	*thing
	epoch    wire.Epoch // that it was to begin in last
	isKept   bool
	isFrozen bool
	begins   int // that wait for the outcome of one
	ending   *endOfThing
	plan     int // of beginning, keeping or ending: what was planned before is void
}

// endOfThing is an end that goes on.
type endOfThing struct {
	at     int64 // true time at which it has ended
	late   bool  // should that be after its time, it ends all the same
	sticks bool
}

// furnish configures a host as all others, and makes its things.
func (w *World) furnish(m *machine) {
	if !w.resources.some {
		return
	}
	m.haves.configured = w.resources.first
	for _, r := range w.resources.all {
		m.haves.things = append(m.haves.things, &thing{Resource: r})
	}
}

func (r *resources) drawSome() []hooks.Resource {
	some := slices.Clone(r.all)
	r.rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	return some[:1+r.rng.IntN(3)]
}

func (k *keeper) tenant(name string) *tenant {
	for _, t := range k.tenants {
		if t.Name == name {
			return t
		}
	}
	for _, x := range k.host.haves.things {
		if x.Name == name {
			t := &tenant{thing: x}
			k.tenants = append(k.tenants, t)
			return t
		}
	}
	panic("BUG: no host has a resource called " + name)
}

var (
	errNoLink  = errors.New("no such interface")
	errGivenUp = errors.New("given up")
	errRefused = errors.New("refused")
	errHangs   = errors.New("it does not answer")
	errLost    = errors.New("lost, and cannot be put back")
)

// beginResource carries out an effect.
func (w *World) beginResource(k *keeper, e hooks.BeginResource) {
	t := k.tenant(e.Resource.Name)
	t.epoch = wire.Epoch{Counter: e.Event.Epoch.Counter, Owner: k.host.id}
	w.h1BeginsInItsLeadership(k, t.thing, t.epoch, "begins")
	t.isFrozen = false
	if t.isKept {
		t.begun = t.epoch
		w.tellKeeper(k, w.moment(), hooks.ResourceBegun{Name: t.Name})
		return
	}
	if t.begins++; t.begins > 1 {
		return
	}
	t.plan++
	plan := t.plan
	takes, err := w.howItBegins(t, e.Within)
	if errors.Is(err, errHangs) && w.resources.oneIn(2) {
		w.in(k, w.resources.upTo(takes), func() { w.appear(k, t, plan, "is there, and hangs") })
	}
	w.in(k, takes, func() { w.hasBegun(k, t, plan, err) })
}

// howItBegins draws what comes of a begin, and when.
func (w *World) howItBegins(t *tenant, within time.Duration) (takes time.Duration, err error) {
	r := &w.resources
	takes = r.upTo(r.takes)
	if !r.hurt || !w.raging {
		return takes, nil
	}
	if r.staysAway && r.oneIn(3) {
		takes = r.upTo(within)
	}
	kind := r.rng.IntN(24)
	if r.staysAway && t.Stays && r.oneIn(2) {
		kind = 0
	}
	switch kind {
	case 0, 1:
		w.fired(ResourceRefused)
		return takes, errRefused
	case 2:
		w.fired(ResourceHangs)
		return within, errHangs
	case 3:
		if t.isAddress() {
			w.fired(ResourceRival) // it was probed for a while, and then taken
			return min(takes+200*time.Millisecond, within), nil
		}
	}
	return takes, nil
}

func (w *World) hasBegun(k *keeper, t *tenant, plan int, err error) {
	if t.plan != plan {
		return
	}
	if k.host.haves.noLink && t.isAddress() {
		err = errNoLink
	}
	if err == nil {
		w.appear(k, t, plan, "has begun")
		t.isKept, t.begun = true, t.epoch
	} else {
		w.say(k.host, "%s has not begun: %v", t.Name, err)
		w.letGo(k.host, t.thing)
		if r := &w.resources; r.staysAway && t.Stays && w.raging && r.oneIn(2) { // before it is begun again, perhaps
			w.after(r.upTo(hooks.FirstPause), func() { w.configureAnew(k.host) })
		}
	}
	w.answerBegins(k, t, err)
}

// answerBegins tells all that wait for a begin.
func (w *World) answerBegins(k *keeper, t *tenant, err error) {
	for ; t.begins > 0; t.begins-- {
		w.tellKeeper(k, w.moment(), hooks.ResourceBegun{Name: t.Name, Err: err})
	}
}

// appear has a thing be on a host, begun or put back, unless that was given up.
func (w *World) appear(k *keeper, t *tenant, plan int, how string) {
	if t.plan != plan || k.host.haves.noLink && t.isAddress() {
		return
	}
	x := t.thing
	w.say(k.host, "%s %s epoch=%v", x.Name, how, t.epoch)
	w.h1BeginsInItsLeadership(k, x, t.epoch, how)
	x.plan++
	x.isHere, x.epoch, x.isOverdue, x.isOrphan, x.isOverslept = true, t.epoch, false, false, false
	w.h3OneHostHasAnAddress(k.host, x)
}

// freezeResources carries out an effect: nothing is put back, and what is being begun is given up.
func (w *World) freezeResources(k *keeper) {
	w.say(k.host, "nothing is put back any more")
	for _, t := range k.tenants {
		t.isFrozen = true
		w.giveUpBegin(k, t)
	}
}

func (w *World) giveUpBegin(k *keeper, t *tenant) {
	if t.begins > 0 {
		t.plan++
		w.letGo(k.host, t.thing)
		w.answerBegins(k, t, errGivenUp)
	}
}

// endResource carries out an effect.
func (w *World) endResource(k *keeper, e hooks.EndResource) {
	t := k.tenant(e.Resource.Name)
	by := w.now + int64(e.Within)
	if t.ending == nil {
		w.say(k.host, "%s is to end within %v", t.Name, e.Within.Round(time.Millisecond))
		w.h4EndsAfterTheLoseHook(k, t.thing)
		w.stopKeeping(k, t)
		t.ending = w.howItEnds()
	}
	t.plan++
	plan := t.plan
	if t.ending.at <= by {
		w.in(k, time.Duration(t.ending.at-w.now), func() { w.ended(k, t, plan, nil) })
	} else {
		w.in(k, e.Within, func() { w.ended(k, t, plan, errHangs) })
	}
}

func (w *World) stopKeeping(k *keeper, t *tenant) {
	w.giveUpBegin(k, t)
	t.isFrozen = true
	if t.isKept {
		t.isKept = false
		w.letGo(k.host, t.thing)
	}
}

// howItEnds draws when an end is done, and whether it is so if its time has ended by then. A keeper that takes over has half a stop
// budget, of which a quarter is for three or four resources: an end that takes longer than its share may last beyond the lease.
func (w *World) howItEnds() *endOfThing {
	r := &w.resources
	takes := r.upTo(r.takes)
	if r.hurt && w.raging && r.oneIn(16) {
		w.fired(ResourceSticks)
		takes = r.upTo(3 * time.Second)
	}
	sticks := takes > w.base.StopBudget/32
	return &endOfThing{at: w.now + int64(takes), late: r.oneIn(2), sticks: sticks}
}

func (w *World) ended(k *keeper, t *tenant, plan int, err error) {
	if t.plan != plan {
		return
	}
	end := t.ending
	t.ending = nil
	if err == nil {
		w.vanish(k.host, t.thing, "has ended")
	} else {
		w.say(k.host, "%s has not ended: %v", t.Name, err)
		t.isOverdue = t.isHere
		if h := &k.host.hooks; k.knowsLost != h.lost && !h.isNoted { // a later sweep is no part of the lose side
			h.lost = wire.Epoch{} // that has failed, and its hook runs once more
		}
		if end.late {
			w.in(k, time.Duration(end.at-w.now), func() { w.endLate(k, t, plan) })
		}
	}
	w.tellKeeper(k, w.moment(), hooks.ResourceEnded{Name: t.Name, Err: err})
}

func (w *World) endLate(k *keeper, t *tenant, plan int) {
	if t.plan == plan {
		w.vanish(k.host, t.thing, "has ended late")
	}
}

func (w *World) vanish(m *machine, x *thing, why string) {
	if x.isHere {
		w.say(m, "%s %s epoch=%v", x.Name, why, x.epoch)
	}
	x.isHere, x.isOverdue, x.isOrphan = false, false, false
	x.plan++
}

// letGo leaves an address that nobody keeps any more to the kernel. It was renewed last within the last half second.
func (w *World) letGo(m *machine, x *thing) {
	if !x.isHere || !x.isAddress() {
		return
	}
	x.plan++
	w.expire(m, x, x.plan, w.addressLife(m)-w.resources.upTo(renewEvery))
}

// renewEvery is how often a keeper renews what the kernel is to take off by itself.
const renewEvery = 500 * time.Millisecond

// addressLife is for how long the kernel keeps an address that is not renewed: whole seconds.
func (w *World) addressLife(m *machine) time.Duration {
	least := m.longestLease(w) + w.base.TakeoverDelay + time.Second
	return (least + time.Second - 1).Truncate(time.Second)
}

func (w *World) expire(m *machine, x *thing, plan int, in time.Duration) {
	w.after(in, func() {
		switch {
		case x.plan != plan:
		case m.suspended:
			w.expire(m, x, plan, 10*time.Millisecond)
		default:
			w.vanish(m, x, "is taken off by the kernel")
		}
	})
}

// leaveThings: a keeper is no more. Its commands have ended with it.
func (w *World) leaveThings(k *keeper) {
	for _, t := range k.tenants {
		t.plan++
		if !t.isAddress() {
			w.vanish(k.host, t.thing, "dies with its keeper")
			continue
		}
		t.isOrphan = t.isHere
		w.letGo(k.host, t.thing)
	}
	k.tenants = nil
}

// losePowerOfThings: a host that is off has nothing.
func (w *World) losePowerOfThings(m *machine) {
	for _, x := range m.haves.things {
		w.vanish(m, x, "goes with the power")
	}
}

// putStray: somebody has put an address on a host before its agent starts: by hand, or in a snapshot that was restored.
func (w *World) putStray(k *keeper) {
	r := &w.resources
	if !r.some || !r.hurt || !w.raging || !r.oneIn(4) {
		return
	}
	for _, x := range k.host.haves.things {
		if isConfigured := isAmong(k.host.haves.configured, x.Name); isConfigured && x.isAddress() && !x.isHere {
			w.fired(ResourceStray)
			w.say(k.host, "%s was put here by hand", x.Name)
			x.plan++
			x.isHere, x.epoch = true, wire.Epoch{}
			return
		}
	}
}

func isAmong(all []hooks.Resource, name string) bool {
	return slices.ContainsFunc(all, func(r hooks.Resource) bool { return r.Name == name })
}

// hurtResourcesAgain takes away what a leader has, and comes back.
func (w *World) hurtResourcesAgain() {
	r := &w.resources
	if !r.some || !r.hurt && !r.exchanges {
		return
	}
	w.after(100*time.Millisecond+r.upTo(2*w.pace), func() {
		if !w.raging {
			return
		}
		m := pick(r.rng, w.machines...)
		if i := slices.IndexFunc(w.machines, hasSome); i >= 0 && !r.oneIn(4) {
			m = w.machines[i]
		}
		switch {
		case r.exchanges && (!r.hurt || r.oneIn(4)):
			w.configureAnew(m)
		case r.oneIn(4):
			w.takeLink(m)
		default:
			w.takeThings(m)
		}
		w.hurtResourcesAgain()
	})
}

func hasSome(m *machine) bool {
	return slices.ContainsFunc(m.haves.things, func(x *thing) bool { return x.isHere })
}

// configureAnew gives a host other resources, as a reload or with the next start of its agent.
func (w *World) configureAnew(m *machine) {
	w.fired(ResourcesChanged)
	m.haves.configured = w.resources.drawSome()
	w.say(m, "is configured anew")
	if m.runs() && !m.isBlocked() && m.client.keeper != nil && !w.resources.oneIn(3) {
		w.give(m, order{event: hooks.Reloaded{Config: w.hookConfig(m)}})
	}
}

// takeThings has some of what a host has go.
func (w *World) takeThings(m *machine) {
	k := m.hooks.keeper
	if k == nil || m.suspended {
		return
	}
	for _, t := range k.tenants {
		if t.isKept && t.isHere && w.resources.oneIn(2) {
			w.fired(ResourceLost)
			w.lose(k, t, w.resources.oneIn(4))
		}
	}
}

// lose takes away what is kept: the keeper puts it back, or cannot.
func (w *World) lose(k *keeper, t *tenant, forGood bool) {
	w.vanish(k.host, t.thing, "is taken away")
	t.plan++
	plan := t.plan
	w.in(k, w.resources.upTo(100*time.Millisecond), func() {
		if forGood {
			w.failed(k, t, plan)
		} else {
			w.putBack(k, t, plan)
		}
	})
}

func (w *World) putBack(k *keeper, t *tenant, plan int) {
	if t.isKept && !t.isFrozen {
		w.appear(k, t, plan, "is put back")
	}
}

func (w *World) failed(k *keeper, t *tenant, plan int) {
	if t.plan == plan && t.isKept && !t.isHere {
		t.isKept = false
		w.say(k.host, "%s has failed", t.Name)
		w.tellKeeper(k, w.moment(), hooks.ResourceFailed{Name: t.Name, Err: errLost})
	}
}

// linkPatience is how long an address may be without its interface, as internal/vip has it.
const linkPatience = 2 * time.Second

// takeLink has the interface of addresses go, and come back.
func (w *World) takeLink(m *machine) {
	if m.haves.noLink {
		return
	}
	w.fired(ResourceLinkGoes)
	w.say(m, "the interface of its addresses goes")
	m.haves.noLink = true
	w.after(w.resources.upTo(2*linkPatience), func() { m.haves.noLink = false })
	for _, x := range m.haves.things {
		if x.isAddress() {
			w.vanish(m, x, "goes with its interface")
		}
	}
	if k := m.hooks.keeper; k != nil {
		for _, t := range k.tenants {
			if t.isAddress() && t.isKept {
				t.plan++
				w.awaitLink(k, t, t.plan, w.now+int64(linkPatience))
			}
		}
	}
}

// awaitLink puts an address back when its interface is there again.
func (w *World) awaitLink(k *keeper, t *tenant, plan int, until int64) {
	w.in(k, 50*time.Millisecond, func() {
		switch {
		case t.plan != plan:
		case !k.host.haves.noLink:
			w.putBack(k, t, plan)
		case w.now >= until:
			w.failed(k, t, plan)
		default:
			w.awaitLink(k, t, plan, until)
		}
	})
}

// redoBecome is a become side that failed since a resource has, and is tried again since nobody else can lead: the
// agent's, as redo is for lose-leadership hooks.
type redoBecome struct {
	epoch   uint64
	pause   time.Duration
	waiting bool
}

// The tokens of step-downs that the agent goes on by when they are refused.
const (
	resourceFailedToken = 9
	hadByTheDeadToken   = 10
)

// resourceHold keeps a host from standing again whose resource has failed. The agent's is a minute, but then the storm's
// last failures would leave nobody to lead in the calm.
const resourceHold = 3 * time.Second

// onHasNot gives the leadership to somebody who may do better, as the agent's onBecomeFailed.
func (w *World) onHasNot(m *machine, r hooks.Result) {
	d := &m.client.again
	if d.epoch != r.Epoch {
		*d = redoBecome{epoch: r.Epoch, pause: redoFirst / 2}
	}
	w.fired(ResourceHandsOver)
	w.command(m, election.Command{Verb: election.StepDown, For: resourceHold, Cause: election.ResourceFailed, Token: resourceFailedToken})
}

// tokenOfKeeperDied is that of a step-down since the keeper died.
func (w *World) tokenOfKeeperDied() uint64 {
	if w.resources.some {
		return hadByTheDeadToken
	}
	return 6
}

// onStepDownRefused: nobody else can lead.
func (w *World) onStepDownRefused(m *machine, e election.Reply) {
	switch s := m.node.Status(); {
	case e.Err == nil || s.State != election.Lead:
	case e.Token == hadByTheDeadToken:
		w.haveAgain(m, s.Epoch)
	case e.Token == resourceFailedToken && m.client.again.epoch == s.Epoch.Counter && !m.client.again.waiting:
		d := &m.client.again
		d.pause, d.waiting = min(2*d.pause, redoMost), true
		life := m.life
		w.after(d.pause, func() { w.becomeAgain(m, life, s.Epoch) })
	}
}

func (w *World) becomeAgain(m *machine, life int32, e wire.Epoch) {
	d := &m.client.again
	switch {
	case m.life != life || d.epoch != e.Counter:
	case m.isBlocked():
		w.after(10*time.Millisecond, func() { w.becomeAgain(m, life, e) })
	default:
		d.waiting = false
		w.haveAgain(m, e)
	}
}

// haveAgain has the keeper begin again what the leadership is to have, and run its hook if that has not succeeded.
func (w *World) haveAgain(m *machine, e wire.Epoch) {
	if s := m.node.Status(); s.State == election.Lead && s.Epoch == e {
		w.ask(m, m.hookEvent(hooks.BecomeLeader, e, keeperDied), time.Time{})
	}
}
