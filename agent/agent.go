// Package agent is the one loop that joins the others: it owns the clock, the
// state file and the goroutines of a running bully-agent.
//
//	UDP datagram → sealed.ReadFrame → receive → inbox ───┐
//	memberlist   → membership.Wake ──────────────────────┤
//	hooks        → hooks.Results ────────────────────────┼→ loop → election.Node.Step → apply → jobs
//	leader's end → transport.Tether → findings ──────────┤         └──────────── seat ───────────┘
//	own links    → netlink → sights ─────────────────────┤
//	jobs         → keeper, ledger file ──────────────────┤
//	control      → calls ────────────────────────────────┤
//	deadline     → timer ────────────────────────────────┘
//
// What belongs to a leadership is the seat; all else is its host, the agent. The
// loop owns both, and with them everything about the protocol; there is no mutex.
// Others send it a func, or read the snapshot that it publishes. It never waits
// for anything but the state file, which is written once or twice per epoch, and
// after a failure for the hook journal beside it.
package agent

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/resourcerun"
	"github.com/bully-agent/bully-agent/internal/advertise"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/discovery"
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/keeper"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/metrics"
	"github.com/bully-agent/bully-agent/internal/reader"
	"github.com/bully-agent/bully-agent/internal/sealed"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// Config is everything that one agent needs to run.
type Config struct {
	Version string // for status
	Cluster string
	Name    string // of this host
	// Election holds the settings of the protocol; identity, clock-dependent
	// and random parts are the agent's to fill in.
	Election election.Config
	Profile  string   // memberlist's timing: lan, fast or wan
	Seeds    []string // host:port, resolved again at each attempt
	StateDir string
	Hooks    hooks.Config // commands and times; the rest is filled in
	Socket   string       // control socket; empty: none
	Access   control.Access
	Notes    []string // what the configuration has of doubtful, for status
	Logger   hclog.Logger

	// Listen binds the port to the other hosts. It is called first, so that a
	// port in use changes nothing on disk; nothing is sent or read before the
	// clean-up of an unclean end, or before the lease of that life has ended.
	Listen func() (transport.LAN, error)
	// ListenHTTP opens the port at which the network may ask. It is called while the process
	// has all of its rights. Nil: off.
	ListenHTTP func() (*reader.Feed, error)
	// Advertise is where others reach this agent; zero: where it listens.
	Advertise netip.AddrPort
	// AdvertiseIsChosen: nobody has named that address, so the agent goes on with another one if this host loses it.
	AdvertiseIsChosen bool
	Device            string // interface or VRF that the sockets are bound to; empty: none
	// Keys are those that the hosts share, read from KeyFile: with them nothing goes over
	// the LAN that others can read, and nobody else joins. Empty: whoever reaches the port can join.
	Keys    key.Ring
	KeyFile string
	// Hosts is who may join, this host among them, and what each is called; none: whoever has the keys.
	Hosts identity.Hosts
	// Insecure says that somebody wants no keys, for status and log.
	Insecure bool
	// Resolve replaces the system's resolver for Seeds; nil keeps it.
	Resolve membership.Resolver
	// CheckSeed says why a text that a source of Seeds gives is no host[:port]; nil: all are.
	CheckSeed func(text string) error
	// WatchLink watches this host's own links: NetlinkWatch in the binary. Nil:
	// nobody watches them.
	WatchLink LinkWatch
	// Now measures leases and silences: BootClock in the binary, time.Now in a
	// synctest bubble. It must never go backwards.
	Now func() time.Time
	// Wall replaces the host's wall clock where it is compared with others'; tests only.
	Wall func() time.Time
	// Scheduling is how the kernel schedules this process, for status; nil: nobody
	// has asked.
	Scheduling func() control.Scheduling
	// Runner replaces the keeper; tests only.
	Runner Runner
	// Apart has this process give up its rights, and the keeper keep them; nil: it stays
	// what it is.
	Apart *Apart
	// KeeperArgs and KeeperEnviron are what the keeper reads its configuration by.
	KeeperArgs, KeeperEnviron []string
	// Jobs are the singleton jobs, checked, each name once.
	Jobs []Job
	// Checks say whether this host is fit to lead, each name once.
	Checks []Check
	// LoseAtStart has the lose-leadership hook run at each start, before this host is a candidate.
	LoseAtStart bool
	// JobRunner replaces the runner of jobs' commands; tests only.
	JobRunner JobRunner
	// Reload reads the configuration again; nil: there is nothing to read.
	Reload func() (Reloaded, error)
	// Refusal says why the next start and a reload would be refused now; nil: nothing is known. isWhole: this process sees all that a
	// start reads. Any goroutine calls it. A nil func finds nothing.
	Refusal func() (isWhole bool, refused error)
	// Reloads asks for a reload each time something arrives; nil: never.
	Reloads <-chan struct{}
	// Abort, when it is closed, cuts an orderly stop short; nil: never.
	Abort <-chan struct{}
	// Dump is asked for the agent's state in the log each time something
	// arrives; nil: never.
	Dump <-chan struct{}
	// Started, if set, is called once when the agent serves its port.
	Started func(netip.AddrPort)
	// Pulse is called by the loop: within PulseEvery at the longest, as long as it turns, and at once when something that it
	// is told has changed. It must not block. Nil: nobody wants to know.
	Pulse      func(Pulse)
	PulseEvery time.Duration // > 0 where there is Pulse
}

