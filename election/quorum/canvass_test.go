package quorum

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A claimant goes on as soon as enough would grant, and waits for what ends.
func TestTheOutcomeOfACanvass(t *testing.T) {
	type answer struct {
		verdict wire.Verdict
		remain  time.Duration
	}
	yes, no := answer{verdict: wire.Yes}, answer{verdict: wire.Ineligible}
	leased, hold := answer{wire.Leased, 100 * time.Millisecond}, answer{wire.Hold, time.Second}
	for _, c := range []struct {
		name      string
		answers   []answer
		isAwaited bool
		want      Outcome
		bound     time.Duration
	}{
		{"none yet", nil, true, Open, 0},
		{"none at all", nil, false, Refused, 0},
		{"enough, before all have answered", []answer{yes, yes}, true, Won, 0},
		{"enough, though some are bound", []answer{leased, yes, yes}, false, Won, 100 * time.Millisecond},
		{"too few yet", []answer{yes, leased}, true, Open, 100 * time.Millisecond},
		{"too few, and one is bound", []answer{yes, leased}, false, Wait, 100 * time.Millisecond},
		{"the longest is waited for", []answer{hold, leased}, false, Wait, time.Second},
		{"too few", []answer{yes, no}, false, Refused, 0},
	} {
		var canvass Canvass
		for _, a := range c.answers {
			canvass.Note(a.verdict, a.remain)
		}
		if got := canvass.Outcome(2, c.isAwaited); got != c.want || canvass.Bound() != c.bound {
			t.Errorf("%s: %v, bound for %v; want %v, %v", c.name, got, canvass.Bound(), c.want, c.bound)
		}
	}
}

// The newest roster that was told of counts once too few would grant: whoever told it is
// not the last to have a say, nor does it take what is won.
func TestACanvassOfAnOldRoster(t *testing.T) {
	var c Canvass
	for _, version := range []uint32{17, 33, 16} {
		c.Tell(Roster{Version: version, IDs: voters(1, 2)})
	}
	if told := c.Told(); told.Version != 33 || !told.Formed {
		t.Errorf("told of %+v", told)
	}
	c.Note(wire.Leased, time.Second)
	if open, over := c.Outcome(1, true), c.Outcome(1, false); open != Open || over != Outdated {
		t.Errorf("%v while some are awaited, then %v", open, over)
	}
	if c.Note(wire.Yes, 0); c.Outcome(1, false) != Won {
		t.Error("not won by enough that would grant")
	}
}
