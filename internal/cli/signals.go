package cli

import (
	"context"
	"os"
	"os/signal"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/sdnotify"
)

// echoWindow is how soon after the first a TERM or INT is taken for the same
// gesture: timeout(1), sudo and a terminal's process group deliver one Ctrl-C
// twice, a millisecond apart, and that must not cost the lose-leadership hook.
// Nobody presses a key twice within it.
const echoWindow = 100 * time.Millisecond

// signals turns the process's signals into what the agent waits for
// (docs/operating.md): TERM and INT stop cleanly, the second one aborts that, HUP
// reloads, USR1 dumps.
type signals struct {
	abort  chan struct{} // closed by the second TERM or INT
	reload chan struct{} // capacity 1: a reload that is still to begin serves later signals too
	dump   chan struct{} // capacity 1
	caught chan os.Signal
}

// watchSignals calls stop on the first TERM or INT. Its goroutine lives until end.
func watchSignals(stop context.CancelFunc, log hclog.Logger) *signals {
	s := &signals{abort: make(chan struct{}), reload: make(chan struct{}, 1), dump: make(chan struct{}, 1),
		caught: make(chan os.Signal, 8)}
	signal.Notify(s.caught, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1)
	// A reader of our log that goes away must not kill the agent, which the
	// runtime lets SIGPIPE do on standard error. To catch it is better than to
	// ignore it: hooks would inherit that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	go s.run(stop, log)
	return s
}

func (s *signals) run(stop context.CancelFunc, log hclog.Logger) {
	stops := 0
	var first time.Time
	for sig := range s.caught {
		switch sig {
		case unix.SIGHUP:
			wake(s.reload)
		case unix.SIGUSR1:
			wake(s.dump)
		default:
			if stops == 1 && time.Since(first) < echoWindow {
				continue
			}
			stops++
			log.Info("signal received", "signal", unix.SignalName(sig.(unix.Signal)))
			switch stops {
			case 1:
				first = time.Now()
				sdnotify.Stopping()
				stop()
			case 2:
				close(s.abort)
			}
		}
	}
}

// end gives TERM, INT, HUP and USR1 back their meaning.
func (s *signals) end() {
	signal.Stop(s.caught)
	close(s.caught)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
