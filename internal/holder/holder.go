package holder

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Holder is a holder's process, as its starter sees it. All methods are safe for
// concurrent use, and none but Start blocks.
type Holder struct {
	cfg     Config
	working time.Duration // Config.patience
	record  Record
	streams *run.Streams // of StartRead

	done  chan struct{} // closed when the holder is gone and nothing of the command is left
	runs  chan struct{} // closed when it is known whether the command runs
	stuck chan struct{} // closed when Report.Stuck says something

	mu      sync.Mutex
	cmd     *exec.Cmd // nil: not started yet
	socket  *os.File
	said    letter // so far
	report  Report
	by      time.Time   // when the holder is killed; zero: nobody bounds its work
	overdue *time.Timer // fires then
}

// New makes a holder that is to be started. What it is told until then it is told as if it
// had been started.
func New(cfg Config) *Holder {
	cfg = cfg.withDefaults()
	return &Holder{cfg: cfg, working: cfg.patience(), said: letter{Terms: cfg.Terms},
		done: make(chan struct{}), runs: make(chan struct{}), stuck: make(chan struct{})}
}

// ErrStopped is returned for a command that was to end before it was started.
var ErrStopped = errors.New("told to end before it was started")

// Start starts the holder, which starts the command; it does not wait for that. The files are
// the command's standard input, output and error; nil is /dev/null. The caller may close them
// after that. Before its program ends it is to call Stop and to wait for Done: a holder whose
// starter just exits believes it dead.
func (h *Holder) Start(stdin, stdout, stderr *os.File) error {
	if err := h.cfg.validate(); err != nil {
		return fmt.Errorf("start holder: %w", err)
	}
	rec, err := create(h.cfg)
	if err != nil {
		return fmt.Errorf("start holder: %w", err)
	}
	defer rec.file.Close() // the holder has it, and its lock
	o, isStopped := h.order(rec)
	if isStopped {
		err = ErrStopped
	} else if err = h.launch(o, rec, stdin, stdout, stderr); err != nil {
		err = fmt.Errorf("start holder: %w", err)
	}
	if err != nil {
		rec.discard()
		return err
	}
	go h.listen()
	return nil
}

// StartRead is Start for a command that has no input, and whose output goes to out. Clear follows its end.
func (h *Holder) StartRead(out *run.Output) (err error) {
	if h.streams, err = run.OpenStreams(); err != nil {
		return err
	}
	theirs := h.streams.Theirs
	if err := h.Start(theirs[0], theirs[1], theirs[2]); err != nil {
		h.streams.Close()
		return err
	}
	h.streams.Serve(nil, out)
	return nil
}

// Clear has what the command printed be read to its end, and forgets the record of one that has ended. The
// record of another is for the next life.
func (h *Holder) Clear() error {
	h.streams.Drain()
	if h.Report().Stage != Ended {
		return nil
	}
	return h.record.remove()
}

// order is what the holder is to do as far as is known; it has nothing to do once it was told
// to stop.
func (h *Holder) order(rec *record) (o order, isStopped bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record, h.report = rec.Record, rec.Report
	env := append(h.cfg.Env[:len(h.cfg.Env):len(h.cfg.Env)], markVariable+"="+rec.Mark)
	return order{Argv: h.cfg.Argv, Env: env, Cwd: h.cfg.Cwd, Said: h.said, Budget: h.cfg.Budget, Grace: h.cfg.Grace,
		Cgroup: h.cfg.cgroup, Record: rec.Record, Path: rec.path, Others: h.cfg.Others}, h.said.Stop
}

// begun takes the process that was started, and tells it what was said meanwhile.
func (h *Holder) begun(cmd *exec.Cmd, socket *os.File) {
	h.mu.Lock()
	h.cmd, h.socket = cmd, socket
	h.arm()
	h.mu.Unlock()
	h.say(func(*letter) {})
}

// Renew changes the terms. A holder that does not read keeps the last that it has read.
func (h *Holder) Renew(t Terms) {
	h.say(func(l *letter) { l.Terms = t })
}

// Signal passes a signal to the command's process group.
func (h *Holder) Signal(sig syscall.Signal) { h.say(func(l *letter) { l.Signal = int(sig) }) }

// Stop ends the command, by TERM, grace and KILL, the grace cut so that all of it
// is dead within the given time; 0 leaves it the grace. A further Stop can only
// shorten the time. A holder that does not do as it is told is killed, and the command
// by this process.
func (h *Holder) Stop(cause string, within time.Duration) {
	at := now()
	if within > 0 {
		h.stop(cause, at.Add(within), at.Add(within))
	} else {
		h.stop(cause, time.Time{}, at.Add(h.cfg.Grace+ending.Unkillable+sidecar.GonePatience))
	}
}

