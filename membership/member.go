package membership

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

// Status says how a member stands, as far as its sessions and its own
// announcements tell. A member that is asked whether it lives is still Alive.
type Status uint8

// The statuses.
const (
	Alive Status = iota
	Dead         // stopped answering without a word
	Left         // announced its departure
	Told         // others tell of it: it has not shown itself to this host
)

// String gives memberlist's word.
func (s Status) String() string { return word(int(s), "alive", "dead", "left", "told") }

// Role says what a member may do.
type Role uint8

// The roles.
const (
	Voter    Role = iota // leads and votes
	Witness              // votes, never leads
	Observer             // neither
)

// String gives the role's word in configuration and logs.
func (r Role) String() string { return word(int(r), "voter", "witness", "observer") }

// Member is one life of a participant: what it says of itself on its card, and what its session proves.
type Member struct {
	ID   wire.ID
	Name string         // the host's label, as CheckName has it: safe in logs, terminals and hooks
	Addr netip.AddrPort // where gossip and election frames go to

	// Incarnation counts the lives of ID, Nonce is random for each. A life is
	// named by both; they tell a restart from a clone (R2).
	Incarnation, Nonce uint32

	Priority          uint16
	Role              Role
	Draining, Leaving bool            // cannot lead; is about to leave
	InMaintenance     bool            // an operator is at work on it
	Reason            string          // of that, in the operator's words: see CheckReason; empty: none was given
	WireMin, WireMax  uint8           // major versions of the election protocol that it speaks
	ConfigHash        uint32          // over what all members must agree on
	Settings          string          // the same in words, see election.Config.Describe; at most MaxSettings bytes
	Settled           bool            // has followed a leader or led, in this life
	Jobs              uint64          // digest of its singleton jobs, which should be the same everywhere; 0: none
	List              identity.Digest // of its host list, as it says in its session
	Status            Status
	Relayed           bool          // Known only: dead for this host, which it does not answer, while others reach it
	RTT               time.Duration // of its session's handshake; 0 = unknown
}

// String names the member for logs and tests.
func (m Member) String() string {
	return fmt.Sprintf("%s (%s#%d at %s, %s)", m.Name, m.ID.Short(), m.Incarnation, m.Addr, m.Status)
}

// sameLife tells one process from a restart or a clone of it.
func sameLife(a, b Member) bool { return a.ID == b.ID && a.Nonce == b.Nonce }

// EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	Joined         EventKind = iota // a life appeared, or came back
	Updated                         // it says something else of itself now
	Failed                          // it stopped answering, or a newer life took its place without a word
	Departed                        // it announced that it leaves, and is gone or as good as gone: its Status is Left
	LeaderReported                  // another agent knows a newer leader record than we do
	LedgerReceived                  // another agent told its ledger of jobs
	JoinEnded                       // the first join has an outcome: a member was met, or nobody is where this host has looked
)

// String gives the kind's word in logs.
func (k EventKind) String() string {
	return word(int(k), "joined", "updated", "failed", "left", "leader-reported", "ledger-received", "join-ended")
}

// Event is one difference since the events before.
type Event struct {
	Kind   EventKind
	Member Member     // zero for LeaderReported, LedgerReceived and JoinEnded
	Leader wire.Epoch // LeaderReported only: the newest record heard
	Ledger []byte     // LedgerReceived only: as SetLedger was given it there, and not checked here
}

// String gives the event in one line.
func (e Event) String() string {
	switch e.Kind {
	case LeaderReported:
		return fmt.Sprintf("%s %s", e.Kind, e.Leader)
	case LedgerReceived:
		return fmt.Sprintf("%s bytes=%d", e.Kind, len(e.Ledger))
	case JoinEnded:
		return e.Kind.String()
	}
	return fmt.Sprintf("%s %s", e.Kind, e.Member)
}

func word(i int, words ...string) string {
	if i < len(words) {
		return words[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}
