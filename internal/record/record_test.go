package record_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/record"
	"github.com/bully-agent/bully-agent/internal/test/flight"
	"github.com/bully-agent/bully-agent/wire"
)

func parsed(t testing.TB, files ...[]byte) (records []*record.Record) {
	t.Helper()
	for _, file := range files {
		r, err := record.Parse(file)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// Three hosts elect a leader, which dies; what they recorded comes out again, in the order
// in which it happened.
func TestARecordedFailoverReplays(t *testing.T) {
	timeline := record.NewTimeline(parsed(t, flight.Records(0, 0, 0)...))
	for _, r := range timeline.Reports() {
		if r.First != nil || len(r.Flaws) > 0 || r.Steps < 100 {
			t.Errorf("%+v", r)
		}
	}
	var leaders []string
	for line := range timeline.Lines {
		if strings.Contains(strings.Join(line.Effects, " "), "claim → lead") {
			leaders = append(leaders, line.Host)
		}
	}
	if want := []string{"gamma", "beta"}; !slices.Equal(leaders, want) {
		t.Errorf("%v led, expected %v", leaders, want)
	}
}

// Hosts whose clocks are minutes apart come onto one: each frame is received one latency
// after it was sent, whatever the clocks say.
func TestFramesSetTheClocks(t *testing.T) {
	apart := []time.Duration{0, 3 * time.Minute, -90 * time.Second}
	timeline := record.NewTimeline(parsed(t, flight.Records(apart...)...))
	for i, r := range timeline.Reports() {
		if r.Corrected != -apart[i] || i > 0 && (r.Frames == 0 || r.Within != time.Millisecond) {
			t.Errorf("%s: corrected by %v within %v by %d frames, expected %v", r.Host, r.Corrected, r.Within, r.Frames, -apart[i])
		}
	}
	var last time.Time
	for line := range timeline.Lines {
		if line.At.Before(last) {
			t.Fatalf("goes back to %v from %v", line.At, last)
		}
		last = line.At
	}
	if span := last.Sub(flight.Begin); span > flight.Landing {
		t.Errorf("the timeline is %v long, and the flight was %v", span, flight.Landing)
	}
}

// Where nobody heard anybody, wall clocks must do.
func TestAloneTheWallClockDoes(t *testing.T) {
	files := flight.Records(0, time.Minute)
	timeline := record.NewTimeline(parsed(t, files[1]))
	if r := timeline.Reports()[0]; r.Frames != 0 || r.Corrected != 0 || r.From.Before(flight.Begin.Add(time.Minute)) {
		t.Errorf("%+v", r)
	}
}

// A file that ends anywhere is replayed as far as it goes, and says that it is cut short.
func TestACutRecord(t *testing.T) {
	file := flight.Records(0, 0)[0]
	whole := steps(t, file)
	head := bytes.IndexByte(file[len("bully-agent record 1\n"):], '\n') + len("bully-agent record 1\n") + 1
	last := uint64(0)
	for size := head; size < len(file); size += 97 {
		n := steps(t, file[:size], "cut short")
		if n < last || n > whole {
			t.Fatalf("%d steps of %d bytes, %d of fewer, %d of all", n, size, last, whole)
		}
		last = n
	}
	if last < whole/2 {
		t.Errorf("%d of %d steps of a record that lacks a few bytes", last, whole)
	}
}

// steps replays one record, which has these flaws and no others.
func steps(t *testing.T, file []byte, flaws ...string) uint64 {
	t.Helper()
	r := record.NewTimeline(parsed(t, file)).Reports()[0]
	if r.First != nil {
		t.Fatalf("step %d differs: %+v", r.First.Number, r.Difference)
	}
	if len(r.Flaws) != len(flaws) {
		t.Fatalf("flaws %q, expected %q", r.Flaws, flaws)
	}
	for i, flaw := range flaws {
		if !strings.Contains(r.Flaws[i], flaw) {
			t.Fatalf("flaws %q, expected %q", r.Flaws, flaws)
		}
	}
	return r.Steps
}

// A damaged segment is left out, and what comes after it is replayed.
func TestADamagedSegment(t *testing.T) {
	file := flight.Records(0, 0)[0]
	whole := steps(t, file)
	segments := segmentsOf(file)
	if len(segments) < 3 {
		t.Fatalf("%d segments: too few for this test", len(segments))
	}
	file = slices.Clone(file)
	file[segments[1]+100] ^= 1
	if n := steps(t, file, "segment 2 is damaged"); n >= whole || n == 0 {
		t.Errorf("%d steps of %d", n, whole)
	}
}

// segmentsOf gives where segments begin.
func segmentsOf(file []byte) (at []int) {
	i := bytes.IndexByte(file, '\n') + 1
	for i += bytes.IndexByte(file[i:], '\n') + 1; file[i] == 'S'; i += 9 + int(binary.BigEndian.Uint32(file[i+1:])) {
		at = append(at, i)
	}
	return at
}

// What was recorded is held against what comes out: a checksum of effects that is another
// is found at its step, and nothing is replayed behind it.
func TestAnotherOutcomeIsFound(t *testing.T) {
	file := slices.Clone(flight.Records(0, 0)[0])
	whole := steps(t, file)
	at := segmentsOf(file)[0]
	size := int(binary.BigEndian.Uint32(file[at+1:]))
	body := file[at+9 : at+9+size]
	body[size-1] ^= 1 // of the last step's checksum
	binary.BigEndian.PutUint32(file[at+5:], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	r := record.NewTimeline(parsed(t, file)).Reports()[0]
	if r.First == nil || r.Steps > whole || r.First.Number != r.Steps || !strings.Contains(r.Recorded, "with other contents") {
		t.Errorf("%+v of %d steps", r, whole)
	}
}

func TestWhatIsNoRecord(t *testing.T) {
	file := flight.Records(0, 0)[0]
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"nothing":       {nil, record.ErrNoRecord},
		"a log":         {[]byte("2026-01-31T12:00:00Z [INFO] agent started\n"), record.ErrNoRecord},
		"a later one":   {bytes.Replace(file, []byte("record 1\n"), []byte("record 2\n"), 1), record.ErrFormat},
		"no header":     {file[:len("bully-agent record 1\n")], record.ErrNoRecord},
		"another shape": {regexp.MustCompile(`"schema":\d+`).ReplaceAll(file, []byte(`"schema":1`)), record.ErrSchema},
	} {
		if _, err := record.Parse(c.file); err == nil || !strings.Contains(err.Error(), c.want.Error()) {
			t.Errorf("%s: %v, expected %v", name, err, c.want)
		}
	}
}

// A ring that is full loses its oldest segments and keeps whole ones: what is left replays.
func TestAFullRingKeepsTheNewest(t *testing.T) {
	node, chance := lonely(t)
	ring := record.NewRing(make([]byte, 64<<10))
	now := flight.Begin
	for range 20_000 {
		if now = now.Add(50 * time.Millisecond); ring.IsDue(election.Tick{}) {
			state, _ := chance.MarshalBinary()
			ring.Begin(now, now, state, node.AppendPicture(nil))
		}
		ring.Note(now, election.Tick{}, node.Step(now, election.Tick{}))
	}
	first, end := ring.Segments()
	file := record.AppendHeader(nil, &record.Header{Schema: record.Schema(), Self: record.Name{ID: lonelyID.String(), Name: "alpha"}})
	for number := first; number < end; number++ {
		file, _ = ring.AppendSegment(file, number)
	}
	if n := steps(t, record.AppendEnd(file, end-first)); first == 0 || n < 1000 || n >= 20_000 {
		t.Errorf("%d steps in segments %d to %d of a full ring", n, first, end)
	}
	if _, isThere := ring.AppendSegment(nil, first-1); isThere {
		t.Error("gives a segment that was overwritten")
	}
}

var lonelyID = wire.ID{1, 6: 0x40, 8: 0x80}

// lonely is a node without others, which leads.
func lonely(t testing.TB) (*election.Node, *rand.PCG) {
	t.Helper()
	chance := rand.NewPCG(1, 2)
	node, err := election.New(election.Config{ID: lonelyID, Rand: rand.New(chance)}, election.Saved{Incarnation: 1}, flight.Begin)
	if err != nil {
		t.Fatal(err)
	}
	return node, chance
}

// Every event and effect that there is has a number.
func TestAllEventsAndEffectsAreKnown(t *testing.T) {
	for file, known := range map[string][]string{"event": record.EventNames(), "effect": record.EffectNames()} {
		text, err := os.ReadFile("../../election/" + file + ".go")
		if err != nil {
			t.Fatal(err)
		}
		var declared []string
		for _, match := range regexp.MustCompile(`(?m)^func \((\w+)\) `+file+`\(\)`).FindAllSubmatch(text, -1) {
			declared = append(declared, string(match[1]))
		}
		slices.Sort(declared)
		slices.Sort(known)
		if len(declared) < 10 || !slices.Equal(declared, known) {
			t.Errorf("%s.go has %q, and the record knows %q", file, declared, known)
		}
	}
}

// FuzzReplay has records that anybody may have written: they are refused, or replayed as
// far as they go. Checksums are put right, so that what is behind them is reached.
func FuzzReplay(f *testing.F) {
	for _, file := range flight.Records(0, time.Second) {
		f.Add(file[:segmentsOf(file)[0]+2500])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := record.Parse(mended(file))
		if err != nil {
			return
		}
		timeline := record.NewTimeline([]*record.Record{r})
		lines := 0
		for range timeline.Lines {
			if lines++; lines > len(file) {
				t.Fatal("more steps than bytes")
			}
		}
	})
}

// mended is a file with the right checksums and schema, if it is one at all.
func mended(file []byte) []byte {
	file = regexp.MustCompile(`"schema":\d+`).ReplaceAll(file, fmt.Appendf(nil, `"schema":%d`, record.Schema()))
	i := bytes.IndexByte(file, '\n') + 1
	i += bytes.IndexByte(file[i:], '\n') + 1
	for i+9 <= len(file) && file[i] == 'S' {
		size := int(binary.BigEndian.Uint32(file[i+1:]))
		if size > len(file)-i-9 {
			break
		}
		body := file[i+9 : i+9+size]
		binary.BigEndian.PutUint32(file[i+5:], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		i += 9 + size
	}
	return file
}

// What a step of the busiest leader costs with a recorder, and without: an acknowledgement
// of a heartbeat, and each fourth time the heartbeat before it.
func BenchmarkStep(b *testing.B) {
	for _, isRecorded := range []bool{false, true} {
		b.Run(map[bool]string{false: "alone", true: "recorded"}[isRecorded], func(b *testing.B) {
			node, chance := lonely(b)
			ring := record.NewRing(make([]byte, 16<<20))
			now := flight.Begin
			step := func(ev election.Event) []election.Effect {
				if !isRecorded {
					return node.Step(now, ev)
				}
				if ring.IsDue(ev) {
					state, _ := chance.MarshalBinary()
					ring.Begin(now, now, state, node.AppendPicture(nil))
				}
				effects := node.Step(now, ev)
				ring.Note(now, ev, effects)
				return effects
			}
			const others = 4
			var acks [others]wire.Frame
			var addrs [others]netip.AddrPort
			for i := range others {
				id := wire.ID{byte(i + 2), 6: 0x40, 8: 0x80}
				addrs[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 2)}), 7950)
				node.Stamp(&acks[i])
				acks[i].Kind, acks[i].Sender, acks[i].Incarnation, acks[i].Nonce, acks[i].Priority = wire.HeartAck, id, 1, 7, 0
				step(election.MemberChanged{Member: election.Member{ID: id, Addr: addrs[i], Incarnation: 1, Nonce: 7, Status: election.Alive}})
			}
			answer := func(effects []election.Effect) {
				now = now.Add(100 * time.Microsecond)
				for _, e := range slices.Clone(effects) {
					if send, isSend := e.(election.Send); isSend && send.Frame.Kind == wire.Heartbeat {
						ack := &acks[send.To.Addr().As4()[3]-2]
						ack.Seq, ack.Epoch, ack.EchoSeq, ack.Round = ack.Seq+1, send.Frame.Epoch, send.Frame.Seq, send.Frame.Round
						step(election.Received{From: send.To, Frame: *ack})
					}
				}
			}
			for now = now.Add(3 * time.Second); node.Status().State != election.Lead; now = node.Deadline() {
				for _, e := range slices.Clone(step(election.Tick{})) { // nobody claims that it is there, and nobody that it is not
					if send, isSend := e.(election.Send); isSend && send.Frame.Kind == wire.Coordinator {
						acks[send.To.Addr().As4()[3]-2].Seq++
						ack := acks[send.To.Addr().As4()[3]-2]
						ack.Kind, ack.Epoch, ack.EchoSeq, ack.Round = wire.CoordAck, send.Frame.Epoch, send.Frame.Seq, send.Frame.Round
						step(election.Received{From: send.To, Frame: ack})
					}
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				now = node.Deadline()
				answer(step(election.Tick{}))
			}
			if node.Status().State != election.Lead {
				b.Fatal("it does not lead any more: ", node.Status())
			}
		})
	}
}
