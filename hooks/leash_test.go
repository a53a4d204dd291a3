package hooks

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/run"
)

func TestLeashTimes(t *testing.T) {
	reason := errors.New("over")
	for _, tt := range []struct {
		name       string
		shorten    func(l *leash, now time.Time)
		term, kill time.Duration // from the start
	}{
		{"as configured", func(*leash, time.Time) {}, 30 * time.Second, 35 * time.Second},
		{"limited beyond its time", func(l *leash, now time.Time) { l.limit(now.Add(time.Hour)) }, 30 * time.Second, 35 * time.Second},
		{"limited", func(l *leash, now time.Time) { l.limit(now.Add(1020 * time.Millisecond)) }, 750 * time.Millisecond, time.Second},
		{"limited twice", func(l *leash, now time.Time) {
			l.limit(now.Add(1020 * time.Millisecond))
			l.limit(now.Add(time.Minute))
		}, 750 * time.Millisecond, time.Second},
		{"limited to a fast profile's budget", func(l *leash, now time.Time) { l.limit(now.Add(40 * time.Millisecond)) }, 27 * time.Millisecond, 36 * time.Millisecond},
		{"limited to nothing", func(l *leash, now time.Time) { l.limit(now.Add(-time.Second)) }, minRun, minRun + run.MinGrace},
		{"pulled", func(l *leash, _ time.Time) { l.pull(reason, time.Time{}) }, 0, 5 * time.Second},
		{"pulled within a budget", func(l *leash, now time.Time) { l.pull(reason, now.Add(220*time.Millisecond)) }, 0, 200 * time.Millisecond},
		{"pulled, then in a hurry", func(l *leash, now time.Time) {
			l.pull(reason, time.Time{})
			l.pull(errors.New("other"), now.Add(220*time.Millisecond))
		}, 0, 200 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := time.Now()
				l := newLeash(30*time.Second, 5*time.Second)
				tt.shorten(l, now)
				term := l.TermBy(now)
				if got := term.Sub(now); got != tt.term {
					t.Errorf("TERM after %v, want %v", got, tt.term)
				}
				if got := l.KillBy(term).Sub(now); got != tt.kill {
					t.Errorf("KILL after %v, want %v", got, tt.kill)
				}
				if tt.term == 0 && !errors.Is(l.pulled(), reason) {
					t.Errorf("pulled because %v, want the first reason", l.pulled())
				}
			})
		})
	}
}
