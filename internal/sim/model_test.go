package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bully-agent/bully-agent/election"
)

// A machine's clock shows a time no earlier than it was asked to wait for, and
// hardly later.
func TestClockWaitsForWhatItShows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := clock{since: rapid.Int64Range(0, int64(time.Hour)).Draw(t, "since"), raw: rapid.Int64Range(-200_000, 200_000).Draw(t, "raw"), slew: rapid.Int64Range(-100_000, 100_000).Draw(t, "slew"),
			shown: rapid.Int64Range(0, int64(time.Hour)).Draw(t, "shown")}
		now := c.since + rapid.Int64Range(0, int64(time.Hour)).Draw(t, "now")
		ahead := time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "ahead"))
		target := c.time(now).Add(ahead)
		at := c.when(target, now)
		if shown := c.time(at); shown.Before(target) || shown.Sub(target) > ahead/10+time.Millisecond {
			t.Fatalf("waiting for %v ended at %v", target, shown)
		}
	})
}

// Setting the rate, or stopping the clock, never moves it.
func TestClockDoesNotJump(t *testing.T) {
	c := clock{shown: 5}
	c.setRates(1_000_000, 4_000, 6_000)
	if got := c.at(1_000_000); got != 1_000_005 {
		t.Errorf("shows %d after a change of rate, want 1000005", got)
	}
	if got := c.at(101_000_000); got != 102_000_005 {
		t.Errorf("shows %d after 100 ms at +1 %%", got)
	}
	c.stop(101_000_000)
	c.start(900_000_000)
	if got := c.at(900_000_000); got != 102_000_005 {
		t.Errorf("shows %d after it was stopped", got)
	}
	if got := c.when(epoch.Add(-time.Hour), 7); got != 7 {
		t.Errorf("a time before the beginning is awaited until %d", got)
	}
}

// The timeline gives everything back, in the order of time and then of planning.
func TestTimelineOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var q timeline
	const n = 5000
	for range n {
		q.add(planned{at: rng.Int64N(300)})
	}
	var last planned
	for i := range n {
		p := q.next()
		if i > 0 && !last.before(&p) {
			t.Fatalf("%d/%d comes after %d/%d", p.at, p.order, last.at, last.order)
		}
		last = p
	}
	if !q.empty() {
		t.Errorf("%d are left over", len(q.heap))
	}
}

// A crash in the middle of a write leaves the old state or the new one; a disk
// that lied loses what it had promised.
func TestDiskAfterACrash(t *testing.T) {
	w := &World{rng: rand.New(rand.NewPCG(3, 4))}
	w.beyond = noFault
	kept, lost := 0, 0
	for range 300 {
		var d disk
		d.write(election.Saved{MaxCounter: 5})
		d.pending = &election.Saved{MaxCounter: 6}
		d.settle(w)
		switch d.state.MaxCounter {
		case 5:
			lost++
		case 6:
			kept++
		default:
			t.Fatalf("a crash leaves %+v", d.state)
		}
	}
	if kept == 0 || lost == 0 || w.faults[TornWrite] == 0 || w.faults[LostWrite] == 0 {
		t.Errorf("kept %d, lost %d, torn %d", kept, lost, w.faults[TornWrite])
	}
	var d disk
	d.write(election.Saved{MaxCounter: 1})
	d.lies = true
	d.write(election.Saved{MaxCounter: 2})
	d.losePower(w)
	if d.state.MaxCounter != 1 {
		t.Errorf("after a lie and a power cut the disk holds %+v", d.state)
	}
}
