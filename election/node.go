package election

import (
	"math"
	"time"

	"github.com/bully-agent/bully-agent/election/lease"
	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// Node is one participant in the election: a value that is told the time and
// what happened, and says what to do. It has no clock, goroutine, socket, file
// or logger; the agent and the simulator drive the same code.
//
// A Node belongs to whoever calls Step; nothing here is safe for concurrent use.
type Node struct {
	cfg   Config
	hash  uint32
	saved Saved

	state State
	since time.Time // entry into state
	cause Cause     // of state

	// epoch is the best one known; its owner is the leader while leaderKnown.
	//
	// Invariant: epoch never decreases in one life (R4, I6), except for a claim of ours
	// that was not saved or lost a duel (M22): it never led.
	epoch          wire.Epoch
	leaderKnown    bool
	lastFromLeader time.Time     // last frame of the epoch's owner itself: first-hand only (M1)
	ownerActs      time.Time     // until when the epoch's owner may act, as far as it was heard
	ownerAsks      time.Duration // what it asked for last
	followedAt     time.Time     // when the epoch was accepted or told
	abandonedEpoch wire.Epoch    // the epoch given up in this contest: hearsay does not revive it
	lostLeader     life          // the leader given up, until it is heard again
	pulse          pulse         // rhythm of the leader's heartbeats
	beatAt         time.Time     // the epoch's last heartbeat; lastFromLeader may be a frame of another kind

	vouched    wire.Epoch // quorum mode: of a leader outside our roster, whom a voter hears
	askedVoter time.Time  // when a voter was asked about one last
	outdatedAt time.Time  // when one was heard last that has a newer roster than ours

	writeAt time.Time // how much of mayWrite is used up
	horizon horizon   // how far a counter may be ahead
	isOfNew bool      // this step is about what a host that is new says, or nobody says who

	peers     []*peer // sorted by ID: nothing here depends on map order
	series    uint32  // highest number sent to a peer that was forgotten
	exchanges exchanges
	round     uint32

	timers    timers        // what it waits for, except for the replies of exchanges
	settleEnd time.Time     // no first election before this
	joinWait  time.Duration // by how much settleEnd is later while the first join has no outcome

	opinions  opinions // Suspect: what others say of the leader
	contest   contest  // Stagger … Claiming
	reign     reign    // Lead, Stopping
	flaps     flaps    // leaderships lost lately
	overruled overruled
	readying  readying

	promise   quorum.Promise // quorum mode: whom this voter is bound to
	longest   time.Duration  // the longest promise of this life, as its disk has it
	sync      time.Duration  // how long a save takes here
	unsaved   bool           // the last save failed: memory is ahead of the disk
	onDisk    uint64         // MaxCounter as last saved
	inherited uint64         // MaxCounter of the lives before
	offer     quorum.Offer   // a roster that is being agreed on; nil: none
	isOutside bool           // the cluster has a roster, and this node was never in one

	owedReply     uint64 // token of the hand-over command whose outcome is open
	isOwedAlone   bool   // nobody is to take over: it is done once nothing of the leadership is left
	wasHandedOver bool   // the last leadership ended as planned

	tether     Tether          // the stream that was asked for last
	pledges    Pledges         // wills that would mean something here
	commitment wire.Commitment // of the secret that the keeper holds; zero: none
	hasHolders bool            // something beside the hooks acts on the strength of the leadership
	waits      bool            // the epoch's owner asked its followers to wait for its will
	health     int
	diskFailed bool
	linkDown   bool
	unlinked   bool // its link is down, and it stands all the same: nobody else was ever known
	told       Bars // what the agent says keeps it from standing
	hosts      hosts
	leaving    bool
	leaveToken uint64
	lingerEnd  time.Time // a voter that lingers leaves then at the latest

	steps     uint64
	enteredAt uint64   // number of the step that entered the state
	strategy  strategy // by cfg.Algorithm
	now       time.Time
	thawedAt  time.Time // end of the last freeze
	pardoned  silence   // for which a lag was forgiven
	due       time.Time // the deadline that the last step asked for
	out       []Effect

	in wire.Frame // scratch: the frame of this step; a local one would be garbage
}

// New gives a Node in its first state. saved is what the disk holds with
// Incarnation already raised for this life. Nothing has been sent yet; the
// first Step may come at any time.
func New(cfg Config, saved Saved, now time.Time) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, hash: cfg.Hash(), saved: cfg.inherit(saved), now: now}
	n.strategy = strategyOf(cfg.Algorithm)
	n.joinWait = max(cfg.JoinWithin-cfg.Settle, 0)
	n.settleEnd = now.Add(cfg.Settle + n.joinWait)
	n.onDisk, n.inherited = saved.MaxCounter, saved.MaxCounter
	n.startMute()
	n.timers.arm(queryTimer, now.Add(2*cfg.Heartbeat+3*rtoUnknown)) // T_q of protocol 3.1
	n.state, n.since, n.cause = Start, now, Boot
	n.timers.arm(stateTimer, n.settleEnd)
	n.contest.began = now
	n.pardoned.step = math.MaxUint64 // none: the time before the first election is a silence too
	if cfg.HoldDown > 0 {
		n.timers.arm(holdTimer, now.Add(cfg.HoldDown))
	}
	if cfg.Part != Voter {
		n.state = Observe
		n.timers.disarm(stateTimer)
	}
	n.due = n.Deadline()
	return n, nil
}

