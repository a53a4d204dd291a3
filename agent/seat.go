package agent

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// A seat is all that belongs to one leadership, whoever has it: the node that contends
// for it, what that must remember, the lease and those who act on it, the hooks and the
// jobs that run under it, and its history. It knows of no socket, no gossip and no local
// API, only of its surroundings; and its host knows of no epoch.
//
// All of it belongs to the loop, which tells it one thing at a time and then ends the
// turn:
//
//	step → Node.Step → apply, effect by effect
//	turn → jobDesk.turn
//
// Only Lease, Enter, report, past, cleanUp, waits, the holders and what writes history and ledger
// are for other goroutines too.
type seat struct {
	seatConfig
	around  surroundings
	state   *stateFile
	history *history
	holders *holders
	tally   *tally
	jobs    *jobDesk
	waits   waits
	until   atomic.Int64 // end of the right to act, ns since the clock's epoch; 0: not leading

	newest   time.Time // that the last life has passed; zero: unknown
	node     *election.Node
	shown    *standing           // as people know it
	said     election.Transition // the last that people were told of
	previous wire.ID             // the leader before the present one
	replies  map[uint64]func(error)
	tokens   uint64

	diskTook time.Duration // of the step's slowest save, not told the node yet
	diskAt   time.Time     // next attempt to save after a failure; zero: the disk is well
	diskWhy  string        // what it said

	leasedTo   time.Time        // end of the last lease, also of one that has ended
	hasHolders bool             // as the node was told last
	entrusted  wire.Commitment  // likewise
	heeded     election.Pledges // as the host was told last

	// Of what the last life has left.
	debt       wire.Epoch // whose lose hook it owes, by the state file; zero: none, or that has ended
	beside     bool       // it goes on beside this life
	isHeldBack bool       // the node is held down for that, and until heldUntil
	heldUntil  time.Time  // end of the operator's hold-down; zero: there is none
	mustLetGo  bool       // the node has come to lead all the same

	hasWithdrawn bool // it takes no further part, except for the end of its leadership

	hookReady bool // the become hook of the present epoch succeeded
	lastHook  *control.Hook
	redo      redo         // the hook that failed and is to be tried again
	heldFor   hooks.Result // the failure that ended the last leadership; zero: none did
	heldUp    []func()     // what waits for holders: the start of a lose hook, or its end

	told   *standing // the last that the jobs have heard of
	passOn passOn    // what a leader does about a ledger that cannot be saved

	clients      heardClients // of the leader that this host follows
	clientsRound uint32       // of the last list that this host has told as a leader
}

// seatConfig is what a seat is opened with.
type seatConfig struct {
	cluster  string
	name     string          // of this host
	election election.Config // completed by sit
	dir      string          // of state, history and ledger
	runner   Runner          // runs the hooks
	log      hclog.Logger
	nonce    uint32 // of this life

	knowsOthers bool // the configuration names hosts to join, or an earlier life has met some
	loseAtStart bool // a life that owes no lose hook runs it all the same
}

// surroundings is all that a seat knows of its host.
type surroundings interface {
	// now is the agent's clock.
	now() time.Time
	// seen gives the members as gossip tells of them.
	seen() *view
	// isHere: the member is believed alive, and is no rumour.
	isHere(id wire.ID) bool

	send(to netip.AddrPort, f wire.Frame)
	// heed says which wills are to be handed on.
	heed(known election.Pledges)
	// tether holds a stream to the leader's port in place of the last one; to nobody: none.
	tether(e election.Tether)
	// tellLeader has gossip carry who leads; zero: nobody known.
	tellLeader(e wire.Epoch)
	// tellLedger has gossip carry what is known of jobs; b is not changed any more.
	tellLedger(b []byte)
	departed(id wire.ID, nonce uint32)

	// leases tells others of this host until when it leads; zero: it does not.
	leases(until time.Time)
	// show publishes what the seat says of itself.
	show(st *standing)
	event(e control.Event)
	count(name string, n uint64)
	// warnRarely logs once a minute at most.
	warnRarely(message string, args ...any)
}

// openSeat reads what the last life has left. It changes nothing, but makes a key where there is none, and puts a
// history aside that cannot be read.
func openSeat(cfg seatConfig, around surroundings) (*seat, error) {
	s := &seat{seatConfig: cfg, around: around, holders: newHolders(around.now), replies: map[uint64]func(error){}}
	s.tally = &tally{settings: &s.election, dir: cfg.dir, known: around}
	var err error
	s.newest = newestIn(cfg.dir) // before the state is written
	if s.state, err = openState(cfg.dir, cfg.cluster, thisMachine()); err != nil {
		return nil, hintDamaged(err, s.tally.mode() == modeQuorum, s.name)
	}
	s.tally.self, s.debt = s.state.ID, s.state.saved.Promoted
	if s.history, err = openHistory(cfg.dir, cfg.log); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *seat) close() {
	s.state.close()
}

// begin is a new life of this host: its incarnation is on disk before anybody hears of it.
func (s *seat) begin() error {
	saved := s.state.saved
	if err := checkExpect(s.election.Expect, saved.Roster); err != nil {
		return err
	}
	saved.Incarnation++
	saved.Promoted = s.debt
	if s.state.hold.left(wallClock()) == 0 {
		s.state.hold = hold{}
	}
	if err := s.state.write(saved); err != nil {
		return refusal("the state directory must be writable", "%w", err)
	}
	return nil
}

