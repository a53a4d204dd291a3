package keeper

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/checkrun"
	"github.com/bully-agent/bully-agent/hooks/jobrun"
)

// keeper is one in its own process. Its goroutines: one reads the socket, one writes it,
// one waits for the agent's death and one for the timer; the queues of hooks have theirs.
type keeper struct {
	conn  *conn
	agent agent
	timer timer
	read  Reader
	out   *outbox
	over  chan struct{} // closed by end: this process is to end
	once  sync.Once

	ctx  context.Context // of what runs; it ends when the agent says so, or all is done
	stop context.CancelFunc
	ran  chan struct{} // closed when the Runner's Run has returned

	asks    context.Context // of the programs that name hosts
	endAsks context.CancelFunc
	asking  sync.WaitGroup // one for each; Invariant: nothing is added once asks has ended

	mu       sync.Mutex // guards all below, and the reading of conn
	orders   *decoder
	runner   *hooks.Runner
	jobs     *jobrun.Runner
	checks   *checkrun.Runner // nil: it is not open yet
	settings Settings
	phase    phase
	lock     *os.File            // held for as long as this lives; nil: it is not open yet
	cleaned  chan struct{}       // closed when no clean-up runs; nil: there was none
	deadline instant             // of the lease, as renewed last; 0: it does not end by itself
	isWatch  bool                // the agent is silent if it passes
	minded   uint64              // epoch of the event that set isWatch last
	isDead   bool                // the agent is
	isDeaf   bool                // its socket is closed: it may live, and says nothing
	heard    uint64              // number of the last order
	will     []Letter            // what is left; none: nothing
	isLent   bool                // somebody acts on the lease beside what runs here
	asked    map[string]*inquiry // by program
	bounds   bounds
}

// phase is how far the life of a keeper has come.
type phase int

const (
	begun   phase = iota // no order yet
	opening              // it reads its settings, and waits for the keeper of an earlier life
	opened               // it has its settings; a clean-up may run
	running              // hooks run as they are ordered
	closing              // what runs is ended
)

func newKeeper(c *conn, a agent, t timer, read Reader) *keeper {
	k := &keeper{conn: c, agent: a, timer: t, read: read, orders: newDecoder(maxZeros), out: newOutbox(), over: make(chan struct{}), ran: make(chan struct{})}
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.asks, k.endAsks = context.WithCancel(context.Background())
	k.asked = map[string]*inquiry{}
	return k
}

// goodbye is how long a keeper that ends waits for its last words to be read. Arbitrary.
const goodbye = time.Second

// run is the keeper's life.
func (k *keeper) run() {
	go k.conn.wait(func() bool { return k.listen() })
	go func() {
		for {
			k.timer.await()
			k.listen() // before the deadline is judged
			k.judge()
		}
	}()
	go func() {
		k.agent.awaitDeath()
		k.listen() // what it said last
		k.onDeath()
	}()
	written := make(chan struct{})
	go func() { defer close(written); k.out.write(k.conn) }()
	<-k.over
	k.awaitChecks()
	k.out.end()
	k.conn.patience(goodbye)
	select {
	case <-written:
	case <-time.After(2 * goodbye): // it hangs at a terminal or a pipe that nobody reads
	}
}

func (k *keeper) end() { k.once.Do(func() { close(k.over) }) }

// listen reads what the agent has said; it reports true when nothing more can come.
func (k *keeper) listen() (end bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isDeaf {
		return true
	}
	before := k.heard
	err := k.conn.drain(k.hear)
	if k.heard != before {
		k.say(report{Say: sayAck})
	}
	if err != nil {
		k.isDeaf = true
		k.onDeaf()
	}
	return err != nil
}

// hear takes one message; the caller holds mu.
func (k *keeper) hear(form byte, text []byte) {
	if form == asRenewal {
		if r, ok := decodeRenewal(text); ok {
			k.renew(r)
		}
		return
	}
	var o order
	if err := k.orders.decode(text, &o); err != nil {
		k.out.add(report{Say: sayLog, Log: &line{Level: levelOfErrors, Text: "order not understood", Args: []any{"err", err.Error()}}})
		return
	}
	k.heard = o.Number
	o.Event = o.Event.Sane()
	k.obey(o)
}

