package agent

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// A loop that waits for its disk decides nothing, and what it has shown of itself goes on looking true. So what it waits for,
// and how old the last that it has shown is, are for every goroutine to see. Whoever serves what was shown says so, and nobody
// waits for an answer of a loop that gives none.

const (
	// stillAfter is when the loop is said to stand still: it shows itself every second, and so was missed three times. With
	// stillLook it is below control.AnswerPatience, so that a client reads why it has no answer.
	stillAfter = 3 * lookInterval
	// stillLook is how often whoever waits for the loop looks at it.
	stillLook = lookInterval / 2
)

// waits is what the loop waits for outside its select, if it does. The loop writes it; any goroutine may read it.
type waits struct{ now atomic.Pointer[waitFor] }

type waitFor struct {
	text  string // what is said of it, with %v for its length
	since time.Time
}

// waitedForDisk is said of a wait for the state directory.
const waitedForDisk = "the agent's loop has waited for its disk for %v"

// begin notes a wait until the end is called.
func (w *waits) begin(text string, now time.Time) (end func()) {
	w.now.Store(&waitFor{text, now})
	return func() { w.now.Store(nil) }
}

// standstill gives how long ago the loop has shown itself, and says in a sentence that it stands still. Empty: it turns.
func (a *agent) standstill() (age time.Duration, sentence string) {
	now, since, text := a.cfg.Now(), a.shown.Load().at, "the agent's loop has stood still for %v"
	age = max(now.Sub(since), 0)
	if age < stillAfter {
		return age, ""
	}
	if w := a.seat.waits.now.Load(); w != nil {
		since, text = w.since, w.text
	}
	return age, fmt.Sprintf(text, max(now.Sub(since), 0).Truncate(time.Second))
}

// reportStandstill takes back from a status what a loop that stands still cannot know any more.
func (a *agent) reportStandstill(out *control.Status) {
	age, sentence := a.standstill()
	out.LoopAgeMS, out.Standstill = age.Milliseconds(), sentence
	if sentence == "" {
		return
	}
	out.Ready = false
	out.Notes = append([]string{sentence + ": this host takes no part meanwhile, and what is said here was true before; the state directory is " +
		a.home.dir}, out.Notes...)
	if !out.LeaderIsSelf { // which its lease says
		out.Leader, out.WhyNoLeader = nil, sentence
	}
}

// watchLoop tells people of a standstill, which the loop itself cannot.
func (a *agent) watchLoop(ctx context.Context) {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for isStill := false; ; {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		_, sentence := a.standstill()
		switch {
		case sentence != "" && !isStill:
			a.log.Error(sentence+"; this host takes no part meanwhile", "dir", a.home.dir)
			a.event(control.Event{Type: "warning", Cause: "standstill", Text: sentence})
		case sentence == "" && isStill:
			a.log.Info("the agent's loop turns again")
			a.event(control.Event{Type: "warning", Cause: "standstill", Text: "the agent's loop turns again"})
		}
		isStill = sentence != ""
	}
}

// await has the loop begin something, and gives what comes of it. It waits until then, or until the caller or this agent goes
// away, or the loop stands still: then the error says whether the loop has begun.
func await[T any](ctx context.Context, a *agent, begin func(), result <-chan T) (none T, err error) {
	look := time.NewTicker(stillLook)
	defer look.Stop()
	for calls := a.calls; ; {
		select {
		case calls <- begin:
			calls = nil
		case r := <-result:
			return r, nil
		case <-look.C:
			if _, sentence := a.standstill(); sentence != "" {
				return none, errStill(sentence, calls == nil)
			}
		case <-ctx.Done():
			return none, errGone
		}
	}
}

// ask runs f in the loop and gives what it says, under the conditions of await. What f finds out it returns: whoever asked may
// not wait any more when it runs.
func ask[T any](ctx context.Context, a *agent, f func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	said := make(chan answer, 1) // nobody may listen any more
	got, err := await(ctx, a, func() {
		value, err := f()
		said <- answer{value, err}
	}, said)
	if err != nil {
		return got.value, err
	}
	return got.value, got.err
}

// errStill is for whoever has waited for a loop that stands still.
func errStill(sentence string, isBegun bool) error {
	hint := "nothing was begun; see dmesg for its disk, and status"
	if isBegun {
		hint = "this was begun, and goes on if the loop does; see dmesg for its disk, and status"
	}
	return &control.APIError{Status: http.StatusServiceUnavailable, Code: "standstill", Message: sentence, Hint: hint}
}
