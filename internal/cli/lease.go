package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/durable"
)

// leaseFeed follows the agent's lease in the background. While it is open, an
// agent that hands over waits for it to be closed, up to the grace it was opened
// with; so whoever runs nothing closes it as soon as that shows (isEnding).
type leaseFeed struct {
	news  <-chan control.Lease // holds the newest that was not taken
	ended <-chan error         // gives one error: why there is no more news
	line  <-chan net.Conn      // gives the connection, before the first news
	conn  net.Conn             // what line has given
	stop  context.CancelFunc
	done  <-chan struct{}
}

func openFeed(ctx context.Context, client *control.Client, grace time.Duration) *leaseFeed {
	ctx, stop := context.WithCancel(ctx)
	news, ended, done := make(chan control.Lease, 1), make(chan error, 1), make(chan struct{})
	line := make(chan net.Conn, 1)
	go func() {
		defer close(done)
		err := client.HoldLease(ctx, grace, func(c net.Conn) { line <- c }, func(l control.Lease) error { // it dials once
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
	return &leaseFeed{news: news, ended: ended, line: line, stop: stop, done: done}
}

// tenure is a duplicate of the connection, for the guard of what runs on the lease: to
// the agent the holder is there until the guard has ended, and the command with it,
// even if this process was killed before.
func (f *leaseFeed) tenure() (file *os.File, err error) {
	if f.conn == nil {
		f.conn = <-f.line // there was news
	}
	raw, err := f.conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil, err
	}
	own := -1
	failed := raw.Control(func(fd uintptr) { own, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3) })
	if err = errors.Join(failed, err); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(own), "lease"), nil
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
func remaining(l control.Lease) time.Duration { return time.Duration(l.Until) - durable.BootTime() }

// bootClock is what a guard's deadlines are told by.
func bootClock() time.Time { return time.Unix(0, int64(durable.BootTime())) }

func deadline(l control.Lease) time.Time { return time.Unix(0, l.Until) }
