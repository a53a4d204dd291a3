package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/realtime"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Word is the program's first argument when it is to be a guard.
const Word = "guard"

// The descriptors that a guard inherits after the command's three.
const (
	socketFD = 3 + iota
	orderFD
	recordFD
	othersFD // and what follows: the command's further descriptors
)

// guardian is a guard in its own process. It runs on one thread; of its two other
// goroutines one turns SIGCHLD into a byte in a pipe and one writes the record.
type guardian struct {
	order  *order
	record *record
	scribe *scribe // writes to record, after the first note
	report Report
	child  *child // nil: it could not be started

	socket  int  // to the agent
	timer   int  // timerfd, CLOCK_BOOTTIME
	deaths  int  // readable after SIGCHLD
	died    bool // somebody has, since the last look
	orphans bool // that lose their parent come to us

	deadline instant // of the lease; 0: none
	startBy  instant // the command is not started after it; 0: none
	alive    bool    // the agent is: the socket is open

	lease *follower // nil: the agent at the socket says what becomes of the lease

	// The ending; asked is 0 until it begins.
	asked  instant // TERM was sent
	killed instant // KILL was sent
	due    instant // when Stop wants it over; 0: no bound
}

// Main is the whole life of a guard process; its result is the exit code. It must
// be called on the main goroutine and as early as possible.
func Main() int {
	realtime.Inherit()
	runtime.LockOSThread() // for Pdeathsig: this thread ends with the process
	g, err := inherit()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: guard: "+err.Error())
		return 2
	}
	g.run()
	return 0
}

// inherit takes what Start has left for this process.
func inherit() (*guardian, error) {
	if err := sidecar.CheckSocket(socketFD); err != nil {
		return nil, err
	}
	for fd := socketFD; fd < othersFD; fd++ {
		unix.CloseOnExec(fd)
	}
	file := os.NewFile(orderFD, "order")
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read order: %w", err)
	}
	o := &order{}
	if err := json.Unmarshal(text, o); err != nil {
		return nil, fmt.Errorf("read order: %w", err)
	}
	for i := range o.Others {
		unix.CloseOnExec(othersFD + i)
		o.others = append(o.others, os.NewFile(uintptr(othersFD+i), "inherited"))
	}
	g := &guardian{order: o, socket: socketFD, deadline: o.Deadline, startBy: o.StartBy, alive: true,
		record: &record{file: os.NewFile(recordFD, "record"), Record: o.Record}}
	if o.Follows {
		g.lease = newFollower(othersFD+len(o.Others), o)
	}
	g.report = o.Record.Report
	g.report.Guard = os.Getpid()
	return g, g.prepare()
}

// prepare makes this process fit to outlive its agent and to find the command's
// orphans.
func (g *guardian) prepare() error {
	g.orphans = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
	var err error
	if g.timer, err = unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return fmt.Errorf("make timer: %w", err)
	}
	if g.deaths, err = listen(); err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	return nil
}

// listen gives a descriptor that can be read after a child's death. The signals
// that would end or stop a guard are caught and dropped; ignored ones would be
// ignored by the command too, and are if our caller ignores them, as nohup does.
// Go tells that of HUP and INT alone.
func listen() (int, error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return 0, err
	}
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, unix.SIGTERM, unix.SIGQUIT, unix.SIGPIPE, unix.SIGALRM,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(dropped, sig)
		}
	}
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	go func() {
		for range died {
			_, _ = unix.Write(pipe[1], []byte{0}) // a full pipe wakes as well
		}
	}()
	return pipe[0], nil
}

// run is the guard's life: note, start, watch, end, note.
func (g *guardian) run() {
	g.scribe = newScribe(g.record)
	if err := g.begin(); err != nil {
		g.report.Err = err.Error()
		g.end()
		return
	}
	for !g.step() {
		g.wait()
	}
	g.end()
}

// begin notes that the command is about to start, and starts it. What cannot be
// noted is not started.
func (g *guardian) begin() error {
	if err := errors.Join(g.record.note(g.report, true), syncName(g.order.Path)); err != nil {
		return err
	}
	if g.isOver() {
		return errOver
	}
	if err := g.start(); err != nil {
		return err
	}
	g.quiet()
	g.tell(Running)
	return nil
}

