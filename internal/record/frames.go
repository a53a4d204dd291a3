package record

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// frames is a segment's memory for frames. A heartbeat differs from the one before in
// a number or two; so a frame is written as what differs from the last of its kind by its
// sender. Writer and reader keep the same memory, which begins empty.
type frames struct {
	slots   [256]lastFrame
	scratch []byte
}

type lastFrame struct {
	from  netip.AddrPort
	bytes []byte // without the checksum; empty: none yet
}

// trailer is the checksum at the end of a frame, which follows from the rest.
const trailer = 4

// What a frame shares with the last one in its slot.
const (
	sameSource = 1 << iota
	sameLength
	ofNew // its sender is new: a bit beside those two
)

func (m *frames) reset() {
	for i := range m.slots {
		m.slots[i].from, m.slots[i].bytes = netip.AddrPort{}, m.slots[i].bytes[:0]
	}
}

// slotOf: two senders may share one, which costs bytes and nothing else.
func slotOf(f *wire.Frame) byte { return f.Sender[0] ^ f.Sender[15] ^ byte(f.Kind)<<3 }

func (m *frames) put(dst []byte, e *election.Received) []byte {
	from, f := e.From, &e.Frame
	m.scratch = wire.Append(m.scratch[:0], f)
	b := m.scratch[:len(m.scratch)-trailer]
	number := slotOf(f)
	slot := &m.slots[number]
	shared := byte(0)
	if from == slot.from {
		shared |= sameSource
	}
	if len(b) == len(slot.bytes) {
		shared |= sameLength
	}
	if e.IsNew {
		shared |= ofNew
	}
	dst = append(dst, number, shared)
	if shared&sameSource == 0 {
		moved := from // a copy, so that only what is rare takes memory
		dst = values.Append(dst, &moved)
	}
	if shared&sameLength != 0 {
		dst = putDifference(dst, slot.bytes, b)
	} else {
		dst = append(binary.AppendUvarint(dst, uint64(len(b))), b...)
	}
	slot.from, slot.bytes = from, append(slot.bytes[:0], b...)
	return dst
}

// putDifference writes where b differs from was, which is as long: how many bytes are the
// same, how many are not, and these; until the end.
func putDifference(dst, was, b []byte) []byte {
	for at := 0; ; {
		same := at
		for same < len(b) && b[same] == was[same] {
			same++
		}
		dst = binary.AppendUvarint(dst, uint64(same-at))
		if same == len(b) {
			return dst
		}
		at = same
		for at < len(b) && (b[at] != was[at] || at+1 < len(b) && b[at+1] != was[at+1]) { // one alike is no reason to stop
			at++
		}
		dst = binary.AppendUvarint(dst, uint64(at-same))
		dst = append(dst, b[same:at]...)
	}
}

func (m *frames) get(r *reader) (e election.Received) {
	slot := &m.slots[r.byte()]
	shared := r.byte()
	if shared&sameSource != 0 {
		e.From = slot.from
	} else {
		r.value(&e.From)
	}
	if shared&sameLength != 0 {
		m.scratch = getDifference(r, append(m.scratch[:0], slot.bytes...))
	} else {
		m.scratch = append(m.scratch[:0], r.bytes(r.uvarint())...)
	}
	slot.from, slot.bytes = e.From, append(slot.bytes[:0], m.scratch...)
	whole := binary.BigEndian.AppendUint32(m.scratch, crc32.Checksum(m.scratch, castagnoli))
	if r.err == nil && (len(whole) > wire.MaxFrame || wire.Parse(whole, &e.Frame) != nil) {
		r.fail("frame")
	}
	e.IsNew = shared&ofNew != 0
	return e
}

// getDifference changes b where a frame differs from it.
func getDifference(r *reader, b []byte) []byte {
	for at := uint64(0); r.err == nil; {
		at += min(r.uvarint(), wire.MaxFrame+1)
		if at >= uint64(len(b)) {
			if at > uint64(len(b)) {
				r.fail("frame")
			}
			break
		}
		changed := r.bytes(r.uvarint())
		if len(changed) == 0 || uint64(len(changed)) > uint64(len(b))-at {
			r.fail("frame")
			break
		}
		at += uint64(copy(b[at:], changed))
	}
	return b
}
