// Package sidecar has what the processes beside an agent, its keeper and the holders, have
// in common: they are this program again, started with a socket or a line, they outlive their
// starter, and all tell deadlines by one clock.
package sidecar

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/realtime"
	"github.com/bully-agent/bully-agent/internal/rights"
)

// Program is this program, also when its file was replaced.
const Program = "/proc/self/exe"

// SocketFD is the descriptor of a sidecar's socket, and InFD and OutFD are those of its line.
const (
	SocketFD = 3
	InFD     = 3
	OutFD    = 4
)

// processName is what process lists show instead of the path that is executed, and
// which says nothing to people: "bully-agent keeper".
const processName = "bully-agent"

// Start starts a sidecar in a session of its own, with a socket and then these files as its
// descriptors after the three. It gives the starter's end of the socket, which does not block.
func Start(cmd *exec.Cmd, files ...*os.File) (*os.File, error) {
	ours, theirs, err := SocketPair(cmd.Args[len(cmd.Args)-1])
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	if err := start(cmd, append([]*os.File{theirs}, files...)); err != nil { // SocketFD and on
		ours.Close()
		return nil, err
	}
	return ours, nil
}

// StartConn is Start with a line in the place of the socket.
func StartConn(cmd *exec.Cmd, files ...*os.File) (*Conn, error) {
	ours, theirs, err := Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	if err := start(cmd, append([]*os.File{theirs.In, theirs.Out}, files...)); err != nil { // InFD, OutFD and on
		ours.Close()
		return nil, err
	}
	return ours, nil
}

func start(cmd *exec.Cmd, files []*os.File) error {
	cmd.Args[0] = processName
	cmd.Env = append(environ(), cmd.Env...)
	cmd.Dir = "/"
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// GonePatience is how long a sidecar may take to go that has closed its socket, or had
// KILL: one that hangs in the kernel does nothing any more. Arbitrary.
const GonePatience = time.Second

// Reap waits for the end of a sidecar that has closed its socket, enforces it, and says how
// that was.
func Reap(cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for range 2 {
		select {
		case err := <-ended:
			if err == nil {
				return errors.New("it ended")
			}
			return err
		case <-time.After(GonePatience):
			_ = cmd.Process.Kill()
		}
	}
	return errors.New("it hangs in the kernel")
}

// ErrByHand is the answer to people who start a sidecar.
var ErrByHand = errors.New("this is a part of the agent, which starts it itself")

// Inherit is for a sidecar that has just been started: it takes what Start has left, up to the
// last of these descriptors, for itself alone. Other processes of its user read nothing of it from then
// on, as of the agent.
func Inherit(last int) error {
	if typ, err := unix.GetsockoptInt(SocketFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || typ != unix.SOCK_SEQPACKET {
		return ErrByHand
	}
	return keepToSelf(last)
}

// InheritConn is Inherit for what StartConn has left.
func InheritConn(last int) (*Conn, error) {
	for _, fd := range []int{InFD, OutFD} {
		if size, err := unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err != nil || size == 0 {
			return nil, ErrByHand
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, fmt.Errorf("use pipe: %w", err)
		}
	}
	if err := keepToSelf(last); err != nil {
		return nil, err
	}
	return newConn(os.NewFile(InFD, "orders"), os.NewFile(OutFD, "reports"))
}

func keepToSelf(last int) error {
	if err := rights.Hide(); err != nil {
		return fmt.Errorf("be nobody's to look into: %w", err)
	}
	for fd := SocketFD; fd <= last; fd++ {
		unix.CloseOnExec(fd)
	}
	dropSignals()
	return nil
}

// dropSignals catches what would end or stop a sidecar, since it has to outlive its starter.
// Ignored signals would be ignored by commands, too, and are if our caller ignores them, as
// nohup does. Go tells that of HUP and INT alone.
func dropSignals() {
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, unix.SIGTERM, unix.SIGQUIT, unix.SIGPIPE, unix.SIGALRM,
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(dropped, sig)
		}
	}
}

// SocketPair gives the starter's end of a SEQPACKET socket, which does not block, and the
// sidecar's, which does.
func SocketPair(name string) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket: %w", err)
	}
	err = unix.SetNonblock(fds[0], true) // before there is a file of it, which asks
	ours, theirs = os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), "agent")
	if err != nil {
		ours.Close()
		theirs.Close()
		return nil, nil, fmt.Errorf("make socket: %w", err)
	}
	return ours, theirs, nil
}

// environ is a sidecar's environment: what hooks inherit from an agent, what keeps a Go
// program small, and real time if the agent has it. A fork holds one of the runtime's processors until its child has executed. A
// sidecar whose loop must go on meanwhile asks for more of them in its own environment. A collection stops all of them, and waits for
// the fork; one comes every two minutes at the latest.
func environ() []string {
	env := append(realtime.Environ(), "GOMAXPROCS=1", "GOGC=50")
	for _, name := range []string{"PATH", "HOME", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
