package election

import (
	"testing"
	"time"
)

// A host that is held down, or whose disk is full, acknowledges the leader, and so it
// sees who leads. It was not counted among the others: a leader that was cut off from
// two hosts stayed where one of them could not lead, beside the other.
func TestWhoCannotLeadAcknowledges(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(w *world)
	}{
		{"held down", func(w *world) { w.step(w.leaders()[0], Command{Verb: StepDown, For: time.Hour, Token: 1}) }},
		{"without a disk", func(w *world) {
			h := w.host(1)
			h.diskFull = true
			w.step(w.leaders()[0], Command{Verb: StepDown, For: time.Second, Token: 1}) // so that it has something to save
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, 3, Config{MinAcks: AutoMinAcks, Preempt: PreemptNever})
			for _, h := range w.hosts {
				w.boot(h)
			}
			w.runFor(5 * time.Second)
			tc.spoil(w)
			w.runFor(5 * time.Second)
			leader := w.leaders()[0]
			for _, h := range w.hosts {
				w.cuts[[2]int{leader.number, h.number}], w.cuts[[2]int{h.number, leader.number}] = true, true
			}
			leads := false // one of the others
			for range 500 {
				w.runFor(10 * time.Millisecond)
				leaders := w.leaders()
				if len(leaders) > 1 {
					t.Fatalf("two leaders:\n%s", tail(w.trace.String(), 20))
				}
				leads = leads || len(leaders) == 1 && leaders[0] != leader
			}
			if !leads {
				t.Errorf("nobody took over:\n%s", tail(w.trace.String(), 20))
			}
		})
	}
}

// With a single other nobody can tell which of the two is cut off: the crash of one
// that cannot lead does not end the leadership either.
func TestTheCrashOfWhoCannotLeadIsNoLoss(t *testing.T) {
	w := newWorld(t, 2, Config{MinAcks: AutoMinAcks, Preempt: PreemptNever})
	for _, h := range w.hosts {
		w.boot(h)
	}
	w.runFor(5 * time.Second)
	held := w.leaders()[0]
	w.step(held, Command{Verb: StepDown, For: time.Hour, Token: 1})
	w.runFor(5 * time.Second)
	leader := w.leaders()[0]
	w.kill(held)
	w.runFor(5 * time.Second)
	if leaders := w.leaders(); len(leaders) != 1 || leaders[0] != leader {
		t.Errorf("%d leaders:\n%s", len(leaders), tail(w.trace.String(), 20))
	}
}

// A leader that was told to step down for an hour is still there, and acknowledges.
// Who needs the word of all others asked each but the last leader for a sign of life,
// and nobody led before the hour had ended.
func TestALeaderThatLetGoIsAskedForASignOfLife(t *testing.T) {
	w := newWorld(t, 3, Config{MinAcks: 2, Preempt: PreemptNever})
	for _, h := range w.hosts {
		w.boot(h)
	}
	w.runFor(5 * time.Second)
	w.step(w.leaders()[0], Command{Verb: StepDown, For: time.Hour, Token: 1})
	w.runUntil(w.now.Add(time.Second), func() bool { return w.host(2).node.state != Follow }) // it has heard RESIGN
	for _, from := range w.hosts {
		for _, to := range w.hosts {
			w.cuts[[2]int{from.number, to.number}] = true
		}
	}
	w.runFor(time.Second)
	clear(w.cuts)
	w.runFor(20 * time.Second)
	if !w.agreed() {
		t.Errorf("all three hosts are there, and nobody leads:\n%s", tail(w.trace.String(), 10))
	}
}
