package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bully-agent/bully-agent/internal/control"
)

// hookCounts counts runs of hooks, which the ledger has in the order of their seq. Nobody
// counts while nobody asks: of more runs than the ledger keeps between two questions the
// oldest are missed.
type hookCounts struct {
	since   time.Time              // runs before are of an earlier life of the agent
	seq     uint64                 // of the newest that was counted
	reading chan []control.HookRun // nil: the ledger is not being read
	runs    *prometheus.CounterVec
	took    *prometheus.HistogramVec
}

// events are those that have hooks, each of which is shown, also if it never ran.
var events = []string{"become-leader", "lose-leadership", "leader-change", "member-change"}

func newHookCounts(since time.Time) *hookCounts {
	h := &hookCounts{since: since,
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bully_hook_runs_total",
			Help: "Attempts to run a hook that have ended, by how."}, []string{"hook", "result"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "bully_hook_duration_seconds",
			Help: "How long attempts to run a hook took.", Buckets: []float64{.01, .03, .1, .3, 1, 3, 10, 30, 60}}, []string{"hook"}),
	}
	for _, event := range events {
		h.runs.WithLabelValues(event, "succeeded")
		h.runs.WithLabelValues(event, "failed")
		h.took.WithLabelValues(event)
	}
	return h
}

// readPatience is how long the ledger may take, which is on a disk. Arbitrary.
const readPatience = 200 * time.Millisecond

// countFrom counts what is new in the ledger. While its disk hangs the counts are those of before, and it is not
// read a second time.
func (h *hookCounts) countFrom(source Source) {
	if h.reading == nil {
		h.reading = make(chan []control.HookRun, 1)
		go func(seq uint64, read chan<- []control.HookRun) {
			runs, err := source.RunsAfter(seq)
			if err != nil {
				runs = nil // they are counted next time
			}
			read <- runs
		}(h.seq, h.reading)
	}
	late := time.NewTimer(readPatience)
	defer late.Stop()
	select {
	case runs := <-h.reading:
		h.reading = nil
		h.count(runs)
	case <-late.C:
	}
}

func (h *hookCounts) count(runs []control.HookRun) {
	for _, r := range runs {
		if r.Seq <= h.seq {
			continue
		}
		h.seq = r.Seq
		if r.Started.Before(h.since) {
			continue
		}
		result := "failed"
		if r.OK {
			result = "succeeded"
		}
		h.runs.WithLabelValues(r.Event, result).Inc()
		h.took.WithLabelValues(r.Event).Observe(r.TookMS / 1000)
	}
}

func (h *hookCounts) describe(to chan<- *prometheus.Desc) {
	h.runs.Describe(to)
	h.took.Describe(to)
}

func (h *hookCounts) collect(to chan<- prometheus.Metric) {
	h.runs.Collect(to)
	h.took.Collect(to)
}
