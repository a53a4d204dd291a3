package guard

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
)

// The socket keeps messages apart (SOCK_SEQPACKET). The agent's are small and of
// fixed form, since it sends one with each heartbeat:
//
//	0  1  kind
//	1  8  deadline, due or signal, big endian
//	9  …  cause of a stop
//
// The guard's are Reports in JSON, each with all that is known.

type kind byte

const (
	kindRenew  kind = 'R' // number: deadline as an instant
	kindStart  kind = 'B' // number: the end of the time to start in, as an instant
	kindStop   kind = 'S' // number: when all is dead; 0: after the grace
	kindSignal kind = 'K' // number: the signal for the command's group
)

type message struct {
	kind   kind
	number int64
	cause  string
}

const (
	messageHead = 9
	maxCause    = 255 // bytes, as in a hook's environment
	maxReport   = 16 << 10
)

func (m message) encode() []byte {
	b := make([]byte, 0, messageHead+len(m.cause))
	b = append(b, byte(m.kind))
	b = binary.BigEndian.AppendUint64(b, uint64(m.number))
	return append(b, m.cause[:min(len(m.cause), maxCause)]...)
}

func decode(b []byte) (message, error) {
	if len(b) < messageHead {
		return message{}, errors.New("decode message: too short")
	}
	return message{kind(b[0]), int64(binary.BigEndian.Uint64(b[1:])), string(b[messageHead:])}, nil
}

// encodeReport keeps a report within one message: only texts can be long. The record has all of them.
func encodeReport(r Report) []byte {
	r.Loss, r.Reach, r.Err, r.Unnoted = cut(r.Loss), cut(r.Reach), cut(r.Err), cut(r.Unnoted)
	text, err := json.Marshal(r)
	if err != nil {
		panic("BUG: encode report: " + err.Error()) // strings and numbers always encode
	}
	return text
}

// maxText is what a message holds of one text, in bytes, which JSON may make six times as long.
const maxText = 512

func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}
