package wire

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A row is one field of the offset table of protocol 8. The table below is the
// tests' own: decode reads frames by it, slowly and without any of the
// package's code, so that Append and Parse have somebody to disagree with.
type row struct {
	off, size int
	name      string // as in doc.go and testdata/wire
	field     string // path in Frame; "" where the frame has no such field
}

var headerRows = []row{
	{0, 2, "magic", ""},
	{2, 1, "version", ""},
	{3, 1, "kind", "Kind"},
	{4, 2, "length", ""},
	{6, 1, "algo", "Algo"},
	{7, 1, "flags", "Flags"},
	{8, 4, "cluster", "Cluster"},
	{12, 4, "config_hash", "ConfigHash"},
	{16, 16, "sender", "Sender"},
	{32, 4, "incarnation", "Incarnation"},
	{36, 4, "nonce", "Nonce"},
	{40, 4, "seq", "Seq"},
	{44, 4, "round", "Round"},
	{48, 8, "epoch_counter", "Epoch.Counter"},
	{56, 16, "epoch_owner", "Epoch.Owner"},
	{72, 2, "priority", "Priority"},
	{74, 2, "seat", ""},
}

var bodyRows = map[Kind][]row{
	Election: {
		{76, 1, "reason", "Reason"}, {77, 1, "attempt", "Attempt"},
		{78, 2, "pad", ""}, {80, 4, "heartbeat_age", "HeartbeatAge"}, {84, 8, "failed_counter", "FailedCounter"},
	},
	Answer: {
		{76, 1, "verdict", "Verdict"}, {77, 1, "attempt", "Attempt"}, {78, 2, "pad", ""},
		{80, 4, "eta", "ETA"}, {84, 4, "echo_seq", "EchoSeq"}, {88, 4, "heartbeat_age", "HeartbeatAge"},
	},
	Coordinator: {
		{76, 1, "phase", "Phase"}, {77, 3, "pad", ""}, {80, 4, "lease", "Lease"},
		{84, 4, "roster_version", "RosterVersion"}, {88, 16, "will", "Will"},
	},
	CoordAck: {
		{76, 1, "ack_verdict", "AckVerdict"}, {77, 3, "pad", ""}, {80, 4, "remain", "Remain"},
		{84, 4, "echo_seq", "EchoSeq"},
	},
	Query: {{76, 4, "pad", ""}},
	Cid: {
		{76, 1, "knowledge", "Knowledge"}, {77, 3, "pad", ""}, {80, 4, "heartbeat_age", "HeartbeatAge"},
		{84, 4, "remain", "Remain"},
	},
	Heartbeat: {
		{76, 4, "lease", "Lease"}, {80, 4, "interval", "Interval"}, {84, 4, "roster_version", "RosterVersion"},
		{88, 4, "late", "Late"}, {92, 16, "will", "Will"},
	},
	HeartAck: {
		{76, 4, "echo_seq", "EchoSeq"}, {80, 1, "ack_flags", "AckFlags"}, {81, 3, "pad", ""},
	},
	Nominate:  {{76, 1, "reason", "Reason"}, {77, 3, "pad", ""}},
	Resign:    {{76, 1, "reason", "Reason"}, {77, 3, "pad", ""}, {80, 16, "successor", "Successor"}},
	ResignAck: {{76, 4, "echo_seq", "EchoSeq"}},
	Probe:     {{76, 1, "purpose", "Purpose"}, {77, 3, "pad", ""}},
	ProbeAck: {
		{76, 4, "echo_seq", "EchoSeq"}, {80, 4, "heartbeat_age", "HeartbeatAge"},
		{84, 1, "standing", "Standing"}, {85, 3, "pad", ""},
	},
	Prepare: {{76, 4, "pad", ""}},
	Ready:   {{76, 1, "is_ready", "IsReady"}, {77, 3, "pad", ""}, {80, 4, "echo_seq", "EchoSeq"}},
	Leave:   {{76, 4, "pad", ""}},
	Roster: {
		{76, 4, "roster_version", "RosterVersion"}, {80, 1, "phase", "Phase"}, {81, 1, "count", "Count"},
		{82, 2, "pad", ""}, {84, 240, "voters", "Voters"},
	},
	RosterAck: {
		{76, 1, "ack_verdict", "AckVerdict"}, {77, 3, "pad", ""}, {80, 4, "echo_seq", "EchoSeq"},
		{84, 4, "roster_version", "RosterVersion"},
	},
	Canvass: {
		{76, 1, "reason", "Reason"}, {77, 1, "attempt", "Attempt"},
		{78, 2, "pad", ""}, {80, 4, "heartbeat_age", "HeartbeatAge"}, {84, 4, "roster_version", "RosterVersion"},
	},
	JobClaim:   {{76, 2, "size", ""}, {78, 2, "pad", ""}, {80, 0, "payload", "Payload"}},
	JobWitness: {{76, 1, "why", "Why"}, {77, 3, "pad", ""}},
	JobRecord:  {{76, 2, "size", ""}, {78, 2, "pad", ""}, {80, 0, "payload", "Payload"}},
	LedgerQuery: {
		{76, 8, "digest", "Digest"}, {84, 2, "place", "Place"}, {86, 2, "pad", ""},
	},
	LedgerPart: {
		{76, 8, "digest", "Digest"}, {84, 2, "place", "Place"}, {86, 2, "parts", "Parts"},
		{88, 2, "size", ""}, {90, 2, "pad", ""}, {92, 0, "payload", "Payload"},
	},
	Clients: {
		{76, 2, "place", "Place"}, {78, 2, "parts", "Parts"},
		{80, 2, "size", ""}, {82, 2, "pad", ""}, {84, 0, "payload", "Payload"},
	},
}

