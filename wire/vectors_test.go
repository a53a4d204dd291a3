package wire

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const vectorDir = "../testdata/wire"

// A vector is one case of testdata/wire: what the fields say, and the bytes.
type vector struct {
	file, name string
	frame      Frame
	raw        []byte
}

func (v vector) String() string { return v.file + ": " + v.name }

// The vectors were made without this package, by testdata/wire/make_vectors.py.
func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		var got Frame
		if err := Parse(v.raw, &got); err != nil {
			t.Errorf("%v: %v", v, err)
		} else if got != v.frame {
			t.Errorf("%v: parsed\ngot  %+v\nwant %+v", v, got, v.frame)
		}
		if got := Append(nil, &v.frame); !bytes.Equal(got, v.raw) {
			t.Errorf("%v: appended\ngot  %x\nwant %x", v, got, v.raw)
		}
	}
}

func TestVectorsOfEveryKind(t *testing.T) {
	var count [kindEnd]int
	for _, v := range readVectors(t) {
		count[v.frame.Kind]++
	}
	for _, k := range kinds() {
		if count[k] < 4 {
			t.Errorf("%v has %d vectors, want an ordinary one, zeros, ends and one of distinct bytes", k, count[k])
		}
	}
}

// The three frames that the protocol text prints, with what it says of them.
func TestGoldenFramesOfTheProtocolText(t *testing.T) {
	a, b := mustID(t, "00112233-4455-4677-8899-aabbccddeeff"), mustID(t, "f0e0d0c0-b0a0-4090-8070-605040302010")
	fromA := Frame{Cluster: ClusterHash("prod"), ConfigHash: 0x01020304, Sender: a, Incarnation: 7, Nonce: 0xcafebabe, Priority: 100}
	fromB := Frame{Cluster: ClusterHash("prod"), ConfigHash: 0x01020304, Sender: b, Incarnation: 3, Nonce: 1, Priority: 200}

	election := fromA
	election.Kind, election.Algo, election.Flags = Election, Classic, AckReq
	election.Seq, election.Round, election.Epoch = 100, 9, Epoch{41, b}
	election.Reason, election.HeartbeatAge, election.FailedCounter = LeaderFailed, 350, 41

	claim := fromB
	claim.Kind, claim.Algo, claim.Flags = Coordinator, Classic|AlgoQuorum, AckReq
	claim.Seq, claim.Round, claim.Epoch = 5, 2, Epoch{42, b}
	claim.Phase, claim.Lease, claim.RosterVersion = Claim, 1000, 1

	ack := fromA
	ack.Kind, ack.Algo = HeartAck, Classic|AlgoQuorum
	ack.Seq, ack.Epoch = 101, Epoch{42, b}
	ack.EchoSeq = 6

	for _, c := range []struct {
		frame Frame
		hex   string
	}{
		{election, "b71e3001006001017c08be7f0102030400112233445546778899aabbccddeeff00000007cafebabe00000064000000090000000000000029f0e0d0c0b0a04090807060504030201000640000010000000000015e0000000000000029765049dc"},
		{claim, "b71e3003006c21017c08be7f01020304f0e0d0c0b0a04090807060504030201000000003000000010000000500000002000000000000002af0e0d0c0b0a04090807060504030201000c8000001000000000003e800000001000000000000000000000000000000006f0168ec"},
		{ack, "b71e3008005821007c08be7f0102030400112233445546778899aabbccddeeff00000007cafebabe0000006500000000000000000000002af0e0d0c0b0a040908070605040302010006400000000000600000000c866245a"},
	} {
		if got := hex.EncodeToString(Append(nil, &c.frame)); got != c.hex {
			t.Errorf("%v\ngot  %s\nwant %s", &c.frame, got, c.hex)
		}
		var got Frame
		if err := Parse(unhex(t, c.hex), &got); err != nil || got != c.frame {
			t.Errorf("%v: parsed as %v, error %v", &c.frame, &got, err)
		}
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	for _, v := range readVectors(t) {
		for n := range v.raw {
			want := ErrLength
			if n < MinFrame {
				want = ErrShort
			}
			refuse(t, fmt.Sprintf("%v cut to %d bytes", v, n), v.raw[:n], want)
		}
	}
}

// A CRC of 32 bits finds every single flip, so what is left to show is that no
// byte lies outside it.
func TestEveryFlippedBitIsRefused(t *testing.T) {
	for _, v := range readVectors(t) {
		raw := bytes.Clone(v.raw)
		for bit := range 8 * len(raw) {
			raw[bit/8] ^= 1 << (bit % 8)
			refuse(t, fmt.Sprintf("%v with bit %d of byte %d flipped", v, bit%8, bit/8), raw, nil)
			raw[bit/8] ^= 1 << (bit % 8)
		}
	}
}

func TestMalformedFrames(t *testing.T) {
	vectors := readVectors(t)
	seen := map[string]bool{}
	for _, line := range readLines(t, "malformed.txt") {
		column := strings.Split(line, "|")
		if len(column) != 3 {
			t.Fatalf("malformed.txt: %q has not three columns", line)
		}
		expected, what, raw := strings.TrimSpace(column[0]), strings.TrimSpace(column[1]), unhex(t, strings.TrimSpace(column[2]))
		seen[expected] = true
		if expected != "ok" {
			refuse(t, what, raw, errorOf(t, expected))
			continue
		}
		first := slices.IndexFunc(vectors, func(v vector) bool { return v.frame.Kind == Kind(raw[3]) })
		got, want := Frame{}, vectors[first].frame
		if err := Parse(raw, &got); err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if want.Minor = raw[2] & 0x0f; got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", what, got, want)
		}
	}
	for word := range refusals {
		if !seen[word] {
			t.Errorf("malformed.txt has no frame that is refused as %q", word)
		}
	}
}

