// Package agent is the one loop that joins the others: it owns the clock, the
// state file and the goroutines of a running bully-agent.
//
//	UDP datagram → transport.ReadFrame → receive → inbox ┐
//	memberlist   → membership.Wake ──────────────────────┤
//	hooks        → hooks.Results ────────────────────────┼→ loop → election.Node.Step → apply
//	leader's end → transport.Tether → findings ──────────┤
//	own link     → netlink → links ──────────────────────┤
//	jobs         → jobrun, ledger file ──────────────────┤
//	control      → calls ────────────────────────────────┤
//	deadline     → timer ────────────────────────────────┘
//
// The loop owns the Node and everything about the protocol; there is no mutex.
// Others send it a func, or read the snapshot that it publishes. It never waits
// for anything but the state file, which is written once or twice per epoch, and
// after a failure for the hook journal beside it.
package agent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/wire"
)

// Config is everything that one agent needs to run.
type Config struct {
	Version string // for status
	Cluster string
	Name    string // this host's label
	// Election holds the settings of the protocol; identity, clock-dependent
	// and random parts are the agent's to fill in.
	Election election.Config
	Profile  string   // memberlist's timing: lan, fast or wan
	Seeds    []string // host:port, resolved again at each attempt
	StateDir string
	Hooks    hooks.Config // commands and times; the rest is filled in
	Socket   string       // control socket; empty: none
	Notes    []string     // what the configuration has of doubtful, for status
	Logger   hclog.Logger

	// Listen binds the port to the other hosts. It is called first, so that a
	// port in use changes nothing on disk; nothing is sent or read before the
	// clean-up of an unclean end.
	Listen func() (transport.LAN, error)
	// Advertise is where others reach this agent; zero: LAN.Addr.
	Advertise netip.AddrPort
	// Resolve replaces the system's resolver for Seeds; nil keeps it.
	Resolve membership.Resolver
	// WatchLink watches this host's own link: NetlinkWatch in the binary. Nil:
	// nobody watches it.
	WatchLink LinkWatch
	// Now measures leases and silences: BootClock in the binary, time.Now in a
	// synctest bubble. It must never go backwards.
	Now func() time.Time
	// Guards starts a guard for each leadership that has a lose hook; nil: none.
	Guards hooks.Guards
	// Runner replaces the runner of real processes; tests only.
	Runner Runner
	// Jobs are the singleton jobs, checked, each name once.
	Jobs []Job
	// JobRunner replaces the runner of jobs' commands; tests only.
	JobRunner JobRunner
	// Reload reads the configuration again; nil: there is nothing to read.
	Reload func() (Reloaded, error)
	// Reloads asks for a reload each time something arrives; nil: never.
	Reloads <-chan struct{}
	// Abort, when it is closed, cuts an orderly stop short; nil: never.
	Abort <-chan struct{}
	// Dump is asked for the agent's state in the log each time something
	// arrives; nil: never.
	Dump <-chan struct{}
	// Started, if set, is called once when the agent serves its port.
	Started func(netip.AddrPort)
}

// Reloaded is what a reload can change.
type Reloaded struct {
	Hooks    hooks.Config
	Jobs     []Job
	Seeds    []string
	Priority uint16
	LogLevel hclog.Level
	// Notes are Config.Notes, of the new configuration.
	Notes []string
	// Waiting are the settings that differ but need a restart.
	Waiting []control.Waiting
}

// Runner runs hooks: hooks.Runner, or a fake in tests.
type Runner interface {
	Run(ctx context.Context) error
	Start(ev hooks.Event)
	Stop(epoch uint64)
	Results() <-chan hooks.Result
	SetConfig(cfg hooks.Config)
	Keeps() (epoch uint64, ok bool)
	Recover(ctx context.Context)
	CleanUp(ctx context.Context, ev hooks.Event) hooks.Result
	Dropped() hooks.Dropped
	Renew(deadline time.Time)
	Guard() (hooks.GuardStatus, bool)
	Owed() (hooks.Epoch, bool)
	IsRunning(kind hooks.Kind) bool
	TryRecording() error
	Runs() ([]hooks.Run, error)
	Output(seq uint64) (hooks.Run, []byte, error)
}

// inboxSize bounds the frames that wait for the loop: half a second of the
// busiest leader's acknowledgements. What does not fit is dropped and counted;
// UDP may lose.
const inboxSize = 1024

