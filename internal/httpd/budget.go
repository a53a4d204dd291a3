package httpd

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// pace is how often something may happen.
type pace struct {
	perSecond rate.Limit
	burst     int // at once, after a pause
}

// allowance is what strangers may have of one thing: in all, and of that from one source.
type allowance struct {
	all, fromOne pace
	patience     time.Duration // how long one that comes early may be made to wait; 0: it is refused
}

// maxSources bounds how many sources a budget knows before it forgets those that have their whole
// burst again. Only a source within the budget of all is noted, so fewer than burst + 2 s of
// perSecond have less. Arbitrary above that.
const maxSources = 1024

// budget spends an allowance. A source that wants too much is refused before it takes any of
// what all share. It is safe for concurrent use.
type budget struct {
	allowance
	mu   sync.Mutex
	all  *rate.Limiter
	from map[netip.Addr]*rate.Limiter // no entry: the source has its whole burst
}

func newBudget(a allowance) *budget {
	return &budget{allowance: a, all: a.all.limiter(), from: map[netip.Addr]*rate.Limiter{}}
}

func (p pace) limiter() *rate.Limiter { return rate.NewLimiter(p.perSecond, p.burst) }

// take asks for one, and says after which time it may be had. What is refused costs nothing.
func (b *budget) take(now time.Time, source netip.Addr) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	its, known := b.from[source]
	if !known {
		its = b.fromOne.limiter()
	}
	one := its.ReserveN(now, 1)
	if one.DelayFrom(now) > b.patience {
		one.CancelAt(now)
		return 0, false
	}
	common := b.all.ReserveN(now, 1)
	if common.DelayFrom(now) > b.patience {
		common.CancelAt(now)
		one.CancelAt(now)
		return 0, false
	}
	if !known {
		b.note(now, source, its)
	}
	return max(one.DelayFrom(now), common.DelayFrom(now)), true
}

// note keeps what a new source has left, and forgets those that have their whole burst.
func (b *budget) note(now time.Time, source netip.Addr, its *rate.Limiter) {
	if len(b.from) >= maxSources {
		for other, l := range b.from {
			if l.TokensAt(now) >= float64(l.Burst()) {
				delete(b.from, other)
			}
		}
	}
	b.from[source] = its
}

// paced has each request wait for its turn, however many connections ask, and refuses the one
// that would wait too long.
func paced(b *budget, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		source, _ := r.Context().Value(sourceKey{}).(netip.Addr)
		wait, ok := b.take(time.Now(), source)
		if !ok {
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusTooManyRequests, "this host is asked too often", "ask less often, or follow /v1/events")
			return
		}
		if wait > 0 {
			turn := time.NewTimer(wait)
			defer turn.Stop()
			select {
			case <-turn.C:
			case <-r.Context().Done(): // nobody waits for the answer
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// sourceKey has a connection's context hold its source.
type sourceKey struct{}

func withSource(ctx context.Context, source netip.Addr) context.Context {
	return context.WithValue(ctx, sourceKey{}, source)
}
