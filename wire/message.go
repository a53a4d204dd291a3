package wire

import "fmt"

// Kind says what a frame means, and so which body fields of Frame hold.
type Kind uint8

// The kinds of protocol 2.3, and from 20 on those of singleton jobs. 25–127 are
// unknown to this version and dropped; from 128 on they are optional extensions:
// whoever does not know one ignores it.
const (
	Election    Kind = 1  // starter → those it challenges: may I?
	Answer      Kind = 2  // the reply to Election and Canvass
	Coordinator Kind = 3  // owner of an epoch → all: I claim, or hold, this epoch
	CoordAck    Kind = 4  // the reply to Coordinator
	Query       Kind = 5  // joiner: who leads?
	Cid         Kind = 6  // the reply to Query
	Heartbeat   Kind = 7  // leader → all, every heartbeat interval
	HeartAck    Kind = 8  // the reply to Heartbeat
	Nominate    Kind = 9  // starter → the winner it found: you lead
	Resign      Kind = 10 // former leader: this epoch has ended
	ResignAck   Kind = 11 // the reply to Resign
	Probe       Kind = 12 // anyone: are you there, and how old is your heartbeat?
	ProbeAck    Kind = 13 // the reply to Probe
	Prepare     Kind = 14 // leader → successor: get ready to take over
	Ready       Kind = 15 // the reply to Prepare
	Leave       Kind = 16 // own departure: id and incarnation are the header's
	Roster      Kind = 17 // proposer or leader → voters: who may vote
	RosterAck   Kind = 18 // the reply to Roster
	Canvass     Kind = 19 // claimant → voters: would you grant me an epoch now?

	JobClaim    Kind = 20 // leader → voters: witness that I run this slot
	JobWitness  Kind = 21 // the reply to JobClaim
	JobRecord   Kind = 22 // anyone → all: what has become of a run, or of a job
	LedgerQuery Kind = 23 // new leader → the others: what do you know about runs?
	LedgerPart  Kind = 24 // the reply to LedgerQuery

	kindOptional Kind = 128 // first number that may be ignored

	Clients Kind = 128 // leader → followers: who is connected to what it has

	kindEnd Kind = 129 // first number above all that have a meaning
)

var kindNames = [...]string{
	Election: "ELECTION", Answer: "ANSWER", Coordinator: "COORDINATOR", CoordAck: "COORD_ACK",
	Query: "QUERY", Cid: "CID", Heartbeat: "HEARTBEAT", HeartAck: "HB_ACK", Nominate: "NOMINATE",
	Resign: "RESIGN", ResignAck: "RESIGN_ACK", Probe: "PROBE", ProbeAck: "PROBE_ACK",
	Prepare: "PREPARE", Ready: "READY", Leave: "LEAVE", Roster: "ROSTER", RosterAck: "ROSTER_ACK", Canvass: "CANVASS",
	JobClaim: "JOB_CLAIM", JobWitness: "JOB_WITNESS", JobRecord: "JOB_RECORD",
	LedgerQuery: "LEDGER_QUERY", LedgerPart: "LEDGER_PART",
	Clients: "CLIENTS",
}

// String gives the message's name as the protocol text writes it.
func (k Kind) String() string { return nameOf(kindNames[:], int(k), "KIND") }

// Algo packs what all members must agree on to understand each other.
type Algo uint8

// Algorithm numbers (low four bits) and the switches above them.
const (
	Classic  Algo = 1
	Enhanced Algo = 2
	Smallest Algo = 3

	AlgoLowest Algo = 0x10 // the lowest rank leads
	AlgoQuorum Algo = 0x20 // leases come from a majority
	AlgoSticky Algo = 0x40 // a live leader is never displaced
	AlgoPaper  Algo = 0x80 // the papers' conventions, simulator only
)

// Flags are one-bit facts about a frame.
type Flags uint8

// The flags of protocol 8.
const (
	AckReq   Flags = 1 << 0 // the sender wants the reply that the kind defines
	Retx     Flags = 1 << 1 // a repetition, with a seq of its own
	Hop      Flags = 1 << 3 // forwarded once already, or announced by proxy
	Draining Flags = 1 << 4 // the sender cannot lead
	Active   Flags = 1 << 5 // the sender's leadership is in force, not only claimed
	Fresh    Flags = 1 << 6 // the sender heard the epoch's owner within its suspect timeout
	Wait     Flags = 1 << 7 // of COORDINATOR and HEARTBEAT: should my process die, wait for my will, or for the lease

	reserved Flags = 1 << 2 // sent zero, ignored
)

