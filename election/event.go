package election

import (
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Event is what Step takes. Events are small values; each has one line of text.
type Event interface {
	String() string
	event()
}

// Tick says only that time has passed: a deadline may be due.
type Tick struct{}

// Received brings one valid frame. From is the datagram's source. IsNew: the port counts its sender among those that are new, of
// which there may be any number (S1).
type Received struct {
	From  netip.AddrPort
	Frame wire.Frame
	IsNew bool
}

// MemberChanged brings what the failure detector now believes of a member.
type MemberChanged struct{ Member Member }

// LeaderReported brings an epoch that somebody else believes in, by gossip. It
// is second-hand: it tells a joiner whom to expect, and never that a leader lives.
type LeaderReported struct{ Epoch wire.Epoch }

// JoinEnded says that the first join of this life has an outcome: somebody was met, or
// nobody is where this host has looked.
type JoinEnded struct{}

// HealthChanged brings the failure detector's own health score, 0 (best) to 7.
// A host in poor health is slower to suspect others.
type HealthChanged struct{ Score int }

// HookEnded says that the leadership hook asked for by StartHook has ended, or
// will never run. OK is false when it failed.
type HookEnded struct {
	Hook  Hook
	Epoch wire.Epoch
	OK    bool
}

// Verb is what a Command asks for.
type Verb uint8

// The verbs of Command.
const (
	// Leave: hand over if leading, announce the departure, take no further part.
	Leave Verb = iota + 1
	// Reprioritise: take Priority as one's own from now on.
	Reprioritise
	// StepDown: a leader hands over to the best other, and does not stand again
	// for the span For (hold-down).
	StepDown
	// HandOver: a leader hands over to the member To.
	HandOver
	// Forget: a leader takes the voter To out of the roster (quorum mode).
	Forget
	// Abdicate: a leader ends its leadership at once, whoever follows: what it
	// stands for has been released already.
	Abdicate
	// Stand: a hold-down ends now.
	Stand
	// Maintain: the node has BarMaintenance from now on. A leader hands over first.
	Maintain
)

// Command is a wish of the operator, or of the agent. Exactly one Reply with its Token follows.
type Command struct {
	Verb     Verb
	Priority uint16        // Reprioritise
	To       wire.ID       // HandOver, Forget
	Force    bool          // Forget: a voter that is alive too; Maintain: though nobody else can lead
	For      time.Duration // StepDown; zero: the lease
	Cause    Cause         // StepDown, Abdicate; empty: stepped-down
	Token    uint64
}

// TetherLost says that the stream to a member's port ended with FIN or RST and
// that dialling again was refused: nothing listens there any more (E1).
type TetherLost struct {
	ID    wire.ID
	Nonce uint32 // of the life that the tether was made to
}

// Refused says that a datagram to a member's port was answered by its host with
// "port unreachable" (E7), after its stream was lost.
type Refused struct {
	ID    wire.ID
	Nonce uint32
}

// HoldersChanged says whether something beside the hooks acts on the strength of this
// leadership, and has to end before another begins: whoever borrowed the lease, or a
// job that runs.
type HoldersChanged struct{ Some bool }

// Entrusted says that the keeper holds the secret of this commitment, and will say it if
// this process dies. The zero Commitment says that no keeper holds one. Before that no
// frame announces a will.
type Entrusted struct{ Commitment wire.Commitment }

// WillHeard says that somebody has said the secret of this commitment: the process that
// had pledged it is dead. Nobody but its keeper can have said it first, so it does not
// matter who did.
type WillHeard struct{ Commitment wire.Commitment }

// LinkChanged says that this host's own link or address went, or came back.
type LinkChanged struct{ Up bool }

// Barred says that the agent has found a reason for which this node shall not stand,
// or that it is gone: BarCheck, BarMaintenance or BarListed.
type Barred struct {
	Bar Bar
	On  bool
}

// HostsChanged says that this host has another list: who may be a member. It has this host itself. IDs are sorted, and not changed
// afterwards; none: there is no list. Digest is what members with the same list say.
type HostsChanged struct {
	IDs    []wire.ID
	Digest uint64
}

// DiskTimed says how long a Save took. Claims allow for slow disks (M10).
type DiskTimed struct{ Took time.Duration }

// SaveFailed says that the Save of State did not reach the disk; the effects
// that came after it in its step were not carried out. Step is the Save's, and the
// step before this one; 0 where something else failed that must be on disk before
// this node may go on leading.
type SaveFailed struct {
	State Saved
	Step  uint64
}

// SaveRecovered says that the disk takes writes again.
type SaveRecovered struct{}

func (Tick) event()           {}
func (Received) event()       {}
func (MemberChanged) event()  {}
func (LeaderReported) event() {}
func (JoinEnded) event()      {}
func (HealthChanged) event()  {}
func (HookEnded) event()      {}
func (Command) event()        {}
func (TetherLost) event()     {}
func (Refused) event()        {}
func (HoldersChanged) event() {}
func (Entrusted) event()      {}
func (WillHeard) event()      {}
func (LinkChanged) event()    {}
func (Barred) event()         {}
func (HostsChanged) event()   {}
func (DiskTimed) event()      {}
func (SaveFailed) event()     {}
func (SaveRecovered) event()  {}

// Presence is what the failure detector says of a member.
type Presence uint8

// The presences of a Member, in memberlist's words.
const (
	Alive Presence = iota + 1
	Dead
	Left
)

// Part is the part that a member takes in elections.
type Part uint8

// The parts: a voter votes and leads, a witness only votes, an observer does neither.
const (
	Voter Part = iota
	Witness
	Observer
)

// Member is a participant as the failure detector describes it.
type Member struct {
	ID          wire.ID
	Addr        netip.AddrPort
	Incarnation uint32
	Nonce       uint32
	Priority    uint16
	Part        Part
	Draining    bool
	Status      Presence
	RTT         time.Duration // of the detector's last ping; 0 is unknown
	List        uint64        // digest of its host list, as it says; 0 is none
}
