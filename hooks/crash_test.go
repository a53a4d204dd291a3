package hooks

import (
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/test/crash"
)

// What a test knows of a leadership at a moment of the journal's life.
const (
	nothingOwed  = iota
	owedByState  // the election's state file says so too, which is synced before
	owedHereOnly // the state file has forgotten it: the lose hook has run, in vain
)

// A lose hook that has failed is due by the journal alone, once the election has
// forgotten the leadership. No crash and no loss of power forgets it, whatever the journal
// notes of further attempts, and of a leadership that came to nothing.
func TestCrashOfTheJournal(t *testing.T) {
	dir := t.TempDir()
	j := &journal{path: dir + "/" + journalName, backlog: &backlog{}, log: func() hclog.Logger { return hclog.NewNullLogger() }}
	j.open()
	trace := crash.Record(t, dir)
	do := func(mark int, steps ...func()) {
		for _, step := range steps {
			step()
			j.backlog.wait(patience)
		}
		trace.Mark(mark)
	}
	run := func(ln lane) func() {
		return func() { j.record(ln, entry{Hook: LoseLeadership, Epoch: 7, Group: 1 << 30}) }
	}
	clear := func() { j.clear(leadership) }
	begin := func(epoch uint64) func() {
		return func() {
			if err := <-j.begin(event(BecomeLeader, epoch), nil); err != nil {
				t.Fatal(err)
			}
		}
	}

	do(nothingOwed, run(notification))
	do(owedByState)
	do(owedByState, begin(7), run(leadership), clear, j.persist)
	do(owedByState, run(leadership), clear, j.persist) // the lose hook fails
	do(owedHereOnly)                                   // and the state file is written
	do(owedHereOnly, run(leadership), clear, run(notification), func() { j.keep(nil) })
	do(owedByState) // of epoch 9
	do(owedByState, begin(9))
	do(owedHereOnly, j.withdraw) // and the state file is written: nobody has led in epoch 9
	do(owedHereOnly, run(leadership))
	do(nothingOwed)
	do(nothingOwed, clear, func() { j.settle(7) }, func() { j.clear(notification) })

	n := trace.Each(func(p crash.Point) {
		next := &journal{path: p.Dir + "/" + journalName, backlog: &backlog{}, log: j.log}
		left, err := next.load()
		switch {
		case p.Mark == nothingOwed || p.Mark == owedByState:
			if left.Owed != nil && left.Owed.Counter != 7 && left.Owed.Counter != 9 {
				t.Fatalf("%v made up %v", p, left.Owed)
			}
		case err != nil || left.Owed == nil || left.Owed.Counter != 7:
			t.Fatalf("%v forgot what is due: %+v, %v", p, left, err)
		}
	})
	t.Logf("%d points at %d operations", n.Points, n.Ops)
	if n.Points < 5_000 || n.Ops < 40 {
		t.Errorf("tried %+v", n)
	}
}
