package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
)

// Frames are parsed into one Frame over and over: nothing of the last may stay.
func TestParseOverwrites(t *testing.T) {
	all := readVectors(t)
	var f Frame
	for _, before := range all {
		for _, v := range all {
			f = before.frame
			if err := Parse(v.raw, &f); err != nil || f != v.frame {
				t.Fatalf("%v after %v: got %+v, error %v", v, before, f, err)
			}
		}
	}
}

// The transport reuses its buffer as soon as Parse has returned.
func TestParseKeepsNoReference(t *testing.T) {
	for _, v := range readVectors(t) {
		raw := bytes.Clone(v.raw)
		var f Frame
		if err := Parse(raw, &f); err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		clear(raw)
		if f != v.frame {
			t.Errorf("%v: changed with the buffer to %+v", v, f)
		}
	}
}

// Padding and the reserved flag belong to later minor versions. The room of
// voters that a roster does not count is padding.
func TestParseIgnoresWhatHasNoMeaningYet(t *testing.T) {
	for _, v := range readVectors(t) {
		raw := bytes.Clone(v.raw)
		raw[7] |= byte(reserved)
		for _, r := range rowsOf(v.frame.Kind) {
			unused := raw[r.off+r.used(raw) : r.off+r.size]
			copy(unused, bytes.Repeat([]byte{0xa5}, len(unused)))
		}
		var f Frame
		if err := Parse(reseal(raw), &f); err != nil || f != v.frame {
			t.Errorf("%v: got %+v, error %v", v, f, err)
		}
	}
}

// A later minor version appends to any body, up to the longest frame.
func TestParseTakesLongerBodies(t *testing.T) {
	for _, v := range readVectors(t) {
		for _, size := range []int{len(v.raw) + 1, min(len(v.raw)+7, MaxFrame), MaxFrame} {
			raw := append(v.raw[:len(v.raw)-4:len(v.raw)-4], bytes.Repeat([]byte{0xa5}, size-len(v.raw)+4)...)
			raw[2] = 0x33
			binary.BigEndian.PutUint16(raw[4:], uint16(size))
			want := v.frame
			want.Minor = 3
			var f Frame
			if err := Parse(reseal(raw), &f); err != nil || f != want {
				t.Errorf("%v in %d bytes: got %+v, error %v", v, size, f, err)
			}
		}
	}
}

func TestParseTakesOneAloneForReady(t *testing.T) {
	raw := Append(nil, &Frame{Kind: Ready, IsReady: true})
	for value := range 256 {
		raw[76] = byte(value)
		var f Frame
		if err := Parse(reseal(raw), &f); err != nil || f.IsReady != (value == 1) {
			t.Errorf("%d: ready is %v, error %v", value, f.IsReady, err)
		}
	}
}

// What a newer member may say that this version has no word for still arrives,
// and is no word of ours by accident.
func TestParsePassesUnknownWords(t *testing.T) {
	for _, c := range []struct {
		kind     Kind
		on       byte
		word     func(*Frame) fmt.Stringer
		describe string
	}{
		{Election, 0, func(f *Frame) fmt.Stringer { return f.Reason }, "reason(0)"},
		{Election, 10, func(f *Frame) fmt.Stringer { return f.Reason }, "reason(10)"},
		{Coordinator, 0, func(f *Frame) fmt.Stringer { return f.Phase }, "phase(0)"},
		{Coordinator, 3, func(f *Frame) fmt.Stringer { return f.Phase }, "phase(3)"},
		{Answer, 7, func(f *Frame) fmt.Stringer { return f.Verdict }, "verdict(7)"},
		{RosterAck, 6, func(f *Frame) fmt.Stringer { return f.AckVerdict }, "verdict(6)"},
	} {
		raw := Append(nil, &Frame{Kind: c.kind})
		raw[76] = c.on
		var f Frame
		if err := Parse(reseal(raw), &f); err != nil {
			t.Errorf("%v with %d: %v", c.kind, c.on, err)
		} else if got := c.word(&f).String(); got != c.describe {
			t.Errorf("%v with %d: got %s, want %s", c.kind, c.on, got, c.describe)
		}
	}
}

// A frame of another leadership is none of ours, whatever else it says.
func TestParseRefusesOtherSeats(t *testing.T) {
	raw := Append(nil, &Frame{Kind: Query})
	for seat := range 1 << 16 {
		binary.BigEndian.PutUint16(raw[74:], uint16(seat))
		var want error
		if seat != 0 {
			want = ErrSeat
		}
		var f Frame
		if err := Parse(reseal(raw), &f); err != want {
			t.Fatalf("seat %d: %v, want %v", seat, err, want)
		}
	}
}

// A roster is taken whole or not at all: part of one has other majorities.
func TestParseRefusesMoreVotersThanHaveRoom(t *testing.T) {
	raw := Append(nil, &Frame{Kind: Roster})
	for count := range 256 {
		raw[81] = byte(count)
		var want error
		if count > MaxVoters {
			want = ErrVoters
		}
		var f Frame
		if err := Parse(reseal(raw), &f); err != want || err == nil && f.Count != byte(count) {
			t.Errorf("%d voters: counted %d, error %v, want %v", count, f.Count, err, want)
		}
	}
}

// A payload is taken whole or not at all.
func TestParseRefusesAPayloadBeyondItsFrame(t *testing.T) {
	raw := Append(nil, &Frame{Kind: LedgerPart, Payload: "twelve bytes"})
	for size := range 1 << 16 {
		binary.BigEndian.PutUint16(raw[88:], uint16(size))
		var want error
		if size > len("twelve bytes") {
			want = ErrPayload
		}
		var f Frame
		if err := Parse(reseal(raw), &f); err != want || err == nil && f.Payload != "twelve bytes"[:size] {
			t.Fatalf("%d bytes of payload: %q, error %v, want %v", size, f.Payload, err, want)
		}
	}
}

func TestParseOfEverySize(t *testing.T) {
	zeros := make([]byte, 65507) // the largest datagram of IPv4
	for size := range zeros {
		want := ErrMagic
		if size < MinFrame {
			want = ErrShort
		}
		var f Frame
		if err := Parse(zeros[:size], &f); err != want {
			t.Fatalf("%d zeros: %v, want %v", size, err, want)
		}
	}
}

// refusals are the errors of Parse, by their words.
var refusals = map[string]error{
	"short": ErrShort, "magic": ErrMagic, "version": ErrVersion, "length": ErrLength, "seat": ErrSeat,
	"checksum": ErrChecksum, "kind": ErrKind, "optional": ErrOptional, "body": ErrBody,
	"voters": ErrVoters, "payload": ErrPayload,
}

func TestCauseNamesEveryRefusal(t *testing.T) {
	for word, err := range refusals {
		if got := Cause(err); got != word {
			t.Errorf("%v is counted as %q, want %q", err, got, word)
		}
		if got := Cause(fmt.Errorf("receive: %w", err)); got != word {
			t.Errorf("%v, wrapped, is counted as %q, want %q", err, got, word)
		}
	}
	if got := Cause(errors.New("read udp: connection refused")); got != "other" {
		t.Errorf("another error is counted as %q", got)
	}
}

// SHA-256("bully-agent/1\0prod") begins with 7c08be7f, as in the protocol text;
// the other two come from sha256sum.
func TestClusterHash(t *testing.T) {
	for name, want := range map[string]uint32{"prod": 0x7c08be7f, "": 0x9edd6736, "staging": 0x7c768e1a} {
		if got := ClusterHash(name); got != want {
			t.Errorf("%q: got %08x, want %08x", name, got, want)
		}
	}
}
