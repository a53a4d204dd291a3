package membership

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/bully-agent/bully-agent/wire"
)

// The leader record travels in memberlist's push/pull state and in the payload
// of its ping acknowledgements, so that a joiner usually needs no election
// message to know whom to follow (protocol 6.3). It is a hint: the election
// believes a leader only first-hand.
//
//	0   1  version = 1
//	1   8  counter, big endian, at most wire.MaxCounter
//	9  16  owner
//
// 25 bytes, below the 64 that a ping should carry at most (P17).
const (
	recordVersion = 1
	recordSize    = 25
)

// appendRecord encodes e; the zero Epoch is no bytes at all.
func appendRecord(b []byte, e wire.Epoch) []byte {
	if e.IsZero() {
		return b
	}
	b = append(b, recordVersion)
	b = binary.BigEndian.AppendUint64(b, e.Counter)
	return append(b, e.Owner[:]...)
}

// parseRecord is the inverse of appendRecord, but never gives the zero Epoch.
func parseRecord(b []byte) (wire.Epoch, error) {
	if len(b) != recordSize {
		return wire.Epoch{}, fmt.Errorf("leader record has %d bytes; expected %d", len(b), recordSize)
	}
	if b[0] != recordVersion {
		return wire.Epoch{}, fmt.Errorf("leader record version is %d; expected %d", b[0], recordVersion)
	}
	e := wire.Epoch{Counter: binary.BigEndian.Uint64(b[1:]), Owner: wire.ID(b[9:])}
	if e.Counter == 0 || e.Owner.IsZero() {
		return wire.Epoch{}, errors.New("leader record has no counter or no owner")
	}
	if e.Counter > wire.MaxCounter {
		// A cluster that took it could never count further.
		return wire.Epoch{}, fmt.Errorf("leader record counter %d is above %d", e.Counter, uint64(wire.MaxCounter))
	}
	return e, nil
}
