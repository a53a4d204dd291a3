package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/election/quorum"
)

// Links between some pairs of hosts may stay cut for good while all else is well: a switch
// with a broken table, a firewall's rule. The failure detector goes over others and sees
// nothing of it, so the election alone has to bear it.

// links draws the graph of a schedule that ends with links cut for good. It has a stream of
// chance of its own, so that nothing else is drawn differently for it.
type links struct {
	rng  *rand.Rand
	ends bool // once all is well, links are cut for good
}

func (w *World) drawLinks(o *Options) {
	w.links.rng = rand.New(rand.NewPCG(o.Seed, 0x11c5))
	w.links.ends = !o.Usual && w.size > 2 && w.size <= 9 && w.links.rng.IntN(5) == 0
}

// Bounds on what links that are cut for good may cost (Q1): leaderships that begin in ten
// minutes after the cut, of all hosts together, and the longest time without any.
const (
	reignsQuorum    = 3
	reignsAvailable = 12
	gapAllowed      = 2 * time.Second // of the profile lan, whose lease is 400 ms
	tenMinutes      = 10 * time.Minute
	tripsOfCuts     = 100 // that more may pass without a leader where round trips are long
)

// drawCuts cuts each pair of hosts with the chance of this graph, which is drawn first:
// sparse graphs have chains and stars in them, dense ones lack a link or two.
func (w *World) drawCuts() {
	w.fired(LinksCut)
	rng := w.links.rng
	chance := pick(rng, 0.15, 0.35, 0.5, 0.65)
	for i, a := range w.machines {
		for _, b := range w.machines[:i] {
			if rng.Float64() < chance {
				w.cutPair(a, b)
			}
		}
	}
	w.say(nil, "links cut for good: %s", w.cuts())
}

// endWithLinksCut cuts links for good, once all is well, and wants the leadership to come to
// rest where the graph lets it.
func (w *World) endWithLinksCut() {
	w.drawCuts()
	most, isPromised := reignsAvailable, false
	if w.mode == Quorum {
		most, isPromised = reignsQuorum, w.someReachesMajority()
	}
	watched := 10*time.Second + 20*w.longestLease()
	s := w.watch(watched)
	if most *= int(1 + watched/tenMinutes); s.reigns > most { // leases of minutes are watched for hours
		w.i26FewLeaderships(s.reigns)
	}
	if isPromised && s.gap > gapAllowed+6*w.longestLease()+w.base.Settle+tripsOfCuts*w.trips.trip {
		w.i26SomebodyLeads(s.gap)
	}
}

// I26: links that are cut between some pairs for good do not send the leadership round.
func (w *World) i26FewLeaderships(reigns int) {
	w.sayStatus()
	w.fail(26, "%d leaderships since links are cut for good: %s", reigns, w.cuts())
}

// I26: and somebody leads.
func (w *World) i26SomebodyLeads(gap time.Duration) {
	w.sayStatus()
	w.fail(26, "nobody led for %v since links are cut for good, though a voter reaches a majority: %s", gap, w.cuts())
}

// cuts names the pairs that are cut.
func (w *World) cuts() string {
	var pairs []string
	for i, a := range w.machines {
		for _, b := range w.machines[:i] {
			if !w.talk(a, b) {
				pairs = append(pairs, fmt.Sprintf("%d-%d", b.number, a.number))
			}
		}
	}
	return strings.Join(pairs, ",")
}

// someReachesMajority: a host that may lead reaches a majority of the voters itself, so that
// quorum mode promises a leader.
func (w *World) someReachesMajority() bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool {
		voters, reached, candidates := m.roster(), 0, 0
		if !w.counts(m) || m.node.Status().Bars != 0 || !slices.Contains(voters, m.id) {
			return false
		}
		for _, other := range w.machines {
			if w.counts(other) && slices.Contains(voters, other.id) && (other == m || w.talk(m, other)) {
				reached++
				if other.cfg.Part == election.Voter {
					candidates++
				}
			}
		}
		return reached >= quorum.Size(len(voters)) && candidates >= w.base.MinMembers
	})
}

// spell is what a stretch of time came to.
type spell struct {
	gap    time.Duration // the longest without a leader
	reigns int           // leaderships that began
}

// look is how finely a spell sees gaps.
const look = 5 * time.Millisecond

// watch lets time pass and counts.
func (w *World) watch(d time.Duration) (s spell) {
	began, gap := w.record.reigns, time.Duration(0)
	for end := w.now + int64(d); w.now < end && w.failure == nil; {
		w.runUntil(w.now+int64(look), nil)
		if gap += look; slices.ContainsFunc(w.machines, w.acts) {
			gap = 0
		}
		s.gap = max(s.gap, gap)
	}
	s.reigns = w.record.reigns - began
	return s
}

// Links is what came of links that stay cut.
type Links struct {
	Cuts      string // the pairs
	Scenario  string
	Promised  bool          // quorum mode: a voter reaches a majority directly
	Gap       time.Duration // the longest without a leader
	Reigns    int           // leaderships that began
	Violation *Violation
}

// CutLinks lets a small group agree in calm weather, cuts links between some of its hosts
// for good, and watches for that long.
func CutLinks(o Options, watched time.Duration) (r Links) {
	w := newCalm(&o)
	w.base.Preempt = pick(w.rng, election.PreemptPriority, election.PreemptAlways, election.PreemptNever)
	w.populate()
	w.castAlike()
	w.record = newRecord(w.net.size)
	w.raging = true
	for _, m := range w.machines {
		w.boot(m)
	}
	r.Scenario = w.describe()
	if !w.agreeBy(int64(time.Minute), 20*time.Millisecond) {
		w.i12OneLeader(time.Minute)
	}
	w.runUntil(w.now+int64(3*time.Second)+int64(w.upTo(w.base.Lease)), nil)
	w.drawCuts()
	r.Cuts, r.Promised = w.cuts(), w.someReachesMajority()
	s := w.watch(watched)
	r.Gap, r.Reigns, r.Violation = s.gap, s.reigns, w.failure
	return r
}

// newCalm gives a world of the profile lan in which nothing goes wrong by itself.
func newCalm(o *Options) *World {
	calm := *o
	if calm.Port == AnyPort {
		calm.Port = ClearPort
	}
	w := newWorld(&calm)
	w.mixed, w.beyond, w.nearEnd, w.trips.trip = noFault, noFault, false, 0
	w.waived = [invariants]bool{}
	if w.mode = o.Mode; w.mode == AnyMode {
		w.mode = Available
	}
	w.base = election.Config{MinAcks: election.AutoMinAcks, Heartbeat: profiles[0].heartbeat, Lease: profiles[0].lease,
		StopBudget: profiles[0].stop, Algorithm: w.base.Algorithm}
	w.weather = weather{delay: 200 * time.Microsecond, jitter: 300 * time.Microsecond}
	w.hookTimes = hookTimes{become: time.Millisecond, lose: time.Millisecond, timeout: time.Second}
	w.deadAfter, w.aliveAfter = 6*time.Second, time.Second
	return w
}
