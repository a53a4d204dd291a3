// Package lease says until when a leader may act.
//
// A leader's right to act comes from acknowledgements. Each one is worth the
// length that was asked for (M39), counted from the moment the leader SENT what is acknowledged:
// the follower counts from its receipt, which is later, so the leader's view
// always ends first. Lengths are shrunk by the bound on clock rate error, so
// that this holds between clocks that run apart by up to Drift each.
package lease

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Drift is ρ, the bound on the error of a clock's rate: safety is promised for
// rates within ±1 % (protocol 2.5).
const Drift = 0.01

// LeaderLength is how much of the nominal length the leader may use.
func LeaderLength(nominal time.Duration) time.Duration {
	return time.Duration(float64(nominal) * (1 - Drift) / (1 + Drift))
}

// WaitLength is how long another must wait, from its last heartbeat of the
// leader, to be sure that a leader without acknowledgements has let go.
func WaitLength(nominal time.Duration) time.Duration {
	return time.Duration(float64(nominal) * (1 + 2*Drift))
}

// Lease is the leader's side: who acknowledged until when. The zero Lease has
// no acknowledgements. It belongs to one leadership; a new one starts afresh,
// since an expired lease is never revived by late acknowledgements.
type Lease struct {
	// Length is what Forgive gives: the least for which any member waits.
	Length time.Duration

	expiry  map[wire.ID]time.Time
	floor   time.Time
	scratch []time.Time // End's, kept because it is asked at every frame
}

// New gives a lease that forgives for this length, without acknowledgements.
func New(length time.Duration) Lease {
	return Lease{Length: length, expiry: make(map[wire.ID]time.Time)}
}

// Renew counts an acknowledgement by id of something that was sent at sent and
// asked for length. An older one never shortens what a newer one gave.
func (l *Lease) Renew(id wire.ID, sent time.Time, length time.Duration) {
	if until := sent.Add(LeaderLength(length)); until.After(l.expiry[id]) {
		l.expiry[id] = until
	}
}

// Forgive gives the lease at least one full length from now on: when the number
// of needed acknowledgements rises because a member joined, that member had no
// chance yet to acknowledge.
func (l *Lease) Forgive(now time.Time) { l.floor = now.Add(LeaderLength(l.Length)) }

// End is when fewer than need members will have a current acknowledgement: the
// need-th latest expiry. need must be positive.
func (l *Lease) End(need int) time.Time {
	ends := l.scratch[:0]
	for _, t := range l.expiry {
		ends = append(ends, t)
	}
	return l.end(ends, need)
}

// EndAmong is End among these members alone: the voters of a roster.
func (l *Lease) EndAmong(members []wire.ID, need int) time.Time {
	ends := l.scratch[:0]
	for _, id := range members {
		if t, ok := l.expiry[id]; ok {
			ends = append(ends, t)
		}
	}
	return l.end(ends, need)
}

func (l *Lease) end(ends []time.Time, need int) time.Time {
	l.scratch = ends
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	end := l.floor
	if need <= len(ends) && ends[need-1].After(end) {
		end = ends[need-1]
	}
	return end
}

// CountAmong is Count among these members alone.
func (l *Lease) CountAmong(members []wire.ID, now time.Time) int {
	count := 0
	for _, id := range members {
		if l.expiry[id].After(now) {
			count++
		}
	}
	return count
}

// Count is how many acknowledgements are in force.
func (l *Lease) Count(now time.Time) int {
	count := 0
	for _, t := range l.expiry {
		if t.After(now) {
			count++
		}
	}
	return count
}
