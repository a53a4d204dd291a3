package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/hookrun"
	"github.com/bully-agent/bully-agent/hooks/resourcerun"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/reader"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Config says for whom commands are run. Dir and Clock are needed; what is run, and within which
// bounds, the keeper reads itself (Settings).
type Config struct {
	Hooks  hooks.Config // of which the keeper's process is told nothing
	Dir    string       // the state directory
	Logger hclog.Logger // nil discards
	// Clock is what deadlines are told by: it must go on while the machine is
	// suspended.
	Clock func() time.Time
	// Program starts a keeper: a command that calls Main. Nil: this program, with the
	// argument Word and Args.
	Program []string
	// Args and Environ, of "NAME=value", are for the keeper's Reader.
	Args, Environ []string
	// Reader is what a reader gets, which the keeper then keeps; nil: none is wanted. It stays the caller's.
	Reader *reader.Door
	// Once says that no other keeper can be started when this one has died: the agent has
	// given up the rights that it would have. Gone says so then.
	Once bool
	// Try is the directory where TryRecording tries the disk: one that the agent may write,
	// on the file system of Dir. Empty: that.
	Try string

	pidfd func(pid, flags int) (int, error) // unix.PidfdOpen, but in tests
}

// Client is the agent's hand on its keeper. Start, Stop, Reached, Renew, Ending, Commitment, Will, Return, SetConfig,
// Keeps, Owed, IsRunning and Status never block; all methods may be called by any goroutine.
// Recover comes first, then CleanUp, if something is due, then Run. The rest may be called
// before: Start and Stop wait for Run, settings, will and lease are given to the keeper that
// comes.
type Client struct {
	cfg     Config
	results chan hooks.Result // capacity resultRoom
	cleaned chan hooks.Result // capacity 1; the answer to cleanUp
	ended   chan struct{}     // closed when Run returns
	gone    chan struct{}     // closed when the only keeper has died
	toCheck chan struct{}     // holds a token when checks or resources may have something
	jobs    *Jobs

	mu       sync.Mutex
	hooks    hooks.Config // as set last
	keeper   *process     // nil: none runs
	launched *process     // by Launch; nil: there is none that nobody speaks with yet
	why      error        // why none runs, and none is being started; nil otherwise
	cleanUp  *order       // a clean-up that was asked for, and has not been answered; nil: there is none
	phase    phase        // running since Run, closing at its end
	owed     hooks.Epoch
	keeps    uint64  // as the keeper said last; 0: none
	renewed  renewal // the last one
	trust    trust   // the secret of keeper
	isLent   bool    // somebody acts on the lease who was told of it
	isStale  bool    // the settings have changed since a keeper that is being started was

	ids     uint64
	waiting []order                      // for a keeper that is being started
	open    []order                      // of events whose end is not known, oldest first
	reign   *hooks.Event                 // become-leader of the leadership that goes on, or whose end was not told
	isTaken bool                         // it was silent: the keeper has ended it
	checks  map[string]hooks.CheckReport // by name; untold
	asks    map[string]*question         // by program; what the keeper has not answered

	resources  []resourcerun.State  // as the keeper said last
	clients    []resourcerun.Client // likewise; nobody has asked for them since
	hasClients bool                 // it has said so
	reader     reader.State         // likewise
}

// Status is what people are told of the keeper.
type Status struct {
	Process int  // process id; 0: none runs
	Silent  bool // the agent was, and its leadership has been ended
	Err     string
}

// ErrDied is the end of what a keeper ran that was killed, or did not answer. As the
// error of an unasked result it says that the leadership's commands may have ended.
var ErrDied = errors.New("the keeper died")

// anew is how long after a keeper could not be started the next try is made.
// Arbitrary: it must not make a host busy that has no room for processes.
const anew = 5 * time.Second

// New makes a Client; it starts nothing yet.
func New(cfg Config) *Client {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.pidfd == nil {
		cfg.pidfd = unix.PidfdOpen
	}
	if len(cfg.Program) == 0 {
		cfg.Program = append([]string{"/proc/self/exe", Word}, cfg.Args...) // also when the file was replaced
	}
	c := &Client{cfg: cfg, hooks: cfg.Hooks, results: make(chan hooks.Result, resultRoom),
		cleaned: make(chan hooks.Result, 1), ended: make(chan struct{}), gone: make(chan struct{}), phase: opened,
		toCheck: make(chan struct{}, 1), checks: map[string]hooks.CheckReport{}, asks: map[string]*question{}}
	c.jobs = newJobs(c)
	return c
}

