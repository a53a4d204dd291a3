package run

import (
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// Leash is the limit of a command that runs, for the goroutine that sees to its end: any other
// may shorten it meanwhile. Safe for concurrent use.
type Leash struct {
	tugged chan struct{}    // holds a token after each shortening
	clock  func() time.Time // of the limit

	mu    sync.Mutex
	limit ending.Limit
}

// NewLeash begins with a limit, whose times are on that clock.
func NewLeash(l ending.Limit, clock func() time.Time) *Leash {
	return &Leash{tugged: make(chan struct{}, 1), clock: clock, limit: l}
}

// Shorten puts a shorter limit in the place of the one before.
func (l *Leash) Shorten(to ending.Limit) {
	l.mu.Lock()
	l.limit = to
	l.mu.Unlock()
	select {
	case l.tugged <- struct{}{}:
	default:
	}
}

// Pull ends the command now.
func (l *Leash) Pull(reason error) {
	next := l.Limit()
	next.Cut(l.clock(), reason, time.Time{})
	l.Shorten(next)
}

// Limit is the one that holds now.
func (l *Leash) Limit() ending.Limit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}
