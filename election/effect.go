package election

import (
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/wire"
)

// Effect is what Step gives. Effects come in the order in which they must
// happen, and each has one line of text.
type Effect interface {
	String() string
	effect()
}

// Saved is the state that outlives the process (protocol 2.2). The epoch
// counter in it never decreases.
type Saved struct {
	// Incarnation counts this node's lives; each start adds one.
	Incarnation uint32
	// MaxCounter is the highest epoch counter seen or made.
	//
	// Invariant: it is on disk before a frame, a hook or a status shows a
	// counter of our own making that is as high.
	MaxCounter uint64
	// Accepted is the highest epoch that this node followed or led in.
	//
	// Invariant: it is on disk, here or as Vote, before anything shows that it
	// is accepted, so that no later life follows a lower one (I6).
	Accepted wire.Epoch
	// Promoted is the epoch whose become hook may have run and whose lose hook
	// has not ended: what an unclean restart must clean up after.
	Promoted wire.Epoch
	// Vote is the last epoch that this voter granted (quorum mode).
	//
	// Invariant: it is on disk before the grant is sent, so that no restart lets
	// a voter grant one counter to two owners (I4).
	Vote wire.Epoch
	// LongestPromise is the longest promise that may still run, with the
	// takeover_delay that it was made with: a restarted voter keeps silent for as
	// long, since it no longer knows to whom it made one (M5).
	LongestPromise time.Duration
	// Roster is who may vote, as this node knows it (quorum mode).
	Roster Roster
}

// Roster is the set of voters of quorum mode.
type Roster = quorum.Roster

// Save must be synced to disk before the effects that follow it. If it fails,
// those are dropped and SaveFailed comes back.
type Save struct {
	State Saved
	Step  uint64 // which asks for it
}

// Send hands one frame to the network; it may be lost.
type Send struct {
	To    netip.AddrPort
	Frame wire.Frame
}

// Transition reports a new state, leader or epoch, with its Cause.
type Transition struct {
	From, To State
	Role     Role
	Leader   wire.ID // zero: nobody known
	Epoch    wire.Epoch
	Cause    Cause
}

// Hook is one of the two hooks that follow leadership.
type Hook uint8

// The leadership hooks.
const (
	Become Hook = iota + 1
	Lose
)

// StartHook queues a leadership hook. HookEnded answers it, exactly once.
type StartHook struct {
	Hook  Hook
	Epoch wire.Epoch
	Cause Cause
	// By is when the hook and its children are gone, killing included; zero leaves
	// the hook its own timeout. It is set when leadership was lost rather than
	// given up: others may take over then. An instant, since the process that takes
	// this effect may be stopped before it does (M7).
	By time.Time
}

// HurryHook says that the lease was lost while the lose hook of a planned end
// still runs: it and its children are now gone at By, killing included; zero leaves
// it as it is (M7).
type HurryHook struct {
	Epoch wire.Epoch
	By    time.Time
}

// StopHook says that an epoch has ended: its become hook is killed if it runs
// and never started if it has not.
type StopHook struct{ Epoch wire.Epoch }

// LeaseUntil says how long this node may act as leader unless it hears more.
// The zero Deadline means that it does not lead.
type LeaseUntil struct{ Deadline time.Time }

// Reply answers the Command with the same Token. A nil Err is success.
type Reply struct {
	Token uint64
	Err   error
}

// Departed says that a member announced its own departure: its coming silence
// is no failure.
type Departed struct {
	ID                 wire.ID
	Incarnation, Nonce uint32 // of its life
}

// Tether asks for a stream to the leader's port, so that the end of its process
// is known at once; one tether replaces the one before. The zero ID wants none.
type Tether struct {
	ID    wire.ID
	Nonce uint32 // of the leader's life: what is reported of another life means nothing
	Addr  netip.AddrPort
}

// Will is whom the keeper tells its secret if this process dies, and replaces the will
// before. It goes out only when the process is dead for certain, a silent one may wake;
// when all that ran for the leadership has ended, the lose hook last and with success;
// and when nobody is left who was told until when the lease lasts (M24). To nobody:
// there is none.
type Will struct {
	Epoch wire.Epoch
	To    []netip.AddrPort
}