func (c *Client) log() hclog.Logger { return c.cfg.Logger }

// Launch starts the process of the keeper, which does nothing before Recover. It is for an
// agent that gives up its rights in between.
func (c *Client) Launch() error {
	k, err := c.cfg.start()
	if err != nil {
		return fmt.Errorf("start keeper: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.launched = k
	return nil
}

// Gone is closed when the keeper has died, and there can be no other (Config.Once).
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Recover waits for the keeper of the last life, if that still works, and starts this
// one's. It fails if none can be started: without one nothing can be run here.
func (c *Client) Recover(ctx context.Context) error {
	waits := func(process int) { c.log().Info("waiting for the keeper of the last run", "process", process) }
	if err := c.launch(ctx, waits); err != nil && ctx.Err() == nil {
		return fmt.Errorf("start keeper: %w", err)
	}
	return nil
}

// Owed is the epoch whose lose-leadership hook the last life has left undone, by what the
// disk said when the keeper was started; false if there is none.
func (c *Client) Owed() (hooks.Epoch, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owed, c.owed.Counter > 0
}

// CleanUp makes up for a leadership that an earlier life of this agent did not end: what that
// left running is ended, then the lose-leadership hook runs for the epoch of ev, unless that life's
// keeper has run it. An event without an epoch owes nothing: its hook is that of at_start. It waits
// for the end; ctx ends it early.
func (c *Client) CleanUp(ctx context.Context, ev hooks.Event) hooks.Result {
	c.mu.Lock()
	grace := c.hooks.Grace
	c.cleanUp = &order{Do: toCleanUp, Event: ev}
	c.give(*c.cleanUp)
	c.mu.Unlock()
	select {
	case res := <-c.cleaned:
		return res
	case <-ctx.Done():
	}
	c.mu.Lock()
	c.phase = closing
	c.give(order{Do: toClose})
	c.mu.Unlock()
	select {
	case res := <-c.cleaned:
		return res
	case <-time.After(grace + ending.Unkillable + goodbye):
		return hooks.Result{Kind: hooks.LoseLeadership, Epoch: ev.Epoch.Counter, Cause: ev.Cause, Exit: -1, Err: ctx.Err()}
	}
}

// Run lets hooks run until ctx ends; those that run then are ended by TERM, grace and KILL
// before it returns, and so is the keeper. The error is always nil.
func (c *Client) Run(ctx context.Context) error {
	defer close(c.ended)
	c.mu.Lock()
	c.phase = running
	c.give(order{Do: toRun})
	c.mu.Unlock()
	c.look(ctx)
	c.mu.Lock()
	c.phase = closing
	k, grace := c.keeper, c.hooks.Grace
	c.give(order{Do: toClose})
	c.mu.Unlock()
	if k != nil {
		k.outlast(grace + 2*ending.Unkillable + goodbye)
	}
	return nil
}

// look asks the keeper each second until ctx ends, while a leadership goes on. Nothing else that it is told of one has to be
// read in time: a keeper that is frozen would keep neither the leader's addresses nor its jobs, and the host would lead on.
func (c *Client) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.mu.Lock()
			if c.keeper != nil && c.reign != nil {
				c.keeper.ask()
			}
			c.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// Results delivers one Result for each become-leader and lose-leadership event, in the
// order of Start. Reading slowly loses nothing. The channel is never closed; what is
// unread when Run returns can still be read.
func (c *Client) Results() <-chan hooks.Result { return c.results }

// Start queues the hook of an event. Due, when not zero, bounds a lose-leadership event (hooks.Asked), by the client's clock.
func (c *Client) Start(ev hooks.Event, due time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids++
	o := order{Do: toStart, Event: ev, ID: c.ids, Lease: c.renewed.silent(), Due: sidecar.Convert(due, c.cfg.Clock)}
	c.open = append(c.open, o)
	if ev.Kind == hooks.BecomeLeader {
		c.reign, c.isTaken = &o.Event, false
	}
	if c.why != nil {
		c.abandon(o, c.why)
		return
	}
	c.give(o)
}

// Stop says that the epoch has ended.
func (c *Client) Stop(epoch uint64) { c.order(order{Do: toStop, Epoch: epoch}) }

// Reached says that the leadership has reached hosts that may have followed another leader.
func (c *Client) Reached() { c.order(order{Do: toReach}) }

// Renew tells until when the leadership's lease lasts; isAlone says that nobody could take over: this agent may be silent beyond
// that, and only who acts on the lease may not.
func (c *Client) Renew(deadline time.Time, isAlone bool) {
	c.renew(renewal{deadline: deadline, isAlone: isAlone})
}

// Ending is Renew while a planned end of the leadership goes on: what jobs have run has
// been told to end, and may take that long.
func (c *Client) Ending(deadline time.Time, isAlone bool) {
	c.renew(renewal{deadline: deadline, isAlone: isAlone, isEnding: true})
}

func (c *Client) renew(r renewal) {
	r.deadline = sidecar.Convert(r.deadline, c.cfg.Clock)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewed = r
	if c.keeper != nil {
		c.keeper.renew(r)
	}
}

// SetConfig says that the configuration has changed: the keeper reads it again, and runs by
// it from the next run on.
func (c *Client) SetConfig(cfg hooks.Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks, c.isStale = cfg, true
	if c.keeper != nil {
		c.reload(c.keeper)
	}
}

// reload has a keeper read its settings again; the caller holds mu.
func (c *Client) reload(k *process) {
	c.isStale = false
	k.give(order{Do: toReload}, answerPatience)
}

// Keeps is the epoch of a leadership whose hooks are not those that are configured now;
// false if there is none.
func (c *Client) Keeps() (epoch uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keeps, c.keeps > 0
}

// IsRunning reports whether the hook of such an event runs now, waits for its next
// attempt, or is queued.
func (c *Client) IsRunning(kind hooks.Kind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.open, func(o order) bool { return o.Event.Kind == kind })
}

// Status tells whether the keeper is alive.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Status{Silent: c.isTaken}
	if c.keeper != nil {
		s.Process = c.keeper.pid()
	}
	if c.why != nil {
		s.Err = c.why.Error()
	}
	return s
}

