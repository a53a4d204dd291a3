package cli

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

func TestTheSecondStopSignalAborts(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		want  bool
	}{
		"an echo of the first is none": {time.Millisecond, false},
		"a second press is one":        {time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				s := &signals{abort: make(chan struct{}), reload: make(chan struct{}, 1), dump: make(chan struct{}, 1),
					caught: make(chan os.Signal, 8)}
				go s.run(stop, hclog.NewNullLogger())
				s.caught <- unix.SIGHUP
				s.caught <- unix.SIGHUP // before the reload began: one reload serves both
				s.caught <- unix.SIGUSR1
				s.caught <- unix.SIGTERM
				synctest.Wait()
				if ctx.Err() == nil || len(s.reload) != 1 || len(s.dump) != 1 {
					t.Errorf("stopped: %v, reloads %d, dumps %d", ctx.Err(), len(s.reload), len(s.dump))
				}
				time.Sleep(c.after)
				s.caught <- unix.SIGINT
				synctest.Wait()
				aborted := false
				select {
				case <-s.abort:
					aborted = true
				default:
				}
				if aborted != c.want {
					t.Errorf("aborted: %v, expected %v", aborted, c.want)
				}
				s.caught <- unix.SIGTERM // a third changes nothing
				close(s.caught)
			})
		})
	}
}