// kinds are those that have a number, in its order.
func kinds() []Kind {
	var all []Kind
	for k := range kindEnd {
		if len(bodyRows[k]) > 0 {
			all = append(all, k)
		}
	}
	return all
}

// sizeAt is where a kind's frames have the size of their payload; 0: nowhere.
func sizeAt(k Kind) int {
	for _, r := range bodyRows[k] {
		if r.name == "size" {
			return r.off
		}
	}
	return 0
}

// payloadSize is what a frame says of its payload.
func payloadSize(raw []byte) int {
	if at := sizeAt(Kind(raw[3])); at > 0 {
		return int(raw[at])<<8 | int(raw[at+1])
	}
	return 0
}

func rowsOf(k Kind) []row { return append(append([]row(nil), headerRows...), bodyRows[k]...) }

// frameSize is what a frame of kind k occupies, by the table, without payload.
func frameSize(k Kind) int {
	last := bodyRows[k][len(bodyRows[k])-1]
	return last.off + last.size + 4
}

// decode reads a frame that is known to be good.
func decode(raw []byte) Frame {
	f := Frame{Minor: raw[2] % 16}
	for _, r := range rowsOf(Kind(raw[3])) {
		size := r.size
		if r.name == "payload" {
			size = payloadSize(raw)
		}
		r.set(&f, raw[r.off:r.off+size])
	}
	f.Flags &^= 1 << 2 // has no meaning yet
	clear(f.Voters[f.Count:])
	return f
}

// set gives f's field the value that raw has on the wire.
func (r row) set(f *Frame, raw []byte) {
	if r.field == "" {
		return
	}
	v := reflect.ValueOf(f).Elem()
	for name := range strings.SplitSeq(r.field, ".") {
		v = v.FieldByName(name)
	}
	var n uint64
	for _, b := range raw {
		n = n<<8 | uint64(b)
	}
	switch v.Kind() {
	case reflect.Array:
		setArray(v, raw)
	case reflect.Bool:
		v.SetBool(n == 1)
	case reflect.String:
		v.SetString(string(raw))
	default:
		v.SetUint(n)
	}
}

// setArray fills an identity, or several.
func setArray(v reflect.Value, raw []byte) {
	if v.Type().Elem().Kind() != reflect.Array {
		reflect.Copy(v, reflect.ValueOf(raw))
		return
	}
	for i := range v.Len() {
		setArray(v.Index(i), raw[16*i:16*i+16])
	}
}

// crc32c is CRC-32C bit by bit from its definition.
func crc32c(b []byte) uint32 {
	crc := ^uint32(0)
	for _, x := range b {
		crc ^= uint32(x)
		for range 8 {
			if crc&1 != 0 {
				crc = crc>>1 ^ 0x82f63b78
			} else {
				crc >>= 1
			}
		}
	}
	return ^crc
}

// reseal gives a frame its right checksum, after a test has changed it.
func reseal(raw []byte) []byte {
	end := len(raw) - 4
	return binary.BigEndian.AppendUint32(raw[:end:end], crc32c(raw[:end]))
}

// randomFrame is a good frame with chance in every byte that may vary,
// including those that a receiver ignores, and often with an appended body.
func randomFrame(rng *rand.Rand) []byte {
	k := kinds()[rng.IntN(len(kinds()))]
	size, payload := frameSize(k), 0
	if sizeAt(k) > 0 {
		payload = rng.IntN(MaxPayload + 1)
		size += payload
	}
	if rng.IntN(2) == 0 {
		size += rng.IntN(MaxFrame - size + 1)
	}
	raw := make([]byte, size)
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	raw[0], raw[1], raw[2], raw[3] = 0xb7, 0x1e, 0x30|raw[2]&0x0f, byte(k)
	raw[74], raw[75] = 0, 0
	binary.BigEndian.PutUint16(raw[4:], uint16(size))
	switch {
	case k == Roster:
		raw[81] %= 16 // at most 15 voters
	case sizeAt(k) > 0:
		binary.BigEndian.PutUint16(raw[sizeAt(k):], uint16(payload))
	case rng.IntN(2) == 0:
		raw[76] &= 1 // so that a random READY says yes often enough
	}
	return reseal(raw)
}