// Reached says that a member acknowledges this leadership for the first time, and not at its beginning (M41): the
// network was torn, say. Where that member is, neighbours may have learnt another host.
type Reached struct{ ID wire.ID }

// Counted reports something odd, for a counter; never more than that.
type Counted struct{ What string }

func (Save) effect()       {}
func (Send) effect()       {}
func (Transition) effect() {}
func (StartHook) effect()  {}
func (HurryHook) effect()  {}
func (StopHook) effect()   {}
func (LeaseUntil) effect() {}
func (Reply) effect()      {}
func (Departed) effect()   {}
func (Tether) effect()     {}
func (Will) effect()       {}
func (Reached) effect()    {}
func (Counted) effect()    {}

// Cause is the typed reason of a transition: the same word in logs, metrics,
// hooks' environment and transcripts.
type Cause string

// The causes.
const (
	Boot             Cause = "boot"              // first election after the start
	HeardLeader      Cause = "heard-leader"      // a leader's own frame
	ToldOfLeader     Cause = "told-of-leader"    // somebody else's word, to be confirmed
	LeaderSilent     Cause = "leader-silent"     // no heartbeat within the suspect timeout
	LeaderFailed     Cause = "leader-failed"     // silence confirmed by probes and peers
	LeaderRestarted  Cause = "leader-restarted"  // a new life of the leader, without its leadership
	LeaderLeft       Cause = "leader-left"       // the leader announced its departure
	LeaderResigned   Cause = "leader-resigned"   // RESIGN without a successor we know
	HandedOver       Cause = "handed-over"       // RESIGN names the successor
	PeersHearLeader  Cause = "peers-hear-leader" // the silence is ours alone
	Challenged       Cause = "challenged"        // a worse node's ELECTION
	NoAnswer         Cause = "no-answer"         // nobody better is there
	Nominated        Cause = "nominated"         // a starter found us the best that answers
	AwaitingBetter   Cause = "awaiting-better"   // a better node answered and should announce itself
	BetterSilent     Cause = "better-silent"     // it did not
	ClaimUnheard     Cause = "claim-unheard"     // too few acknowledged the claim in time
	ClaimStale       Cause = "claim-stale"       // somebody knows a higher epoch
	Isolated         Cause = "isolated"          // nobody hears us, though others should be alive
	LeaseExpired     Cause = "lease-expired"     // too few acknowledged in time
	Superseded       Cause = "superseded"        // another leader has a higher epoch
	ReMinted         Cause = "re-minted"         // a higher epoch is known but nobody leads it
	Preempted        Cause = "preempted"         // given up in favour of a better node
	Stopped          Cause = "stopped"           // the operator stopped this agent
	DiskFailed       Cause = "disk-failed"       // the state file takes no writes
	DiskRecovered    Cause = "disk-recovered"    // it does again
	TooFewMembers    Cause = "too-few-members"   // fewer than min_members are present
	ProcessGone      Cause = "process-gone"      // the leader's process ended: its port refuses connections, or its will came
	LinkLost         Cause = "link-lost"         // our own network link is down
	LinkBack         Cause = "link-back"         // it is up again
	SteppedDown      Cause = "stepped-down"      // the operator asked the leader to step down
	CheckFailed      Cause = "check-failed"      // a check of this host fails
	ChecksPass       Cause = "checks-pass"       // none does any more
	Maintenance      Cause = "maintenance"       // the operator works on this host
	MaintenanceEnded Cause = "maintenance-ended" // no longer
	NotListed        Cause = "not-listed"        // the host list of another host, or ours, does not have it
	ListedAgain      Cause = "listed-again"      // it has
	HookFailed       Cause = "hook-failed"       // the become-leader hook failed, so the leader stepped down
	ResourceFailed   Cause = "resource-failed"   // what the leader is to have did not begin, or was lost, so the leader stepped down
	AgentFrozen      Cause = "agent-frozen"      // past its lease: its guard has run the lose-leadership hook
	HoldEnded        Cause = "hold-ended"        // the time after a step-down has ended, or was ended
	NoQuorum         Cause = "no-quorum"         // fewer than a majority of the voters would grant
	Promised         Cause = "promised"          // voters are still bound to another by their promises
	NoRoster         Cause = "no-roster"         // the expected voters have not all been seen yet
	UncleanRestarted Cause = "unclean-restart"   // the last life ended while it led
)
