// Package metrics says what an agent shows in Prometheus's text format. It reads what the
// agent has published, when somebody asks, and nothing of it is in the way of the agent's
// loop. The one home of client_golang.
//
// Labels come from code and configuration. The one that does not is a peer's name, which a
// host chooses: it keeps to the rule of names, and there are at most 64.
package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/bully-agent/bully-agent/internal/control"
)

// Source is where the numbers come from: the agent, or a fake in tests.
type Source interface {
	Status() control.Status
	Members() []control.Member
	Jobs(ctx context.Context, next int) ([]control.Job, error)
	// RunsAfter lists the runs of hooks that are kept and have a higher seq, oldest first.
	RunsAfter(seq uint64) ([]control.HookRun, error)
	// LoseHookOwed: a leadership of this host has not been ended by its lose hook.
	LoseHookOwed() bool
}

// jobPatience bounds the question about jobs, the only one that the agent's loop answers.
// Arbitrary.
const jobPatience = time.Second

// Exporter gives the metrics of one agent. The zero Exporter is not usable; New costs nothing
// until the first Text.
type Exporter struct {
	source Source
	since  time.Time

	once    sync.Once
	mu      sync.Mutex // one asks at a time: a scrape costs a millisecond, and many must not add up
	own     *prometheus.Registry
	runtime *prometheus.Registry
}

// New makes an exporter for an agent that has run since then.
func New(source Source, since time.Time) *Exporter { return &Exporter{source: source, since: since} }

func (e *Exporter) begin() {
	e.own, e.runtime = prometheus.NewRegistry(), prometheus.NewRegistry()
	e.own.MustRegister(newCollector(e.source, e.since))
	e.runtime.MustRegister(collectors.NewGoCollector())
}

// Text gives the metrics in the format that suits an Accept header best. Without goRuntime those of
// Go's runtime are left out, which node_exporter, a Go program, has under the same names.
func (e *Exporter) Text(accept string, goRuntime bool) (text []byte, contentType string, err error) {
	families, err := e.gather(goRuntime)
	if err != nil {
		return nil, "", err
	}
	return written(families, accept)
}
