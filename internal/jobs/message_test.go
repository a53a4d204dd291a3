package jobs

import (
	"testing"

	"github.com/bully-agent/bully-agent/wire"
)

// A message is the same after its way as bytes.
func TestMessagesSurviveTheirFrames(t *testing.T) {
	for kind := wire.JobClaim; kind <= wire.LedgerPart; kind++ {
		sent := Message{Kind: kind, Epoch: 7, Owner: wire.ID{1}, Round: 9}
		switch kind {
		case wire.JobWitness:
			sent.Why = ReasonTaken
		case wire.LedgerQuery:
			sent.Digest, sent.Place = 1<<63+5, 3
		case wire.LedgerPart:
			sent.Digest, sent.Place, sent.Count = 1<<63+5, 3, 4
			fallthrough
		default:
			sent.Payload = string(make([]byte, wire.MaxPayload))
		}
		var got wire.Frame
		f := sent.Frame()
		f.Sender = wire.ID{2}
		if err := wire.Parse(wire.Append(nil, &f), &got); err != nil || MessageOf(&got) != sent || got.Sender != f.Sender {
			t.Errorf("%v: arrives as %v, error %v", sent, MessageOf(&got), err)
		}
	}
}
