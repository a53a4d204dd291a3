package jobs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// world is some hosts that run two jobs: every message may be lost, late or
// doubled, hosts crash and come back with their disks, several may believe
// that they lead, and clocks differ. What runs is whatever Due says, once a
// majority has witnessed the claim.
type world struct {
	rng      *rand.Rand
	now      time.Time
	hosts    []*worldHost
	table    []Job
	epoch    uint64
	majority int
	sent     []sentClaim
	starts   map[string]int // of each job and slot: J1 says at most one
}

type worldHost struct {
	id     wire.ID
	ledger Ledger
	lead   Leadership
	skew   time.Duration
	claims []*pendingClaim
}

type pendingClaim struct {
	claim Claim
	acks  map[wire.ID]bool
}

type sentClaim struct {
	claim Claim
	from  *worldHost
}

func worldOf(seed, n, majority int) *world {
	w := &world{rng: rand.New(rand.NewPCG(uint64(seed), 1)), now: clock("12:00"), starts: map[string]int{}, majority: majority}
	for i := range n {
		id := wire.ID{byte(i + 1)}
		w.hosts = append(w.hosts, &worldHost{id: id, lead: Leadership{Self: id, Settle: settleTime},
			skew: time.Duration(w.rng.IntN(61)-30) * time.Second})
	}
	for _, text := range []string{"@every 20s", "*/3 * * * *"} {
		name := "job" + fmt.Sprint(len(w.table))
		s, err := ParseSchedule(text, name, nil)
		if err != nil {
			panic(err)
		}
		w.table = append(w.table, Job{Name: name, Schedule: s, Timeout: 30 * time.Second,
			Overlap: Overlap(w.rng.IntN(4)),
			Missed:  Missed(w.rng.IntN(3)),
			Retries: w.rng.IntN(2), RetryDelay: time.Second})
	}
	return w
}

func (w *world) host() *worldHost { return w.hosts[w.rng.IntN(len(w.hosts))] }

func (h *worldHost) clock(w *world) time.Time { return w.now.Add(h.skew) }

// step lets one thing happen.
func (w *world) step() {
	h := w.host()
	w.now = w.now.Add(time.Duration(w.rng.IntN(5001)) * time.Millisecond)
	switch w.rng.IntN(24) {
	case 0, 1:
		w.epoch++
		h.lead.Leading, h.lead.Epoch, h.lead.Since = true, w.epoch, h.clock(w)
	case 2:
		h.lead.Leading = false
	case 3:
		w.crash(h)
	case 4, 5:
		other := w.host()
		h.ledger.Merge(other.ledger.Clone())
	case 6:
		h.ledger.Prune(h.clock(w), w.table)
	case 7, 8:
		w.end(h)
	case 9, 10, 11, 12, 13, 14, 15, 16:
		w.deliver()
	default:
		w.due(h)
	}
	w.resolve(h)
}

func (w *world) due(h *worldHost) {
	for _, d := range Due(h.clock(w), w.table, &h.ledger, h.lead) {
		h.ledger.Apply(d)
		if d.Do == Start {
			p := &pendingClaim{d.Claim(), map[wire.ID]bool{h.id: true}}
			h.claims = append(h.claims, p)
			for range w.hosts {
				w.sent = append(w.sent, sentClaim{d.Claim(), h})
			}
		}
	}
}

// deliver gives a claim to a host, perhaps not for the first time, and its
// answer back or not.
func (w *world) deliver() {
	if len(w.sent) == 0 {
		return
	}
	c := w.sent[max(0, len(w.sent)-1-w.rng.IntN(4)*w.rng.IntN(10))]
	to := w.host()
	if to == c.from || to.ledger.Admit(to.clock(w), c.claim) != ReasonNone || w.rng.IntN(5) == 0 {
		return
	}
	for _, p := range c.from.claims {
		if p.claim == c.claim {
			p.acks[to.id] = true
		}
	}
}

// resolve starts what enough have witnessed, and gives up some of the rest.
func (w *world) resolve(h *worldHost) {
	h.claims = slices.DeleteFunc(h.claims, func(p *pendingClaim) bool {
		e, _ := h.ledger.Entry(p.claim.Job)
		i, ok := e.find(p.claim.Run.Key)
		switch {
		case !ok || e.Runs[i].Phase != Claimed: // given up meanwhile
			return true
		case len(p.acks) >= w.majority:
			w.starts[fmt.Sprint(p.claim.Job, " ", p.claim.Run.Slot)]++
			h.ledger.Put(p.claim.Job, p.claim.Run.Began(h.clock(w)))
			return true
		case w.rng.IntN(61) == 0:
			h.ledger.Put(p.claim.Job, p.claim.Run.Refused(h.clock(w)))
			return true
		}
		return false
	})
}

