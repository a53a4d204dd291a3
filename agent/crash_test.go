package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/internal/test/crash"
	"github.com/bully-agent/bully-agent/wire"
)

// A crash at any moment of the state file's life, whatever of the disk it takes away,
// leaves the state that was saved last or the one that was being saved, with its hold-down:
// never a lower epoch than one that was shown. Nothing is refused.
func TestCrashOfTheStateFile(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of crashes, of one goroutine")
	}
	const writes = 5
	dir := t.TempDir()
	trace := crash.Record(t, dir)
	trace.Mark(0)
	s := mustOpen(t, dir)
	for counter := range uint64(writes) {
		s.hold = hold{until: time.Unix(int64(counter+1), 0), length: time.Duration(counter + 1)}
		mustWrite(t, s, someState(counter+1))
		trace.Mark(int(counter + 1)) // from here on it may be shown
	}
	s.close()
	n := trace.Each(func(p crash.Point) {
		var left stateFile
		slots, slot, err := durable.OpenSlots(filepath.Join(p.Dir, stateName), stateFormat)
		if errors.Is(err, os.ErrNotExist) && p.Mark == 0 {
			return
		}
		if err == nil {
			slots.Close()
			err = left.decode(slot)
		}
		if err == nil && p.Mark == 0 && same(left.saved, election.Saved{}) && left.ID == s.ID {
			return // the key alone
		}
		counter := left.saved.MaxCounter
		isSaved := counter == uint64(p.Mark) || counter == uint64(p.Mark+1)
		if err != nil || !isSaved || !same(left.saved, someState(counter)) || left.hold.length != time.Duration(counter) || left.ID != s.ID {
			t.Fatalf("%v left %+v, %v, %v", p, left.saved, left.hold, err)
		}
	})
	t.Logf("%d points at %d operations", n.Points, n.Ops)
	if n.Points < 2_000 || n.Ops < 2*writes {
		t.Errorf("tried %+v", n)
	}
}

// Each operation of a save fails in turn: what the disk has is the state of before or the
// one that was not saved, and the next save succeeds.
func TestAnErrorAtEachOperationOfTheStateFile(t *testing.T) {
	failed := 0
	for number := 0; ; number++ {
		dir := t.TempDir()
		s := mustOpen(t, dir)
		trace := crash.Record(t, dir)
		trace.Fail(number)
		saved := uint64(0)
		for counter := range uint64(3) {
			if err := s.write(someState(counter + 1)); err != nil {
				break
			}
			saved = counter + 1
		}
		if !trace.HasFailed() {
			s.close()
			break
		}
		failed++
		if err := s.write(someState(saved + 2)); err != nil {
			t.Fatalf("operation %d: the next save: %v", number, err)
		}
		s.close()
		s = mustOpen(t, dir)
		if !same(s.saved, someState(saved+2)) {
			t.Fatalf("operation %d: read %+v", number, s.saved)
		}
		s.close()
	}
	if failed < 6 {
		t.Errorf("%d operations failed", failed)
	}
}

// A crash leaves the ledger of before or the new one, and the new one once it was saved.
func TestCrashOfTheLedger(t *testing.T) {
	dir := t.TempDir()
	file := newLedgerFile(dir)
	texts := make([][]byte, 3)
	trace := crash.Record(t, dir)
	for i := range texts {
		ledger := &jobs.Ledger{}
		for range i + 1 {
			ledger.Pause("job", true, time.Unix(1e9, 0))
			ledger.Pause("job", false, time.Unix(1e9, 0)) // another version each time
		}
		var err error
		if texts[i], err = ledger.Append(nil); err != nil {
			t.Fatal(err)
		}
		if err := file.replace(texts[i]); err != nil {
			t.Fatal(err)
		}
		trace.Mark(i + 1)
	}
	n := trace.Each(func(p crash.Point) {
		ledger, aside, err := readLedger(p.Dir, hclog.NewNullLogger())
		if err != nil || aside != "" {
			t.Fatalf("%v: %v, aside %q", p, err, aside)
		}
		if ledger == nil {
			if p.Mark > 0 {
				t.Fatalf("%v: the ledger is gone", p)
			}
			return
		}
		text, err := ledger.Append(nil)
		if i := slices.IndexFunc(texts, func(b []byte) bool { return bytes.Equal(b, text) }) + 1; err != nil || i != p.Mark && i != p.Mark+1 {
			t.Fatalf("%v left ledger %d, %v", p, i, err)
		}
	})
	t.Logf("%d points at %d operations", n.Points, n.Ops)
	if n.Points < 150 || n.Ops < 3*5 {
		t.Errorf("tried %+v", n)
	}
	for i, whole := range texts[len(texts)-1] { // at rest: it is put aside, and said
		for bit := range 8 {
			spoiled := append([]byte(nil), texts[len(texts)-1]...)
			spoiled[i] = whole ^ 1<<bit
			if l, err := jobs.Parse(spoiled); err == nil {
				t.Fatalf("bit %d of byte %d: taken for %+v", bit, i, l)
			}
		}
	}
}

// A crash leaves the history of before or the new one, never half of one.
func TestCrashOfTheHistory(t *testing.T) {
	dir := t.TempDir()
	h, err := openHistory(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	trace := crash.Record(t, dir)
	for i := range 3 {
		id := wire.ID{byte(i + 1)}
		h.record(control.Leadership{Leader: control.Node{ID: id.String()}, From: time.Unix(int64(i), 0)}, string(election.LeaderFailed), time.Unix(int64(i), 0))
		h.write()
		trace.Mark(i + 1)
	}
	n := trace.Each(func(p crash.Point) {
		left, err := openHistory(p.Dir, hclog.NewNullLogger())
		if err != nil || len(left.list) != p.Mark && len(left.list) != p.Mark+1 {
			t.Fatalf("%v left %d leaderships, %v", p, len(left.list), err)
		}
	})
	t.Logf("%d points at %d operations", n.Points, n.Ops)
	if n.Points < 2_000 || n.Ops < 3*5 {
		t.Errorf("tried %+v", n)
	}
}