// Reloaded is what a reload can change.
type Reloaded struct {
	Hooks    hooks.Config
	Jobs     []Job
	Checks   []Check
	Seeds    []string
	Priority uint16
	Keys     key.Ring
	KeyFile  string
	Hosts    identity.Hosts
	LogLevel hclog.Level
	// Notes are Config.Notes, of the new configuration.
	Notes []string
	// Doubts are for the log: what this host lacks now of what the new configuration names.
	Doubts []string
	// Waiting are the settings that differ but need a restart.
	Waiting []control.Waiting
}

// Apart is what becomes of a process that gives up its rights.
type Apart struct {
	UID, GID int // whose it is then
	// GiveUp is called once what takes the rights is done, and before anything is read
	// from the network. There is no way back.
	GiveUp func() error
}

// Runner runs hooks: the keeper, or a fake in tests.
type Runner interface {
	// Launch starts the keeper's process, before Recover.
	Launch() error
	// Gone is closed when the keeper is lost, and there can be no other; nil: never.
	Gone() <-chan struct{}
	Run(ctx context.Context) error
	// Start runs the hook of an event; a lose-leadership event is over by due, unless that is zero.
	Start(ev hooks.Event, due time.Time)
	Stop(epoch uint64)
	Reached()
	Results() <-chan hooks.Result
	SetConfig(cfg hooks.Config)
	Keeps() (epoch uint64, ok bool)
	Recover(ctx context.Context) error
	CleanUp(ctx context.Context, ev hooks.Event) hooks.Result
	Renew(deadline time.Time, isAlone bool)
	// Ending is Renew while a planned end of the leadership goes on.
	Ending(deadline time.Time, isAlone bool)
	// Commitment is that of the keeper's secret, which frames announce; zero: no keeper has one. Checked receives when it
	// may be another.
	Commitment() wire.Commitment
	// Will says to whom the keeper says its secret if this process dies.
	Will(heirs []netip.AddrPort)
	Lend() bool
	Return()
	Status() keeper.Status
	Owed() (hooks.Epoch, bool)
	IsRunning(kind hooks.Kind) bool
	// Ask runs a program that names hosts, and gives what it printed.
	Ask(ctx context.Context, program string) ([]byte, error)
	// Checked receives when Checks may have something, what has changed about checks, or Resources something else than before.
	Checked() <-chan struct{}
	Checks() []hooks.CheckReport
	// Resources says how what this host has, or is about to have, is.
	Resources() []resourcerun.State
	// Clients gives who is connected to what this host has, each time that it is known anew: Checked receives then, too.
	Clients() (clients []resourcerun.Client, isNew bool)
	// Reset says who was connected to what the leader before had, right before the become-leader event.
	Reset(clients []resourcerun.Client)
	TryRecording() error
	Runs(after uint64) ([]hooks.Run, error)
	Output(seq uint64) (hooks.Run, []byte, error)
}