// refuse fails unless raw is refused, for the reason want if that is not nil,
// and without a trace in the frame.
func refuse(t *testing.T, what string, raw []byte, want error) {
	t.Helper()
	before := Frame{Kind: Leave, Seq: 4711}
	f := before
	err := Parse(raw, &f)
	if err == nil {
		t.Errorf("%s: accepted as %v\nhex %x", what, &f, raw)
		return
	}
	if want != nil && err != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
	if f != before {
		t.Errorf("%s: refused, but the frame was changed to %v", what, &f)
	}
}

func errorOf(t *testing.T, word string) error {
	t.Helper()
	err := refusals[word]
	if err == nil {
		t.Fatalf("no error is called %q", word)
	}
	return err
}

// readVectors reads all files of testdata/wire that describe good frames.
func readVectors(tb testing.TB) []vector {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.txt"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no vectors in %s (%v)", vectorDir, err)
	}
	var all []vector
	for _, path := range files {
		if name := filepath.Base(path); name != "malformed.txt" && name != "will.txt" {
			all = append(all, readVectorFile(tb, name)...)
		}
	}
	return all
}

var fieldLine = regexp.MustCompile(`^([a-z_0-9]+) *= (.*?) *# *(\d+): ?([0-9a-f]*)`)

func readVectorFile(tb testing.TB, file string) []vector {
	tb.Helper()
	var all []vector
	var bytesSoFar []byte // what the annotations of the case's fields add up to
	for _, line := range readLines(tb, file) {
		if name, ok := strings.CutPrefix(line, "case = "); ok {
			all = append(all, vector{file: file, name: name})
			bytesSoFar = nil
			continue
		}
		v := &all[len(all)-1]
		if text, ok := strings.CutPrefix(line, "hex = "); ok {
			v.raw = unhex(tb, text)
			if !bytes.Equal(bytesSoFar, v.raw) {
				tb.Fatalf("%v: the fields' bytes are not the frame's\nfields %x\nframe  %x", v, bytesSoFar, v.raw)
			}
			continue
		}
		m := fieldLine.FindStringSubmatch(line)
		if m == nil || m[3] != strconv.Itoa(len(bytesSoFar)) {
			tb.Fatalf("%v: %q is not the field at offset %d", v, line, len(bytesSoFar))
		}
		bytesSoFar = append(bytesSoFar, unhex(tb, m[4])...)
		v.setField(tb, m[1], m[2])
	}
	return all
}