// TryRecording finds out whether a become-leader hook could be recorded now. It waits for
// the disk.
func (c *Client) TryRecording() error {
	return hookrun.TryRecording(cmp.Or(c.cfg.Try, c.cfg.Dir))
}

// Runs lists the last runs of hooks with a BULLY_SEQ above after, oldest first. It waits for the
// disk.
func (c *Client) Runs(after uint64) ([]hooks.Run, error) {
	return hookrun.ReadRuns(c.cfg.Dir, after)
}

// Output gives one run by its BULLY_SEQ and the end of what it printed. It waits for the
// disk.
func (c *Client) Output(seq uint64) (hooks.Run, []byte, error) {
	return hookrun.ReadOutput(c.cfg.Dir, seq)
}

// order is give for who does not hold mu.
func (c *Client) order(o order) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.give(o)
}

// give passes an order on, now or when there is a keeper; the caller holds mu.
func (c *Client) give(o order) {
	if c.keeper != nil {
		c.keeper.give(o, c.patienceFor(o))
		return
	}
	if o.Do == toStart || o.Do == toStop || o.Do == toCleanUp || o.Do == toSweep {
		c.waiting = append(c.waiting, o)
	}
}

const (
	// answerPatience is how long a keeper may take to read an order. It does nothing but
	// wait, so one that takes longer is stopped or starved. Arbitrary: longer than a
	// busy host makes it wait; what it watches over must not hang for ever.
	answerPatience = 2 * time.Second

	// lookEvery is how often a keeper is asked whether it reads. Arbitrary: below answerPatience, and seldom.
	lookEvery = time.Second

	// leastPatience is the same where the lease is nearly over.
	leastPatience = 100 * time.Millisecond
)

// patienceFor is how long the keeper may take to read an order: half of the time that
// the order leaves, so that another one may do it.
func (c *Client) patienceFor(o order) time.Duration {
	if o.Due.IsZero() {
		return answerPatience
	}
	return min(answerPatience, max(o.Due.Sub(now())/2, leastPatience))
}

// resultRoom is how many results can be unread: a keeper has no more events than maxQueued, each resource
// fails once until somebody reads of it, and an agent that reads nothing asks for nothing.
const resultRoom = maxQueued + hooks.MaxResources

// pass gives a result to a reader, without waiting for it. Beyond resultRoom the order is not kept, and
// nothing is lost.
func pass[T any](to chan<- T, res T) {
	select {
	case to <- res:
	default:
		go func() { to <- res }()
	}
}
