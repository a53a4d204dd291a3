package hooks

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

// process is one started command and its process group. One goroutine owns it:
// start, supervise, reap, drain, in this order and each once.
//
// Nothing else in this process may wait for children it did not start (wait4 with
// -1): the group's id is ours only while its first process is not reaped.
type process struct {
	first   *os.Process
	group   int // process group, the first process's id
	begun   time.Time
	exited  chan struct{} // closed when the first process ended; it is not reaped then
	pipes   []*os.File    // our ends of its standard streams
	streams sync.WaitGroup

	parting time.Duration // how long a straggler may take to leave the group
	ended   []string      // the stragglers that were ended with it, by number and name
}

const (
	// drainGrace is how long output is awaited after the group is gone. Only an
	// escaped child can hold the pipe by then; a pipe's content is read in far
	// less. The next hook waits no more than drainFirst for it. Arbitrary.
	drainGrace = 100 * time.Millisecond
	drainFirst = 10 * time.Millisecond

	// parting is what a daemon has between its fork, at which the first process often
	// ends, and setsid. Arbitrary: it takes microseconds where a processor is free.
	parting = 50 * time.Millisecond

	// unkillable is how long after KILL a group is given up: it hangs in the
	// kernel, mostly on a disk or a network file system.
	unkillable = 2 * time.Second

	// The members left behind by a first process cannot be waited for, only
	// looked at.
	pollFirst = 2 * time.Millisecond
	pollMost  = 50 * time.Millisecond
)

// start runs argv in a process group of its own, in "/", and feeds and reads its
// standard streams in the background. A command that does not read its input, or
// that hands its pipes to a child, can therefore block nobody.
//
// If this process is killed, so is the command's first one. The kernel does that when
// the calling thread ends, so that this must be locked to it for as long as the command
// runs (go.dev/issue/27505).
func start(argv, env []string, input []byte, out *output) (*process, error) {
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
	p := &process{first: first, group: first.Pid, begun: time.Now(), exited: make(chan struct{}), pipes: ours, parting: parting}
	go p.await()
	p.streams.Go(func() { feed(ours[0], input) })
	p.streams.Go(func() { out.read(ours[1], "stdout") })
	p.streams.Go(func() { out.read(ours[2], "stderr") })
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

// feed gives the hook its input and then end of file. A hook that does not want
// it is no error.
func feed(stdin *os.File, input []byte) {
	defer stdin.Close()
	_, _ = stdin.Write(input)
}

// await closes exited when the first process ends, and leaves it unreaped.
func (p *process) await() {
	defer close(p.exited)
	for errors.Is(unix.Waitid(unix.P_PID, p.group, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// stage is how far the ending of a group has come.
type stage int

const (
	running stage = iota
	asked         // TERM sent
	killed        // KILL sent
	givenUp       // nothing helps
)

// watch is the state of supervise.
type watch struct {
	p     *process
	leash *leash
	stage stage
	since time.Time // when the stage began
	gone  bool      // the first process has ended
	cause error     // why the first process did not end by itself; nil if it did
}

// supervise returns when the first process has ended and no member of its group runs any
// more, having sent TERM at the leash's end and KILL at the end of the grace; or when even
// KILL did not help. Stragglers of a first process that ended by itself have a moment to go
// or to leave the group, are then treated the same way, and do not count against it. The first process is a zombie afterwards, so the
// group's id is still ours.
//
// One that was pulled by the time its start was known of gets KILL at once. Mostly it has
// begun nothing that a grace would help to end: a start takes long on a host so busy that
// the command does not get to run. But it may be this process that did not, and the command
// has run meanwhile: nobody tells when it was executed.
func (p *process) supervise(l *leash) error {
	w := &watch{p: p, leash: l, since: p.begun}
	if w.cause = l.pulledBy(p.begun); w.cause != nil {
		w.stage = asked // it is not worth asking
		w.advance()
	}
	for w.stage != givenUp {
		if w.gone && len(living(p.group)) == 0 {
			break
		}
		w.sleep()
	}
	return w.cause
}

// sleep waits for the first process's end, a shortened leash, or the deadline of
// the stage; once the first process is gone, for a moment at most. It moves to
// the next stage when the deadline has passed.
func (w *watch) sleep() {
	wait := time.Until(w.deadline())
	exited := w.p.exited
	if w.gone {
		exited = nil
		wait = min(wait, min(max(time.Since(w.since)/4, pollFirst), pollMost))
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
	case <-w.leash.tugged:
	case <-timer.C:
	}
	if !time.Now().Before(w.deadline()) {
		w.advance()
	}
}

func (w *watch) deadline() time.Time {
	switch w.stage {
	case running:
		by := w.leash.termBy(w.p.begun)
		if last := w.since.Add(w.p.parting); w.gone && last.Before(by) {
			by = last
		}
		return by
	case asked:
		return w.leash.killBy(w.since)
	}
	return w.since.Add(unkillable)
}

func (w *watch) advance() {
	w.stage++
	w.since = time.Now()
	switch w.stage {
	case asked:
		if w.gone {
			w.p.ended = names(living(w.p.group))
		} else {
			w.cause = w.endedBy()
		}
		_ = signalGroup(w.p.group, unix.SIGTERM)
		_ = signalGroup(w.p.group, unix.SIGCONT) // a stopped process does not see TERM
	case killed:
		_ = signalGroup(w.p.group, unix.SIGKILL)
	case givenUp:
		hangs := fmt.Errorf("process group %d did not end %v after KILL: it hangs in the kernel", w.p.group, unkillable)
		if w.cause != nil {
			hangs = fmt.Errorf("%w, and %w", w.cause, hangs)
		}
		w.cause = hangs
	}
}

func (w *watch) endedBy() error {
	if reason := w.leash.pulled(); reason != nil {
		return reason
	}
	return fmt.Errorf("%w after %v", errTimedOut, time.Since(w.p.begun).Round(time.Millisecond))
}

// reap sweeps the group once more, for a member that was forked while living
// looked elsewhere, collects the first process and gives its exit code. The code
// is -1 if a signal ended it, which is an error, or if it cannot be had.
func (p *process) reap() (code int, err error) {
	_ = signalGroup(p.group, unix.SIGKILL)
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

// drain ends the reading of output. What an escaped child writes after that is
// lost to it (EPIPE). A log that does not take lines holds up only the goroutine
// that writes to it.
func (p *process) drain() {
	done := make(chan struct{})
	go func() { p.streams.Wait(); close(done) }()
	if within(done, drainGrace) {
		return
	}
	for _, f := range p.pipes {
		_ = f.SetDeadline(time.Now())
	}
	within(done, drainGrace)
}

func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
