package cli

import (
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// awaitTerm waits until the command may be begun, and gives the feed to run it on,
// which the caller closes; where late is nil it looks but once, and else says why
// the command may not be begun.
func (t *leased) awaitTerm(late <-chan time.Time) (feed *leaseFeed, lease control.Lease, why string, err error) {
	progress := t.progress("waiting to lead")
	defer progress("")
	why = "the agent has not said that it does"
	feed = openFeed(t.Context.Context, t.client, t.grace, t.patience)
	for {
		if lease, err = feed.next(late, t.signals); err != nil {
			break
		}
		if why = whyNotAct(lease); why == "" {
			return feed, lease, "", nil
		}
		if late == nil {
			err = errOver
			break
		}
		progress(why)
		if !isEnding(lease) {
			continue
		}
		// A hand-over waits for whoever follows the lease. We run nothing: we let go at
		// once, and come back when it may be over.
		feed.close()
		if err = t.pause(late, waitInterval); err != nil {
			break
		}
		feed = openFeed(t.Context.Context, t.client, t.grace, t.patience)
	}
	feed.close()
	return nil, lease, why, err
}

// isEnding reports whether a leadership of this host is about to end: the lease is
// there, but nothing may be begun on it any more.
func isEnding(l control.Lease) bool { return !l.Leader && l.Until > 0 }

// pause waits for the span, no longer than until late or a signal that ends waits,
// which come back as errors.
func (t *leased) pause(late <-chan time.Time, span time.Duration) error {
	for done := time.After(span); ; {
		select {
		case <-done:
			return nil
		case <-late:
			return errLate
		case sig := <-t.signals:
			if endsWait(sig) {
				return interrupted{sig}
			}
		}
	}
}