// Kill ends the command without a grace, or cuts the one that it has.
func (h *Holder) Kill(cause string) {
	at := now()
	h.stop(cause, at, at.Add(ending.Unkillable+sidecar.GonePatience))
}

// stop has all dead by due, zero: after the grace, and the holder killed by then.
func (h *Holder) stop(cause string, due, by time.Time) {
	h.say(func(l *letter) {
		if !l.Stop {
			l.Stop, l.Cause = true, cause
		}
		l.Due = earlier(l.Due, due)
		h.bound(by)
	})
}

// bound has the holder killed by then; one whose command is stuck does what can be done. The
// caller holds mu.
func (h *Holder) bound(by time.Time) {
	if h.report.Stuck == "" && (h.by.IsZero() || by.Before(h.by)) {
		h.by = by
		h.arm()
	}
}

// arm sets the timer for by, once there is a process; the caller holds mu.
func (h *Holder) arm() {
	if h.overdue != nil {
		h.overdue.Stop()
	}
	if !h.by.IsZero() && h.cmd != nil {
		h.overdue = time.AfterFunc(h.by.Sub(now()), h.kill)
	}
}

// unbind leaves the holder its time; the caller holds mu.
func (h *Holder) unbind() {
	h.by = time.Time{}
	h.arm()
}

// kill ends the holder; listen does the rest.
func (h *Holder) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.socket.SetReadDeadline(time.Now().Add(sidecar.GonePatience))
}

// say sends all that was said, and this.
func (h *Holder) say(add func(*letter)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	add(&h.said)
	if h.socket == nil {
		return
	}
	if raw, err := h.socket.SyscallConn(); err == nil { // else the holder is gone
		_ = raw.Control(func(fd uintptr) { send(int(fd), h.said) })
	}
	h.said.Signal = 0
}

// send gives a message to one who may be dead, or not read.
func send(socket int, message any) {
	_ = unix.Sendto(socket, encode(message), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}

// listen takes reports until the holder is gone, and then sees to it that its
// command is.
func (h *Holder) listen() {
	defer close(h.done)
	buf := make([]byte, maxMessage)
	for {
		n, err := h.socket.Read(buf)
		if errors.Is(err, unix.ECONNRESET) {
			continue // it ended with messages of ours unread; what it said last comes after this
		}
		if err != nil {
			break
		}
		h.hear(buf[:n])
	}
	h.finish(sidecar.Reap(h.cmd))
	h.socket.Close()
}

func (h *Holder) hear(text []byte) {
	var r Report
	if err := sidecar.Decode(text, &r); err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report = r
	h.markBegun()
	switch {
	case r.Stuck != "":
		h.markStuck()
	case r.Cause == AgentDied || r.Cause == LeaseLost:
		h.bound(now().Add(h.working))
	}
	if r.Stage == Ended {
		_ = h.socket.SetReadDeadline(time.Now().Add(notePatience + sidecar.GonePatience))
	}
}

// markBegun is for a command that has been started, or will not be; the caller holds mu.
func (h *Holder) markBegun() {
	select {
	case <-h.runs:
	default:
		if h.report.Stage != Prepared {
			close(h.runs)
		}
	}
}

// markStuck leaves the holder the time that its command takes; the caller holds mu, and has
// set the report.
func (h *Holder) markStuck() {
	h.unbind()
	select {
	case <-h.stuck:
	default:
		close(h.stuck)
	}
}

// finish makes up for a holder that died before it could end its command.
func (h *Holder) finish(ended error) {
	last := h.Report() // only this goroutine changes it
	if last.Stage != Ended {
		err := h.record.endOrphans(last.Cgroup, func(how string) bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			last.Stuck, h.report.Stuck = how, how
			h.markStuck()
			return true
		})
		last.Stage, last.Err = Ended, oneLine(errors.Join(fmt.Errorf("the holder died: %w", ended), err))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report = last
	h.markBegun()
	h.unbind()
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Begun is closed when the command runs, or it is known that it does not: Report says which.
func (h *Holder) Begun() <-chan struct{} { return h.runs }

// Stuck is closed when something of the command has had KILL and lives on: Report.Stuck says
// what. Done is closed when that has ended, which may be never.
func (h *Holder) Stuck() <-chan struct{} { return h.stuck }

// Done is closed when the holder has ended, and with it the command.
func (h *Holder) Done() <-chan struct{} { return h.done }

// Report is what is known now.
func (h *Holder) Report() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.report
}
