// Package reaper is process 1 of a container that has no other.
//
// The kernel hands every orphan in a container to its process 1, where it stays a
// zombie until it is waited for. The agent cannot do that itself: waiting for any
// child (wait4 with -1) would take from hooks, holders and os/exec the children
// that they wait for by number. So process 1 starts the agent as its child, and
// all other children that it ever has are orphans.
package reaper

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/run"
)

// linger is how long process 1 outlives an agent that did not end cleanly: when
// process 1 ends the kernel kills all others, and the dead agent's holders have
// commands to end and a lose-leadership hook to run. Container engines give as
// much before they kill. Arbitrary.
const linger = 10 * time.Second

// passedOn are the signals that process 1 gets on the agent's behalf.
var passedOn = []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2,
	unix.SIGWINCH, unix.SIGCONT}

// IsProcess1 reports whether orphans become children of this process.
func IsProcess1() bool { return os.Getpid() == 1 }

// Run runs this program with these arguments as a child, passes signals on to it,
// and waits for it and for every orphan. It returns when the child has ended, with
// its exit code, or 128 and the signal that ended it; after anything but 0 also
// what the child left behind has ended, unless that takes long or a signal comes.
func Run(args []string) (code int, err error) {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, append(slices.Clone(passedOn), unix.SIGCHLD)...) // before there is a child, so that no end is missed
	defer signal.Stop(signals)
	child, err := os.StartProcess("/proc/self/exe", args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 0, fmt.Errorf("start the agent as a child of process 1: %w", err)
	}
	i := process1{child: child.Pid}
	if err := child.Release(); err != nil { // it is waited for by its number
		return 0, err
	}
	var late <-chan time.Time
	for {
		select {
		case sig := <-signals:
			switch {
			case sig == unix.SIGCHLD:
				i.reap()
			case i.ended:
				return i.code, nil
			default:
				_ = unix.Kill(i.child, sig.(unix.Signal)) // not reaped, so the number is its own
			}
		case <-late:
			return i.code, nil
		}
		if i.ended && (i.alone || i.code == 0) {
			return i.code, nil
		}
		if i.ended && late == nil {
			late = time.After(linger)
		}
	}
}

// process1 is what is known of the children.
type process1 struct {
	child int
	ended bool // the child has
	code  int  // its exit code
	alone bool // there are no children at all
}

// reap takes all that have ended; one SIGCHLD may stand for several.
func (i *process1) reap() {
	i.alone = run.ReapAll(func(pid int, status unix.WaitStatus) {
		if pid == i.child {
			i.ended, i.code = true, status.ExitStatus()
			if status.Signaled() {
				i.code = 128 + int(status.Signal())
			}
		}
	})
}
