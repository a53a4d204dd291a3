package wire

import (
	"encoding/binary"
	"slices"
)

// Append writes f as one frame behind dst and returns the longer slice. It
// allocates only when dst has no room; MaxFrame bytes of room are always
// enough. Fields that do not hold for f's kind are not sent, nor is Minor.
//
// f is only read. A kind that has no number in this version is a mistake of
// the caller's and panics, as is a ROSTER of more than MaxVoters or a longer
// Payload than MaxPayload.
func Append(dst []byte, f *Frame) []byte {
	if f.Kind >= kindEnd || bodySizes[f.Kind] == 0 {
		panic("BUG: append frame of unknown kind " + f.Kind.String())
	}
	if f.Kind == Roster && f.Count > MaxVoters {
		panic("BUG: append roster of more than 15 voters")
	}
	start := len(dst)
	end := start + headerSize + int(bodySizes[f.Kind])
	if payloadSizes[f.Kind] > 0 {
		if len(f.Payload) > MaxPayload {
			panic("BUG: append payload of more than 1100 bytes")
		}
		end += len(f.Payload)
	}
	dst = slices.Grow(dst, end+trailerSize-start)[:end+trailerSize]
	frame := dst[start:]
	clear(frame) // dst is a used buffer, and seat and padding are sent zero
	putHeader(frame, f)
	body(codec{body: dst[start+headerSize : end], put: true}, f)
	binary.BigEndian.PutUint32(dst[end:], checksum(dst[start:end]))
	return dst
}

// putHeader writes the header of doc.go's diagram into a frame that has its
// final length.
func putHeader(b []byte, f *Frame) {
	_ = b[MinFrame-1]
	b[0], b[1] = Magic0, Magic1
	b[2] = version
	b[3] = byte(f.Kind)
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	b[6] = byte(f.Algo)
	b[7] = byte(f.Flags &^ reserved)
	binary.BigEndian.PutUint32(b[8:], f.Cluster)
	binary.BigEndian.PutUint32(b[12:], f.ConfigHash)
	copy(b[16:32], f.Sender[:])
	binary.BigEndian.PutUint32(b[32:], f.Incarnation)
	binary.BigEndian.PutUint32(b[36:], f.Nonce)
	binary.BigEndian.PutUint32(b[40:], f.Seq)
	binary.BigEndian.PutUint32(b[44:], f.Round)
	binary.BigEndian.PutUint64(b[48:], f.Epoch.Counter)
	copy(b[56:72], f.Epoch.Owner[:])
	binary.BigEndian.PutUint16(b[72:], f.Priority)
}
