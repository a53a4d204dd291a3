package lantest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/transport"
)

// tied is a tether with what it found, as "lost" and "refused" and when.
type tied struct {
	begun time.Time
	found []string
	at    []time.Duration
	end   context.CancelFunc
	over  chan struct{}
}

func tie(from, to *Host) *tied {
	ctx, cancel := context.WithCancel(context.Background())
	w := &tied{begun: time.Now(), end: cancel, over: make(chan struct{})}
	find := func(what string) func() {
		return func() {
			w.found = append(w.found, what)
			w.at = append(w.at, time.Since(w.begun))
		}
	}
	go func() {
		defer close(w.over)
		from.Tether(ctx, to.Addr(), Say(transport.Tether), find("lost"), find("refused"))
	}()
	synctest.Wait()
	return w
}

// wants ends the tether and compares what it found.
func (w *tied) wants(t *testing.T, what ...string) {
	t.Helper()
	synctest.Wait()
	w.end()
	begun := time.Now()
	<-w.over
	if took := time.Since(begun); took > 2*time.Millisecond {
		t.Errorf("the tether ended %v after it was told to", took)
	}
	if !slices.Equal(w.found, what) {
		t.Errorf("found %q at %v, want %q", w.found, w.at, what)
	}
}

func TestTetherTellsOfAKilledProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		w := tie(a, b)
		if n := len(b.taken); n != 0 {
			t.Errorf("memberlist got %d streams", n)
		}
		time.Sleep(time.Hour)
		_ = b.Shutdown()
		time.Sleep(time.Minute) // and it does not say so again
		w.wants(t, "lost", "refused")
		if w.at[0] != time.Hour || w.at[1] != time.Hour+2*time.Millisecond {
			t.Errorf("found at %v, want after an hour, and two ways of 1 ms later", w.at)
		}
	})
}

func TestTetherGoesOnWithTheNextLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan, a, b := pair(t)
		w := tie(a, b)
		_ = b.Shutdown()
		b = plug(t, lan, "b", 2) // before a can dial
		serve(b)
		time.Sleep(time.Minute)
		if len(w.found) > 0 {
			t.Errorf("found %q though the port was never free", w.found)
		}
		_ = b.Shutdown()
		time.Sleep(time.Minute)
		w.wants(t, "lost", "refused")
	})
}

func TestTetherSaysNothingOf(t *testing.T) {
	for _, c := range []struct {
		name   string
		befall func(lan *LAN, b *Host)
	}{
		{"a cut cable", func(lan *LAN, _ *Host) { lan.Cut("a", "b"); lan.Cut("b", "a") }},
		{"an isolated host", func(lan *LAN, _ *Host) { lan.Isolate("b") }},
		{"a cut that heals", func(lan *LAN, _ *Host) { lan.Isolate("b"); time.Sleep(time.Minute); lan.Heal() }},
		{"a dead host", func(lan *LAN, b *Host) { lan.Isolate("b"); _ = b.Shutdown() }},
		{"its own host's death", func(lan *LAN, _ *Host) { _ = lan.lookup(address(1)).Shutdown() }},
		{"nobody there", func(lan *LAN, b *Host) { time.Sleep(time.Minute) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lan, a, b := pair(t)
				if c.name == "nobody there" {
					_ = b.Shutdown() // before the first dial: there is no end to confirm
				}
				w := tie(a, b)
				c.befall(lan, b)
				time.Sleep(5 * time.Minute)
				w.wants(t)
			})
		})
	}
}

func TestDatagramsCutHideTheRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lan, a, b := pair(t)
		w := tie(a, b)
		lan.CutUDP("b", "a")
		_ = b.Shutdown()
		time.Sleep(time.Minute)
		w.wants(t, "lost")
	})
}

func TestEndedTetherLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a, b := pair(t)
		tie(a, b).wants(t)
		if len(a.streams) != 0 || len(b.streams) != 0 {
			t.Errorf("%d and %d streams are open", len(a.streams), len(b.streams))
		}
		w := tie(a, b)
		w.end()
		_ = b.Shutdown() // at once after: nobody wants to know
		time.Sleep(time.Minute)
		w.wants(t)
	})
}