// obey does what an order says, and does not wait for it; the caller holds mu. An order
// out of turn is the agent's mistake, or comes after this keeper has begun to end.
func (k *keeper) obey(o order) {
	switch {
	case o.Do == toOpen && k.phase == begun:
		k.phase = opening
		go k.open()
	case o.Do == toClose:
		k.close()
	case k.phase == opened && o.Do == toCleanUp:
		k.cleanUp(o.Event)
	case k.phase == opened && o.Do == toAdopt:
		k.runner.Adopt(o.Event)
		k.minded = o.Event.Epoch.Counter
		k.bounds.began = max(k.bounds.began, k.minded)
		k.renew(renewal{deadline: o.Lease})
	case k.phase == opened && o.Do == toRun:
		k.phase = running
		go k.runHooks()
	case k.runner == nil:
	case o.Do == toReload:
		k.reload()
		k.say(report{Say: sayAck})
	case o.Do == toStart:
		k.start(o)
	case o.Do == toStop:
		k.runner.Stop(o.Epoch)
	case o.Do == toWill && !isWill(o.Letters):
		k.will = nil
		k.noteRefusal(string(o.Do), "it is no will")
	case o.Do == toWill:
		k.will = o.Letters
	case o.Do == toLend, o.Do == toReturn:
		k.isLent = o.Do == toLend
		k.say(report{Say: sayAck})
	case o.Do == toAsk:
		k.ask(o.Program)
	default:
		k.obeyForJobs(o)
	}
}

