package httpd

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

var one, two = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

// spend asks n times at one instant, and gives how many were had.
func (b *budget) spend(now time.Time, source netip.Addr, n int) (had int) {
	for range n {
		if _, ok := b.take(now, source); ok {
			had++
		}
	}
	return had
}

// A source has its burst, then its pace; what it asks beyond takes nothing from another, and all
// together have what all may have.
func TestBudget(t *testing.T) {
	now := time.Unix(0, 0)
	b := newBudget(allowance{all: pace{10, 6}, fromOne: pace{5, 4}})
	for i, tt := range []struct {
		after    time.Duration
		from     netip.Addr
		ask, had int
	}{
		{0, one, 1000, 4},                    // its burst
		{0, two, 1000, 2},                    // what is left of that of all
		{200 * time.Millisecond, one, 9, 1},  // 5 a second
		{0, two, 9, 1},                       // 10 a second for both
		{time.Hour, one, 1000, 4},            // never more than the burst
		{100 * time.Millisecond, two, 99, 3}, // 2 were left, and 1 came
	} {
		now = now.Add(tt.after)
		if had := b.spend(now, tt.from, tt.ask); had != tt.had {
			t.Errorf("%d: %v asked for %d and had %d, want %d", i, tt.from, tt.ask, had, tt.had)
		}
	}
}

// Where there is patience, whoever comes early waits for its turn, and is refused only if that
// is too far away.
func TestBudgetHasOthersWait(t *testing.T) {
	now := time.Unix(0, 0)
	b := newBudget(allowance{all: pace{10, 1}, fromOne: pace{10, 2}, patience: 250 * time.Millisecond})
	for i, want := range []time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond} {
		if wait, ok := b.take(now, one); !ok || wait.Round(time.Millisecond) != want {
			t.Errorf("%d: waits %v, %v; want %v", i, wait, ok, want)
		}
	}
	if wait, ok := b.take(now, two); ok {
		t.Errorf("one that would wait 300 ms waits %v", wait)
	}
	if _, ok := b.take(now.Add(100*time.Millisecond), two); !ok {
		t.Error("what was refused has cost something")
	}
}

// Many sources, each once: a budget forgets those that have their whole share again.
func TestBudgetForgetsSources(t *testing.T) {
	b := newBudget(defaultLimits.opened)
	now := time.Unix(0, 0)
	source := netip.MustParseAddr("10.0.0.0")
	for range 100_000 {
		now = now.Add(time.Millisecond)
		source = source.Next()
		b.take(now, source)
		if len(b.from) > maxSources {
			t.Fatalf("%d sources are known", len(b.from))
		}
	}
}

// A request that comes too early waits, one that would wait too long is refused with 429, and
// the source's other connections have no budget of their own.
func TestRequestsArePaced(t *testing.T) {
	s := serve(t, Config{}, nil, func(l *limits) {
		l.requests = allowance{all: pace{1000, 1000}, fromOne: pace{0.001, 2}}
	})
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests, http.StatusTooManyRequests} {
		c := dial(t, "127.0.0.1", s.addr)
		if got := say(t, c, question); got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
		if want != http.StatusOK && !isClosed(t, c) {
			t.Error("a connection that was refused an answer stays open")
		}
	}
	if got := say(t, dial(t, "127.0.0.2", s.addr), question); got != http.StatusOK {
		t.Errorf("another source: %d", got)
	}
}

// As many handshakes are made as the budget has, however many want one.
func TestHandshakesHaveABudget(t *testing.T) {
	m := makePair(t, "alpha.example.com", time.Now().Add(time.Hour))
	s := serve(t, files(t, m), nil, func(l *limits) { l.handshakes = allowance{all: pace{0.001, 5}, fromOne: pace{0.001, 3}} })
	s.handshakesFrom(t, m, "127.0.0.1", 3)
	s.handshakesFrom(t, m, "127.0.0.2", 2)
	s.handshakesFrom(t, m, "127.0.0.3", 0)
}

func (s served) handshakesFrom(t *testing.T, m made, source string, want int) {
	t.Helper()
	made := 0
	for range 10 {
		if tls.Client(dial(t, source, s.addr), trusting(m, "alpha.example.com")).Handshake() == nil {
			made++
		}
	}
	if made != want {
		t.Errorf("%s made %d handshakes, want %d", source, made, want)
	}
}