// agent is a running one. Everything below the blank line belongs to the loop.
type agent struct {
	cfg      Config
	log      hclog.Logger
	state    *stateFile
	lan      transport.LAN
	socket   net.Listener // nil: no control socket
	members  *membership.Membership
	runner   Runner
	inbox    chan received
	calls    chan func()
	ties     chan *tie // the newest wish for a tether; the loop puts it in
	findings chan finding
	links    chan bool       // own link is up
	stop     <-chan struct{} // closed: stop in order
	ring     control.Ring
	history  *history
	shown    atomic.Pointer[snapshot]
	lease    atomic.Int64 // end of the right to act, ns since the clock's epoch; 0: not leading
	tenancy  *tenancy
	commands atomic.Pointer[hooks.Config] // the hooks as configured now
	counters counters
	hearing  hearing
	started  time.Time // wall clock

	node      *election.Node
	tie       *tie          // nil: none is wanted
	diskTook  time.Duration // of the step's slowest save, not told the node yet
	out       []byte        // one frame, reused
	view      view
	said      election.Transition // the last that people were told of
	replies   map[uint64]func(error)
	tokens    uint64
	armedFor  time.Time // what the timer is set to; zero: not set
	diskAt    time.Time // next attempt to save after a failure; zero: the disk is well
	diskWhy   string    // what it said
	hookReady bool      // the become hook of the present epoch succeeded
	lastHook  *control.Hook
	redo      redo                 // the hook that failed and is to be tried again
	heldUp    *election.StartHook  // lose hook that waits for tenants; nil: none
	waiting   []control.Waiting    // for a restart
	leasedTo  time.Time            // end of the last lease, also of one that is over
	quietAt   map[string]time.Time // per warning: no further line before
	fatal     error
	jobs      jobDesk // singleton jobs, see job.go
}

// Run runs an agent until ctx ends, then stops in order: it hands over if it
// leads, runs the lose hook, leaves, and returns nil.
//
// Its goroutines, all started here and ended before it returns:
//   - receive: reads frames and puts them into the inbox
//   - tethers: holds the stream to the leader's port
//   - watchLink: watches this host's own link
//   - loop: owns the election
//   - membership.Rejoin: looks for absent members
//   - runner.Run: the hooks' queues
//   - control.Serve: the local API
//   - history.run: writes past leaderships to disk
//   - jobs.runner.Run: ends what jobs run when the agent does
//   - jobs.file.run: writes the ledger of jobs
//   - reloads: reads the configuration again when asked
func Run(ctx context.Context, cfg Config) error {
	a, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer a.close()
	return a.run(ctx)
}

// open takes what only one agent can have, the ports, the state directory and
// the socket, and only then changes something: the clean-up after an unclean
// end, and the new incarnation.
func open(ctx context.Context, cfg Config) (_ *agent, err error) {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Now == nil {
		cfg.Now = BootClock()
	}
	a := &agent{cfg: cfg, log: cfg.Logger, started: wallClock(),
		inbox: make(chan received, inboxSize), calls: make(chan func()), stop: ctx.Done(),
		tenancy: newTenancy(), ties: make(chan *tie, 1), findings: make(chan finding), links: make(chan bool),
		replies: map[uint64]func(error){}, quietAt: map[string]time.Time{}, out: make([]byte, 0, wire.MaxFrame)}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.lan, err = cfg.Listen(); err != nil {
		return nil, err
	}
	if a.socket, err = listenControl(cfg.Socket); err != nil {
		return nil, err
	}
	if a.state, err = openState(cfg.StateDir, cfg.Cluster); err != nil {
		return nil, a.hintDamaged(err)
	}
	return a, a.prepare(ctx)
}

// close gives back what open took; what was not taken yet is nil.
func (a *agent) close() {
	if a.socket != nil {
		_ = a.socket.Close()
	}
	if a.state != nil {
		a.state.close()
	}
	if a.lan != nil {
		_ = a.lan.Shutdown() // again, usually: membership has closed it
	}
}

func (a *agent) prepare(ctx context.Context) (err error) {
	commands := a.hooksConfig(a.cfg.Hooks)
	if a.runner = a.cfg.Runner; a.runner == nil {
		if a.runner, err = hooks.New(commands); err != nil {
			return refusal("", "hooks: %w", err)
		}
	}
	if a.history, err = openHistory(a.cfg.StateDir, a.log); err != nil {
		return err
	}
	if err := a.prepareJobs(ctx); err != nil {
		return err
	}
	a.cleanUp(ctx)
	if ctx.Err() != nil {
		return nil // stopped meanwhile: what was not cleaned up is still owed
	}
	a.sweep()
	saved := a.state.saved
	if err := checkExpect(a.cfg.Election.Expect, saved.Roster); err != nil {
		return err
	}
	saved.Incarnation++
	saved.Promoted = wire.Epoch{}
	if a.state.hold.left(wallClock()) == 0 {
		a.state.hold = hold{}
	}
	if err := a.state.write(saved); err != nil {
		return refusal("the state directory must be writable", "%w", err)
	}
	return nil
}

// hooksConfig completes what the configuration says about hooks.
func (a *agent) hooksConfig(cfg hooks.Config) hooks.Config {
	cfg.Dir, cfg.Socket, cfg.Guards, cfg.Logger = a.cfg.StateDir, a.cfg.Socket, a.cfg.Guards, a.log.Named("hooks")
	a.commands.Store(&cfg)
	return cfg
}