// Reason says why a round, a nomination or a resignation came about.
type Reason uint8

// The reasons of ELECTION, CANVASS, NOMINATE and RESIGN.
const (
	LeaderFailed Reason = 1
	Boot         Reason = 2
	Preempt      Reason = 3
	NoLeader     Reason = 4
	Transfer     Reason = 5
	Abandoned    Reason = 6 // RESIGN only: a claim that never became a leadership
	LeaseLost    Reason = 7 // RESIGN only: the leader lost its lease
	Superseded   Reason = 8 // RESIGN only: a higher epoch appeared
)

var reasonNames = [...]string{1: "leader-failed", "boot", "preempt", "no-leader", "transfer", "abandoned", "lease-lost", "superseded"}

// String gives the reason's word in logs and transcripts.
func (r Reason) String() string { return nameOf(reasonNames[:], int(r), "reason") }

// Verdict is the content of ANSWER.
type Verdict uint8

// The verdicts of ANSWER.
const (
	OK          Verdict = 0 // I outrank you; ETA says when I shall have announced, 0 (enhanced, smallest): name me
	LeaderAlive Verdict = 1 // there is a leader: the epoch of this frame
	Yes         Verdict = 2 // to CANVASS: I would grant you now
	Leased      Verdict = 3 // to CANVASS: my promise to another still runs
	Stale       Verdict = 4 // your epoch is behind the one of this frame
	Hold        Verdict = 5 // I restarted and keep silent until my old promises ended
	Ineligible  Verdict = 6 // I cannot lead; do not wait for me
)

var verdictNames = [...]string{"ok", "leader-alive", "yes", "leased", "stale", "hold", "ineligible"}

// String gives the verdict's word in logs and transcripts.
func (v Verdict) String() string { return nameOf(verdictNames[:], int(v), "verdict") }

// AckVerdict is the content of COORD_ACK.
type AckVerdict uint8

// The verdicts of COORD_ACK.
const (
	Accept    AckVerdict = 0 // I follow you; in quorum mode: granted
	AckStale  AckVerdict = 1 // I know a higher epoch: the one of this frame
	AckLeased AckVerdict = 2 // my promise to another runs for Remain
	AckHold   AckVerdict = 3 // I am mute for Remain after a restart
	NotVoter  AckVerdict = 4 // one of us is not in the other's roster
)

var ackVerdictNames = [...]string{"accept", "stale", "leased", "hold", "not-voter"}

// String gives the verdict's word in logs and transcripts.
func (v AckVerdict) String() string { return nameOf(ackVerdictNames[:], int(v), "verdict") }

// Phase tells an announced claim from a leadership in force.
type Phase uint8

// The phases of COORDINATOR; those of ROSTER are below.
const (
	Claim   Phase = 1
	InForce Phase = 2
)

var phaseNames = [...]string{1: "claim", "active"}

// String gives the word for a phase of COORDINATOR in logs and transcripts.
func (p Phase) String() string { return nameOf(phaseNames[:], int(p), "phase") }

// The phases of ROSTER: a first roster is proposed until all its voters have it
// on disk, and formed from then on.
const (
	Proposed Phase = 1
	Formed   Phase = 2
)

var rosterPhaseNames = [...]string{1: "proposed", "formed"}

// MaxPayload is the most bytes of a Payload.
const MaxPayload = 1100

// MaxVoters bounds a roster: majorities beyond that make a group slower, not safer.
const MaxVoters = 15

// Knowledge is the content of CID: what the sender knows of a leader.
type Knowledge uint8

// The states of CID.
const (
	KnowsNone Knowledge = 0
	Knows     Knowledge = 1
	Leads     Knowledge = 2
)

var knowledgeNames = [...]string{"none", "knows", "leads"}

// String gives the state's word in logs and transcripts.
func (k Knowledge) String() string { return nameOf(knowledgeNames[:], int(k), "knowledge") }

// Purpose says what a PROBE is for.
type Purpose uint8

// The purposes of PROBE.
const (
	AskLeader  Purpose = 0 // sent to a silent leader: are you there?
	AskOpinion Purpose = 1 // sent to others: how old is your heartbeat?
)

var purposeNames = [...]string{"leader", "opinion"}

// String gives the purpose's word in logs and transcripts.
func (p Purpose) String() string { return nameOf(purposeNames[:], int(p), "purpose") }

// Standing is what a PROBE_ACK says of its sender's role.
type Standing uint8