// open reads the settings, waits for the keeper of an earlier life, and makes the Runners.
// A keeper that cannot do so ends.
func (k *keeper) open() {
	settings, err := k.read()
	var lock *os.File
	if err == nil {
		lock, err = lockFile(k.ctx, settings.Hooks.Dir, k.sayWaits)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase != opening {
		return // it is to end
	}
	if err == nil {
		k.settings, k.lock = settings, lock
		err = k.openRunners()
	}
	if err != nil {
		k.say(report{Say: sayOpened, Err: err.Error()})
		k.end()
		return
	}
	k.phase = opened
	k.noteSelf()
	k.checks = checkrun.New(k.settings.Hooks.Socket, k.sayCheck)
	k.checks.Set(k.settings.Checks, true)
	answer := report{Say: sayOpened}
	if owed, ok := k.runner.Owed(); ok {
		answer.Owed = &owed
	}
	k.say(answer)
}

func (k *keeper) sayWaits(process int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.say(report{Say: sayWaits, Process: process})
}

// openRunners makes them; the caller holds mu, and has the lock of the directory.
func (k *keeper) openRunners() error {
	sweep(k.settings.Hooks.Dir)
	k.settings.Hooks.Logger = k.out.logger()
	runner, err := hooks.New(k.settings.Hooks)
	if err != nil {
		return err
	}
	if err := k.openJobs(); err != nil {
		return err
	}
	k.runner = runner
	return shareOutput(k.settings.Hooks.Dir, k.settings.Readers)
}

// reload takes the settings of now, from the next run on. If they cannot be read, those of
// before hold. Directory and bounds of the lease need a restart. The caller holds mu.
func (k *keeper) reload() {
	next, err := k.read()
	if err != nil {
		k.settings.Hooks.Logger.Error("configuration not read by the keeper, which goes on with the last one", "err", err)
		return
	}
	next.Hooks.Logger, next.Hooks.Dir = k.settings.Hooks.Logger, k.settings.Hooks.Dir
	jobs := maps.Clone(k.settings.Jobs) // a run of one that is gone may still be tried again
	if jobs == nil {
		jobs = map[string]Job{}
	}
	maps.Copy(jobs, next.Jobs)
	k.settings.Hooks, k.settings.Jobs, k.settings.Checks, k.settings.Programs = next.Hooks, jobs, next.Checks, next.Programs
	k.checks.Set(k.settings.Checks, false)
	k.runner.SetConfig(k.settings.Hooks)
	k.jobs.SetGrace(next.JobGrace)
	k.noteSelf()
}

// noteSelf writes for the next life of the agent who this is, and how long it may work.
// It does not matter much, so an error is none.
func (k *keeper) noteSelf() {
	text, err := json.Marshal(holder{Process: os.Getpid(), Patience: patienceWith(k.settings.Hooks)})
	if err == nil && k.lock.Truncate(0) == nil {
		_, _ = k.lock.WriteAt(text, 0)
	}
}

func (k *keeper) cleanUp(ev hooks.Event) {
	k.cleaned = make(chan struct{})
	go func() {
		defer close(k.cleaned)
		res := k.runner.CleanUp(k.ctx, ev)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.say(report{Say: sayCleaned, Outcome: toOutcome(res)})
	}()
}

// runHooks is the Runner's life, and ends this process with it.
func (k *keeper) runHooks() {
	var told sync.WaitGroup
	told.Go(k.tellResults)
	told.Go(k.runJobs)
	_ = k.runner.Run(k.ctx)
	close(k.ran)
	told.Wait()
	k.end()
}

// tellResults passes on how leadership events ended.
func (k *keeper) tellResults() {
	tell := func(res hooks.Result) {
		k.mu.Lock()
		defer k.mu.Unlock()
		isOld := res.Epoch < k.minded // it ran once more, and the next leadership has begun
		if res.Kind == hooks.LoseLeadership && !res.Unasked && !isOld {
			k.isWatch = false // until the next leadership renews
			k.timer.set(0)
		}
		if !res.Unasked {
			k.bounds.settled()
		}
		k.say(report{Say: sayEnded, Outcome: toOutcome(res)})
	}
	for {
		select {
		case res := <-k.runner.Results():
			tell(res)
		case <-k.ran:
			for {
				select {
				case res := <-k.runner.Results():
					tell(res)
				default:
					return
				}
			}
		}
	}
}

// start queues the hook of an event; the caller holds mu.
func (k *keeper) start(o order) {
	ev := o.Event
	if o.Due != 0 {
		ev.Within = max(o.Due.Sub(now()), time.Nanosecond)
	}
	ok, why := k.bounds.admit(&ev)
	if why != "" {
		k.noteRefusal(string(ev.Kind), why)
	}
	if !ok {
		if o.ID != 0 {
			k.say(report{Say: sayDealt, ID: o.ID, Outcome: outcome{Result: hooks.Result{Kind: ev.Kind, Epoch: ev.Epoch.Counter, Exit: -1}, Err: why}})
		}
		return
	}
	switch {
	case ev.Bar != nil: // it is not watched over, since it does not begin
	case ev.Kind == hooks.BecomeLeader:
		k.deadline, k.isWatch, k.minded = o.Lease, true, ev.Epoch.Counter
		ev.Bar = func() error { return k.barLate(ev.Epoch.Counter) }
		k.watch()
	case ev.Kind == hooks.LoseLeadership && !ev.IsRedo:
		k.deadline, k.isWatch, k.minded = o.Lease, ev.IsPlanned, ev.Epoch.Counter // any other has its bound, or none
		k.watch()
	}
	if o.ID != 0 {
		ev.Ended = func(res hooks.Result) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.say(report{Say: sayDealt, ID: o.ID, Outcome: toOutcome(res)})
		}
	}
	k.runner.Start(ev)
}

// close ends what runs, and then this process; the caller holds mu.
func (k *keeper) close() {
	k.stop()
	k.endChecks()
	if k.phase < running {
		k.goWhenClean()
	}
	k.phase = closing
}

// goWhenClean ends this process when no clean-up runs any more; the caller holds mu.
func (k *keeper) goWhenClean() {
	cleaned := k.cleaned
	go func() {
		if cleaned != nil {
			<-cleaned
		}
		k.end()
	}()
}

// say queues a report; the caller holds mu.
func (k *keeper) say(r report) {
	r.Read = k.heard
	if k.runner != nil {
		r.Keeps, _ = k.runner.Keeps()
	}
	k.out.add(r)
}
