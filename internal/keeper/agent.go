package keeper

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// agent is the process that a keeper works for.
type agent struct {
	pid   int
	pidfd *os.File // nil: the kernel has none
}

// handle is what a keeper watches this process by: its pidfd, or /dev/null in its place where there is none, before Linux 5.3. So each
// descriptor after it has its number.
func handle(pidfd func(pid, flags int) (int, error)) (*os.File, error) {
	if fd, err := pidfd(os.Getpid(), 0); err == nil {
		return os.NewFile(uintptr(fd), "pidfd"), nil
	}
	return os.Open(os.DevNull)
}

// watchAgent takes the parent of this process, which is the agent, also if that has died
// in the meantime: then it is another, and dead when that is.
func watchAgent() agent {
	a := agent{pid: unix.Getppid()}
	var stat unix.Stat_t
	isNone := unix.Fstat(agentFD, &stat) != nil || stat.Mode&unix.S_IFMT == unix.S_IFCHR
	if !isNone && unix.SetNonblock(agentFD, true) == nil {
		a.pidfd = os.NewFile(agentFD, "pidfd")
	}
	return a
}

// parentPause is between two looks at the parent where there are no pidfds. Arbitrary.
const parentPause = 20 * time.Millisecond

// awaitDeath returns when the agent is dead.
func (a agent) awaitDeath() {
	var raw syscall.RawConn
	if a.pidfd != nil {
		raw, _ = a.pidfd.SyscallConn()
	}
	if raw == nil || raw.Read(func(fd uintptr) bool { return isReadable(int(fd)) }) != nil {
		for unix.Getppid() == a.pid {
			time.Sleep(parentPause)
		}
	}
}

func isReadable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n > 0 && err == nil
}

// isDead looks whether it is.
func (a agent) isDead() bool {
	if a.pidfd == nil {
		return unix.Getppid() != a.pid
	}
	isDead := false
	if raw, err := a.pidfd.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { isDead = isReadable(int(fd)) })
	}
	return isDead
}

// timer fires by CLOCK_BOOTTIME, which Go's own timers do not.
type timer struct{ file *os.File }

func newTimer() (timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return timer{}, os.NewSyscallError("make timer", err)
	}
	return timer{os.NewFile(uintptr(fd), "timer")}, nil
}

// set has it fire then, and not before; the zero time: never.
func (t timer) set(at time.Time) {
	raw, err := t.file.SyscallConn()
	if err != nil {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(sidecar.Nano(at))}
	_ = raw.Control(func(fd uintptr) { _ = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil) })
}

// each calls tell whenever it has fired, for as long as it can.
func (t timer) each(tell func()) {
	var fired [8]byte
	for _, err := t.file.Read(fired[:]); err == nil; _, err = t.file.Read(fired[:]) {
		tell()
	}
}