// setField gives the frame what the text says; the annotated bytes take no part.
func (v *vector) setField(tb testing.TB, name, value string) {
	tb.Helper()
	f := &v.frame
	switch name {
	case "magic", "version", "length", "seat", "pad", "size", "crc32c":
	case "kind":
		f.Kind = word[Kind](tb, value)
	case "reason":
		f.Reason = word[Reason](tb, value)
	case "verdict":
		f.Verdict = word[Verdict](tb, value)
	case "ack_verdict":
		f.AckVerdict = word[AckVerdict](tb, value)
	case "phase":
		f.Phase = phase(tb, f.Kind, value)
	case "knowledge":
		f.Knowledge = word[Knowledge](tb, value)
	case "purpose":
		f.Purpose = word[Purpose](tb, value)
	case "standing":
		f.Standing = word[Standing](tb, value)
	case "is_ready":
		f.IsReady = value == "yes"
	case "sender":
		f.Sender = mustID(tb, value)
	case "epoch_owner":
		f.Epoch.Owner = mustID(tb, value)
	case "will":
		f.Will = WillHash(unhex(tb, value))
	case "payload":
		f.Payload = string(unhex(tb, value))
	case "successor":
		f.Successor = mustID(tb, value)
	default:
		if place, ok := strings.CutPrefix(name, "voter_"); ok {
			v.setVoter(tb, place, value)
			return
		}
		v.setNumber(tb, name, value)
	}
}

// setVoter knows the voters by their places 1 to 15.
func (v *vector) setVoter(tb testing.TB, place, value string) {
	tb.Helper()
	i, err := strconv.Atoi(place)
	if err != nil || v.frame.Kind != Roster || i < 1 || i > MaxVoters {
		tb.Fatalf("%v: %v has no voter %q", v, v.frame.Kind, place)
	}
	v.frame.Voters[i-1] = mustID(tb, value)
}

func (v *vector) setNumber(tb testing.TB, name, value string) {
	tb.Helper()
	rows := rowsOf(v.frame.Kind)
	i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
	if i < 0 {
		tb.Fatalf("%v: %v has no field %q", v, v.frame.Kind, name)
	}
	n, err := strconv.ParseUint(value, 0, 8*rows[i].size)
	if err != nil {
		tb.Fatalf("%v: %s: %v", v, name, err)
	}
	digits := fmt.Sprintf("%0*x", 2*rows[i].size, n)
	rows[i].set(&v.frame, unhex(tb, digits))
}

// phase finds a phase by its word, which ROSTER has words of its own for.
func phase(tb testing.TB, k Kind, s string) Phase {
	tb.Helper()
	if k != Roster {
		return word[Phase](tb, s)
	}
	i := slices.Index([]string{1: "proposed", 2: "formed"}, s)
	if i < 1 {
		tb.Fatalf("no phase of ROSTER is called %q", s)
	}
	return Phase(i)
}

// word finds the constant whose text is s.
func word[T interface {
	~uint8
	fmt.Stringer
}](tb testing.TB, s string) T {
	tb.Helper()
	for v := range T(255) {
		if v.String() == s {
			return v
		}
	}
	tb.Fatalf("no %T is called %q", T(0), s)
	return 0
}

// readLines gives the lines of a file in testdata/wire that are neither empty
// nor comments.
func readLines(tb testing.TB, file string) []string {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(vectorDir, file))
	if err != nil {
		tb.Fatal(err)
	}
	var lines []string
	scan := bufio.NewScanner(bytes.NewReader(data))
	for scan.Scan() {
		if line := scan.Text(); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if scan.Err() != nil {
		tb.Fatalf("%s: %v", file, scan.Err())
	}
	return lines
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func mustID(tb testing.TB, s string) ID {
	tb.Helper()
	id, err := ParseID(s)
	if err != nil {
		tb.Fatalf("%q: %v", s, err)
	}
	return id
}
