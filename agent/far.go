package agent

import (
	"fmt"

	"github.com/bully-agent/bully-agent/election"
)

// A cluster whose round trips are longer than the lease bears has no lasting leader, and
// nothing else says why.

// far says which round trip the lease does not bear, in a clause; empty: it bears all.
func (a *agent) far(s election.Status) string {
	if s.Far.IsZero() {
		return ""
	}
	return fmt.Sprintf("the round trip to %s is %d ms, and the lease bears at most %d ms", a.view.label(s.Far), s.Trip.Milliseconds(),
		a.cfg.Election.LongestRoundTrip().Milliseconds())
}

// farNotes are for status.
func (a *agent) farNotes(s election.Status) []string {
	far := a.far(s)
	if far == "" {
		return nil
	}
	return []string{far + ": no leader may last; set a longer lease on all hosts, as profile wan does"}
}