// errOver is the end of a command that was not started: this process or the agent
// was stopped meanwhile, or the disk was slow.
var errOver = errors.New("no time was left to start the command in")

// isOver reports whether there is no time left to start the command in. Messages
// are looked at only if a time in the order has passed: a signal among them would
// find no command yet.
func (g *guardian) isOver() bool {
	isLate := func() bool {
		at := now()
		return g.deadline != 0 && at >= g.askBy() || g.startBy != 0 && at >= g.startBy
	}
	g.follow()
	if g.asked == 0 && !isLate() {
		return false
	}
	g.receive()
	g.follow()
	switch {
	case g.asked != 0: // told to stop, or the leadership has ended
		return true
	case !g.isAlone() && !isLate():
		return false
	}
	g.report.Cause, g.report.Silent = AgentDied, !g.isAlone()
	return true
}

// start makes the cgroup, if it can, and the command in it. A failure inside the
// cgroup is tried again without: not every kernel and sandbox takes clone3.
func (g *guardian) start() error {
	cg, why := g.makeCgroup()
	c, err := startChild(g.order, cg)
	if err != nil && cg != nil {
		_ = removeCgroup(cg.dir)
		why = err
		c, err = startChild(g.order, nil)
	}
	if err != nil {
		var errno syscall.Errno
		if errors.As(err, &errno) {
			g.report.Errno = int(errno)
		}
		return err
	}
	g.child = c
	stat, _ := run.ReadStat(c.group) // our child, not reaped
	g.report.Group, g.report.Start, g.report.Reach = c.group, stat.Start, g.reach(why)
	if c.cgroup != nil {
		g.report.Cgroup = c.cgroup.dir
	}
	return nil
}

func (g *guardian) makeCgroup() (*cgroup, error) {
	if g.order.Cgroup == NoCgroup {
		return nil, errors.New("switched off")
	}
	return newCgroup(g.order.Cgroup, fmt.Sprintf("bully-guard-%d-%s", os.Getpid(), g.order.Record.Mark[:8]))
}

// reach is Report.Reach; why says why there is no cgroup.
func (g *guardian) reach(why error) string {
	_, listed := run.Children()
	switch {
	case g.child.cgroup != nil:
		return "cgroup: all that the command starts is killed at once"
	case g.orphans && listed:
		return fmt.Sprintf("process group and orphans, no cgroup (%v): a child that keeps forking in sessions of its own may escape", why)
	}
	return fmt.Sprintf("process group only, no cgroup (%v) and no way to find orphans: a child in a session of its own escapes", why)
}

// quiet lets go of the command's descriptors: who reads them must see their
// end when the command has ended.
func (g *guardian) quiet() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err != nil || unix.Dup3(null, fd, 0) != nil {
			unix.Close(fd)
		}
	}
	closeAll(g.order.others)
}

// tell enters a stage: it is said to the agent, and written to the record in its own
// time, not synced. A disk that is full or hangs does not stop an ending.
func (g *guardian) tell(stage Stage) {
	g.report.Stage = stage
	g.send()
	g.scribe.todo <- note{report: g.report}
}

func (g *guardian) send() {
	_ = unix.Sendto(g.socket, encodeReport(g.report), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) // an agent that is dead or does not read has the record
}

var errDiskHangs = errors.New("write record: the disk does not answer")

// end tells how it ended, and once more if that cannot be noted.
func (g *guardian) end() {
	if g.child != nil {
		g.child.tell(&g.report)
		if cg := g.child.cgroup; cg != nil {
			_ = removeCgroup(cg.dir)
		}
	}
	g.report.Stage = Ended
	g.letGo()
	isNews := g.child != nil // else the next start has nothing to learn, and the agent waits for our end
	g.send()
	if err := g.scribe.finish(note{g.report, isNews}); err != nil {
		g.report.Unnoted = err.Error()
		g.send()
	}
}
