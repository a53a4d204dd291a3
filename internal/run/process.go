package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/realtime"
)

// Process is one started command and its process group. One goroutine owns it: Start,
// Conclude, Drain, in this order and each once.
//
// Nothing else in this process may wait for children it did not start (wait4 with
// -1): the group's id is ours only while its first process is not reaped.
type Process struct {
	Group int       // process group, the first process's id
	Begun time.Time // when it was started
	Ended []string  // the stragglers that were ended with it, by number and name

	first   *os.Process
	exited  chan struct{} // closed when the first process ended; it is not reaped then
	pipes   []*os.File    // our ends of its standard streams
	streams sync.WaitGroup

	parting time.Duration // how long a straggler may take to leave the group
}

const (
	// parting is what a daemon has between its fork, at which the first process often
	// ends, and setsid. Arbitrary: it takes microseconds where a processor is free.
	parting = 50 * time.Millisecond

	// TryAgain is EX_TEMPFAIL of sysexits.h: a command asks for another attempt with it.
	TryAgain = 75
)

// ErrTimedOut is wrapped by the end of a command whose time had ended, its own or what
// the lease left of that, however it took its TERM.
var ErrTimedOut = errors.New("timed out")

// Bounds say until when a command may run. They are asked anew whenever they change, and
// only ever shrink. Safe for concurrent use.
type Bounds interface {
	// TermBy is when a command that has begun then gets TERM.
	TermBy(begun time.Time) time.Time
	// KillBy is when one that has had TERM then gets KILL.
	KillBy(asked time.Time) time.Time
	// CutBy is why a command is to end before its own time, if somebody has said so by
	// then; nil: nobody has.
	CutBy(then time.Time) error
	// Changed holds a token after each change.
	Changed() <-chan struct{}
}

// End is how a command ended.
type End struct {
	Err  error // why it has failed; nil: it has not
	Exit int   // of its first process; -1: a signal ended that, or it hangs in the kernel
	Took time.Duration

	// IsStuck says that something of the group lives on, though it has had KILL.
	IsStuck bool
}

// Start runs argv in a process group of its own, in "/", and feeds and reads its
// standard streams in the background. A command that does not read its input, or
// that hands its pipes to a child, can therefore block nobody.
//
// If this process is killed, so is the command's first one. The kernel does that when
// the calling thread ends, so that this must be locked to it for as long as the command
// runs (go.dev/issue/27505).
func Start(argv, env []string, input []byte, out *Output) (*Process, error) {
	theirs, ours, err := openPipes()
	if err != nil {
		return nil, err
	}
	first, err := realtime.StartProcess(argv[0], argv, &os.ProcAttr{
		Dir:   "/",
		Env:   env,
		Files: theirs,
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, CannotStart(argv[0], err)
	}
	p := &Process{first: first, Group: first.Pid, Begun: time.Now(), exited: make(chan struct{}), pipes: ours, parting: parting}
	go p.await()
	p.streams.Go(func() { feed(ours[0], input) })
	p.streams.Go(func() { out.Read(ours[1], "stdout") })
	p.streams.Go(func() { out.Read(ours[2], "stderr") })
	return p, nil
}

// openPipes makes one pipe for each standard stream.
func openPipes() (theirs, ours []*os.File, err error) {
	for fd := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(theirs)
			closeAll(ours)
			return nil, nil, fmt.Errorf("make pipes for a command: %w", err)
		}
		if fd == 0 {
			theirs, ours = append(theirs, r), append(ours, w)
		} else {
			theirs, ours = append(theirs, w), append(ours, r)
		}
	}
	return theirs, ours, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// CannotStart says why the kernel does not start a program: a hook's, a job's, a check's, one that names hosts, or one that
// runs on the lease. So it names none of them.
func CannotStart(path string, err error) error {
	why := err
	if bare := (*os.PathError)(nil); errors.As(err, &bare) { // "fork/exec" tells nobody anything
		why = bare.Err
	}
	_, missing := os.Stat(path)
	switch {
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%s cannot be started: %w: no #! line, or built for another processor", path, why)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be started: %w: its mode, a file system that is mounted noexec, SELinux or AppArmor", path, why)
	case errors.Is(err, unix.ENOENT) && missing == nil: // so it is not what the kernel has not found
		return fmt.Errorf("%s cannot be started: the program that its first line names, or its loader, was not found: %w", path, why)
	}
	return fmt.Errorf("%s cannot be started: %w", path, why)
}

// feed gives a command its input and then end of file. One that does not want
// it is no error.
func feed(stdin *os.File, input []byte) {
	defer stdin.Close()
	_, _ = stdin.Write(input)
}

