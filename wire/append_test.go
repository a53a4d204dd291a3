package wire

import (
	"bytes"
	"strings"
	"testing"
)

// challenge is a frame with something in every header field.
func challenge(tb testing.TB) Frame {
	a, b := mustID(tb, "00112233-4455-4677-8899-aabbccddeeff"), mustID(tb, "f0e0d0c0-b0a0-4090-8070-605040302010")
	return Frame{
		Kind: Election, Algo: Classic, Flags: AckReq, Cluster: ClusterHash("prod"), ConfigHash: 0x01020304,
		Sender: a, Incarnation: 7, Nonce: 0xcafebabe, Seq: 100, Round: 9, Epoch: Epoch{41, b}, Priority: 100,
		Reason: LeaderFailed, HeartbeatAge: 350, FailedCounter: 41,
	}
}

func TestAppendKeepsWhatStandsBefore(t *testing.T) {
	f := challenge(t)
	alone := Append(nil, &f)
	for _, room := range []int{0, 1, len(alone) - 1, len(alone), MaxFrame} {
		dst := append(make([]byte, 0, 6+room), "before"...)
		got := Append(dst, &f)
		if want := append([]byte("before"), alone...); !bytes.Equal(got, want) {
			t.Errorf("with room for %d bytes: got %x, want %x", room, got, want)
		}
		if inPlace := &got[0] == &dst[0]; inPlace != (room >= len(alone)) {
			t.Errorf("with room for %d bytes: in place is %v", room, inPlace)
		}
	}
}

// A pooled buffer holds the frame before, which must not leak into padding.
func TestAppendIntoAUsedBuffer(t *testing.T) {
	used := bytes.Repeat([]byte{0xff}, MaxFrame)
	for _, v := range readVectors(t) {
		if got := Append(used[:0], &v.frame); !bytes.Equal(got, v.raw) {
			t.Errorf("%v: got %x, want %x", v, got, v.raw)
		}
		copy(used, bytes.Repeat([]byte{0xff}, MaxFrame))
	}
}

// A sender with fields of another kind left over sends none of them, nor the
// flag that has no meaning yet.
func TestAppendSendsNothingThatDoesNotHold(t *testing.T) {
	f := challenge(t)
	want := Append(nil, &f)
	f.Minor = 9
	f.Flags |= reserved
	f.Verdict, f.Lease, f.EchoSeq, f.Successor, f.IsReady = Ineligible, 400, 77, f.Sender, true
	f.Why, f.Digest, f.Place, f.Parts, f.Payload = 1, 2, 3, 4, "left over"
	f.Voters[0], f.Count = f.Sender, 16
	if got := Append(nil, &f); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}

	two := Frame{Kind: Roster, Count: 2, Voters: [MaxVoters]ID{{1}, {2}}}
	three := two
	three.Voters[2], three.Voters[MaxVoters-1] = ID{3}, ID{4}
	if got, want := Append(nil, &three), Append(nil, &two); !bytes.Equal(got, want) {
		t.Errorf("voters beyond the count\ngot  %x\nwant %x", got, want)
	}
}

func TestAppendOfAnUnknownKindIsABug(t *testing.T) {
	for _, k := range []Kind{0, 25, 127, kindEnd, 255} {
		mustPanic(t, "BUG: append frame of unknown kind "+k.String(), &Frame{Kind: k})
	}
}

func TestAppendOfTooManyVotersIsABug(t *testing.T) {
	for _, count := range []uint8{MaxVoters + 1, 255} {
		mustPanic(t, "BUG: append roster of more than 15 voters", &Frame{Kind: Roster, Count: count})
	}
}

func TestAppendOfALongPayloadIsABug(t *testing.T) {
	for _, k := range []Kind{JobClaim, JobRecord, LedgerPart} {
		f := Frame{Kind: k, Payload: strings.Repeat("x", MaxPayload)}
		if got := Append(nil, &f); len(got) > MaxFrame {
			t.Errorf("%v of %d bytes", k, len(got))
		}
		f.Payload += "x"
		mustPanic(t, "BUG: append payload of more than 1100 bytes", &f)
	}
}

func mustPanic(t *testing.T, want string, f *Frame) {
	t.Helper()
	defer func() {
		t.Helper()
		if text, _ := recover().(string); !strings.HasPrefix(text, want) {
			t.Errorf("kind %d: panic is %q, want %q", f.Kind, text, want)
		}
	}()
	Append(nil, f)
}

func TestNothingIsAllocated(t *testing.T) {
	buf := make([]byte, 0, MaxFrame)
	for _, v := range readVectors(t) {
		var f Frame
		if n := testing.AllocsPerRun(10, func() { buf = Append(buf[:0], &v.frame) }); n != 0 {
			t.Errorf("%v: Append allocates %v times", v, n)
		}
		payload := min(float64(len(v.frame.Payload)), 1) // that alone is worth an allocation
		if n := testing.AllocsPerRun(10, func() { _ = Parse(v.raw, &f) }); n != payload {
			t.Errorf("%v: Parse allocates %v times", v, n)
		}
	}
	// Nor by those who flood the port with rubbish.
	for _, line := range readLines(t, "malformed.txt") {
		raw := unhex(t, strings.TrimSpace(line[strings.LastIndex(line, "|")+1:]))
		var f Frame
		if n := testing.AllocsPerRun(10, func() { _ = Parse(raw, &f) }); n != 0 {
			t.Errorf("%s: Parse allocates %v times", line, n)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, v := range benchmarkFrames(b) {
		b.Run(v.frame.Kind.String(), func(b *testing.B) {
			buf := make([]byte, 0, MaxFrame)
			b.ReportAllocs()
			for b.Loop() {
				buf = Append(buf[:0], &v.frame)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, v := range benchmarkFrames(b) {
		b.Run(v.frame.Kind.String(), func(b *testing.B) {
			var f Frame
			b.ReportAllocs()
			for b.Loop() {
				if err := Parse(v.raw, &f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchmarkFrames are a rare frame, the two that fly all the time, the longest
// of fixed fields, and a roster of three.
func benchmarkFrames(b *testing.B) []vector {
	return []vector{
		readVectorFile(b, "election.txt")[0], readVectorFile(b, "heartbeat.txt")[0],
		readVectorFile(b, "hb_ack.txt")[0], readVectorFile(b, "resign.txt")[0],
		readVectorFile(b, "roster.txt")[0],
	}
}
