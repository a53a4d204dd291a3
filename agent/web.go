package agent

import (
	"context"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/reader"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// feedReader writes what the network reads.
func (a *agent) feedReader(ctx context.Context) { a.feed.Run(ctx, a, a.log.Named("http")) }

// Families implements reader.Source.
func (a *agent) Families(goRuntime bool) ([]byte, error) { return a.exporter.Families(goRuntime) }

// leases tells the reader until when this host leads; zero: it does not.
func (a *agent) leases(until time.Time) {
	if a.feed != nil {
		a.feed.Lease(sidecar.Convert(until, a.cfg.Now))
	}
}

// door is what the keeper gives to a reader; nil: the network asks nothing.
func (a *agent) door() *reader.Door {
	if a.feed == nil {
		return nil
	}
	return a.feed.Door()
}

// readerKeeper is a Runner that keeps the reader, too.
type readerKeeper interface{ Reader() reader.State }

// reader says how the reader is; nil: the network asks nothing.
func (a *agent) reader() *control.Reader {
	keeps, ok := a.runner.(readerKeeper)
	if !ok || a.feed == nil {
		return nil
	}
	state := keeps.Reader()
	return &control.Reader{Process: state.Process, Error: state.Why, Lacks: state.Lacks, Addr: a.feed.Addr().String()}
}