// Step takes one event at the time now, which must not go backwards, and gives
// what to do, in order. The slice is valid until the next Step. Step never
// fails: an event that means nothing in this state is counted.
func (n *Node) Step(now time.Time, ev Event) []Effect {
	var dropped []Effect
	failure, isUnsaved := ev.(SaveFailed) // that one belongs to the step before
	if isUnsaved && failure.Step == n.steps {
		dropped = afterSave(n.out)
	}
	n.now, n.out = now, n.out[:0]
	n.steps++
	if !isUnsaved {
		n.expireTimers(beforeAll) // R13: before anything that a leader may do
	}
	n.out = append(n.out, dropped...)
	n.isOfNew = isOfNew(ev)
	before, by := n.saved.MaxCounter, n.source()
	n.forgiveLag() // R12
	n.expireTimers(beforeEvent)
	n.dispatch(ev)
	n.expireExchanges()
	n.expireTimers(afterEvent)
	n.renewDeadline()
	n.keepTether()
	n.horizon.noteRise(before, n.saved.MaxCounter, by, n.now)
	n.isOfNew = false
	n.due = n.Deadline()
	return n.out
}

// Deadline is when Step must be called with Tick if nothing happens before.
// The zero time means never.
func (n *Node) Deadline() time.Time {
	return earlier(n.timers.first(), n.exchanges.first())
}

// earlier gives the earlier of two times, of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

func (n *Node) dispatch(ev Event) {
	switch e := ev.(type) {
	case Tick:
	case Received:
		n.in = e.Frame
		n.onReceived(e.From, &n.in)
	case MemberChanged:
		n.onMemberChanged(e.Member)
	case LeaderReported:
		n.onLeaderReported(e.Epoch)
	case JoinEnded:
		n.onJoinEnded()
	case HealthChanged:
		n.health = min(max(e.Score, 0), 7)
	case TetherLost:
		n.onTetherLost(e)
	case Refused:
		n.onRefused(e)
	case HoldersChanged:
		n.onHoldersChanged(e)
	case Entrusted:
		n.commitment = e.Commitment
	case WillHeard:
		n.onWillHeard(e)
	case LinkChanged:
		n.onLinkChanged(e)
	case Barred:
		n.onBarred(e)
	case HostsChanged:
		n.onHostsChanged(e)
	case DiskTimed:
		n.onDiskTimed(e)
	case HookEnded:
		n.onHookEnded(e)
	case Command:
		n.onCommand(e)
	case SaveFailed:
		n.onSaveFailed(e)
	case SaveRecovered:
		n.onSaveRecovered()
	default:
		panic("BUG: unknown event " + ev.String())
	}
}

