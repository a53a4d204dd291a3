package agent

import (
	"fmt"
	"testing"
	"time"
)

// What others do again and again is one line a minute, and what is remembered for that is bounded.
func TestAWarningIsSaidOnceAMinute(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	a := &agent{cfg: Config{Now: func() time.Time { return now }}, quietAt: map[string]time.Time{}}
	for _, c := range []struct {
		after time.Duration
		addr  string
		want  bool
	}{{0, "a", true}, {0, "a", false}, {0, "b", true}, {time.Minute - 1, "a", false}, {1, "a", true}, {0, "a", false}} {
		now = now.Add(c.after)
		if got := a.isRare("frame ignored", "addr", c.addr); got != c.want {
			t.Errorf("%v later, of %s: %v", c.after, c.addr, got)
		}
	}
	for i := range 10_000 {
		a.isRare("frame ignored", "addr", fmt.Sprint(i))
	}
	if n := len(a.quietAt); n > 300 {
		t.Errorf("%d warnings are remembered", n)
	}
}
