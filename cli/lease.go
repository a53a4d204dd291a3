package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bully-agent/bully-agent/agent"
	"github.com/bully-agent/bully-agent/control"
)

// leaseFeed follows the agent's lease in the background. While it is open, an
// agent that hands over waits for it to be closed, up to the grace it was opened
// with; so whoever runs nothing closes it as soon as that shows (isEnding).
type leaseFeed struct {
	news  <-chan control.Lease // holds the newest that was not taken
	ended <-chan error         // gives one error: why there is no more news
	stop  context.CancelFunc
	done  <-chan struct{}
}

func openFeed(ctx context.Context, client *control.Client, grace time.Duration) *leaseFeed {
	ctx, stop := context.WithCancel(ctx)
	news, ended, done := make(chan control.Lease, 1), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		err := client.HoldLease(ctx, grace, func(l control.Lease) error {
			select {
			case <-news: // overtaken
			default:
			}
			news <- l
			return nil
		})
		if err == nil {
			err = fmt.Errorf("%w: it stopped", control.ErrUnreachable)
		}
		ended <- err
	}()
	return &leaseFeed{news: news, ended: ended, stop: stop, done: done}
}

// close tells the agent that nothing runs any more.
func (f *leaseFeed) close() {
	f.stop()
	<-f.done
}

// errLate is returned when a wait took longer than it may.
var errLate = errors.New("timed out")

// next waits for news, no longer than until late (nil: for ever) or a signal that
// ends waits, which comes back as an error.
func (f *leaseFeed) next(late <-chan time.Time, signals <-chan os.Signal) (control.Lease, error) {
	for {
		select {
		case l := <-f.news:
			return l, nil
		case err := <-f.ended:
			return control.Lease{}, err
		case <-late:
			return control.Lease{}, errLate
		case sig := <-signals:
			if endsWait(sig) {
				return control.Lease{}, interrupted{sig}
			}
		}
	}
}

// newest gives what has come since lease, or lease.
func (f *leaseFeed) newest(lease control.Lease) control.Lease {
	select {
	case l := <-f.news:
		return l
	default:
		return lease
	}
}

// whyNotAct fails closed: it gives "" only if something may be begun on the
// strength of the lease, now.
func whyNotAct(l control.Lease) string {
	switch {
	case !l.Leader:
		return "this node does not lead"
	case !l.Ready:
		return "its become-leader hook has not succeeded"
	case remaining(l) <= 0:
		return "its lease is over"
	}
	return ""
}

// remaining is what is left of a lease. Both ends read the same clock, so it does
// not matter how long the news was on its way.
func remaining(l control.Lease) time.Duration { return time.Duration(l.Until) - agent.BootTime() }

// bootClock is what a guard's deadlines are told by.
func bootClock() time.Time { return time.Unix(0, int64(agent.BootTime())) }

func deadline(l control.Lease) time.Time { return time.Unix(0, l.Until) }
