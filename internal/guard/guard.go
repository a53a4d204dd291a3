package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Guard is a guard process, as the agent sees it. All methods are safe for
// concurrent use, and none but Wait blocks.
type Guard struct {
	clock   func() time.Time
	grace   time.Duration
	working time.Duration // Config.patience
	record  Record
	socket  *os.File
	cmd     *exec.Cmd

	started chan struct{} // closed when the command runs or has failed to start
	done    chan struct{} // closed when the guard is gone and nothing of the command is left
	stuck   chan struct{} // closed when Report.Stuck says something

	mu      sync.Mutex
	report  Report
	overdue *time.Timer // fires at patience; nil before Stop
	limit   *time.Timer // fires when the guard has worked for too long; nil while the agent is well
	// patience is when a guard that was told to stop is killed.
	patience instant
}

// Start starts a guard, which starts the command; it does not wait for that. When
// the context of the program ends, Stop and Wait are for the caller to do: a guard
// whose agent just exits believes it dead.
func Start(cfg Config) (*Guard, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	rec, err := create(cfg)
	if err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	defer rec.file.Close() // the guard has it, and its lock
	g := &Guard{clock: cfg.Clock, grace: cfg.Grace, working: cfg.patience(), record: rec.Record, report: rec.Report,
		started: make(chan struct{}), done: make(chan struct{}), stuck: make(chan struct{})}
	if err := g.launch(cfg, rec); err != nil {
		rec.discard()
		return nil, fmt.Errorf("start guard: %w", err)
	}
	go g.listen()
	return g, nil
}

// Renew moves the deadline; the zero time takes it away. It never blocks. A guard
// that does not read keeps the last deadline that it has read.
func (g *Guard) Renew(deadline time.Time) {
	g.send(message{kind: kindRenew, number: int64(sidecar.Convert(deadline, g.clock))})
}

// RenewStart moves Config.StartBy; the zero time takes it away. It never blocks,
// and means nothing once the command has started.
func (g *Guard) RenewStart(until time.Time) {
	g.send(message{kind: kindStart, number: int64(sidecar.Convert(until, g.clock))})
}

// Signal passes a signal to the command's process group.
func (g *Guard) Signal(sig syscall.Signal) {
	g.send(message{kind: kindSignal, number: int64(sig)})
}

// Stop ends the command, by TERM, grace and KILL, the grace cut so that all of it
// is dead within the given time; 0 leaves it the grace. A further Stop can only
// shorten the time. A guard that does not do as it is told is killed, and the command
// by this process.
func (g *Guard) Stop(cause string, within time.Duration) {
	at := now()
	if within > 0 {
		g.stop(cause, at.Add(within), at.Add(within))
	} else {
		g.stop(cause, 0, at.Add(g.grace+run.Unkillable+gonePatience))
	}
}

// Kill ends the command without a grace, or cuts the one that it has.
func (g *Guard) Kill(cause string) {
	at := now()
	g.stop(cause, at, at.Add(run.Unkillable+gonePatience))
}

// stop has all dead by due, 0: after the grace, and the guard killed at patience.
func (g *Guard) stop(cause string, due, patience instant) {
	g.send(message{kind: kindStop, number: int64(due), cause: cause})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.report.Stuck != "" { // it does what can be done
		return
	}
	if g.overdue == nil {
		g.overdue = time.AfterFunc(patience.Sub(now()), g.kill)
	} else if patience < g.patience {
		g.overdue.Reset(patience.Sub(now()))
	} else {
		return
	}
	g.patience = patience
}

// gonePatience is how long a guard that has had KILL may take to go: one that hangs in
// the kernel does nothing any more. Arbitrary.
const gonePatience = time.Second

// kill ends the guard; listen does the rest.
func (g *Guard) kill() {
	_ = g.cmd.Process.Kill()
	_ = g.socket.SetReadDeadline(time.Now().Add(gonePatience))
}

func (g *Guard) send(m message) {
	raw, err := g.socket.SyscallConn()
	if err != nil {
		return // closed: the guard is gone
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.Sendto(int(fd), m.encode(), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	})
}

// listen takes reports until the guard is gone, and then sees to it that its
// command is.
func (g *Guard) listen() {
	defer close(g.done)
	buf := make([]byte, maxReport)
	for {
		n, err := g.socket.Read(buf)
		if errors.Is(err, unix.ECONNRESET) {
			continue // it ended with messages of ours unread; what it said last comes after this
		}
		if err != nil {
			break
		}
		g.hear(buf[:n])
	}
	g.finish(g.reap())
	g.socket.Close()
}

// reap waits for the process, which hangs in the kernel if the disk does.
func (g *Guard) reap() error {
	ended := make(chan error, 1)
	go func() { ended <- g.cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(gonePatience):
		return errors.New("it hangs in the kernel")
	}
}

func (g *Guard) hear(text []byte) {
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.report = r
	g.markStarted(r.Stage != Prepared)
	if r.Stuck != "" {
		g.markStuck()
	} else if (r.Cause == AgentDied || r.Cause == LeaseLost) && g.limit == nil {
		g.limit = time.AfterFunc(g.working, g.kill)
	}
	if r.Stage == Ended {
		_ = g.socket.SetReadDeadline(time.Now().Add(notePatience + gonePatience))
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// markStuck leaves the guard the time that its command takes; the caller holds mu, and has
// set the report.
func (g *Guard) markStuck() {
	g.stopTimers()
	if !isClosed(g.stuck) {
		close(g.stuck)
	}
}

// stopTimers: the guard is not killed any more; the caller holds mu.
func (g *Guard) stopTimers() {
	for _, timer := range []*time.Timer{g.overdue, g.limit} {
		if timer != nil {
			timer.Stop()
		}
	}
}

// markStarted closes started once; the caller holds mu.
func (g *Guard) markStarted(when bool) {
	if when && !isClosed(g.started) {
		close(g.started)
	}
}

// finish makes up for a guard that died before it could end its command.
func (g *Guard) finish(ended error) {
	last := g.Report() // only this goroutine changes it
	if last.Stage != Ended {
		g.record.Report = last
		err := g.record.endOrphans()
		if hangs := (errStuck{}); errors.As(err, &hangs) {
			g.mu.Lock()
			g.report.Stuck = hangs.Error()
			g.markStuck()
			g.mu.Unlock()
			last.Stuck = hangs.Error()
			err = g.record.outlast()
		}
		last.Stage, last.Err = Ended, oneLine(errors.Join(fmt.Errorf("the guard died: %v", ended), err))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.report = last
	g.stopTimers()
	g.markStarted(true)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Started is closed when the command runs, or could not be started.
func (g *Guard) Started() <-chan struct{} { return g.started }

// Stuck is closed when something of the command has had KILL and lives on: Report.Stuck says
// what. Done is closed when that has ended, which may be never.
func (g *Guard) Stuck() <-chan struct{} { return g.stuck }

// Done is closed when the guard has ended, and with it the command.
func (g *Guard) Done() <-chan struct{} { return g.done }

// Report is what is known now.
func (g *Guard) Report() Report {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.report
}

// Wait gives the last Report when nothing of the command is left, or what is
// known when ctx ends, with its error.
func (g *Guard) Wait(ctx context.Context) (Report, error) {
	select {
	case <-g.done:
		return g.Report(), nil
	case <-ctx.Done():
		return g.Report(), fmt.Errorf("wait for guard: %w", ctx.Err())
	}
}

// Forget removes the guard's record, when what the Report says has been dealt
// with.
func (g *Guard) Forget() error { return g.record.Remove() }
