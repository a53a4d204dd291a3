package agent

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

func copyState(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(from, stateName))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(to, 0o700), os.WriteFile(filepath.Join(to, stateName), content, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t *testing.T, dir string) *stateFile {
	t.Helper()
	s, err := openState(dir, "test", identity.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustWrite(t *testing.T, s *stateFile, saved election.Saved) {
	t.Helper()
	if err := s.write(saved); err != nil {
		t.Fatal(err)
	}
}

// someState has something in every field, and another vote and roster for each
// counter.
func someState(counter uint64) election.Saved {
	epoch := wire.Epoch{Counter: counter, Owner: wire.ID{1, 2}}
	return election.Saved{
		Incarnation: 7, MaxCounter: counter, Accepted: wire.Epoch{Counter: counter - 1, Owner: wire.ID{3}}, Promoted: epoch, Vote: epoch,
		LongestPromise: 1500 * time.Millisecond,
		Roster: election.Roster{
			Version: uint32(16 * counter), Formed: counter%2 == 0,
			IDs: []wire.ID{{1, 2}, {3}, {4, byte(counter)}},
		},
	}
}

// slotOf is what the n-th write of a state puts on disk.
func slotOf(s *stateFile, n uint64, saved election.Saved) []byte {
	return stateFormat.Append(n, s.encode(saved))
}

// someHost has a key, as each state that is written.
func someHost(cluster string) *stateFile {
	s := &stateFile{private: identity.FromBytes([identity.Size]byte{1}), Cluster: cluster}
	s.ID = s.private.Public().ID()
	return s
}

// isSame reports whether both are of one host.
func (s *stateFile) isSame(other *stateFile) bool {
	return s.private.Equal(other.private) && s.ID == other.ID && s.machine == other.machine && s.Cluster == other.Cluster
}

func same(a, b election.Saved) bool { return reflect.DeepEqual(a, b) }

func TestStateSurvivesARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	s := mustOpen(t, dir)
	id := s.ID
	for counter := range uint64(5) {
		mustWrite(t, s, someState(counter))
	}
	s.close()
	s = mustOpen(t, dir)
	defer s.close()
	if s.ID != id || s.private.Public().ID() != id || !same(s.saved, someState(4)) || s.Cluster != "test" {
		t.Errorf("read back %v %+v", s.ID, s.saved)
	}
}

// Torn writes: whatever part of the newer slot did not reach the disk, the
// state is the new one, the old one, or, if both are gone, a refusal; never
// anything else.
func TestTornAndFlippedStates(t *testing.T) {
	t.Run("first slot", func(t *testing.T) { tearAndFlip(t, 2) })
	t.Run("second slot", func(t *testing.T) { tearAndFlip(t, 3) })
}

// tearAndFlip spoils the last of so many writes.
func tearAndFlip(t *testing.T, writes uint64) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	for i := range writes {
		mustWrite(t, s, someState(i+1))
	}
	older, last := someState(writes-1), someState(writes)
	newer := int(writes % 2 * durable.SlotSize)
	length := len(slotOf(s, writes, s.saved))
	s.close()
	path := filepath.Join(dir, stateName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range length {
		torn := bytes.Clone(whole)
		clear(torn[newer+i : newer+length])
		expectOneOf(t, path, torn, older, last)
		flipped := bytes.Clone(whole) // make schedules turns each bit, in TestCrashOfTheStateFile
		flipped[newer+i] ^= 1 << (i % 8)
		expectOneOf(t, path, flipped, older)
		expectOneOf(t, path, whole[:newer+i], older)
	}
	expectOneOf(t, path, whole[:newer+length], last)
}

// expectOneOf reads this content of a state file, which it writes at path.
func expectOneOf(t *testing.T, path string, content []byte, want ...election.Saved) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	var s stateFile
	slots, slot, err := durable.OpenSlots(path, stateFormat)
	if err == nil {
		slots.Close()
		err = s.decode(slot)
	}
	for _, w := range want {
		if err == nil && same(s.saved, w) {
			return
		}
	}
	if !errors.Is(err, durable.ErrCorrupt) {
		t.Fatalf("read %+v, %v", s.saved, err)
	}
	if len(content) > durable.SlotSize+selfSize+nameHead && errors.Is(err, durable.ErrCorrupt) {
		t.Fatalf("one spoiled slot made the other one unreadable")
	}
}

func TestStateRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, dir string)
		want  string
	}{
		{"zeroed", func(t *testing.T, dir string) { rewrite(t, dir, make([]byte, 2*durable.SlotSize)) }, "no slot has a valid checksum"},
		{"empty", func(t *testing.T, dir string) { rewrite(t, dir, nil) }, "no slot has a valid checksum"},
		{"a text", func(t *testing.T, dir string) { rewrite(t, dir, []byte("hello")) }, "no slot has a valid checksum"},
		{"from the future", func(t *testing.T, dir string) {
			s := someHost("test")
			slot := slotOf(s, 1, someState(1))
			slot[5] = 99
			rewrite(t, dir, resum(slot))
		}, "newer version"},
		{"its older slot from the future", func(t *testing.T, dir string) {
			s := someHost("test")
			slot := slotOf(s, 1, someState(1))
			slot[5] = stateVersion + 1
			rewrite(t, dir, twoSlots(slotOf(s, 2, someState(2)), resum(slot)))
		}, "newer version"},
		{"of version 0", senseless(func(b []byte) []byte { b[5] = 0; return b }), "never written"},
		{"a hold-down without an end", senseless(func(b []byte) []byte { b[len(b)-1] = 1; return b }), "never written"},
		{"a hold-down without a length", senseless(func(b []byte) []byte { b[len(b)-16] = 1; return b }), "never written"},
		{"no key", senseless(func(b []byte) []byte { clear(b[16:48]); return b }), "never written"},
		{"half a key", senseless(func(b []byte) []byte { return b[:32] }), "never written"},
		{"a key alone", senseless(func(b []byte) []byte { return b[:64] }), "never written"},
		{"of version 4 with a key", senseless(func(b []byte) []byte { b[5] = 4; return b }), "never written"},
		{"a hold-down of years", senseless(func(b []byte) []byte { b[len(b)-16], b[len(b)-8] = 1, 1; return b }), "never written"},
		{"of version 2 with a hold-down", senseless(func(b []byte) []byte { b[5] = 2; return b }), "never written"},
		{"no accepted epoch", senseless(func(b []byte) []byte { return append(b[:len(b)-40], b[len(b)-16:]...) }), "never written"},
		{"half a hold-down", senseless(func(b []byte) []byte { return b[:len(b)-8] }), "never written"},
		{"of version 1 with a vote", senseless(func(b []byte) []byte { b[5] = 1; return b }), "never written"},
		{"its name beyond the end", senseless(func(b []byte) []byte { b[100] = 255; return b }), "never written"},
		{"its name a byte longer", senseless(func(b []byte) []byte { b[100]++; return b }), "never written"},
		{"no vote", senseless(func(b []byte) []byte { return b[:105] }), "never written"},
		{"a promise below zero", senseless(func(b []byte) []byte { b[129] |= 0x80; return b }), "never written"},
		{"formed otherwise", senseless(func(b []byte) []byte { b[141] = 2; return b }), "never written"},
		{"a voter fewer than counted", senseless(func(b []byte) []byte { b[142]++; return b }), "never written"},
		{"a voter more than counted", senseless(func(b []byte) []byte { b[142]--; return b }), "never written"},
		{"half a voter", senseless(func(b []byte) []byte { return append(b, make([]byte, 8)...) }), "never written"},
		{"sixteen voters", senseless(func(b []byte) []byte {
			b[142] = 16
			return append(b, make([]byte, 13*16)...)
		}), "never written"},
		{"of another cluster", func(t *testing.T, dir string) {
			s := someHost("other")
			rewrite(t, dir, slotOf(s, 1, someState(1)))
		}, `belongs to cluster "other", not "test"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.spoil(t, dir)
			before, _ := os.ReadFile(filepath.Join(dir, stateName))
			_, err := openState(dir, "test", identity.Machine{})
			var refused *Refusal
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a refusal with %q", err, c.want)
			}
			if after, _ := os.ReadFile(filepath.Join(dir, stateName)); !bytes.Equal(before, after) {
				t.Error("the refusal changed the file")
			}
		})
	}
}

// senseless makes a file whose newer slot was changed and given its checksum
// again. The older one is good, and must not be taken for the state.
func senseless(change func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		s := someHost("test")
		slot := slotOf(s, 2, someState(2))
		content := change(slot[:len(slot)-4])
		binary.BigEndian.PutUint16(content[6:], uint16(len(content)+4))
		rewrite(t, dir, twoSlots(resum(append(content, 0, 0, 0, 0)), slotOf(s, 1, someState(1))))
	}
}

// What senseless makes without a change is read, so that each refusal above has
// but the one cause.
func TestStateOfTwoSlotsIsRead(t *testing.T) {
	dir := t.TempDir()
	senseless(func(b []byte) []byte { return b })(t, dir)
	s := mustOpen(t, dir)
	defer s.close()
	if !same(s.saved, someState(2)) {
		t.Errorf("read %+v", s.saved)
	}
}

var (
	goldenID    = wire.ID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x46, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	goldenOther = wire.ID{0x5a, 0x6b, 0x7c, 0x8d, 0x9e, 0xaf, 0x40, 0xb1, 0x82, 0xc3, 0xd4, 0xe5, 0xf6, 0x07, 0x18, 0x29}
	goldenOwner = wire.ID{0xf0, 0xe0, 0xd0, 0xc0, 0xb0, 0xa0, 0x40, 0x90, 0x80, 0x70, 0x60, 0x50, 0x40, 0x30, 0x20, 0x10}
)

// The bytes of both versions, packed without code of ours. They never change.
const (
	goldenUntil = 1796000000123456789
	golden4     = "424c5953000400eb000000000000000a00112233445546778899aabbccddeeff00000008000000000000002c000000000000002b" +
		"f0e0d0c0b0a0409080706050403020100474657374000000000000002cf0e0d0c0b0a0409080706050403020100000000059682f" +
		"00000002b1010300112233445546778899aabbccddeeff5a6b7c8d9eaf40b182c3d4e5f6071829f0e0d0c0b0a040908070605040" +
		"302010000000000000002a5a6b7c8d9eaf40b182c3d4e5f607182918ecac7c07f5cd150000008bb2c970000118ecac7c07f5cd15" +
		"0000008bb2c970000e6b65726e656c207570677261646564f85697"
	golden5 = "424c59530005010b000000000000000a000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f1c9f5af0" +
		"12a20ca3385178f760b6646200000008000000000000002c000000000000002bf0e0d0c0b0a04090807060504030201004746573" +
		"74000000000000002cf0e0d0c0b0a0409080706050403020100000000059682f00000002b1010300112233445546778899aabbcc" +
		"ddeeff5a6b7c8d9eaf40b182c3d4e5f6071829f0e0d0c0b0a040908070605040302010000000000000002a5a6b7c8d9eaf40b182" +
		"c3d4e5f607182918ecac7c07f5cd150000008bb2c970000118ecac7c07f5cd150000008bb2c970000e6b65726e656c2075706772" +
		"616465d20a0b96"
)

// goldenHost has the first key, and is on the first machine, of testdata/identity.
func goldenHost(t *testing.T) *stateFile {
	t.Helper()
	key := [identity.Size]byte(unhex(t, "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"))
	id, err := wire.ParseID("fe1095c4-2ece-8f33-9e10-046f06a380f5")
	if err != nil {
		t.Fatal(err)
	}
	return &stateFile{private: identity.FromBytes(key), ID: id, machine: identity.MachineOf([]byte("0d53b8c34749f9b28be69d288054d380\n")), Cluster: "test"}
}

// goldenSaved is what they hold.
var goldenSaved = election.Saved{
	Incarnation: 8, MaxCounter: 44, Promoted: wire.Epoch{Counter: 43, Owner: goldenOwner}, Accepted: wire.Epoch{Counter: 42, Owner: goldenOther},
	Vote: wire.Epoch{Counter: 44, Owner: goldenOwner}, LongestPromise: 1500 * time.Millisecond,
	Roster: election.Roster{Version: 689, Formed: true, IDs: []wire.ID{goldenID, goldenOther, goldenOwner}},
}

func TestGoldenState(t *testing.T) {
	want, s := goldenSaved, goldenHost(t)
	s.hold = hold{until: time.Unix(0, goldenUntil), length: 10 * time.Minute}
	s.maintenance = maintenance{isOn: true, end: s.hold, reason: "kernel upgrade"}
	if got := hex.EncodeToString(slotOf(s, 10, want)); got != golden5 {
		t.Errorf("wrote\n%s, want\n%s", got, golden5)
	}
	for text, who := range map[string]*stateFile{golden4: {ID: goldenID, Cluster: "test"}, golden5: s} {
		got, number, err := readSlot(unhex(t, text))
		if err != nil || number != 10 || !got.isSame(who) || !same(got.saved, want) || got.hold != s.hold || got.maintenance != s.maintenance {
			t.Errorf("read write %d of %v: %+v, %+v, error %v", number, got.ID, got.saved, got.hold, err)
		}
	}
}

// The first write of an agent that is updated may be torn: the state of the version before is left then.
func TestATornUpdateLeavesTheState(t *testing.T) {
	newer := unhex(t, golden4)
	older := bytes.Clone(newer)
	binary.BigEndian.PutUint64(older[8:], 9)
	content := twoSlots(resum(older), newer)
	path := filepath.Join(t.TempDir(), stateName)
	expectOneOf(t, path, content, goldenSaved)
	copy(content, slotOf(someHost("test"), 11, someState(1))[:100])
	expectOneOf(t, path, content, goldenSaved)
}

// expectVersions looks at the file's slots, and returns its content.
func expectVersions(t *testing.T, dir string, first, second byte) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		t.Fatal(err)
	}
	if content[5] != first || content[durable.SlotSize+5] != second {
		t.Errorf("slots of version %d and %d, want %d and %d", content[5], content[durable.SlotSize+5], first, second)
	}
	return content
}

func TestStateRoundTrips(t *testing.T) {
	full := election.Roster{Version: math.MaxUint32, Formed: true, IDs: make([]wire.ID, wire.MaxVoters)}
	for i := range full.IDs {
		full.IDs[i] = wire.ID(bytes.Repeat([]byte{byte(0xf0 + i)}, 16))
	}
	last := wire.Epoch{Counter: math.MaxUint64, Owner: full.IDs[0]}
	for _, c := range []struct {
		name, cluster string
		saved         election.Saved
	}{
		{"nothing", "", election.Saved{}},
		{"no voters", "test", election.Saved{Roster: election.Roster{Version: 1, Formed: true}}},
		{"a roster that is not formed", "test", election.Saved{Roster: election.Roster{Version: 1, IDs: full.IDs[:3]}}},
		{"a vote alone", "test", election.Saved{Vote: last}},
		{"a promise alone", "test", election.Saved{LongestPromise: 1}},
		{"everything at its end", strings.Repeat("n", 255), election.Saved{
			Incarnation: math.MaxUint32, MaxCounter: math.MaxUint64, Accepted: last, Promoted: last, Vote: last,
			LongestPromise: math.MaxInt64, Roster: full,
		}},
	} {
		t.Run(c.name, func(t *testing.T) { expectRoundTrip(t, c.cluster, c.saved) })
	}
}

func expectRoundTrip(t *testing.T, cluster string, saved election.Saved) {
	t.Helper()
	s := goldenHost(t)
	s.Cluster = cluster
	slot := slotOf(s, 5, saved)
	if len(slot) > durable.SlotSize {
		t.Fatalf("%d bytes do not fit a slot of %d", len(slot), durable.SlotSize)
	}
	for n := range slot {
		if _, _, err := readSlot(slot[:n]); !errors.Is(err, durable.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: error %v", n, err)
		}
	}
	got, number, err := readSlot(slot)
	clear(slot) // what was read keeps nothing of the buffer
	if err != nil || number != 5 || !got.isSame(s) || !same(got.saved, saved) {
		t.Errorf("read write %d of %v: %+v, error %v", number, got.ID, got.saved, err)
	}
}

func readSlot(b []byte) (s stateFile, number uint64, err error) {
	slot, err := stateFormat.Parse(b)
	if err == nil {
		err = s.decode(slot)
	}
	return s, slot.Number, err
}

func TestStateOfTooManyVotersIsABug(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); text != "BUG: save a roster of 16 voters" {
			t.Errorf("panic is %q", text)
		}
	}()
	new(stateFile).encode(election.Saved{Roster: election.Roster{IDs: make([]wire.ID, 16)}})
}

// A copied directory is the other node, with all that it promised: that two of
// them run is for the election to find (R2).
func TestStateOfAnotherNode(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	s := mustOpen(t, from)
	defer s.close()
	mustWrite(t, s, someState(1))
	mustWrite(t, s, someState(2))
	copyState(t, from, to)
	clone := mustOpen(t, to)
	defer clone.close()
	if !clone.isSame(s) || !same(clone.saved, someState(2)) {
		t.Errorf("read %v: %+v", clone.ID, clone.saved)
	}
}

func TestStateDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	defer s.close()
	if _, err := openState(dir, "test", identity.Machine{}); err == nil || !strings.Contains(err.Error(), "another agent uses it (pid") {
		t.Errorf("a second agent got %v", err)
	}
}

func rewrite(t *testing.T, dir string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, stateName), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func twoSlots(first, second []byte) []byte {
	content := make([]byte, 2*durable.SlotSize)
	copy(content, first)
	copy(content[durable.SlotSize:], second)
	return content
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// resum gives a slot its checksum again after it was changed.
func resum(slot []byte) []byte {
	body := slot[:len(slot)-4]
	return binary.BigEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}
