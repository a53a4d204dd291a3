package reader

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A desk has the newest question of one kind answered, one at a time. Whoever asks does not wait, and however much is
// asked, only so much is answered.
type desk struct {
	due chan struct{} // holds a token when there is something to answer

	mu     sync.Mutex
	newest question
}

func newDesk() *desk { return &desk{due: make(chan struct{}, 1)} }

// ask has a question answered in place of those before it.
func (d *desk) ask(q question) {
	d.mu.Lock()
	d.newest = q
	d.mu.Unlock()
	d.renew()
}

// renew has the last question answered anew.
func (d *desk) renew() {
	select {
	case d.due <- struct{}{}:
	default:
	}
}

// run answers until ctx ends.
func (d *desk) run(ctx context.Context, put func(question)) {
	for pace := newPace(); ; {
		select {
		case <-d.due:
		case <-ctx.Done():
			return
		}
		if !pace.wait(ctx) {
			return
		}
		d.mu.Lock()
		q := d.newest
		d.mu.Unlock()
		put(q)
	}
}

// The pace of each board. What it costs the agent is some tenths of a millisecond each time.
const (
	perSecond = 10
	atOnce    = 20 // so that whoever has changed something finds it at once: a leadership begins with a dozen changes
)

// pace keeps something from being done too often.
type pace struct{ limiter *rate.Limiter }

func newPace() pace { return pace{rate.NewLimiter(perSecond, atOnce)} }

// wait returns when it may be done once more; false: ctx has ended before.
func (p pace) wait(ctx context.Context) bool {
	turn := time.NewTimer(p.limiter.Reserve().Delay())
	defer turn.Stop()
	select {
	case <-turn.C:
		return true
	case <-ctx.Done():
		return false
	}
}
