package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
)

// Hosts may be on a network that is no LAN, but a routed one: all round trips are then as
// long as half the lease or more. The election has to bear that, up to
// election.Config.LongestRoundTrip.

// Far is what came of a leader's death among hosts that are far apart.
type Far struct {
	Reigns    int           // leaderships that began in the minute after it
	Gap       time.Duration // the longest without a leader in that minute
	Agreed    bool          // in the end all follow one
	Violation *Violation
}

// FarApart lets a small group agree whose round trips are that long, ends its leader's
// process, or its host with isHost, and watches for a minute.
func FarApart(o Options, trip time.Duration, isHost bool) (r Far) {
	w := newCalm(&o)
	w.trips.trip = trip
	w.base.Preempt = pick(w.rng, election.PreemptPriority, election.PreemptAlways, election.PreemptNever)
	w.populate()
	w.castAlike()
	w.record = newRecord(w.net.size)
	for _, m := range w.machines {
		w.boot(m)
	}
	if !w.agreeBy(int64(time.Minute), 20*time.Millisecond) {
		w.i12OneLeader(time.Minute)
	}
	w.runUntil(w.now+int64(3*time.Second)+int64(w.upTo(w.base.Lease)), nil)
	why := Crash
	if isHost {
		why = PowerLoss
	}
	for _, m := range w.machines {
		if w.acts(m) {
			w.kill(m, why)
		}
	}
	s := w.watch(time.Minute)
	r.Reigns, r.Gap, r.Agreed, r.Violation = s.reigns, s.gap, w.agreed(), w.failure
	return r
}

// trips are how long all round trips of a schedule are. They have a stream of chance of
// their own, so that nothing else is drawn differently for them.
type trips struct {
	rng  *rand.Rand
	trip time.Duration // beyond the weather's; zero: it is a LAN
}

// shortTrip and longTrip bound the round trips that are drawn: no LAN, but a routed network.
const (
	shortTrip = 160 * time.Millisecond
	longTrip  = 300 * time.Millisecond
)

// drawTrips draws long round trips for one schedule of eight, if its lease bears them beside
// what the weather adds.
func (w *World) drawTrips(o *Options) {
	t := &w.trips
	t.rng = rand.New(rand.NewPCG(o.Seed, 0x7219))
	trip := shortTrip + time.Duration(t.rng.Int64N(int64(longTrip-shortTrip)))
	if o.Usual || w.size < 2 || w.size > 9 || t.rng.IntN(8) > 0 || trip+10*time.Millisecond > w.base.LongestRoundTrip() {
		return
	}
	t.trip = trip
	w.unusual.has = append(w.unusual.has, LongTrips)
}

// Bounds on what a leader's death may cost among hosts that are far apart: leaderships that
// begin in the minute after it, and the longest time without any.
const (
	reignsFar = 3
	farFor    = time.Minute
	gapTrips  = 8 // beside gapAllowed, in round trips
)

// endFarApart switches the leader's host off, or ends its process, once all is well, and wants
// the leadership to come to rest at another.
func (w *World) endFarApart() {
	i := slices.IndexFunc(w.machines, func(m *machine) bool { return w.counts(m) && w.acts(m) })
	if i < 0 {
		return
	}
	leader := w.machines[i]
	w.kill(leader, pick(w.trips.rng, Crash, PowerLoss))
	if !w.canLead() {
		return
	}
	s := w.watch(farFor)
	if s.reigns > reignsFar {
		w.i28FewLeaderships(s.reigns)
	}
	if s.gap > w.deathBorne() {
		w.i28SomebodyLeads(s.gap)
	}
}

// deathBorne bounds the time without a leader after one has died: memberlist may have to see
// that others are not there any more, if min_members or min_acks count them.
func (w *World) deathBorne() time.Duration {
	return gapAllowed + gapTrips*w.trips.trip + 6*w.longestLease() + w.base.Settle
}

// I28: among hosts that are far apart a leader's death does not send the leadership round.
func (w *World) i28FewLeaderships(reigns int) {
	w.sayStatus()
	w.fail(28, "%d leaderships in the minute after a leader's death, with round trips of %v", reigns, w.trips.trip)
}

// I28: and somebody leads.
func (w *World) i28SomebodyLeads(gap time.Duration) {
	w.sayStatus()
	w.fail(28, "nobody led for %v after a leader's death, with round trips of %v", gap, w.trips.trip)
}