// end lets a command of the host's end.
func (w *world) end(h *worldHost) {
	for i := range w.table {
		e, _ := h.ledger.Entry(w.table[i].Name)
		for _, r := range e.Runs {
			if r.Owner == h.id && (r.Phase == Running || r.Phase == Stopping) {
				h.ledger.Put(e.Job, r.Finished(h.clock(w), uint8(w.rng.IntN(2)), &w.table[i]))
				return
			}
		}
	}
}

func (w *world) crash(h *worldHost) {
	h.claims, h.lead.Leading = nil, false
	h.ledger.disown(h.clock(w), h.id, func(string, Key) bool { return false })
}

// J1: whatever happens, no slot is started twice.
func TestJ1_NoSlotStartsTwice(t *testing.T) {
	total := 0
	for seed := range 200 {
		n := 1 + seed%5
		w := worldOf(seed, n, n/2+1)
		for step := range 1000 {
			w.step()
			if slot, ok := w.twice(); ok {
				t.Fatalf("seed %d, step %d: %s started twice", seed, step, slot)
			}
		}
		total += len(w.starts)
	}
	if total < 3000 {
		t.Errorf("only %d starts: the world tries too little", total)
	}
	t.Logf("%d slots started, none twice", total)
}

// The world above finds it when a claim needs a witness less than a majority.
func TestJ1_TheWorldBites(t *testing.T) {
	found := 0
	for seed := range 40 {
		w := worldOf(seed, 4, 2)
		for range 1000 {
			w.step()
		}
		if _, ok := w.twice(); ok {
			found++
		}
	}
	if found == 0 {
		t.Error("with two witnesses of four no slot started twice")
	}
	t.Logf("a slot started twice in %d of 40 runs", found)
}

func (w *world) twice() (slot string, ok bool) {
	for slot, n := range w.starts {
		if n > 1 {
			return slot, true
		}
	}
	return "", false
}

// Between now and Next nothing becomes due, whatever the policies and the past.
func TestNothingIsDueBeforeNext(t *testing.T) {
	acted := 0
	for seed := range 100 {
		w := worldOf(seed, 1, 1)
		for i := range w.table {
			w.table[i].StartingDeadline = time.Duration(w.rng.IntN(91)) * time.Second
			w.table[i].OnLoss = OnLoss(w.rng.IntN(2))
		}
		h := w.hosts[0]
		h.skew = 0
		for range 200 {
			w.step()
			w.foreign(h)
			w.due(h)
			w.resolve(h)
			acted += w.lookEarly(t, seed, h)
		}
	}
	if acted < 2000 {
		t.Errorf("at Next something was due %d times only", acted)
	}
}

// lookEarly asks before Next, where nothing may be due, and at it: 1 if
// something was.
func (w *world) lookEarly(t *testing.T, seed int, h *worldHost) int {
	next := Next(w.now, w.table, &h.ledger, h.lead)
	switch span := next.Sub(w.now); {
	case next.IsZero():
		next = w.now.Add(24 * time.Hour)
		fallthrough
	case span > 1:
		early := w.now.Add(time.Duration(1 + w.rng.Int64N(int64(next.Sub(w.now))-1)))
		if i := w.firstAction(early, h); i != "" {
			t.Fatalf("seed %d, at %v: %v, but the next look is at %v", seed, early, i, next)
		}
	case span < 0:
		t.Fatalf("seed %d, at %v: the next look is at %v", seed, w.now, next)
	}
	if w.firstAction(next, h) == "" {
		return 0
	}
	return 1
}

func (w *world) firstAction(at time.Time, h *worldHost) string {
	for _, d := range Due(at, w.table, &h.ledger, h.lead) {
		if d.Do != Wait {
			return d.String()
		}
	}
	return ""
}

// foreign tells the host of a run elsewhere.
func (w *world) foreign(h *worldHost) {
	if w.rng.IntN(10) > 0 {
		return
	}
	r := Run{Key: Key{Slot: SlotOf(w.now) - 1, Owner: there}, Phase: Claimed, Claimed: MillisOf(w.now), Timeout: 5}
	h.ledger.Put(w.table[0].Name, r)
}