// cleanUp runs the lose hook of a leadership that the last life did not end, unless
// its guard has.
func (a *agent) cleanUp(ctx context.Context) {
	a.runner.Recover(ctx)
	epoch := a.owed()
	if epoch.IsZero() || ctx.Err() != nil {
		return
	}
	a.log.Warn("last run ended while it led", "epoch", epoch.Counter)
	self := hooks.Node{ID: a.state.ID.String(), Name: a.cfg.Name}
	result := a.runner.CleanUp(ctx, hooks.Event{Kind: hooks.LoseLeadership, Cause: string(election.UncleanRestarted),
		Time: wallClock(), Cluster: a.cfg.Cluster, Mode: a.mode(), Role: election.RoleFollower.String(),
		Epoch: hooks.Epoch{Counter: epoch.Counter, Owner: epoch.Owner.String()}, Self: self, PrevLeader: self})
	a.noteHook(result, epoch)
	if !result.OK && ctx.Err() == nil {
		a.redoLose(result)
	}
}

// run joins the network and serves until the loop has ended.
func (a *agent) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	if err := a.join(); err != nil {
		return err
	}
	a.logStart()

	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var group errgroup.Group
	group.Go(func() error { a.receive(); return nil })
	group.Go(func() error { a.tethers(life); return nil })
	if a.cfg.WatchLink != nil {
		group.Go(func() error { a.watchLink(life); return nil })
	}
	group.Go(func() error { _ = a.members.Rejoin(life); return nil }) // only ever the context's error
	group.Go(func() error { return a.runner.Run(life) })
	group.Go(func() error { a.history.run(life); return nil })
	group.Go(func() error { return a.jobs.runner.Run(life) })
	group.Go(func() error { a.jobs.file.run(life); return nil })
	group.Go(func() error { a.reloads(life); return nil })
	if a.socket != nil {
		group.Go(func() error { a.serve(life); return nil })
	}
	group.Go(func() error {
		defer end()
		defer func() { _ = a.members.Shutdown() }() // closes the LAN, which ends receive
		return a.loop()
	})
	return group.Wait()
}

// listenControl gives nil where no socket is configured.
func listenControl(path string) (net.Listener, error) {
	if path == "" {
		return nil, nil
	}
	listener, err := control.Listen(path)
	if err != nil {
		return nil, refusal("", "control socket: %w", err)
	}
	return listener, nil
}

// join makes the membership and the node; both are silent until the loop runs.
func (a *agent) join() error {
	cfg := a.cfg.Election
	cfg.ID, cfg.Nonce, cfg.Cluster = a.state.ID, rand.Uint32(), wire.ClusterHash(a.cfg.Cluster)
	cfg.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	cfg.HoldDown = a.state.hold.left(wallClock())
	node, err := election.New(cfg, a.state.saved, a.cfg.Now())
	if err != nil {
		return refusal("", "%w", err)
	}
	a.node, a.cfg.Election = node, cfg
	addr := a.cfg.Advertise
	if !addr.IsValid() {
		addr = a.lan.Addr()
	}
	self := membership.Member{ID: cfg.ID, Name: a.cfg.Name, Addr: addr, Incarnation: a.state.saved.Incarnation,
		Nonce: cfg.Nonce, Priority: cfg.Priority, Role: membership.Role(cfg.Part), WireMin: 1, WireMax: 1, ConfigHash: cfg.Hash(),
		Settings: cfg.Describe(), Jobs: a.jobs.digest}
	a.members, err = membership.New(membership.Config{Self: self, Cluster: a.cfg.Cluster, Transport: a.lan,
		Seeds: a.cfg.Seeds, Resolve: a.cfg.Resolve, Profile: a.cfg.Profile, Logger: a.log.Named("membership")})
	if err != nil {
		return fmt.Errorf("start membership: %w", err)
	}
	a.view = newView(self)
	a.members.SetLedger(a.jobs.scheduler.Bytes())
	a.publish()
	return nil
}

// serve answers the local API. Without it the agent goes on: the hooks matter
// more than the questions.
func (a *agent) serve(ctx context.Context) {
	if err := control.Serve(ctx, a.socket, a, a.log.Named("control")); err != nil {
		a.log.Error("control socket failed; this agent answers no more commands", "err", err)
	}
}

func (a *agent) logStart() {
	a.log.Info("agent started", "member", a.cfg.Name, "id", a.state.ID, "incarnation", a.state.saved.Incarnation,
		"cluster", a.cfg.Cluster, "addr", a.view.self.Addr, "priority", a.cfg.Election.Priority, "version", a.cfg.Version)
	a.log.Warn("traffic is neither encrypted nor authenticated: anybody on this network can forge it")
	a.event(control.Event{Type: "start", Text: "agent started"})
	if held := holdNote(a.cfg.Election.HoldDown); held != "" {
		a.log.Info(held)
	}
	if a.cfg.Started != nil {
		a.cfg.Started(a.lan.Addr())
	}
}
