package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/durable"
)

// leaseFeed follows the agent's lease in the background, until the lease is handed on to
// the holder of what runs on it. While it is open, an agent that hands over waits for it to
// be closed, up to the grace it was opened with; so whoever runs nothing closes it as soon
// as that shows (isEnding).
type leaseFeed struct {
	news   <-chan control.Lease // holds the newest that was not taken
	ended  <-chan error         // gives one error: why there is no more news
	stop   context.CancelFunc
	done   <-chan struct{}
	tenure *control.Tenure // set before there is news; nil: there never was
}

// openFeed opens one; patience is for the agent's first answer.
func openFeed(ctx context.Context, client *control.Client, grace, patience time.Duration) *leaseFeed {
	ctx, stop := context.WithCancel(ctx)
	news, ended, done := make(chan control.Lease, 1), make(chan error, 1), make(chan struct{})
	f := &leaseFeed{news: news, ended: ended, stop: stop, done: done}
	go func() {
		defer close(done)
		asked := durable.BootTime()
		tenure, err := client.HoldLease(ctx, grace, patience)
		if err == nil {
			f.tenure = tenure
			err = follow(tenure, asked, news)
		}
		ended <- err
	}()
	return f
}

// follow passes on the newest until there is no more.
func follow(tenure *control.Tenure, asked time.Duration, news chan control.Lease) error {
	for {
		l, err := tenure.Next()
		if err == nil {
			err = sameClock(asked, l, durable.BootTime())
		}
		if err != nil {
			return err
		}
		select {
		case <-news: // overtaken
		default:
		}
		news <- l
	}
}

// handOn ends the following, after there was news: somebody else is to follow the tenure
// from here. The feed is still to be closed, when nothing runs any more.
func (f *leaseFeed) handOn() (*control.Tenure, error) {
	f.tenure.Interrupt()
	<-f.done
	if err := <-f.ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, err
	}
	return f.tenure, nil
}

// close tells the agent that nothing runs any more.
func (f *leaseFeed) close() {
	f.stop()
	<-f.done
	if f.tenure != nil {
		f.tenure.Close()
	}
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
		return "its lease has ended"
	}
	return ""
}

// clockSlack is far above what two processors of a machine differ by. Arbitrary.
const clockSlack = 10 * time.Millisecond

// sameClock refuses the lease of an agent whose boot clock is not ours, since its end is told
// by that clock: the agent, or this process, is in a time namespace of its own. What it wrote
// between asked and heard, by our clock, it has written between them by its own.
func sameClock(asked time.Duration, l control.Lease, heard time.Duration) error {
	wrote := time.Duration(l.Clock)
	apart := max(asked-wrote, wrote-heard)
	if l.Clock == 0 || apart <= clockSlack {
		return nil
	}
	return &failure{code: exitFailure,
		err:  fmt.Errorf("the agent's boot clock, by which it tells the end of its lease, is %v from that of this process", span(apart)),
		hint: "nothing was run: run this in the agent's time namespace, as nsenter --time --target PID does, or the agent in this one"}
}

// remaining is what is left of a lease. Both ends read the same clock, so it does
// not matter how long the news was on its way.
func remaining(l control.Lease) time.Duration { return time.Duration(l.Until) - durable.BootTime() }

func deadline(l control.Lease) time.Time { return time.Unix(0, l.Until) }
