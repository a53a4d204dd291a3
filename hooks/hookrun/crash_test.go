package hookrun

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
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
	t.Parallel()
	c := newCrashing(t)
	trace := crash.Record(t, c.dir)
	do := func(mark int, steps ...hooks.LaneEvent) {
		for _, step := range steps {
			c.step(step)
		}
		trace.Mark(mark)
	}
	seqs := map[hooks.Lane]uint64{}
	seq := uint64(0)
	starts := func(ln hooks.Lane) []hooks.LaneEvent {
		seq++
		seqs[ln] = seq
		return []hooks.LaneEvent{hooks.Prepared{Lane: ln, Number: seq}, hooks.Started{Lane: ln, Entry: hooks.Entry{Hook: hooks.LoseLeadership, Epoch: 7, Seq: seq, Group: 1 << 30}}}
	}
	exits := func(ln hooks.Lane, err error) hooks.LaneEvent {
		return hooks.Exited{Lane: ln, Seq: seqs[ln], End: ending.End{Err: err}}
	}
	asks := func(kind hooks.Kind, epoch uint64) hooks.Asked { return hooks.Asked{Event: event(t, kind, epoch)} }
	redo := asks(hooks.LoseLeadership, 7)
	redo.Event.IsRedo = true

	do(nothingOwed, append([]hooks.LaneEvent{hooks.Opened{}, hooks.OrphansEnded{}, asks(hooks.LeaderChange, 1)}, starts(hooks.Notification)...)...)
	do(owedByState)
	do(owedByState, append([]hooks.LaneEvent{asks(hooks.BecomeLeader, 7)}, starts(hooks.Leadership)...)...)
	do(owedByState, exits(hooks.Leadership, nil), hooks.Tick{})
	fails := exhausted(append(starts(hooks.Leadership), exits(hooks.Leadership, errors.New("exit status 1")))...)
	do(owedByState, append([]hooks.LaneEvent{asks(hooks.LoseLeadership, 7)}, fails...)...)
	do(owedHereOnly) // and the state file is written
	do(owedHereOnly, append([]hooks.LaneEvent{redo}, fails...)...)
	do(owedHereOnly, exits(hooks.Notification, nil))
	do(owedByState) // of epoch 9
	c.isSlow = true
	do(owedByState, asks(hooks.BecomeLeader, 9))
	do(owedHereOnly, hooks.Stopped{Epoch: 9}, asks(hooks.LoseLeadership, 9)) // and the state file is written: nobody has led in epoch 9
	do(owedHereOnly, append([]hooks.LaneEvent{redo}, starts(hooks.Leadership)...)...)
	do(nothingOwed)
	do(nothingOwed, exits(hooks.Leadership, nil))

	n := trace.Each(func(p crash.Point) {
		next := &journal{path: p.Dir + "/" + journalName}
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

// crashing drives lanes with a journal, one write after the other, and nothing else.
type crashing struct {
	dir     string
	lanes   hooks.Lanes
	journal journal
	now     time.Time
	noted   []hooks.LaneEvent
	isSlow  bool // nobody hears of what was noted
}

func newCrashing(t *testing.T) *crashing {
	c := &crashing{dir: t.TempDir(), now: time.Unix(1000, 0)}
	c.journal = journal{path: c.dir + "/" + journalName, backlog: &backlog{}, noted: func(n hooks.Noted) { c.noted = append(c.noted, n) }}
	hook := hooks.Command{Shell: "exit 0"}
	cfg := hooks.Config{Commands: map[hooks.Kind]hooks.Command{hooks.BecomeLeader: hook, hooks.LoseLeadership: hook, hooks.LeaderChange: hook}}
	c.lanes = hooks.NewLanes(hooks.LanesConfig{Pause: time.Second, RecordWithin: time.Minute}, cfg.WithDefaults(), hooks.Page{})
	return c
}

// step takes an event, and a second.
func (c *crashing) step(ev hooks.LaneEvent) {
	c.now = c.now.Add(time.Second)
	if s, ok := ev.(hooks.Started); ok {
		s.At = c.now
		ev = s
	}
	for _, e := range slices.Clone(c.lanes.Step(c.now, ev)) {
		if n, ok := e.(hooks.Note); ok {
			c.journal.note(n)
			c.journal.backlog.wait(patience)
		}
	}
	if noted := c.noted; !c.isSlow && len(noted) > 0 {
		c.noted = nil
		for _, n := range noted {
			c.step(n)
		}
	}
}

// exhausted is an attempt at a lose hook, and the two that follow.
func exhausted(attempt ...hooks.LaneEvent) (all []hooks.LaneEvent) {
	for range maxAttempts {
		all = append(all, attempt...)
		for range 4 { // the longest pause
			all = append(all, hooks.Tick{})
		}
	}
	return all
}