// Parse reads what the slow decoder reads, and Append writes what the slow
// decoder reads back.
func TestTheOffsetTableAgreesOnRandomFrames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1982, 48)) // any seed will do; a fixed one makes a failure come back
	var seen [kindEnd]int
	for range 10_000 {
		raw := randomFrame(rng)
		want := decode(raw)
		seen[want.Kind]++

		var got Frame
		if err := Parse(raw, &got); err != nil {
			t.Fatalf("%v\nhex %x", err, raw)
		}
		if got != want {
			t.Fatalf("parsed otherwise than the table says\ngot  %+v\nwant %+v\nhex  %x", got, want, raw)
		}

		sent := Append(nil, &want)
		want.Minor = 0
		if len(sent) != frameSize(want.Kind)+len(want.Payload) || decode(sent) != want || string(reseal(sent)) != string(sent) {
			t.Fatalf("appended otherwise than the table says\nframe %+v\nhex   %x", want, sent)
		}
		checkZeros(t, sent)
	}
	for _, k := range kinds() {
		if seen[k] < 300 {
			t.Errorf("%v came up only %d times in 10,000", k, seen[k])
		}
	}
}

// checkZeros fails unless everything is zero that must be sent zero.
func checkZeros(t *testing.T, raw []byte) {
	t.Helper()
	if raw[7]&0x04 != 0 {
		t.Errorf("the reserved flag is set: %02x", raw[7])
	}
	if raw[74]|raw[75] != 0 {
		t.Errorf("seat %x is not 0", raw[74:76])
	}
	for _, r := range rowsOf(Kind(raw[3])) {
		for _, b := range raw[r.off+r.used(raw) : r.off+r.size] {
			if b != 0 {
				t.Errorf("%s at %d is not zero in %x", r.name, r.off, raw)
			}
		}
	}
}

// used is how many bytes of r's say something in the frame; those behind them
// are padding.
func (r row) used(raw []byte) int {
	switch r.name {
	case "pad":
		return 0
	case "voters":
		return 16 * int(raw[81])
	}
	return r.size
}

// The table has no gap and no overlap, for every kind.
func TestFieldsTileTheFrame(t *testing.T) {
	for _, k := range kinds() {
		next := 0
		for _, r := range rowsOf(k) {
			if r.off != next {
				t.Errorf("%v: %s is at %d, after a field that ends at %d", k, r.name, r.off, next)
			}
			next = r.off + r.size
		}
	}
}

// The diagrams in doc.go are what people write other implementations from.
func TestDocShowsTheOffsetTable(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	got := diagrams(string(source))
	if len(kinds()) != 25 {
		t.Errorf("the table has %d kinds", len(kinds()))
	}
	for _, k := range kinds() {
		title := fmt.Sprintf("%v (%d), %d bytes", k, k, frameSize(k)-MinFrame)
		if !reflect.DeepEqual(got[title], plain(bodyRows[k])) {
			t.Errorf("doc.go draws %q as %v, want %v", title, got[title], plain(bodyRows[k]))
		}
	}
	if want := plain(headerRows); !reflect.DeepEqual(got["off size field"], want) {
		t.Errorf("doc.go draws the header as %v, want %v", got["off size field"], want)
	}
}

var (
	diagramTitle = regexp.MustCompile(`^//\t(off size field|[A-Z_]+ \(\d+\), \d+ bytes)$`)
	diagramRow   = regexp.MustCompile(`^//\t +(\d+) +(\d+)  ([a-z_0-9]+)`)
)

// diagrams collects the rows under each title of doc.go.
func diagrams(source string) map[string][]row {
	found, title := map[string][]row{}, ""
	for line := range strings.Lines(source) {
		if m := diagramTitle.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			title = m[1]
		}
		if m := diagramRow.FindStringSubmatch(line); m != nil {
			off, _ := strconv.Atoi(m[1])
			size, _ := strconv.Atoi(m[2])
			found[title] = append(found[title], row{off: off, size: size, name: m[3]})
		}
	}
	return found
}

func plain(rows []row) []row {
	rows = append([]row(nil), rows...)
	for i := range rows {
		rows[i].field = ""
	}
	return rows
}
