package wire

import (
	"bytes"
	"slices"
	"testing"
)

// FuzzParse: no bytes make Parse panic. What it accepts it reads as the offset
// table does, and sent again it is the same frame, up to what is ignored.
func FuzzParse(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(v.raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got Frame
		if err := Parse(raw, &got); err != nil {
			if Cause(err) == "other" {
				t.Fatalf("refused without a cause: %v", err)
			}
			// Few inputs have a right checksum by chance, so give it to them.
			if len(raw) < MinFrame || err != ErrChecksum || Parse(reseal(raw), &got) != nil {
				return
			}
		}
		if want := decode(raw); got != want {
			t.Fatalf("parsed otherwise than the table says\ngot  %+v\nwant %+v", got, want)
		}
		got.Minor = 0
		var again Frame
		if err := Parse(Append(nil, &got), &again); err != nil || again != got {
			t.Fatalf("sent again it is another frame, error %v\ngot  %+v\nwant %+v", err, again, got)
		}
		_ = got.String()
	})
}

// FuzzRoundTrip: any values of the fields arrive as they were sent. fields are
// the values in the order of the frame; where they run out, zero.
func FuzzRoundTrip(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(uint8(slices.Index(kinds(), v.frame.Kind)), v.raw[6:len(v.raw)-trailerSize])
	}
	f.Fuzz(func(t *testing.T, kind uint8, fields []byte) {
		sent := Frame{Kind: kinds()[int(kind)%len(kinds())]}
		for _, r := range rowsOf(sent.Kind)[4:] { // behind magic, version, kind and length
			value := make([]byte, r.size)
			fields = fields[copy(value, fields):]
			r.set(&sent, value)
		}
		if sizeAt(sent.Kind) > 0 {
			sent.Payload = string(fields[:min(len(fields), MaxPayload)])
		}
		sent.Flags &^= reserved
		sent.Count %= MaxVoters + 1
		clear(sent.Voters[sent.Count:])

		raw := Append([]byte("before"), &sent)[len("before"):]
		if want := frameSize(sent.Kind) + len(sent.Payload); len(raw) != want {
			t.Fatalf("%v has %d bytes, want %d", sent.Kind, len(raw), want)
		}
		var got Frame
		if err := Parse(raw, &got); err != nil || got != sent {
			t.Fatalf("error %v\ngot  %+v\nwant %+v", err, got, sent)
		}
		if again := Append(nil, &got); !bytes.Equal(again, raw) {
			t.Fatalf("sent again it has other bytes\ngot  %x\nwant %x", again, raw)
		}
	})
}
