package fence

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var (
	old  = Epoch{41, "alpha"}
	next = Epoch{42, "beta"}
)

func pages(first, second []byte) []byte { return slices.Concat(first, second) }

func TestFileIsTextForPeople(t *testing.T) {
	line, rest, _ := bytes.Cut(fresh(Epoch{42, "0b6c"}), []byte("\n"))
	if want := "bully-agent fence 1 epoch 42 owner 0b6c crc32c 7c7cf4d9"; string(line) != want {
		t.Errorf("line %q, want %q", line, want)
	}
	if rest[0] != 0 || len(fresh(old)) != fileSize {
		t.Error("a page is not filled up with NUL bytes")
	}
}

func TestEveryEpochIsReadAsItWasWritten(t *testing.T) {
	for _, e := range []Epoch{{1, ""}, {1, "-a"}, {1<<64 - 1, strings.Repeat("z", maxOwner)}, {7, "A.b_c-9"}} {
		if got, err := decode(encode(e)); err != nil || got != e {
			t.Errorf("%v was read as %v (%v)", e, got, err)
		}
	}
}

// Promise 2: whatever of a change has reached the disk when the power goes, down
// to the byte, the file holds the old epoch or the new one; and the new one as
// soon as it has been accepted.
func TestACrashLeavesTheOldEpochOrTheNew(t *testing.T) {
	points := 0
	for _, before := range [][]byte{
		fresh(old),
		pages(encode(Epoch{40, "alpha"}), encode(old)), // what an earlier crash left
		pages(encode(old), encode(Epoch{40, "alpha"})),
		pages(encode(old), bytes.Repeat([]byte("x"), copySize)),
		pages(make([]byte, copySize), encode(old)),
	} {
		highest, writes, err := plan(before, next)
		if err != nil || highest != old {
			t.Fatalf("highest %v (%v), want %v", highest, err, old)
		}
		disk := slices.Clone(before)
		for _, w := range writes {
			for _, torn := range tears(disk[w.at:w.at+copySize], w.text) {
				points++
				after := slices.Clone(disk)
				copy(after[w.at:], torn)
				if got, _, err := plan(after, next); err != nil || got != old && got != next {
					t.Fatalf("a crash in the write at %d left %v (%v)", w.at, got, err)
				}
			}
			copy(disk[w.at:], w.text)
		}
		if got, _, err := plan(disk, next); err != nil || got != next {
			t.Fatalf("accepted, and the file holds %v (%v)", got, err)
		}
	}
	t.Logf("%d crash points", points)
}

// tears gives what a torn write can leave: any number of the first or of the last
// bytes new, and any one of the sectors.
func tears(before, after []byte) (all [][]byte) {
	differ := 0
	for i := range after {
		if before[i] != after[i] {
			differ = i + 1
		}
	}
	for n := range differ + 1 {
		all = append(all, slices.Concat(after[:n], before[n:]), slices.Concat(before[:n], after[n:]))
	}
	for at := 0; at < copySize; at += 512 {
		all = append(all, slices.Concat(before[:at], after[at:at+512], before[at+512:]))
	}
	return all
}

// A bit that flips later costs nothing: an accepted epoch stands twice.
func TestAFlippedBitLosesNothing(t *testing.T) {
	whole := fresh(next)
	for bit := range fileSize * 8 {
		content := slices.Clone(whole)
		content[bit/8] ^= 1 << (bit % 8)
		if got, _, err := plan(content, next); err != nil || got != next {
			t.Fatalf("bit %d: %v (%v)", bit, got, err)
		}
	}
}

func TestOtherContentIsRefused(t *testing.T) {
	newer := bytes.Replace(encode(next), []byte("fence 1"), []byte("fence 2"), 1)
	for _, tt := range []struct {
		name    string
		content []byte
		want    error
	}{
		{"empty", nil, errForeign},
		{"zeros", make([]byte, fileSize), errForeign},
		{"something else", bytes.Repeat([]byte("root:x:0:0\n"), 800)[:fileSize], errForeign},
		{"cut short", fresh(old)[:fileSize-1], errForeign},
		{"half", encode(old), errForeign},
		{"longer", append(fresh(old), '\n'), errForeign},
		{"two owners of one epoch", pages(encode(Epoch{42, "a"}), encode(Epoch{42, "b"})), errForeign},
		{"newer version", pages(resum(newer), resum(newer)), errNewer},
		{"newer version in one copy", pages(encode(old), resum(newer)), errNewer},
		{"not as it is written", bytes.Repeat(resum(bytes.Replace(encode(next), []byte("epoch 42"), []byte("epoch 042"), 1)), 2), errForeign},
		{"epoch 0", bytes.Repeat(resum(bytes.Replace(encode(next), []byte("epoch 42"), []byte("epoch 0"), 1)), 2), errForeign},
	} {
		if _, writes, err := plan(tt.content, next); err != tt.want || writes != nil {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// resum gives a page whose line was changed its checksum and its length back.
func resum(page []byte) []byte {
	body, _, _ := strings.Cut(string(page), " crc32c ")
	line := fmt.Sprintf("%s crc32c %08x\n", body, checksum(body))
	return append([]byte(line), make([]byte, copySize-len(line))...)
}

func FuzzPlanNeverLowers(f *testing.F) {
	f.Add(fresh(old), uint64(42), "beta")
	f.Add(pages(encode(next), encode(old)), uint64(3), "")
	f.Fuzz(func(t *testing.T, content []byte, counter uint64, owner string) {
		e := Epoch{counter, owner}
		if e.validate() != nil { // Check refuses it first
			return
		}
		highest, writes, err := plan(content, e)
		if err != nil || !e.follows(highest) {
			return
		}
		for _, w := range writes {
			copy(content[w.at:], w.text)
			if got, _, err := plan(content, e); err != nil || got.Counter < highest.Counter {
				t.Fatalf("%v became %v (%v)", highest, got, err)
			}
		}
	})
}
