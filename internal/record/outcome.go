package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// An outcome is what a record keeps of a step's effects: enough to see that others came
// out, and to tell a person what had. The frames of a heartbeat are a byte or two.
//
// It ends with a zero and a checksum over all that is in the effects, so two outcomes
// that are equal are so byte for byte.
type outcome []byte

// hashing has the buffer in which effects are laid out to be summed.
type hashing struct{ scratch []byte }

// put writes the outcome of these effects.
func (h *hashing) put(dst []byte, effects []election.Effect) []byte {
	sum := uint32(0)
	for i := 0; i < len(effects); {
		var run int
		dst, run = putGroup(dst, effects[i:])
		for range run {
			h.scratch = lay(h.scratch[:0], effects[i])
			sum = crc32.Update(sum, castagnoli, h.scratch)
			i++
		}
	}
	if dst = append(dst, 0); len(effects) == 0 {
		return dst
	}
	return binary.BigEndian.AppendUint32(dst, sum)
}

// putGroup writes the first of the effects, and says for how many that stands: frames of
// one kind that go out in a row are one group.
func putGroup(dst []byte, effects []election.Effect) (_ []byte, run int) {
	switch e := effects[0].(type) {
	case election.Send:
		for run = 1; run < len(effects); run++ {
			if next, isSend := effects[run].(election.Send); !isSend || next.Frame.Kind != e.Frame.Kind {
				break
			}
		}
		return binary.AppendUvarint(append(dst, numberSend, byte(e.Frame.Kind)), uint64(run)), run
	case election.LeaseUntil:
		return append(dst, numberLease), 1
	case election.Counted:
		return append(binary.AppendUvarint(append(dst, numberCounted), uint64(len(e.What))), e.What...), 1
	}
	dst = append(dst, byte(numberOf(effects[0])))
	text := effects[0].String()
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...), 1
}

func numberOf(e election.Effect) int { return slices.Index(effectTypes, reflect.TypeOf(e)) + 1 }

// lay writes all that is in an effect.
func lay(dst []byte, e election.Effect) []byte {
	switch e := e.(type) {
	case election.Send:
		dst = append(dst, numberSend)
		addr := e.To.Addr().As16()
		dst = append(append(dst, addr[:]...), e.To.Addr().Zone()...)
		return wire.Append(binary.BigEndian.AppendUint16(dst, e.To.Port()), &e.Frame)
	case election.LeaseUntil:
		if e.Deadline.IsZero() {
			return append(dst, numberLease)
		}
		return binary.BigEndian.AppendUint64(append(dst, numberLease), uint64(e.Deadline.UnixNano()))
	case election.Counted:
		return append(append(dst, numberCounted), e.What...)
	case election.Reply:
		return append(binary.BigEndian.AppendUint64(append(dst, numberReply), e.Token), e.String()...)
	}
	rare := e // a copy, so that only what is rare takes memory
	return values.Append(dst, &rare)
}

// get takes one outcome off a segment.
func getOutcome(r *reader) outcome {
	begin := r.left
	for {
		switch number := r.byte(); {
		case r.err != nil:
			return nil
		case number == 0:
			if len(begin)-len(r.left) > 1 {
				r.bytes(crc32.Size)
			}
			if r.err != nil {
				return nil
			}
			return outcome(begin[:len(begin)-len(r.left)])
		case int(number) > len(effectTypes):
			r.fail("effect")
		case number == numberSend:
			r.byte()
			r.uvarint()
		case number != numberLease:
			r.bytes(r.uvarint())
		}
	}
}

// String says what came out, as far as the outcome tells.
func (o outcome) String() string {
	var said []string
	for r := (reader{left: o}); ; {
		switch number := r.byte(); {
		case number == 0 || r.err != nil:
			if len(said) == 0 {
				return "nothing"
			}
			return strings.Join(said, ", ")
		case number == numberSend:
			text := "send " + wire.Kind(r.byte()).String()
			if run := r.uvarint(); run > 1 {
				text += fmt.Sprintf(" ×%d", run)
			}
			said = append(said, text)
		case number == numberLease:
			said = append(said, "lease")
		case number == numberCounted:
			said = append(said, election.Counted{What: string(r.bytes(r.uvarint()))}.String())
		default:
			said = append(said, string(r.bytes(r.uvarint())))
		}
	}
}

// sum is the checksum at the outcome's end; 0: it has no effects.
func (o outcome) sum() uint32 {
	if len(o) < crc32.Size {
		return 0
	}
	return binary.BigEndian.Uint32(o[len(o)-crc32.Size:])
}
