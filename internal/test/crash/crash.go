// Package crash finds what a crash or a loss of power can leave of the files of one
// directory: it records what package durable does to them, and makes the disk of every
// moment between. It is for tests.
package crash

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/bully-agent/bully-agent/internal/durable"
)

// ErrInjected is what an operation ends with that was made to fail.
var ErrInjected = errors.New("injected: input/output error")

// Trace is all that was done to the files of a directory, in order. It is safe for
// concurrent use.
type Trace struct {
	t      testing.TB
	dir    string
	before map[string][]byte
	stop   func()

	mu    sync.Mutex
	steps []step
	fails int // the number of the operation that fails; below 0: none
}

// step is one operation, or a mark of the test.
type step struct {
	op   durable.Op
	mark int
	isOp bool
}

// Record begins to record what is done in dir. Only one Trace can be recorded at a time.
func Record(t testing.TB, dir string) *Trace {
	t.Helper()
	r := &Trace{t: t, dir: dir, before: Files(t, dir), fails: -1}
	r.stop = durable.Watch(r.on)
	t.Cleanup(r.stop)
	return r
}

// Fail makes the operation of that number fail, from 0, counted from Record on.
func (r *Trace) Fail(number int) { r.fails = number }

func (r *Trace) on(op durable.Op) error {
	if filepath.Dir(op.Path) != r.dir && op.Path != r.dir {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails == 0 {
		r.fails = -1
		return fmt.Errorf("%s %s: %w", op.Kind, op.Path, ErrInjected)
	}
	r.fails--
	op.Content = append([]byte(nil), op.Content...)
	r.steps = append(r.steps, step{op: op, isOp: true})
	return nil
}

// HasFailed reports whether an operation was made to fail.
func (r *Trace) HasFailed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fails < 0
}

// Mark notes what the test knows at this moment: from here on, until the next one, Point
// gives it.
func (r *Trace) Mark(mark int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, step{mark: mark})
}

// Point is one crash: what it left is in the directory.
type Point struct {
	Mark int // the last one before it
	Op   int // how many operations had been made
	Last durable.Op
	Dir  string
}

func (p Point) String() string {
	return fmt.Sprintf("crash after operation %d (%s %s), mark %d", p.Op, p.Last.Kind, filepath.Base(p.Last.Path), p.Mark)
}

// Count is what was tried.
type Count struct{ Ops, Points int }

// Add sums.
func (c *Count) Add(other Count) { c.Ops, c.Points = c.Ops+other.Ops, c.Points+other.Points }

// Each ends the recording and calls check for each point, of all indices. What it left in
// the directory that it is given does not matter.
func (r *Trace) Each(check func(Point)) (n Count) {
	r.t.Helper()
	r.stop()
	place := memory(r.t)
	d := newDisk(r.before)
	p := Point{Dir: place}
	each := func() {
		seen := map[uint64]bool{}
		d.left(func(files map[string][]byte) {
			id := hash(files)
			if seen[id] {
				return
			}
			seen[id] = true
			n.Points++
			lay(r.t, place, files)
			check(p)
		})
	}
	each()
	for i, s := range r.steps {
		if !s.isOp {
			p.Mark = s.mark
			if i+1 == len(r.steps) || !r.steps[i+1].isOp {
				each()
			}
			continue
		}
		d.step(s.op)
		n.Ops++
		p.Op, p.Last = n.Ops, s.op
		each()
	}
	return n
}

var seed = maphash.MakeSeed()

func hash(files map[string][]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		maphash.WriteComparable(&h, name)
		maphash.WriteComparable(&h, len(files[name]))
		_, _ = h.Write(files[name]) // never fails
	}
	return h.Sum64()
}

// memory is a directory of memory, where there is one: thousands of files are laid in it.
func memory(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "bully-crash-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// lay puts these files into a directory, and leaves nothing else there.
func lay(t testing.TB, dir string, files map[string][]byte) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if _, stays := files[e.Name()]; !stays || !e.Type().IsRegular() {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Files are the regular files of a directory, by name.
func Files(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = content
	}
	return files
}
