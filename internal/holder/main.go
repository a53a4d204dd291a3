package holder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/realtime"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Word is the program's first argument when it is to be a holder.
const Word = "holder"

// The descriptors that a holder inherits after the command's three.
const (
	socketFD = sidecar.SocketFD + iota
	orderFD
	recordFD
	othersFD // and what follows: the command's further descriptors
)

// holding is a holder in its own process. It runs on one thread; its other goroutine turns
// SIGCHLD into a byte in a pipe.
type holding struct {
	order  *order
	others []*os.File // the command's further descriptors
	record *record
	report Report

	process *run.Process // nil: it was not started
	watch   *run.Watch

	socket int // to the starter
	timer  int // timerfd, CLOCK_BOOTTIME
	deaths int // readable after SIGCHLD

	alive bool // the starter is: the socket is open
	terms Terms

	lease *follower // nil: the starter says what becomes of the lease

	asked time.Time // the ending began; zero: it has not
	due   time.Time // when Stop wants it over; zero: no bound
}

// Main is the whole life of a holder's process; its result is the exit code. It must
// be called on the main goroutine and as early as possible.
func Main() int {
	realtime.Inherit()
	runtime.LockOSThread() // for Pdeathsig: this thread ends with the process
	h, err := inherit()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: holder: "+err.Error())
		return 2
	}
	h.run()
	return 0
}

// inherit takes what Start has left for this process.
func inherit() (*holding, error) {
	if err := sidecar.Inherit(recordFD); err != nil {
		return nil, err
	}
	o, err := readOrder()
	if err != nil {
		return nil, fmt.Errorf("read order: %w", err)
	}
	h := &holding{order: o, socket: socketFD, terms: o.Said.Terms, alive: true, report: o.Record.Report,
		record: &record{file: os.NewFile(recordFD, "record"), Record: o.Record}}
	for i := range o.Others {
		unix.CloseOnExec(othersFD + i)
		h.others = append(h.others, os.NewFile(uintptr(othersFD+i), "inherited"))
	}
	if o.Follows {
		h.lease = newFollower(othersFD+len(o.Others), o)
	}
	h.report.Holder = os.Getpid()
	return h, h.prepare()
}

func readOrder() (*order, error) {
	f := os.NewFile(orderFD, "order")
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, sidecar.MaxMessage))
	if err != nil {
		return nil, err
	}
	return decodeOrder(text)
}

// prepare makes what wakes this process.
func (h *holding) prepare() (err error) {
	if h.timer, err = unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return fmt.Errorf("make timer: %w", err)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	h.deaths = pipe[0]
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	go func() {
		for range died {
			_, _ = unix.Write(pipe[1], []byte{0}) // a full pipe wakes as well
		}
	}()
	return nil
}

// run is the holder's life: note, start, watch, end, note.
func (h *holding) run() {
	err := h.begin()
	if err != nil {
		h.report.Err = err.Error()
	}
	for err == nil && !h.step() {
		h.wait()
	}
	h.end()
}

// begin notes that the command is about to start, and starts it. What cannot be
// noted is not started.
func (h *holding) begin() error {
	cgroup := run.Cgroup{}
	if h.order.Cgroup != noCgroup {
		cgroup = run.NewCgroup(h.order.Cgroup, fmt.Sprintf("bully-holder-%d-%s", os.Getpid(), h.order.Record.Mark[:8]))
	}
	h.report.Cgroup = cgroup.Dir
	err := errors.Join(h.record.note(h.report, true), syncName(h.order.Path))
	if err == nil && h.isOver(now()) {
		err = errOver
	}
	if err == nil {
		err = h.start(cgroup)
	}
	if err != nil {
		_ = cgroup.Remove()
		h.report.Cgroup = ""
		return err
	}
	h.quiet()
	h.tell(Running)
	return nil
}

// errOver is the end of a command that was not started: this process or the starter
// was stopped meanwhile, or the disk was slow.
var errOver = errors.New("no time was left to start the command in")

// isOver reports whether there is no time left to start the command in. Messages
// are looked at only if a time in the order has passed: a signal among them would
// find no command yet. The agent's silence is judged as judge does, by a time
// before all that is heard here.
func (h *holding) isOver(at time.Time) bool {
	h.follow()
	if h.asked.IsZero() && !h.isSilent(at) && !h.isLate(now()) {
		return false
	}
	h.judge(at)
	if h.asked.IsZero() && h.isLate(now()) {
		h.report.Silent = true
		h.ask(AgentDied)
	}
	return !h.asked.IsZero()
}

// isLate reports whether the command must not start any more.
func (h *holding) isLate(at time.Time) bool {
	return !h.terms.StartBy.IsZero() && !at.Before(h.terms.StartBy)
}

// start starts the command, in the cgroup if that goes.
func (h *holding) start(cgroup run.Cgroup) error {
	p, err := run.Begin(run.Command{Argv: h.order.Argv, Env: h.order.Env, Dir: h.order.Cwd, Files: h.files(), Cgroup: cgroup, Adopts: true})
	if err != nil {
		var errno syscall.Errno
		if errors.As(err, &errno) {
			h.report.Errno = int(errno)
		}
		return err
	}
	h.process, h.watch = p, p.Watch(now())
	h.report.Group, h.report.Cgroup = p.Group, p.Cgroup.Dir
	return nil
}

// files are the command's descriptors by their numbers there.
func (h *holding) files() []*os.File {
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	for i, fd := range h.order.Others {
		for len(files) <= fd {
			files = append(files, nil) // closed
		}
		files[fd] = h.others[i]
	}
	return files
}

// quiet lets go of the command's descriptors: who reads them must see their
// end when the command has ended.
func (h *holding) quiet() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err != nil || unix.Dup3(null, fd, 0) != nil {
			unix.Close(fd)
		}
	}
	closeAll(h.others)
}

// tell enters a stage. A starter that is dead or does not read has the record.
func (h *holding) tell(stage Stage) {
	h.report.Stage = stage
	send(h.socket, h.report)
}

// notePatience is how long a holder that has ended waits for its record.
// Arbitrary: a disk that hangs may do so for ever.
const notePatience = 2 * time.Second

// end tells how it ended, and notes that.
func (h *holding) end() {
	if h.process != nil {
		exit, by := h.process.Status()
		h.report.Exit, h.report.Signal = exit, int(by)
		_ = h.process.Cgroup.Remove()
	}
	h.letGo()
	h.tell(Ended)
	isNews := h.process != nil // else the next start has nothing to learn, and the starter waits for our end
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		_ = h.record.note(h.report, isNews) // what is not noted the next start finds out
	}()
	run.Within(noted, notePatience)
}
