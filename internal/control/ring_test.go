package control

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func seqs(events []Event) []uint64 {
	var s []uint64
	for _, e := range events {
		s = append(s, e.Seq)
	}
	return s
}

func TestRingKeepsTheNewest(t *testing.T) {
	tests := []struct {
		appended int
		since    uint64
		from, to uint64 // both 0: nothing
	}{
		{0, 0, 0, 0},
		{0, 5, 0, 0},
		{1, 0, 1, 1},
		{1, 1, 0, 0},
		{3, 1, 2, 3},
		{3, 1 << 63, 0, 0},
		{RingSize, 0, 1, RingSize},
		{RingSize + 1, 0, 2, RingSize + 1},
		{RingSize + 1, 1, 2, RingSize + 1},
		{RingSize + 1, RingSize, RingSize + 1, RingSize + 1},
		{3*RingSize + 7, 0, 2*RingSize + 8, 3*RingSize + 7},
		{3*RingSize + 7, 3*RingSize + 5, 3*RingSize + 6, 3*RingSize + 7},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d since %d", tt.appended, tt.since), func(t *testing.T) {
			var r Ring
			for i := range tt.appended {
				kept := r.Append(Event{Text: fmt.Sprint("event ", i+1)})
				if kept.Seq != uint64(i+1) {
					t.Fatalf("event %d got seq %d", i+1, kept.Seq)
				}
			}
			events, _ := r.Events(tt.since)
			want := 0
			if tt.to > 0 {
				want = int(tt.to - tt.from + 1)
			}
			if len(events) != want {
				t.Fatalf("got %d events, want %d: %v", len(events), want, seqs(events))
			}
			for i, e := range events {
				seq := tt.from + uint64(i)
				if e.Seq != seq || e.Text != fmt.Sprint("event ", seq) {
					t.Fatalf("at %d: got %d %q, want event %d", i, e.Seq, e.Text, seq)
				}
			}
		})
	}
}

func TestRingWakesAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Ring
		_, first := r.Events(0)
		var woken atomic.Int32
		for range 3 {
			go func() { <-first; woken.Add(1) }()
		}
		synctest.Wait()
		if n := woken.Load(); n != 0 {
			t.Fatalf("%d woke before there was an event", n)
		}
		r.Append(Event{})
		synctest.Wait()
		if n := woken.Load(); n != 3 {
			t.Fatalf("%d of 3 woke", n)
		}
		_, second := r.Events(1)
		select {
		case <-second:
			t.Fatal("woken by an event that was already returned")
		default:
		}
	})
}

func TestRingGivesCopies(t *testing.T) {
	var r Ring
	r.Append(Event{Text: "kept"})
	mine, _ := r.Events(0)
	mine[0].Text = "scribbled"
	if again, _ := r.Events(0); again[0].Text != "kept" {
		t.Errorf("a reader changed the ring to %q", again[0].Text)
	}
}
