package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/reader"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// keeper is one in its own process: a loop, which decides by hooks.Lanes. What could take long is
// done by workers, each on a goroutine of its own: a fork and what follows, a file, a log, a wait.
// They touch nothing here but posts and out, and post what has come of it.
type keeper struct {
	conn  *sidecar.Conn
	agent agent
	timer timer
	read  Reader
	out   *outbox
	posts *posts

	ctx  context.Context // of what runs; it ends when the agent says so, or all is done
	stop context.CancelFunc

	// Of the loop alone.
	now     time.Time // of this turn
	wakesAt time.Time // what the timer was set to last
	phase   phase
	means
	shown   shownResources
	clients tellingClients
	reader  *reader.Keep // nil: none is wanted
	reading reading
	hasRun  bool // hooks were let run

	hasCleaned, isCleaning bool // up after an earlier life

	isDead bool   // the agent is
	isDeaf bool   // its pipe is closed: it may live, and says nothing
	heard  uint64 // number of the last order
	will   will
	bounds bounds
}

// newKeeper makes one whose turns its caller has made, by run or one by one.
func newKeeper(conn *sidecar.Conn, a agent, t timer, read Reader) *keeper {
	k := &keeper{conn: conn, agent: a, timer: t, read: read, out: newOutbox(), posts: newPosts(), bounds: newBounds()}
	k.out.wake = k.posts.wake
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// goodbye is how long a keeper that ends waits for its last words to be read. Arbitrary.
const goodbye = time.Second

// run is the keeper's life.
func (k *keeper) run() {
	go k.conn.Wait(func() bool { k.posts.wake(); return false })
	go k.timer.each(k.posts.wake)
	go func() { k.agent.awaitDeath(); k.posts.wake() }()
	written := make(chan struct{})
	go func() { defer close(written); k.out.write(k.conn) }()
	for k.turn(); k.phase != over; k.turn() {
		<-k.posts.some
	}
	if k.hands != nil {
		k.hands.AwaitQuestions(goodbye)
	}
	k.awaitReader()
	k.out.end()
	k.conn.Patience(goodbye)
	select {
	case <-written:
	case <-time.After(2 * goodbye): // it hangs at a terminal or a pipe that nobody reads
	}
}

// turn takes what has happened: what the agent has said, all of it; its death; what workers have
// posted; and the time. The clock and the pidfd are looked at before the pipe is read. So what
// the agent said before its death, or before the time by which it is judged, has been heard then,
// and a keeper that was stopped does not take its own silence for the agent's.
func (k *keeper) turn() {
	k.now = now()
	isDead := !k.isDead && k.agent.isDead()
	k.listen()
	if isDead {
		k.onDeath()
	}
	for _, take := range k.posts.take() {
		take()
	}
	k.tick()
	k.showResources()
	k.showClients()
	k.conclude()
	if at := k.deadline(); !at.Equal(k.wakesAt) {
		k.wakesAt = at
		k.timer.set(at)
	}
}

// listen reads what the agent has said: so much that this loop has its turn, and nothing while the agent leaves too much
// unread itself.
func (k *keeper) listen() {
	if k.agent.isDead() {
		k.out.toStderr() // nobody reads what waits, and so nothing keeps the last words from being heard
	}
	if k.isDeaf || k.out.isFull() {
		return
	}
	before, n := k.heard, 0
	err := k.conn.Drain(func(text []byte) (enough bool) {
		k.hear(text)
		n += 1 + len(text)/messageSize
		return n >= k.bounds.atOnce || k.out.isFull()
	})
	if n >= k.bounds.atOnce {
		k.posts.wake() // there may be more
	}
	if k.heard != before {
		k.say(report{Say: sayAck})
	}
	if err != nil {
		k.isDeaf = true
		if !errors.Is(err, sidecar.ErrClosed) {
			k.noteRefusal("unknown", err.Error())
		}
		k.onDeaf()
	}
}

// hear takes one message.
func (k *keeper) hear(text []byte) {
	if r, ok := decodeRenewal(text); ok {
		k.renew(r)
		return
	}
	o, err := decodeOrder(text)
	if err != nil {
		k.noteRefusal("unknown", err.Error())
		return
	}
	k.heard = o.Number
	o.Event, o.Due, o.Lease = o.Event.Sane(), sane(o.Due), sane(o.Lease)
	if !k.reading.holds(o) {
		k.obey(o)
	}
	if k.reading.isFull() {
		k.release()
	}
}

// obey does what an order says. An order out of turn is the agent's mistake, or comes after this
// keeper has begun to end.
func (k *keeper) obey(o order) {
	switch {
	case o.Do == toOpen && k.phase == begun:
		k.open(o.Version)
	case o.Do == toClose:
		k.close()
	case k.phase == opened && o.Do == toCleanUp:
		k.cleanUp(o.Event)
	case k.phase == opened && o.Do == toAdopt:
		k.step(hooks.Adopted{Event: o.Event, Lease: o.Lease})
		k.bounds.began = max(k.bounds.began, o.Event.Epoch.Counter)
		k.renew(renewal{deadline: o.Lease})
	case k.phase == opened && o.Do == toRun:
		k.runHooks()
	case k.hands == nil, o.Do == toAnswer:
	case o.Do == toReload:
		k.reload()
	case o.Do == toStart:
		k.start(o)
	case o.Do == toStop:
		k.step(hooks.Stopped{Epoch: o.Epoch})
	case o.Do == toReach:
		k.step(hooks.Reached{})
	case o.Do == toTrust:
		k.trust(o.Secret)
	case o.Do == toWill:
		k.bequeath(o.Heirs)
	case o.Do == toLend, o.Do == toReturn:
		k.step(hooks.Lent{Is: o.Do == toLend, Lease: o.Lease})
	case o.Do == toAsk:
		k.ask(o.Program)
	case o.Do == toReset:
		k.resources.SetClients(o.Clients)
	default:
		k.obeyForJobs(o)
	}
}

// start queues the hook of an event.
func (k *keeper) start(o order) {
	ev := o.Event
	why, bar := k.bounds.admit(&ev)
	if bar != nil || why != "" {
		k.noteRefusal(string(ev.Kind), cmp.Or(why, fmt.Sprint(bar)))
	}
	switch {
	case why == "":
		if ev.Kind == hooks.BecomeLeader {
			k.resources.Lease(o.Lease)
		}
		k.step(hooks.Asked{ID: o.ID, Event: ev, Due: o.Due, Lease: o.Lease, Bar: bar})
	case o.ID != 0:
		k.say(report{Say: sayEnded, ID: o.ID, Outcome: tell(hooks.Result{Kind: ev.Kind, Epoch: ev.Epoch.Counter, Exit: -1, Err: told{Text: why}})})
	}
}

// renew moves the deadline.
func (k *keeper) renew(r renewal) {
	if k.hands == nil {
		return // an agent that is well has none yet
	}
	k.reading.renew(r)
	k.step(hooks.Renewed{Lease: r.deadline, IsAlone: r.isAlone, IsEnding: r.isEnding})
	k.resources.Lease(r.silent())
}

// step has the lanes know of an event, and has done what comes of it.
func (k *keeper) step(ev hooks.LaneEvent) {
	switch ev.(type) {
	case hooks.ResourceBegun, hooks.ResourceFailed, hooks.ResourceEnded:
		k.shown.next = time.Time{}
	}
	k.hands.Heard(ev)
	for _, effect := range k.lanes.Step(k.now, ev) {
		switch e := effect.(type) {
		case hooks.Tell:
			if e.Result.Kind.OfLeadership() && !e.Result.Unasked && !e.Result.IsLater {
				k.bounds.settled()
			}
			k.say(report{Say: sayEnded, ID: e.ID, Outcome: tell(e.Result)})
		case hooks.Cleaned:
			k.hands.Flush(func() { k.post(func() { k.cleaned(e.Result) }) })
		case hooks.BeginResource:
			k.resources.Begin(e)
		case hooks.Announce:
			k.resources.Announce()
		case hooks.Freeze:
			k.resources.Freeze()
		case hooks.EndResource:
			k.resources.End(e)
		case hooks.TellCheck:
			k.say(report{Say: sayCheck, Check: &e.Report})
		case hooks.TellReply:
			k.sayReply(e)
		case hooks.TellJob:
			k.sayJob(e)
		case hooks.Over:
			k.leave(e.IsClear)
		default:
			k.hands.Do(e)
		}
	}
}

// tick does what is due by the time of this turn. Orders that are held behind a reload come first, and only for a deadline of theirs.
func (k *keeper) tick() {
	if isDue(k.now, k.reading.until) || isDue(k.now, k.lanes.SilentAt()) {
		k.release()
	}
	if isDue(k.now, k.lanes.Deadline()) {
		k.step(hooks.Tick{})
	}
}

// isDue reports whether a deadline has come; the zero time is none.
func isDue(now, at time.Time) bool { return !at.IsZero() && !now.Before(at) }

// deadline is when the next turn is due, whatever happens; the zero time: never.
func (k *keeper) deadline() time.Time {
	at := k.lanes.Deadline()
	for _, other := range []time.Time{k.reading.until, k.shown.next, k.clients.next} {
		if at.IsZero() || !other.IsZero() && other.Before(at) {
			at = other
		}
	}
	return at
}

// post has the loop do something, in its turn. Any goroutine may call it, and it does not wait.
func (k *keeper) post(take func()) { k.posts.add(take) }

// say queues a report.
func (k *keeper) say(r report) {
	r.Read = k.heard
	if k.hands != nil {
		r.Keeps, _ = k.lanes.Keeps()
	}
	k.out.add(r)
}

// posts is what workers have for the loop, oldest first.
type posts struct {
	some chan struct{} // holds a token when there may be some, or the loop is to look around

	mu      sync.Mutex
	waiting []func()
}

func newPosts() *posts { return &posts{some: make(chan struct{}, 1)} }

func (p *posts) add(take func()) {
	p.mu.Lock()
	p.waiting = append(p.waiting, take)
	p.mu.Unlock()
	p.wake()
}

func (p *posts) take() []func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.waiting
	p.waiting = nil
	return all
}

func (p *posts) wake() {
	select {
	case p.some <- struct{}{}:
	default:
	}
}
