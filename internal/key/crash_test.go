package key

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/crash"
)

// A crash at any moment of a key's life, whatever of the disk it takes away, leaves the
// ring of before or the next one, and that once a step was told to be taken: never half a
// file, which would lock the host out.
func TestCrashOfTheKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	rings := []Ring{{keyOf(1)}, {keyOf(1), keyOf(2)}, {keyOf(2), keyOf(1)}, {keyOf(2)}}
	trace := crash.Record(t, filepath.Dir(path))
	trace.Mark(0)
	for i, ring := range rings {
		if i == 0 {
			must(t, Make(path, ring, os.Geteuid(), os.Getegid()))
		} else {
			must(t, Replace(path, ring))
		}
		trace.Mark(i + 1)
	}
	n := trace.Each(func(p crash.Point) {
		text, err := os.ReadFile(filepath.Join(p.Dir, "key")) // its rights are not what a crash takes
		if errors.Is(err, fs.ErrNotExist) && p.Mark == 0 {
			return
		}
		must(t, err)
		ring, err := Parse("key", text)
		is := func(i int) bool { return i > 0 && i <= len(rings) && ring.Equal(rings[i-1]) }
		if err != nil || !is(p.Mark) && !is(p.Mark+1) {
			t.Fatalf("%v left %v, %v", p, ring.IDs(), err)
		}
	})
	t.Logf("%d points at %d operations", n.Points, n.Ops)
	if n.Points < 1000 || n.Ops < 4*len(rings) {
		t.Errorf("tried %+v", n)
	}
}

// Each operation of a step fails in turn: the file has the ring of before or the next one,
// nothing is left beside it, and the step can be taken again.
func TestAnErrorAtEachOperationOfTheKey(t *testing.T) {
	failed := 0
	for number := 0; ; number++ {
		path := filepath.Join(t.TempDir(), "key")
		before, next := Ring{keyOf(1)}, Ring{keyOf(1), keyOf(2)}
		must(t, Make(path, before, os.Geteuid(), os.Getegid()))
		trace := crash.Record(t, filepath.Dir(path))
		trace.Fail(number)
		err := Replace(path, next)
		if !trace.HasFailed() {
			must(t, err)
			break
		}
		failed++
		ring, bad := Read(path)
		if bad != nil || !ring.Equal(before) && !ring.Equal(next) || !errors.Is(err, crash.ErrInjected) {
			t.Errorf("operation %d: %v; read %v, %v", number, err, ring.IDs(), bad)
		}
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
			t.Errorf("operation %d: left over: %v, %v", number, entries, err)
		}
		must(t, Replace(path, next))
	}
	if failed < 4 {
		t.Errorf("%d operations failed", failed)
	}
}
