package jobs

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// storm lets hosts, disks and cables do their worst to Schedulers. Several hosts
// may believe at one time that they lead, for there is no lease here: what keeps
// a slot from starting twice are the witnesses alone.
type storm struct {
	*lan
	rng   *rand.Rand
	table []Job
	epoch uint64
}

func stormOf(t *testing.T, seed uint64, hosts int) *storm {
	rng := rand.New(rand.NewPCG(seed, 7))
	table := tableOf(t, func(j *Job) {
		j.Timeout = time.Duration(1+rng.IntN(5)) * time.Second
		j.Overlap, j.Missed, j.OnLoss = Overlap(rng.IntN(4)), Missed(rng.IntN(3)), OnLoss(rng.IntN(2))
		j.Retries, j.RetryDelay = rng.IntN(2), 500*time.Millisecond
	}, "@every 2s", "@every 5s")
	w := &storm{lan: newLan(t, hosts, true, table...), rng: rng, table: table}
	for _, h := range w.hosts {
		h.skew = time.Duration(rng.IntN(2001)-1000) * time.Millisecond
	}
	return w
}

func (w *storm) any() *lanHost { return w.hosts[w.rng.IntN(len(w.hosts))] }

// hurt lets one thing happen, and some time pass.
func (w *storm) hurt() {
	h := w.any()
	switch w.rng.IntN(30) { // from 16 on only time passes
	case 0, 1:
		w.epoch++
		if h.s != nil {
			w.lead(h.number, w.epoch)
		}
	case 3:
		w.step(h, NotLeading{})
	case 4:
		w.crash(h)
	case 5, 6:
		for _, other := range w.hosts {
			w.restart(other)
		}
	case 2, 7:
		w.cutOff(h.number, true)
	case 8, 9:
		clear(w.cut)
	case 10:
		if other := w.any(); other != h && other.s != nil && h.s != nil {
			w.gossip(h, other)
		}
	case 11:
		h.full = true
	case 12:
		for _, other := range w.hosts {
			other.full = false
			w.step(other, SaveRecovered{})
		}
	case 13:
		w.keep[[]wire.Kind{wire.JobClaim, wire.JobWitness, wire.JobRecord, wire.LedgerQuery, wire.LedgerPart}[w.rng.IntN(5)]] = w.rng.IntN(4) == 0
	case 14:
		w.step(h, Ask{Job: w.table[w.rng.IntN(2)].Name, Token: 1})
	case 15:
		w.delay = []time.Duration{time.Millisecond, 50 * time.Millisecond, 1500 * time.Millisecond}[w.rng.IntN(3)]
	}
	w.lasts, w.exit = time.Duration(w.rng.IntN(3000))*time.Millisecond, uint8(w.rng.IntN(2))
	w.run(time.Duration(w.rng.IntN(2500)) * time.Millisecond)
	w.trace.Reset()
}

// restart starts a host that is down, now and then without its ledger.
func (w *storm) restart(h *lanHost) {
	if h.s != nil {
		return
	}
	if h.disk != nil && w.rng.IntN(6) == 0 {
		h.disk, h.lostLedger = nil, true
	}
	w.boot(h, w.table)
	h.lostLedger = false
}

// J1 and J2, whatever happens; lan looks at every start.
func TestJ1_NoSlotStartsTwiceInAStorm(t *testing.T) {
	starts := 0
	for seed := range uint64(60) {
		w := stormOf(t, seed, 3+int(seed%3))
		for range 250 {
			w.hurt()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		starts += len(w.starts)
	}
	if starts < 2000 {
		t.Errorf("only %d slots were started", starts)
	}
	t.Logf("%d slots started", starts)
}