// The standings of PROBE_ACK.
const (
	Starting  Standing = 0
	Following Standing = 1
	Candidate Standing = 2 // stands for election
	Leading   Standing = 3
	Stopping  Standing = 4 // was leader, its lose hook still runs
	Observing Standing = 5
)

var standingNames = [...]string{"starting", "following", "candidate", "leading", "stopping", "observing"}

// String gives the standing's word in logs and transcripts.
func (s Standing) String() string { return nameOf(standingNames[:], int(s), "standing") }

// AgeUnknown is the age that means "never": ages and spans on the wire are whole
// milliseconds in 32 bits, 49 days of them, and saturate here. Every setting fits.
const AgeUnknown uint32 = 1<<32 - 1

// KnowsNoRoster in AckFlags: the sender could vote and was never in a roster.
const KnowsNoRoster uint8 = 1

// RosterBehind in AckFlags: the sender's roster is older than the heartbeat's.
const RosterBehind uint8 = 2

// OutOfRoster in AckFlags: the sender could vote, and the roster on its disk leaves it out.
const OutOfRoster uint8 = 4

// Frame is one message with its header, a flat value. Kind says which of the
// body fields hold; the others are zero.
// Cluster, ConfigHash, Sender … Priority are in every frame.
type Frame struct {
	Minor      uint8 // minor version of the sender; set by Parse, ignored by Append
	Kind       Kind
	Algo       Algo
	Flags      Flags
	Cluster    uint32 // ClusterHash of the cluster's name
	ConfigHash uint32 // over what all members must agree on
	Sender     ID
	// Incarnation counts the sender's lives, Nonce is random for each: together
	// they tell a restart from a clone (R2).
	Incarnation uint32
	Nonce       uint32
	Seq         uint32 // unique for each transmission to this destination, also of a repetition
	Round       uint32 // the originator's round; replies echo it
	Epoch       Epoch
	Priority    uint16 // the sender's

	Reason        Reason        // ELECTION, CANVASS, NOMINATE, RESIGN
	Attempt       uint8         // ELECTION, CANVASS, ANSWER: 0 at first, echoed
	HeartbeatAge  uint32        // ELECTION, CANVASS, ANSWER, CID, PROBE_ACK: ms since the sender heard its leader
	FailedCounter uint64        // ELECTION: counter of the epoch whose owner is believed dead
	Verdict       Verdict       // ANSWER
	ETA           uint32        // ANSWER: ms until the sender expects to have announced
	EchoSeq       uint32        // ANSWER, COORD_ACK, HB_ACK, RESIGN_ACK, PROBE_ACK, READY, ROSTER_ACK: Seq of the request
	Phase         Phase         // COORDINATOR, ROSTER
	Lease         uint32        // COORDINATOR, HEARTBEAT: the sender's lease length, ms
	RosterVersion uint32        // COORDINATOR, HEARTBEAT, ROSTER, ROSTER_ACK, CANVASS: version of the roster
	AckVerdict    AckVerdict    // COORD_ACK, ROSTER_ACK
	Remain        uint32        // COORD_ACK, CID: ms that a lease or promise still runs
	Knowledge     Knowledge     // CID
	Interval      uint32        // HEARTBEAT: ms to the next one
	Late          uint32        // HEARTBEAT: ms since it was sent first; 0 unless it is a repetition
	Will          WillHash      // COORDINATOR, HEARTBEAT: of the secret that the sender's keeper says at its end
	AckFlags      uint8         // HB_ACK: what the sender says of its roster, see KnowsNoRoster
	Successor     ID            // RESIGN: who shall claim at once; zero for nobody
	Purpose       Purpose       // PROBE
	Standing      Standing      // PROBE_ACK
	IsReady       bool          // READY: the sender can take over
	Count         uint8         // ROSTER: how many of Voters hold
	Voters        [MaxVoters]ID // ROSTER: in the order of their ids; only Count of them are sent
	Why           uint8         // JOB_WITNESS: why not, package jobs' Reason; 0: it is witnessed
	Digest        uint64        // LEDGER_QUERY, LEDGER_PART: of the sender's ledger
	Place         uint16        // LEDGER_QUERY, LEDGER_PART, CLIENTS: which part, from 0
	Parts         uint16        // LEDGER_PART, CLIENTS: how many the sender has; of LEDGER_PART 0: it has the same as the asker
	Payload       string        // JOB_CLAIM, JOB_RECORD, LEDGER_PART: package jobs' bytes; CLIENTS: package agent's. At most MaxPayload
}

func nameOf(names []string, i int, what string) string {
	if i < len(names) && names[i] != "" {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", what, i)
}
