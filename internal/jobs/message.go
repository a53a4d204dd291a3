package jobs

import "fmt"

// MessageKind is a message's number, that of package wire's Kind.
type MessageKind uint8

// The messages.
const (
	ClaimMessage   MessageKind = 20 // leader → voters: witness this claim
	WitnessMessage MessageKind = 21 // the reply: Why is ReasonNone if it is on disk, else why not
	RecordMessage  MessageKind = 22 // anyone → all: what has become of a run, or of a job's pause
	QueryMessage   MessageKind = 23 // new leader → the others: what do you know? Part Place, please
	PartMessage    MessageKind = 24 // the reply: part Place of Count; Count 0: the same as you
)

// MaxPayload is the most bytes of a Message's Payload: what a frame carries.
const MaxPayload = 1100

var messageWords = [...]string{ClaimMessage: "JOB_CLAIM", WitnessMessage: "JOB_WITNESS", RecordMessage: "JOB_RECORD",
	QueryMessage: "LEDGER_QUERY", PartMessage: "LEDGER_PART"}

// String gives the message's name as package wire writes it.
func (k MessageKind) String() string { return wordOf(messageWords[:], int(k)) }

// Message is what hosts say to each other about jobs: the body of one frame.
// Its fields are those of wire.Frame with the same meaning; Kind says which
// hold.
type Message struct {
	Kind MessageKind
	// Epoch and Owner name the leadership that claims or asks; replies echo
	// them, and Round, which numbers the claims and questions of one leadership.
	Epoch uint64
	Owner ID
	Round uint32

	Why     Reason // Witness
	Digest  uint64 // Query: of the sender's ledger, if it asks for part 0; Part: of the sender's
	Place   uint16 // Query, Part: from 0
	Count   uint16 // Part: parts of the sender's ledger
	Payload string // Claim: Claim.Append; Record, Part: a Ledger's bytes
}

// String gives one line.
func (m Message) String() string {
	s := fmt.Sprintf("%v epoch=%d/%s round=%d", m.Kind, m.Epoch, m.Owner.Short(), m.Round)
	switch m.Kind {
	case WitnessMessage:
		s += " why=" + m.Why.String()
	case QueryMessage:
		s += fmt.Sprintf(" place=%d", m.Place)
	case PartMessage:
		s += fmt.Sprintf(" place=%d of %d", m.Place, m.Count)
	}
	return s
}