// inboxSize bounds the frames that wait for the loop: half a second of the
// busiest leader's acknowledgements. What does not fit is dropped and counted;
// UDP may lose.
const inboxSize = 1024

// agent is a running one: the host of a seat. It has the port, the members, the keeper,
// the clock and the local API, and runs the loop. Everything below the blank line
// belongs to the loop.
type agent struct {
	cfg       Config
	log       hclog.Logger
	home      home
	seat      *seat
	last      *lastLife                             // its end; nil: it has not begun
	below     transport.LAN                         // the sockets
	lan       *sealed.LAN                           // what goes over them; nil: nothing yet
	seal      sealing                               // the same
	port      asking                                // the sockets; nil: they carry no questions
	receipts  *receiptFile                          // that others have given
	later     chan uint32                           // that this host had a later life, which the port says once
	life      [8]byte                               // random; the seal and frames are bound to it
	socket    net.Listener                          // nil: no control socket
	feed      *reader.Feed                          // nil: the network asks nothing
	gossip    atomic.Pointer[membership.Membership] // of the present life; another at a new address
	sources   *discovery.Sources                    // that join names
	runner    Runner                                // the keeper
	jobRunner JobRunner                             // the keeper too
	inbox     chan received
	calls     chan func()
	ties      chan *tie // the newest wish for a tether; the loop puts it in
	findings  chan finding
	sights    chan advertise.Sight
	stop      <-chan struct{} // closed: stop cleanly
	ring      control.Ring
	exporter  *metrics.Exporter
	shown     atomic.Pointer[snapshot]
	commands  atomic.Pointer[hooks.Config] // the hooks as configured now
	keys      atomic.Pointer[keyring]
	roll      *roll
	pledges   atomic.Pointer[election.Pledges] // wills that mean something here; nil: none does
	counters  counters
	hearing   hearing
	answers   answers
	reloading chan struct{} // a token while a reload is read and taken: the newest file is taken last
	examined  sync.Mutex    // held by the one examination that goes on
	syncs     sync.Mutex    // held while that writes, which may take longer
	refusals  sync.Mutex    // held while that reads what a start reads, which may take longer
	started   time.Time     // wall clock

	where     whereabouts
	isCut     bool                        // this host is on no network
	endGossip context.CancelFunc          // ends the search for absent members
	spawn     func(func(context.Context)) // starts a goroutine of this life of the agent

	tie      *tie   // nil: none is wanted
	out      []byte // one frame, reused
	view     view
	pulse    pulse
	armedFor time.Time            // what the timer is set to; zero: not set
	waiting  []control.Waiting    // for a restart
	warm     []netip.AddrPort     // with whom a session is kept
	quietAt  map[string]time.Time // per warning: no further line before
	checks   checks
	has      []resourcerun.State // of resources, as people were told last
	strays   strays              // addresses of resources that are here and should not be
	refused  error               // why the last reload was
	mute     []wire.ID           // members that are alive and do not answer the election
	relayed  []wire.ID           // members that other hosts reach and this one does not
	told     []membership.Member // hosts that others tell of and that this one has not met
	fatal    error
}

