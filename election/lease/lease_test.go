package lease

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bully-agent/bully-agent/wire"
)

const nominal = 400 * time.Millisecond

func id(number int) wire.ID { return wire.ID{byte(number), 6: 0x40, 8: 0x80} }

// A leader's end is never later than the release of any of those whose
// acknowledgement it relies on, with clocks that run apart by Drift each: the
// leader counts from what it sent on its clock, the follower from what it
// received on its own, and true time is what counts.
func TestLeaderEndsBeforeAnyFollowerReleases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(1-Drift, 1+Drift)
		leaderRate := rate.Draw(t, "leader's rate")
		origin := time.Unix(1_000_000, 0)
		local := func(trueTime time.Duration, rate float64) time.Time {
			return origin.Add(time.Duration(float64(trueTime) * rate))
		}
		length := time.Duration(rapid.IntRange(1, 10_000).Draw(t, "length ms")) * time.Millisecond
		l := New(length)
		n := rapid.IntRange(1, 6).Draw(t, "acknowledgers")
		release := make([]time.Duration, n) // in true time
		for range rapid.IntRange(n, 30).Draw(t, "acknowledgements") {
			who := rapid.IntRange(0, n-1).Draw(t, "who")
			sent := time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "sent"))
			flight := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "flight"))
			followerRate := rate.Draw(t, "follower's rate")
			l.Renew(id(who), local(sent, leaderRate), l.Length)
			waits := time.Duration(float64(length) / followerRate)
			release[who] = max(release[who], sent+flight+waits)
		}
		for need := 1; need <= n; need++ {
			end := l.End(need)
			if end.IsZero() {
				continue
			}
			trueEnd := time.Duration(float64(end.Sub(origin)) / leaderRate)
			released := 0
			for _, r := range release {
				if r > 0 && r < trueEnd-time.Microsecond {
					released++
				}
			}
			if promised := n - released; promised < need {
				t.Fatalf("at the end %v only %d of %d still promise", trueEnd, promised, need)
			}
		}
	})
}

// Nobody claims before a leader without acknowledgements has let go: WaitLength
// on the slowest leader's and the fastest follower's clock.
func TestWaitOutlastsTheLease(t *testing.T) {
	leader := float64(LeaderLength(nominal)) / (1 - Drift)
	follower := float64(WaitLength(nominal)) / (1 + Drift)
	if leader > float64(nominal) || follower < float64(nominal) {
		t.Errorf("a slow leader acts for %v, a fast follower waits %v", time.Duration(leader), time.Duration(follower))
	}
}

func TestEnd(t *testing.T) {
	zero := time.Unix(1000, 0)
	l := New(nominal)
	if !l.End(1).IsZero() || l.Count(zero) != 0 {
		t.Error("a lease without acknowledgements is in force")
	}
	for i, sent := range []time.Duration{30, 10, 20} {
		l.Renew(id(i), zero.Add(sent*time.Millisecond), l.Length)
	}
	for need, sent := range map[int]time.Duration{1: 30, 2: 20, 3: 10} {
		if want := zero.Add(sent*time.Millisecond + LeaderLength(nominal)); !l.End(need).Equal(want) {
			t.Errorf("%d needed: ends %v, want %v", need, l.End(need).Sub(zero), want.Sub(zero))
		}
	}
	if !l.End(4).IsZero() {
		t.Error("four are counted of three")
	}
	before := l.End(1)
	l.Renew(id(0), zero, l.Length)
	if !l.End(1).Equal(before) {
		t.Error("an older acknowledgement shortened the lease")
	}
	if got := l.Count(zero.Add(15*time.Millisecond + LeaderLength(nominal))); got != 2 {
		t.Errorf("%d in force after the first ran out, want 2", got)
	}
}

func TestForgive(t *testing.T) {
	zero := time.Unix(1000, 0)
	l := New(nominal)
	l.Forgive(zero)
	if want := zero.Add(LeaderLength(nominal)); !l.End(3).Equal(want) {
		t.Errorf("ends %v, want one length from now", l.End(3).Sub(zero))
	}
	if l.Count(zero) != 0 {
		t.Error("forgiving counts as an acknowledgement")
	}
}
