// Package jobframe puts what hosts say about jobs into the frames of package wire
// and takes it out again, for the agent and the simulator alike. The fields that
// every frame has, of its sender and its cluster, are theirs.
package jobframe

import (
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/wire"
)

// Pack puts a message into a frame, of which it sets the message's fields alone.
func Pack(m *jobs.Message) wire.Frame {
	return wire.Frame{Kind: wire.Kind(m.Kind), Epoch: wire.Epoch{Counter: m.Epoch, Owner: wire.ID(m.Owner)}, Round: m.Round,
		Why: uint8(m.Why), Digest: m.Digest, Place: m.Place, Parts: m.Count, Payload: m.Payload}
}

// Unpack takes it out again.
func Unpack(f *wire.Frame) jobs.Message {
	return jobs.Message{Kind: jobs.MessageKind(f.Kind), Epoch: f.Epoch.Counter, Owner: jobs.ID(f.Epoch.Owner), Round: f.Round,
		Why: jobs.Reason(f.Why), Digest: f.Digest, Place: f.Place, Count: f.Parts, Payload: f.Payload}
}