// sit makes the node, which is silent until its first step.
func (s *seat) sit() (err error) {
	cfg := &s.election
	cfg.ID, cfg.Nonce, cfg.Cluster = s.state.ID, s.nonce, wire.ClusterHash(s.cluster)
	cfg.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	cfg.HoldDown = s.state.hold.left(wallClock())
	cfg.KnowsOthers, cfg.JoinWithin = s.knowsOthers, membership.JoinTimeout
	if s.beside {
		s.isHeldBack, s.heldUntil = true, time.Time{}
		if cfg.HoldDown > 0 {
			s.heldUntil = s.around.now().Add(cfg.HoldDown)
		}
		cfg.HoldDown = heldForLastLife
	}
	saved := s.state.saved
	saved.Promoted = wire.Epoch{} // the debt is the seat's
	if s.node, err = election.New(*cfg, saved, s.around.now()); err != nil {
		return refusal("", "%w", err)
	}
	s.entrusted = wire.Commitment{}
	return nil
}

// mayBeginAnew: nothing of a leadership is left, of this life or the last, and the disk is well.
func (s *seat) mayBeginAnew() bool {
	status := s.node.Status()
	isBusy := status.State == election.Claiming || !status.Reign.IsZero() || len(s.replies) > 0
	return !isBusy && !s.beside && s.debt.IsZero() && s.state.saved.Promoted.IsZero() && len(s.heldUp) == 0 && s.diskAt.IsZero() &&
		s.redo.kind == ""
}

// beginAnew replaces the node by one that knows what the disk knows, as after a restart. It must be allowed (mayBeginAnew).
func (s *seat) beginAnew(nonce uint32) error {
	if err := s.begin(); err != nil {
		return err
	}
	s.nonce, s.knowsOthers = nonce, s.knowsOthers || len(s.around.seen().others) > 0
	if err := s.sit(); err != nil {
		return err
	}
	s.hasHolders, s.heldFor = false, hooks.Result{}
	s.noteHolders()
	return nil
}

// receive takes a will, or a frame, of the election, about jobs or about clients.
func (s *seat) receive(r *received) {
	if !r.will.IsZero() {
		s.step(election.WillHeard{Commitment: r.will})
		return
	}
	if !s.onJobFrame(r) && !s.onClientsFrame(r) {
		s.step(r.Received)
	}
}

// tick does what is due.
func (s *seat) tick() {
	s.retrySave()
	s.tryAgain()
	s.step(election.Tick{})
	s.jobs.tick()
}

// lookAround is called once a second, with memberlist's opinion of this host.
func (s *seat) lookAround(health int) {
	s.step(election.HealthChanged{Score: health})
	s.publish()
	s.standForJobs()
	s.standAgain()
	s.forgetHold()
	s.endMaintenance()
}

// turn ends a turn of the loop: the jobs hear of leadership and members first, if they
// were shown anew, and then of the rest.
func (s *seat) turn() {
	s.noteSecret()
	s.tellJobs()
	if s.jobs.turn() {
		s.passJobsOn() // an order to the node, of which the jobs hear as well
		s.tellJobs()
		s.jobs.turn()
	}
}

func (s *seat) status() election.Status { return s.node.Status() }

// introduce has the history know what a member is called.
func (s *seat) introduce(member control.Node) { s.history.name(member) }

// past lists the leaderships that this host knows of, on any goroutine.
func (s *seat) past() []control.Leadership { return s.history.all() }

// step is the straight line: one event in, its effects carried out in order.
func (s *seat) step(ev election.Event) {
	if s.hasWithdrawn && s.status().State != election.Stopping {
		return
	}
	if s.log.IsTrace() {
		s.log.Trace("stepped", "event", fmt.Sprint(ev)) // as text in JSON, too
	}
	for _, effect := range s.node.Step(s.around.now(), ev) {
		if s.log.IsTrace() {
			s.log.Trace("decided", "effect", fmt.Sprint(effect))
		}
		if err := s.apply(effect); err != nil {
			s.onSaveFailed(election.SaveFailed(effect.(election.Save)), err)
			return
		}
	}
	s.heed()
	s.renewEnding()
	s.tellDisk()
	s.letGo()
}

// withdraw has this host take no further part: a leadership ends first, and after it no event and no timer has this host claim.
func (s *seat) withdraw() {
	if s.status().State == election.Lead {
		s.command(election.Command{Verb: election.Abdicate, Cause: election.Stopped}, func(error) {})
	}
	s.hasWithdrawn = true
}

// due is when the loop has something to do if nothing happens before; zero: never.
func (s *seat) due() time.Time {
	at := s.node.Deadline()
	for _, t := range [...]time.Time{s.diskAt, s.redo.at, s.jobs.due} {
		if at.IsZero() || (!t.IsZero() && t.Before(at)) {
			at = t
		}
	}
	return at
}

// command gives the node an operator's wish; done is called when it is done.
func (s *seat) command(c election.Command, done func(error)) {
	s.tokens++
	c.Token = s.tokens
	s.replies[c.Token] = done
	s.step(c)
}

// member is what others are told of this host, except for its name and address.
func (s *seat) member() membership.Member {
	cfg := &s.election
	return membership.Member{ID: cfg.ID, Incarnation: s.state.saved.Incarnation, Nonce: cfg.Nonce, Priority: cfg.Priority,
		Role: membership.Role(cfg.Part), WireMin: wire.Major, WireMax: wire.Major, ConfigHash: cfg.Hash(), Settings: cfg.Describe(),
		Jobs: s.jobs.digest}
}

// abandon is for an agent that stops at once: what still runs for a leadership has a
// moment to end, and nobody is told.
func (s *seat) abandon() {
	owed := s.node.Status().Reign
	if owed.IsZero() {
		return
	}
	s.hurryHook(owed, election.Stopped, s.around.now().Add(abortBudget))
	enough := time.After(2 * abortBudget)
	for {
		select {
		case r := <-s.runner.Results():
			if r.Kind == hooks.LoseLeadership {
				s.forgetPromoted(r)
				return
			}
		case <-enough:
			return
		}
	}
}
