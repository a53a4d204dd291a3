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
)

// Guard is a guard process, as the agent sees it. All methods are safe for
// concurrent use, and none but Wait blocks.
type Guard struct {
	clock  func() time.Time
	grace  time.Duration
	record Record
	socket *os.File
	cmd    *exec.Cmd

	yielded chan struct{} // closed when the guard has answered Yield, or is gone
	started chan struct{} // closed when the command runs or has failed to start
	done    chan struct{} // closed when the guard is gone and nothing of the command is left

	mu      sync.Mutex
	report  Report
	hurry   *time.Timer // fires when Yield was not answered in time; nil before Yield
	overdue *time.Timer // fires at patience; nil before Stop
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
	rec, err := create(cfg.Records, cfg.Name, cfg.Epoch)
	if err != nil {
		return nil, fmt.Errorf("start guard: %w", err)
	}
	defer rec.file.Close() // the guard has it, and its lock
	g := &Guard{clock: cfg.Clock, grace: cfg.Grace, record: rec.Record, report: rec.Report,
		yielded: make(chan struct{}), started: make(chan struct{}), done: make(chan struct{})}
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
	g.send(message{kind: kindRenew, number: int64(convert(deadline, g.clock))})
}

// Yield says that the agent runs the lose-leadership hook itself from now on. It may
// begin when Yielded is closed, unless the Report then says that the guard had been
// quicker. The agent's silence means nothing to the guard after that; its death
// still does.
//
// A guard that does not answer within the given time is killed.
func (g *Guard) Yield(within time.Duration) {
	g.send(message{kind: kindYield})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hurry == nil && !isClosed(g.yielded) {
		g.hurry = time.AfterFunc(within, g.overrule)
	}
}

// Yielded is closed when the guard has answered Yield, or has ended.
func (g *Guard) Yielded() <-chan struct{} { return g.yielded }

// Signal passes a signal to the command's process group.
func (g *Guard) Signal(sig syscall.Signal) {
	g.send(message{kind: kindSignal, number: int64(sig)})
}

// Stop ends the command, by TERM, grace and KILL, the grace cut so that all of it
// is dead within the given time; 0 leaves it the grace. The guard does not run
// the lose-leadership hook then, unless it had taken over before: Wait tells. A
// further Stop can only shorten the time. A guard that does not do as it is told
// is killed, and the command by this process.
func (g *Guard) Stop(cause string, within time.Duration) {
	at := now()
	due, patience := instant(0), at.add(g.grace+unkillable)
	if within > 0 {
		due = at.add(within)
		patience = due
	}
	g.send(message{kind: kindStop, number: int64(due), cause: cause})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.overdue == nil {
		g.overdue = time.AfterFunc(patience.sub(at), g.overrule)
	} else if patience < g.patience {
		g.overdue.Reset(patience.sub(at))
	} else {
		return
	}
	g.patience = patience
}

// overrule kills a guard that does not end; listen does the rest. One that had
// taken over runs the lose-leadership hook, which nobody else does any more.
func (g *Guard) overrule() {
	if g.Report().Cause != AgentDied {
		_ = g.cmd.Process.Kill()
	}
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
	g.finish(g.cmd.Wait())
	g.socket.Close()
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
	if r.Stage == Yielded {
		g.markYielded()
	}
}

// markYielded closes yielded once; the caller holds mu.
func (g *Guard) markYielded() {
	if g.hurry != nil {
		g.hurry.Stop()
	}
	if !isClosed(g.yielded) {
		close(g.yielded)
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

// markStarted closes started once; the caller holds mu.
func (g *Guard) markStarted(when bool) {
	if when && !isClosed(g.started) {
		close(g.started)
	}
}

// finish makes up for a guard that died before it could end its command.
func (g *Guard) finish(ended error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.overdue != nil {
		g.overdue.Stop()
	}
	if g.report.Stage != Ended {
		g.record.Report = g.report
		err := errors.Join(fmt.Errorf("the guard died: %v", ended), g.record.endOrphans())
		g.report.Stage, g.report.Err = Ended, oneLine(err)
	}
	g.markStarted(true)
	g.markYielded()
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Started is closed when the command runs, or could not be started.
func (g *Guard) Started() <-chan struct{} { return g.started }

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
