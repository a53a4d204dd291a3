package resourcerun

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// tenant is one resource of this host, from its beginning to its end.
type tenant struct {
	hooks.Resource
	thing
	turn chan struct{} // holds a token while somebody calls the thing

	mu          sync.Mutex
	stop        context.CancelFunc // ends Begin or Keep, whichever goes on
	isBeginning bool               // a beginning was asked for, and its outcome is not known yet
	told        chan struct{}      // closed when the outcome of the last beginning was posted; nil: there was none
	isKept      bool               // it has begun, and Keep goes on
	isFrozen    bool
	why         string             // what went wrong last, a clause; empty: nothing
	hurry       context.CancelFunc // ends End; nil: it does not go on
}

// errHangs is the end of a call that does not return.
var errHangs = errors.New("it does not answer")

// hangPatience is how long after its time a call may return. Arbitrary: no system call that obeys
// takes as long.
const hangPatience = 100 * time.Millisecond

// call has the thing do something once nobody else does. It returns soon after ctx has ended: a kernel,
// a bus and a disk may hang.
func (t *tenant) call(ctx context.Context, do func(context.Context) error) error {
	done := make(chan error, 1)
	go func() {
		select {
		case t.turn <- struct{}{}:
		case <-ctx.Done():
			done <- ctx.Err()
			return
		}
		defer func() { <-t.turn }()
		if err := ctx.Err(); err != nil {
			done <- err
			return
		}
		done <- do(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(hangPatience):
		return errHangs
	}
}

// beginning is one that was asked for.
type beginning struct {
	ctx    context.Context // ends when nothing is to begin any more
	cancel context.CancelFunc
	before chan struct{} // as told, of the beginning before
	told   chan struct{}
}

// ask notes that it is to begin. A freeze or an end that comes later ends that, whether or not it has started. While a beginning goes
// on, ask gives nil: its outcome is that of both.
func (t *tenant) ask(ctx context.Context) *beginning {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isBeginning && !t.isFrozen {
		return nil
	}
	b := &beginning{before: t.told, told: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(ctx)
	t.isBeginning, t.isFrozen, t.told = true, false, b.told
	if !t.isKept {
		t.stop = b.cancel
	}
	return b
}

// begin has this host have it, and keep it. What it has already it keeps: isNew is false.
func (t *tenant) begin(b *beginning, within time.Duration, failed func(error)) (isNew bool, err error) {
	defer b.cancel()
	defer func() { t.outcome(b, err) }()
	if b.before != nil {
		<-b.before
	}
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	if t.has() {
		return false, nil
	}
	if err := inTime(ctx, within, t.call(ctx, t.Begin)); err != nil {
		return false, err
	}
	t.keep(b, failed)
	return true, nil
}

func (t *tenant) has() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.isKept
}

// outcome notes that the outcome is known: who asks from now on gets one of its own. One that was given up says nothing of the resource.
func (t *tenant) outcome(b *beginning, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told == b.told {
		t.isBeginning = false
	}
	switch {
	case err == nil && t.isKept: // else it has failed since
		t.why = ""
	case err != nil && b.ctx.Err() == nil:
		t.why = fmt.Sprintf("has not begun: %v", err)
	}
}

// settle waits until the outcome of the last beginning was posted, which an end has given up: nobody is to take it for that of a
// later one.
func (t *tenant) settle() {
	t.mu.Lock()
	told := t.told
	t.mu.Unlock()
	if told != nil {
		<-told
	}
}

// inTime says in people's words that the time of a call has ended.
func inTime(ctx context.Context, within time.Duration, err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errHangs) && ctx.Err() != nil {
		return fmt.Errorf("%w within %v", errHangs, within.Round(time.Millisecond))
	}
	return err
}

// keep has Keep go on, unless nothing is to be kept any more.
func (t *tenant) keep(b *beginning, failed func(error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isFrozen || b.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.stop, t.isKept = cancel, true
	go func() {
		defer cancel()
		t.turn <- struct{}{}
		err := t.Keep(ctx)
		<-t.turn
		t.mu.Lock()
		t.isKept = false
		isLost := err != nil && ctx.Err() == nil
		if isLost {
			t.why = fmt.Sprintf("has failed: %v", err)
		}
		t.mu.Unlock()
		if isLost {
			failed(err)
		}
	}()
}

// freeze has nothing put back any more, and gives up a beginning. What has begun stays until its end.
func (t *tenant) freeze() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isFrozen = true
	if t.stop != nil && !t.isKept {
		t.stop()
	}
	t.Pause()
}

// end leaves nothing of it here. Asked while it is at it, it only shortens the time, and gives false.
func (t *tenant) end(within time.Duration) (err error, isFirst bool) {
	t.mu.Lock()
	if hurry := t.hurry; hurry != nil {
		t.mu.Unlock()
		time.AfterFunc(within, hurry)
		return nil, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	t.isFrozen, t.hurry = true, cancel
	if t.stop != nil {
		t.stop()
	}
	t.mu.Unlock()
	err = inTime(ctx, within, t.call(ctx, t.End))
	if errors.Is(err, context.Canceled) {
		err = errHangs
	}
	t.mu.Lock()
	t.hurry, t.why = nil, ""
	if err != nil {
		t.why = fmt.Sprintf("has not ended: %v", err)
	}
	t.mu.Unlock()
	return err, true
}
