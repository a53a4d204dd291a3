package sealed

import (
	"time"

	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/internal/transport"
)

// Report is what status shows: the sessions, and how much went through them.
type Report struct {
	session.Report
	Sealed uint64 // frames and gossip out
	Opened uint64 // and in
}

// Report describes the present.
func (l *LAN) Report() (r Report) {
	l.locked(func(t *session.Table, now time.Time) { r = Report{t.Report(now), l.sealed, l.opened} })
	return r
}

// Stats are those of the LAN below, if it counts.
func (l *LAN) Stats() transport.Stats {
	if below, ok := l.below.(interface{ Stats() transport.Stats }); ok {
		return below.Stats()
	}
	return transport.Stats{}
}