// await closes exited when the first process ends, and leaves it unreaped.
func (p *Process) await() {
	defer close(p.exited)
	for errors.Is(unix.Waitid(unix.P_PID, p.Group, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// Conclude waits for the command's end, within the bounds, and says how it was. The group is
// dead then, unless it hangs in the kernel.
func (p *Process) Conclude(b Bounds) (end End) {
	end.IsStuck, end.Err = p.supervise(b)
	var failure error
	if end.Exit, failure = p.reap(); failure == nil && end.Exit > 0 {
		failure = exitError(end.Exit)
	}
	if end.Err == nil {
		end.Err = failure
	}
	end.Took = time.Since(p.Begun)
	return end
}

// exitError says what an exit status other than 0 means.
func exitError(code int) error {
	switch code {
	case TryAgain:
		return errors.New("exit status 75 (try again)")
	case 126:
		return errors.New("exit status 126: the shell found the command but could not execute it")
	case 127:
		return errors.New("exit status 127: the shell did not find a command: hooks get PATH from the agent and nothing from a login shell")
	}
	return fmt.Errorf("exit status %d", code)
}

// watch is the state of supervise.
type watch struct {
	p      *Process
	bounds Bounds
	stage  stage
	since  time.Time // when the stage began
	gone   bool      // the first process has ended
	cause  error     // why the first process did not end by itself; nil if it did
}

// supervise returns when the first process has ended and no member of its group runs any
// more, having sent TERM at the end of its time and KILL at the end of the grace; or when even
// KILL did not help. Stragglers of a first process that ended by itself have a moment to go
// or to leave the group, are then treated the same way, and do not count against it. The
// first process is a zombie afterwards, so the group's id is still ours.
//
// One that was cut by the time its start was known of gets KILL at once. Mostly it has
// begun nothing that a grace would help to end: a start takes long on a host so busy that
// the command does not get to run. But it may be this process that did not, and the command
// has run meanwhile: nobody tells when it was executed.
func (p *Process) supervise(b Bounds) (isStuck bool, cause error) {
	w := &watch{p: p, bounds: b, since: p.Begun}
	if w.cause = b.CutBy(p.Begun); w.cause != nil {
		w.stage = asked // it is not worth asking
		w.advance()
	}
	for w.stage != givenUp {
		if w.gone && len(Living(p.Group)) == 0 {
			break
		}
		w.sleep()
	}
	return w.stage == givenUp, w.cause
}

// sleep waits for the first process's end, a change of the bounds, or the deadline of
// the stage; once the first process is gone, for a moment at most. It moves to
// the next stage when the deadline has passed.
func (w *watch) sleep() {
	wait := time.Until(w.deadline())
	exited := w.p.exited
	if w.gone {
		exited = nil
		wait = min(wait, Poll(time.Since(w.since)))
	}
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	select {
	case <-exited:
		w.gone = true
		if w.stage == running {
			w.since = time.Now()
		}
		return
	case <-w.bounds.Changed():
	case <-timer.C:
	}
	if !time.Now().Before(w.deadline()) {
		w.advance()
	}
}

func (w *watch) deadline() time.Time {
	switch w.stage {
	case running:
		by := w.bounds.TermBy(w.p.Begun)
		if last := w.since.Add(w.p.parting); w.gone && last.Before(by) {
			by = last
		}
		return by
	case asked:
		return w.bounds.KillBy(w.since)
	}
	return w.since.Add(Unkillable)
}

func (w *watch) advance() {
	w.stage++
	w.since = time.Now()
	switch w.stage {
	case asked:
		if w.gone {
			w.p.Ended = Names(Living(w.p.Group))
		} else {
			w.cause = w.endedBy()
		}
		_ = Signal(w.p.Group, unix.SIGTERM)
		_ = Signal(w.p.Group, unix.SIGCONT) // a stopped process does not see TERM
	case killed:
		_ = Signal(w.p.Group, unix.SIGKILL)
	case givenUp:
		hangs := fmt.Errorf("process group %d did not end %v after KILL: %s", w.p.Group, Unkillable, Stuck(Living(w.p.Group)))
		if w.cause != nil {
			hangs = fmt.Errorf("%w, and %w", w.cause, hangs)
		}
		w.cause = hangs
	}
}

func (w *watch) endedBy() error {
	if reason := w.bounds.CutBy(time.Now()); reason != nil {
		return reason
	}
	return fmt.Errorf("%w after %v", ErrTimedOut, time.Since(w.p.Begun).Round(time.Millisecond))
}

// reap sweeps the group once more, for a member that was forked while living
// looked elsewhere, collects the first process and gives its exit code. The code
// is -1 if a signal ended it, which is an error, or if it cannot be had.
func (p *Process) reap() (code int, err error) {
	_ = Signal(p.Group, unix.SIGKILL)
	select {
	case <-p.exited:
	default: // given up: collected whenever the kernel lets go of it
		go func() { _, _ = p.first.Wait() }()
		return -1, nil
	}
	state, err := p.first.Wait()
	if err != nil {
		return -1, fmt.Errorf("wait for a command: %w", err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -1, fmt.Errorf("ended by signal %d (%v)", int(status.Signal()), status.Signal())
	}
	return state.ExitCode(), nil
}

// Drain ends the reading of output. What an escaped child writes after that is
// lost to it (EPIPE). A log that does not take lines holds up only the goroutine
// that writes to it.
func (p *Process) Drain() {
	done := make(chan struct{})
	go func() { p.streams.Wait(); close(done) }()
	if Within(done, DrainGrace) {
		return
	}
	for _, f := range p.pipes {
		_ = f.SetDeadline(time.Now())
	}
	Within(done, DrainGrace)
}

// Within waits for done, for d at most, and reports whether it is closed.
func Within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
