package run

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// Against the obvious model: keep everything, cut at the end.
func TestTailKeepsTheEnd(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var kept Tail
	var all []byte
	for range 200 {
		chunk := make([]byte, rng.IntN(3000))
		if rng.IntN(50) == 0 {
			chunk = make([]byte, TailSize+rng.IntN(TailSize))
		}
		for i := range chunk {
			chunk[i] = byte(rng.Uint32())
		}
		_, _ = kept.Write(chunk)
		all = append(all, chunk...)
		got, total := kept.Bytes()
		if want := all[max(0, len(all)-TailSize):]; !bytes.Equal(got, want) || total != int64(len(all)) {
			t.Fatalf("after %d bytes: kept %d, counted %d", len(all), len(got), total)
		}
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, tt := range []struct {
		name   string
		chunks []string
		want   []string
	}{
		{"whole", []string{"one\ntwo\n"}, []string{"one", "two"}},
		{"in pieces", []string{"o", "ne\nt", "wo"}, []string{"one", "two"}},
		{"empty lines", []string{"\n\r\none\n\n"}, []string{"one"}},
		{"carriage returns", []string{"one\r\n"}, []string{"one"}},
		{"exactly full", []string{long + "\n"}, []string{long}},
		{"too long", []string{long + "yz", "z\nnext\n"}, []string{long + "…", "next"}},
		{"not text", []string{"a\xffb\n"}, []string{"a\uFFFDb"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			l := lines{admit: func() bool { return true }, emit: func(line string) { got = append(got, line) }}
			for _, chunk := range tt.chunks {
				l.write([]byte(chunk))
			}
			l.flush()
			if !slices.Equal(got, tt.want) {
				t.Errorf("lines %q, want %q", got, tt.want)
			}
		})
	}
}

// What comes with a line that is not admitted is counted, the unfinished line after it
// is not lost, and the next write asks again.
func TestLinesThatAreNotAdmitted(t *testing.T) {
	var got []string
	asked, refused := 0, int64(0)
	l := lines{admit: func() bool { asked++; return asked != 2 }, refuse: func(n int64) int64 { refused += n; return refused },
		emit: func(line string) { got = append(got, line) }}
	l.write([]byte("one\ntwo\nthree\n\nfour\nfi"))
	l.write([]byte("ve\nsix\n"))
	l.flush()
	if want := []string{"one", "five", "six"}; !slices.Equal(got, want) || refused != 3 || asked != 4 {
		t.Errorf("lines %q, want %q; asked %d times, refused %d lines", got, want, asked, refused)
	}
}

func TestLinesInTheLogAreBounded(t *testing.T) {
	now, o := time.Now(), Silent()
	taken := func() (n int) {
		for range 10 * lineBurst {
			if o.admit(now) {
				n++
			}
		}
		return n
	}
	if n := taken(); n != lineBurst {
		t.Errorf("burst of %d, want %d", n, lineBurst)
	}
	now = now.Add(time.Second)
	if n := taken(); n != lineRate {
		t.Errorf("%d lines in the second after, want %d", n, lineRate)
	}
	now = now.Add(time.Hour)
	if n := taken(); n != lineBurst {
		t.Errorf("%d lines after an hour, want %d", n, lineBurst)
	}
	if got, want := o.Dropped(), int64(3*10*lineBurst-2*lineBurst-lineRate); got != want {
		t.Errorf("counted %d dropped, want %d", got, want)
	}
}

// What a command prints at once is read at once; whoever prints for ever waits.
func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newPace()
	after := func(n int) time.Duration { return p.ReserveN(now, n).DelayFrom(now) }
	for range readBurst / pipeSize {
		if wait := after(pipeSize); wait > 0 {
			t.Fatalf("a wait of %v within the burst", wait)
		}
	}
	total, begun := 0, now
	for range 100 {
		total += pipeSize
		now = now.Add(after(pipeSize))
	}
	if got, want := now.Sub(begun), time.Duration(total)*time.Second/readRate; got.Round(time.Millisecond) != want.Round(time.Millisecond) {
		t.Errorf("%d bytes after the burst took %v, want %v", total, got, want)
	}
	if wait := after(pipeSize); wait >= ending.DrainGrace {
		t.Errorf("a wait of %v: the end of what was printed would be lost", wait)
	}
	now = now.Add(time.Hour) // the burst is back
	if wait := after(readBurst); wait > 0 {
		t.Errorf("a wait of %v after a pause", wait)
	}
}