// silence is what a state's timers wait out: since the leader was last heard, and
// in one stay in a state.
type silence struct {
	since time.Time
	step  uint64
}

// forgiveLag obeys R12: a node that was frozen past its own deadline has frames
// waiting that it has not seen. It listens for one probe interval before it
// believes any silence; once for each, or a node whose timers are always late, for
// want of processor time, would believe in its leader for ever.
func (n *Node) forgiveLag() {
	lag := n.now.Sub(n.due)
	if n.due.IsZero() || lag <= max(50*time.Millisecond, n.cfg.Heartbeat/2) {
		return
	}
	n.count("frozen")
	n.thawedAt = n.now
	grace := n.now.Add(n.suspectTimeout() / 2)
	for _, x := range n.exchanges {
		if !x.isPardoned && x.nextAt.Before(grace) {
			x.nextAt, x.isPardoned = grace, true
		}
	}
	this := silence{since: n.lastFromLeader, step: n.enteredAt}
	if this == n.pardoned {
		return
	}
	n.pardoned = this
	for t, row := range timerTable {
		if row.isSilence {
			n.timers.putOff(timer(t), grace)
		}
	}
}

func (n *Node) emit(e Effect)     { n.out = append(n.out, e) }
func (n *Node) count(what string) { n.emit(Counted{what}) }

// save puts the whole state on disk before anything that follows in this step.
func (n *Node) save() {
	n.onDisk, n.unsaved = n.saved.MaxCounter, false
	n.emit(Save{State: n.saved, Step: n.steps})
}

// Status is a picture of a Node.
type Status struct {
	State    State
	Role     Role
	Cause    Cause
	Since    time.Time
	Leader   wire.ID // zero: nobody known
	Epoch    wire.Epoch
	Reign    wire.Epoch // own epoch whose lose hook is due; zero: none
	Lease    time.Time  // its end; a planned end of the leadership goes on renewing it; zero: none
	Acks     int        // how many others acknowledge this leader now
	NeedAcks int
	Isolated bool
	Suspect  time.Duration // T_s now
	Held     time.Time     // end of the hold-down after a step-down; zero: none
	Bars     Bars          // what keeps it from standing for election
	// Far is the member that may lead or vote whose round trip is the longest of those
	// beyond LongestRoundTrip; zero: none is. Trip is that round trip, L/2 at most.
	Far  wire.ID
	Trip time.Duration

	// Quorum mode; zero values in available mode.
	Roster  Roster
	Quorum  int       // how many voters are a majority
	Heard   []wire.ID // the voters that are heard, oneself included
	Outside bool      // the cluster has a roster and this node was never in one
	// Outdated: a leader with a newer roster is heard, and no voter of ours has
	// said that it hears it, too.
	Outdated bool
}

// Incarnation counts this node's lives.
func (n *Node) Incarnation() uint32 { return n.saved.Incarnation }

// Status gives a picture of the node as of its last Step.
func (n *Node) Status() Status {
	s := Status{State: n.state, Role: n.role(), Cause: n.cause, Since: n.since, Epoch: n.epoch, NeedAcks: n.needAcks(),
		Isolated: n.contest.isolated, Suspect: n.suspectTimeout(), Held: n.timers[holdTimer], Bars: n.bars()}
	n.describeQuorum(&s)
	s.Far, s.Trip = n.farthest()
	if n.leaderKnown {
		s.Leader = n.epoch.Owner
	}
	if n.state == Lead || n.state == Stopping {
		s.Reign = n.reign.epoch
	}
	if n.holdsLease() {
		s.Lease, s.Acks = n.leaseEnd(), n.ackCount()
	}
	return s
}

// takeoverEnd is when a leader that fell silent must have let go: it counts its
// lease from what it sent, this node from what it received. A voter may be bound to
// it for longer.
func (n *Node) takeoverEnd() time.Time {
	end := n.ownerActs
	if n.lastFromLeader.IsZero() {
		end = n.followedAt.Add(lease.WaitLength(n.claimLength()))
	}
	return later(end.Add(n.cfg.TakeoverDelay), n.boundUntil(n.epoch.Owner))
}