// Run runs an agent until ctx ends, then stops cleanly: it hands over if it
// leads, runs the lose hook, leaves, and returns nil.
//
// Its goroutines, all started here and ended before it returns:
//   - receive: reads frames and puts them into the inbox
//   - tethers: holds the stream to the leader's port
//   - watchLink: watches this host's own links
//   - watchLoop: says that the loop stands still
//   - loop: owns the election
//   - membership.Rejoin: looks for absent members
//   - endLastLife: ends what the last life has left
//   - besideLastLife: tells the loop of that, if it takes long
//   - runner.Run: what the keeper says, after that
//   - control.Serve: the local API
//   - feed.Run: what the reader shows the network of it, if it may
//   - jobRunner.Run: what the keeper says of jobs, after that
//   - seat.history.run: writes past leaderships to disk
//   - receipts.run: writes what other hosts have given this one to keep
//   - seat.jobs.file.run: writes the ledger of jobs; of these three one that a disk holds up may outlive Run
//   - reloads: reads the configuration again when asked
//   - answer: one for each question that another host asks, which the port starts
//   - timeSyncs: writes for the doctor; one that hangs may outlive Run
//   - sources: those of mDNS, which answer on the link, if join names it
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
// end, which may go on when open returns, and the new incarnation.
func open(ctx context.Context, cfg Config) (_ *agent, err error) {
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Now == nil {
		cfg.Now = BootClock()
	}
	a := &agent{cfg: cfg, log: cfg.Logger, started: wallClock(),
		inbox: make(chan received, inboxSize), calls: make(chan func()), reloading: make(chan struct{}, 1), stop: ctx.Done(),
		ties: make(chan *tie, 1), findings: make(chan finding), later: make(chan uint32, 1), where: whereabouts{sharedSince: map[wire.ID]time.Time{}}, sights: make(chan advertise.Sight), endGossip: func() {},
		quietAt: map[string]time.Time{}, roll: newRoll(cfg.Hosts), out: make([]byte, 0, wire.MaxFrame)}
	a.exporter = metrics.New(a, a.started)
	a.keys.Store(&keyring{file: cfg.KeyFile, ring: cfg.Keys})
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.below, err = cfg.Listen(); err != nil {
		return nil, err
	}
	a.canAsk()
	if a.socket, err = listenControl(cfg.Socket, cfg.Access); err != nil {
		return nil, err
	}
	if cfg.ListenHTTP != nil {
		if a.feed, err = cfg.ListenHTTP(); err != nil {
			return nil, err
		}
	}
	if a.home, err = openHome(cfg.StateDir, cfg.Apart); err != nil {
		return nil, err
	}
	a.chooseRunners()
	if err = a.setApart(); err != nil {
		return nil, err
	}
	_, _ = rand.Read(a.life[:]) // never fails
	a.seat, err = openSeat(seatConfig{cluster: cfg.Cluster, name: cfg.Name, election: cfg.Election, dir: a.home.dir,
		runner: a.runner, log: a.log, nonce: binary.BigEndian.Uint32(a.life[:]),
		knowsOthers: len(cfg.Seeds) > 0, loseAtStart: cfg.LoseAtStart}, a)
	if err != nil {
		return nil, err
	}
	if err := checkHosts(cfg.Hosts, a.seat.state.ID, a.seat.state.saved.Roster); err != nil {
		return nil, err
	}
	if name := cfg.Hosts.Name(a.seat.state.ID); name != "" {
		a.cfg.Name, a.seat.name = name, name // what the other hosts call it
	}
	if err := a.sealPort(); err != nil {
		return nil, err
	}
	return a, a.prepare(ctx)
}

// close gives back what open took; what was not taken yet is nil.
func (a *agent) close() {
	if a.last != nil {
		a.last.cut()
		<-a.last.over
	}
	if a.socket != nil {
		_ = a.socket.Close()
	}
	if a.feed != nil {
		a.feed.Close()
	}
	if a.sources != nil {
		a.sources.Close()
	}
	if a.seat != nil {
		a.seat.close()
	}
	a.home.close()
	switch { // again, usually: membership has closed it
	case a.lan != nil:
		_ = a.lan.Shutdown()
	case a.below != nil:
		_ = a.below.Shutdown()
	}
}

// chooseRunners takes the keeper, unless a test has others.
func (a *agent) chooseRunners() {
	commands := a.hooksConfig(a.cfg.Hooks)
	if a.runner, a.jobRunner = a.cfg.Runner, a.cfg.JobRunner; a.runner == nil {
		keeper := newKeeper(a.cfg, commands, a.home.dir, a.door(), a.log.Named("hooks"))
		a.runner, a.jobRunner = keeper, keeper.Jobs()
	}
}

