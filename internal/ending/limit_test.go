package ending

import (
	"errors"
	"testing"
	"time"
)

func TestLimit(t *testing.T) {
	reason := errors.New("over")
	for _, tt := range []struct {
		name       string
		shorten    func(l *Limit, now time.Time)
		term, kill time.Duration // from the start
	}{
		{"as configured", func(*Limit, time.Time) {}, 30 * time.Second, 35 * time.Second},
		{"limited beyond its time", func(l *Limit, now time.Time) { l.Within(now, now.Add(time.Hour)) }, 30 * time.Second, 35 * time.Second},
		{"limited", func(l *Limit, now time.Time) { l.Within(now, now.Add(1020*time.Millisecond)) }, 750 * time.Millisecond, time.Second},
		{"limited twice", func(l *Limit, now time.Time) {
			l.Within(now, now.Add(1020*time.Millisecond))
			l.Within(now, now.Add(time.Minute))
		}, 750 * time.Millisecond, time.Second},
		{"limited to a fast profile's budget", func(l *Limit, now time.Time) { l.Within(now, now.Add(40*time.Millisecond)) }, 27 * time.Millisecond, 36 * time.Millisecond},
		{"limited to nothing", func(l *Limit, now time.Time) { l.Within(now, now.Add(-time.Second)) }, minRun, minRun + MinGrace},
		{"pulled", func(l *Limit, now time.Time) { l.Cut(now, reason, time.Time{}) }, 0, 5 * time.Second},
		{"pulled within a budget", func(l *Limit, now time.Time) { l.Cut(now, reason, now.Add(220*time.Millisecond)) }, 0, 200 * time.Millisecond},
		{"pulled, then in a hurry", func(l *Limit, now time.Time) {
			l.Cut(now, reason, time.Time{})
			l.Cut(now, errors.New("other"), now.Add(220*time.Millisecond))
		}, 0, 200 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			l := &Limit{Timeout: 30 * time.Second, Grace: 5 * time.Second}
			tt.shorten(l, now)
			term := l.TermBy(now)
			if got := term.Sub(now); got != tt.term {
				t.Errorf("TERM after %v, want %v", got, tt.term)
			}
			if got := l.KillBy(term).Sub(now); got != tt.kill {
				t.Errorf("KILL after %v, want %v", got, tt.kill)
			}
			if tt.term == 0 && !errors.Is(l.Reason, reason) {
				t.Errorf("cut because %v, want the first reason", l.Reason)
			}
		})
	}
}
