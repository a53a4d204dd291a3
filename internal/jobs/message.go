package jobs

import (
	"fmt"

	"github.com/bully-agent/bully-agent/wire"
)

// Message is what hosts say to each other about jobs: the body of one frame.
// Its fields are those of wire.Frame with the same meaning; Kind says which
// hold.
type Message struct {
	Kind wire.Kind
	// Epoch and Owner name the leadership that claims or asks; replies echo
	// them, and Round, which numbers the claims and questions of one leadership.
	Epoch uint64
	Owner wire.ID
	Round uint32

	Why     Reason // Witness
	Digest  uint64 // Query: of the sender's ledger, if it asks for part 0; Part: of the sender's
	Place   uint16 // Query, Part: from 0
	Count   uint16 // Part: parts of the sender's ledger
	Payload string // Claim: Claim.Append; Record, Part: a Ledger's bytes
}

// Frame puts a message into a frame, of which it sets the message's fields alone:
// those of its sender and its cluster are election.Node's to stamp.
func (m *Message) Frame() wire.Frame {
	return wire.Frame{Kind: m.Kind, Epoch: wire.Epoch{Counter: m.Epoch, Owner: m.Owner}, Round: m.Round,
		Why: uint8(m.Why), Digest: m.Digest, Place: m.Place, Parts: m.Count, Payload: m.Payload}
}

// MessageOf takes a message out of a frame about jobs.
func MessageOf(f *wire.Frame) Message {
	return Message{Kind: f.Kind, Epoch: f.Epoch.Counter, Owner: f.Epoch.Owner, Round: f.Round,
		Why: Reason(f.Why), Digest: f.Digest, Place: f.Place, Count: f.Parts, Payload: f.Payload}
}

// String gives one line.
func (m Message) String() string {
	s := fmt.Sprintf("%v epoch=%d/%s round=%d", m.Kind, m.Epoch, m.Owner.Short(), m.Round)
	switch m.Kind {
	case wire.JobWitness:
		s += " why=" + m.Why.String()
	case wire.LedgerQuery:
		s += fmt.Sprintf(" place=%d", m.Place)
	case wire.LedgerPart:
		s += fmt.Sprintf(" place=%d of %d", m.Place, m.Count)
	}
	return s
}
