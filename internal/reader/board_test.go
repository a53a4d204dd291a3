package reader

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func newPair(t interface {
	Fatal(...any)
	Cleanup(func())
}) (*boards, *view) {
	b, err := newBoards()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	v, err := newView(b.readOnly)
	if err != nil {
		t.Fatal(err)
	}
	return b, v
}

// pictured is a text of which every part tells the whole: its number, again and again.
func pictured(n uint64, size int) []byte {
	word := binary.LittleEndian.AppendUint64(nil, n)
	return append(bytes.Repeat(word, size), byte(n))
}

// Whoever reads while a board is written, as fast as that can be, gets a whole text or says that it has none, and never an
// older one than before.
func TestABoardIsNeverTorn(t *testing.T) {
	b, v := newPair(t)
	const texts = 3000
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for last, torn := uint64(0), 0; last < texts; {
				s, err := v.read(ofHost)
				if err != nil {
					torn++
					continue
				}
				if s.number == 0 {
					continue
				}
				if s.number < last || s.answer != s.number || !bytes.Equal(s.text, pictured(s.number, (len(s.text)-1)/8)) {
					t.Errorf("after %d: number %d of question %d, %d bytes", last, s.number, s.answer, len(s.text))
					return
				}
				last = s.number
			}
		})
	}
	for n := range uint64(texts) {
		if err := b.write(ofHost, n+1, pictured(n+1, rand.IntN(4000))); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
}

// Whatever is written and refused, a reader finds the last text that was taken.
func TestBoardsHaveTheLastText(t *testing.T) {
	tooLong := make([]byte, mostText+1)
	rapid.Check(t, func(t *rapid.T) {
		b, v := newPair(t)
		var last [kinds]sheet
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				k := kind(rapid.IntRange(0, int(kinds)-1).Draw(t, "kind"))
				s := sheet{last[k].number + 1, rapid.Uint64().Draw(t, "answer"), rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "text")}
				if err := b.write(k, s.answer, s.text); err != nil {
					t.Fatal(err)
				}
				last[k] = s
			},
			"too long": func(t *rapid.T) {
				if err := b.write(ofHost, 1, tooLong); err != errTooLong {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				for k := range kinds {
					s, err := v.read(k)
					if err != nil || s.number != last[k].number || s.answer != last[k].answer || !bytes.Equal(s.text, last[k].text) {
						t.Fatalf("board %d has %+v, %v, want %+v", k, s, err, last[k])
					}
				}
			},
		})
	})
}

// One text that cannot be written keeps no later one from its board.
func TestAFailedWriteLosesNothingElse(t *testing.T) {
	b, v := newPair(t)
	whole := b.file
	b.file = b.readOnly // which takes nothing
	if err := b.write(ofEvents, 0, []byte("one")); err == nil {
		t.Fatal("it was written to a file that is read")
	}
	b.file = whole
	if err := b.write(ofEvents, 0, []byte("two")); err != nil {
		t.Fatal(err)
	}
	if s, err := v.read(ofEvents); err != nil || string(s.text) != "two" {
		t.Errorf("%+v, %v", s, err)
	}
}

// The end that others get can be read, and neither written nor cut; and the longest text has room.
func TestReadersCannotWriteTheirBoards(t *testing.T) {
	b, v := newPair(t)
	fd := int(b.readOnly.Fd())
	if _, err := unix.Pwrite(fd, []byte("x"), 0); err != unix.EBADF {
		t.Errorf("written: %v", err)
	}
	if err := unix.Ftruncate(fd, 0); err == nil {
		t.Error("cut")
	}
	if err := unix.Ftruncate(int(b.file.Fd()), 0); err != unix.EPERM {
		t.Errorf("cut by the writer: %v", err)
	}
	if _, err := unix.Mmap(fd, 0, wordsSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != unix.EACCES {
		t.Errorf("mapped to be written: %v", err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&0o777 != 0o400 {
		t.Errorf("mode %o, %v", stat.Mode, err)
	}
	longest := make([]byte, mostText)
	longest[mostText-1] = 7
	if err := b.write(kinds-1, 1, longest); err != nil {
		t.Fatal(err)
	}
	if s, err := v.read(kinds - 1); err != nil || !bytes.Equal(s.text, longest) {
		t.Errorf("%d bytes, %v", len(s.text), err)
	}
}
