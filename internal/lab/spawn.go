package lab

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
	"github.com/bully-agent/bully-agent/internal/realtime"
)

// spawner starts the agents, all from one thread that lives as long as the lab. The kernel kills them when that thread
// ends (Pdeathsig, which is tied to the thread: go.dev/issue/27505), so not even kill -9 of the lab leaves an agent
// behind. The thread is also what enters a node's network namespace for the moment of the start.
type spawner struct {
	orders chan func()
}

func newSpawner() *spawner {
	s := &spawner{orders: make(chan func())}
	go func() {
		runtime.LockOSThread() // and never unlock: a thread in a foreign namespace must not be reused
		if err := realtime.Shed(); err != nil {
			panic("BUG: leave own scheduling to this process: " + err.Error())
		}
		for order := range s.orders {
			order()
		}
	}()
	return s
}

// close ends the thread, and with it every agent that still runs.
func (s *spawner) close() { close(s.orders) }

// start starts cmd, on a host unless that is nil.
func (s *spawner) start(cmd *exec.Cmd, on *netlab.Host) error {
	result := make(chan error)
	s.orders <- func() { result <- startOn(cmd, on) }
	return <-result
}

func startOn(cmd *exec.Cmd, host *netlab.Host) error {
	// Its own group, so that a Ctrl-C at the terminal reaches the lab alone.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if host == nil {
		return cmd.Start()
	}
	return host.Visit(cmd.Start)
}

// environment is the lab's own without what is meant for another agent: its settings, and its supervisor's socket.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BULLY_") || strings.HasPrefix(v, "NOTIFY_SOCKET=")
	})
}
