package ending

import (
	"errors"
	"testing"
	"time"
)

const ms = time.Millisecond

// The grace of a command that is cut is what is left of the room until it must be dead.
func TestGrace(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tt := range []struct{ grace, room, want time.Duration }{
		{5 * time.Second, time.Hour, 5 * time.Second},
		{5 * time.Second, time.Second, 980 * ms}, // KILL has its slack
		{5 * time.Second, 100 * ms, 90 * ms},     // a tenth of what is short
		{50 * ms, 100 * ms, 50 * ms},
		{5 * time.Second, 0, ms}, // in any case
		{5 * time.Second, -time.Second, ms},
	} {
		l := Limit{Grace: tt.grace}
		l.Cut(now, errors.New("lost"), now.Add(tt.room))
		if got := l.KillBy(now).Sub(now); got != tt.want {
			t.Errorf("a grace of %v with %v left is %v, want %v", tt.grace, tt.room, got, tt.want)
		}
	}
}

func TestPollSlowsDown(t *testing.T) {
	for taken, want := range map[time.Duration]time.Duration{0: 2 * ms, 8 * ms: 2 * ms, 40 * ms: 10 * ms, time.Minute: 50 * ms} {
		if got := Poll(taken); got != want {
			t.Errorf("after %v it looks again in %v, want %v", taken, got, want)
		}
	}
}
