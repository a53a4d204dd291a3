package jobframe

import (
	"testing"

	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/wire"
)

// A message is the same after its way as bytes, and the numbers of package jobs
// are those of package wire.
func TestMessagesSurviveTheirFrames(t *testing.T) {
	for kind, name := range map[jobs.MessageKind]string{jobs.ClaimMessage: "JOB_CLAIM", jobs.WitnessMessage: "JOB_WITNESS",
		jobs.RecordMessage: "JOB_RECORD", jobs.QueryMessage: "LEDGER_QUERY", jobs.PartMessage: "LEDGER_PART"} {
		if wire.Kind(kind).String() != name || kind.String() != name {
			t.Errorf("%d is called %v and %v, want %s", kind, wire.Kind(kind), kind, name)
		}
		sent := jobs.Message{Kind: kind, Epoch: 7, Owner: jobs.ID{1}, Round: 9}
		switch kind {
		case jobs.WitnessMessage:
			sent.Why = jobs.ReasonTaken
		case jobs.QueryMessage:
			sent.Digest, sent.Place = 1<<63+5, 3
		case jobs.PartMessage:
			sent.Digest, sent.Place, sent.Count = 1<<63+5, 3, 4
			fallthrough
		default:
			sent.Payload = string(make([]byte, jobs.MaxPayload))
		}
		var got wire.Frame
		f := Pack(&sent)
		f.Sender = wire.ID{2}
		if err := wire.Parse(wire.Append(nil, &f), &got); err != nil || Unpack(&got) != sent || got.Sender != f.Sender {
			t.Errorf("%v: arrives as %v, error %v", sent, Unpack(&got), err)
		}
	}
	if jobs.MaxPayload != wire.MaxPayload {
		t.Errorf("payloads have %d and %d bytes", jobs.MaxPayload, wire.MaxPayload)
	}
}
