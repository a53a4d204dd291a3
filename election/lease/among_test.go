package lease

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bully-agent/bully-agent/wire"
)

// Only the voters' promises bind anybody: an acknowledgement of somebody outside
// the roster must neither prolong the lease nor be counted.
func TestAmongCountsItsMembersAlone(t *testing.T) {
	zero := time.Unix(1000, 0)
	l := New(nominal)
	voters := []wire.ID{id(1), id(2), id(3)}
	if !l.EndAmong(voters, 1).IsZero() || l.CountAmong(voters, zero) != 0 {
		t.Error("a lease without acknowledgements is in force")
	}
	for number, sent := range map[int]time.Duration{1: 10, 2: 20, 8: 300, 9: 400} {
		l.Renew(id(number), zero.Add(sent*time.Millisecond), l.Length)
	}
	ends := func(sent time.Duration) time.Time { return zero.Add(sent*time.Millisecond + LeaderLength(nominal)) }
	for need, sent := range map[int]time.Duration{1: 20, 2: 10} {
		if got := l.EndAmong(voters, need); !got.Equal(ends(sent)) {
			t.Errorf("%d needed: ends %v, want %v", need, got.Sub(zero), ends(sent).Sub(zero))
		}
	}
	if end := l.EndAmong(voters, 3); !end.IsZero() {
		t.Errorf("three counted of two that acknowledged: until %v", end.Sub(zero))
	}
	for at, want := range map[time.Time]int{zero: 2, ends(10): 1, ends(20): 0} {
		if got := l.CountAmong(voters, at); got != want {
			t.Errorf("at %v %d are in force, want %d", at.Sub(zero), got, want)
		}
	}
}

// Leaving members out never lengthens a lease, and a set that holds everybody who
// acknowledged says what the lease itself says.
func TestAmongIsNeverLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zero := time.Unix(1000, 0)
		l := New(nominal)
		var all, some []wire.ID
		for number := range rapid.IntRange(1, 9).Draw(t, "members") {
			all = append(all, id(number))
			if rapid.Bool().Draw(t, "voter") {
				some = append(some, id(number))
			}
			if rapid.Bool().Draw(t, "acknowledges") {
				sent := time.Duration(rapid.IntRange(0, 1000).Draw(t, "sent ms")) * time.Millisecond
				l.Renew(id(number), zero.Add(sent), l.Length)
			}
		}
		now := zero.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "now ms")) * time.Millisecond)
		for need := 1; need <= len(all); need++ {
			if !l.EndAmong(all, need).Equal(l.End(need)) {
				t.Fatalf("%d needed: %v among all, %v", need, l.EndAmong(all, need), l.End(need))
			}
			end := l.EndAmong(some, need)
			if end.After(l.End(need)) {
				t.Fatalf("%d needed: longer among some", need)
			}
			if inForce := l.CountAmong(some, now) >= need; inForce != end.After(now) {
				t.Fatalf("%d needed at %v: in force %t, ends %v", need, now.Sub(zero), inForce, end.Sub(zero))
			}
		}
		if l.CountAmong(all, now) != l.Count(now) {
			t.Fatal("counted otherwise among all")
		}
	})
}