// setApart gives up the rights of this process. The keeper's is started before, and keeps
// them.
func (a *agent) setApart() error {
	if a.cfg.Apart == nil {
		return nil
	}
	if err := a.runner.Launch(); err != nil {
		return err
	}
	if err := a.cfg.Apart.GiveUp(); err != nil {
		return refusal("see user in the configuration, and docs/security.md", "give up rights: %w", err)
	}
	return nil
}

// prepare ends what the last life has left, and begins a new one, beside that if it takes
// too long.
func (a *agent) prepare(ctx context.Context) error {
	if err := a.seat.openJobs(a.cfg.Jobs, a.cfg.Hooks.Grace, a.jobRunner); err != nil {
		return err
	}
	a.last = a.endLastLife(ctx)
	switch isOver := a.last.within(a.released()); {
	case ctx.Err() != nil:
		<-a.last.over
		return nil // stopped meanwhile: what was not cleaned up is still due
	case !isOver:
		a.seat.beside = true
	case a.last.err != nil:
		return a.last.err
	default:
		a.seat.settle(a.last.cleaned)
	}
	a.sweep()
	return a.seat.begin()
}

// hooksConfig remembers what the configuration says about hooks.
func (a *agent) hooksConfig(cfg hooks.Config) hooks.Config {
	a.commands.Store(&cfg)
	return cfg
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
	group.Go(func() error { a.watchLoop(life); return nil })
	if a.cfg.WatchLink != nil {
		group.Go(func() error { a.watchLink(life); return nil })
	}
	a.spawn = func(f func(context.Context)) { group.Go(func() error { f(life); return nil }) }
	a.lookForOthers()
	group.Go(func() error { return a.last.then(life, a.runner.Run) })
	group.Go(func() error { untilDisk(life, a.seat.history.run); return nil })
	group.Go(func() error { return a.last.then(life, a.jobRunner.Run) })
	if a.seat.beside {
		group.Go(func() error { a.besideLastLife(life); return nil })
	}
	group.Go(func() error { untilDisk(life, a.receipts.run); return nil })
	group.Go(func() error { untilDisk(life, a.seat.jobs.file.run); return nil })
	group.Go(func() error { a.reloads(life); return nil })
	if a.socket != nil {
		group.Go(func() error { a.serve(life); return nil })
	}
	if a.feed != nil {
		group.Go(func() error { a.feedReader(life); return nil })
	}
	group.Go(func() error {
		defer end()
		defer a.last.cut()
		defer a.endNetwork()
		return a.loop()
	})
	return group.Wait()
}

// listenControl gives nil where no socket is configured.
func listenControl(path string, access control.Access) (net.Listener, error) {
	if path == "" {
		return nil, nil
	}
	listener, err := control.Listen(path, access)
	if err != nil {
		return nil, refusal("", "control socket: %w", err)
	}
	return listener, nil
}

// join makes the node and the membership; both are silent until the loop runs.
func (a *agent) join() error {
	if err := a.seat.sit(); err != nil {
		return err
	}
	self := a.seat.member()
	self.Name, self.Addr = a.cfg.Name, a.advertised()
	a.openSources()
	a.view, a.where.place = newView(self), a.firstPlace()
	if err := a.beginGossip(self, nil); err != nil {
		return err
	}
	if a.port != nil {
		a.port.Answer(a.answer)
	}
	a.seat.publish()
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
	a.log.Info("agent started", "member", a.cfg.Name, "id", a.view.self.ID, "incarnation", a.view.self.Incarnation,
		"cluster", a.cfg.Cluster, "addr", a.view.self.Addr, "priority", a.view.self.Priority, "version", a.cfg.Version)
	a.logSeal()
	a.event(control.Event{Type: "start", Text: "agent started"})
	for _, held := range a.seat.holdNotes(a.seat.state.hold.left(wallClock())) {
		a.log.Info(held)
	}
	if a.cfg.Started != nil {
		a.cfg.Started(a.below.Addr())
	}
}
