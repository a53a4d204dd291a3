package reaper

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait of these tests; none waits it out when it passes.
const patience = 30 * time.Second

// This program is also process 1 of a namespace, and the agent that it runs.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "agent" && IsProcess1():
		code, err := Run(os.Args)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 99
		}
		os.Exit(code)
	case len(os.Args) == 3 && os.Args[1] == "agent":
		os.Exit(agents[os.Args[2]]())
	}
	os.Exit(m.Run())
}

// agents are what runs as the child of process 1.
var agents = map[string]func() int{
	// busy starts many children, which leave orphans, and waits for each of them.
	"busy": func() int {
		var all sync.WaitGroup
		failed := make(chan error, 200)
		for range 8 {
			all.Go(func() {
				for range 25 {
					if err := exec.Command("/bin/sh", "-c", "(sleep 0.05 &) ; exit 0").Run(); err != nil {
						failed <- err
					}
				}
			})
		}
		all.Wait()
		select {
		case err := <-failed:
			fmt.Println("a child was lost:", err)
		default:
			fmt.Println("done")
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 3
	},
	"shell": func() int { return shell("read line") },
	// left is killed and leaves somebody who has a last thing to do.
	"left": func() int { return shell(`(sleep 0.5; echo last thing) & kill -KILL $$`) },
	// over exits well, and leaves somebody who never ends.
	"over": func() int { return shell(`sleep 1000 & exit 0`) },
	"told": func() int {
		return shell(`trap 'echo got HUP' HUP; trap 'echo got TERM; exit 5' TERM; echo ready; while :; do sleep 0.02; done`)
	},
}

// shell becomes a shell.
func shell(script string) int {
	fmt.Println(syscall.Exec("/bin/sh", []string{"sh", "-c", script}, os.Environ()))
	return 98
}

// container is a process in a PID namespace of its own: number 1 there.
type container struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

func newContainer(t *testing.T, agent string) *container {
	t.Helper()
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("a PID namespace needs root")
	}
	cmd := exec.Command("/proc/self/exe", "agent", agent)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("no PID namespace can be made:", err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if !late.Stop() {
			t.Errorf("it was killed after %v", patience)
		}
	})
	return &container{t: t, cmd: cmd, stdin: stdin, lines: bufio.NewScanner(out)}
}

// says checks the next line.
func (c *container) says(want string) {
	c.t.Helper()
	if !c.lines.Scan() || c.lines.Text() != want {
		c.t.Fatalf("it says %q, want %q", c.lines.Text(), want)
	}
}

// exits waits for the end of the container.
func (c *container) exits(want int) {
	c.t.Helper()
	_ = c.cmd.Wait()
	if got := c.cmd.ProcessState.ExitCode(); got != want {
		c.t.Errorf("exit code %d, want %d", got, want)
	}
}

// children lists those of process 1, with their states (proc_pid_stat(5)).
func (c *container) children() map[string]string {
	states := map[string]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == fmt.Sprint(c.cmd.Process.Pid) {
			states[path] = fields[0]
		}
	}
	return states
}

// Orphans are reaped, and none of the agent's own children is taken from it.
func TestOrphansAreReapedAndNobodyElse(t *testing.T) {
	c := newContainer(t, "busy")
	c.says("done")
	for len(c.children()) != 1 {
		if time.Sleep(10 * time.Millisecond); !c.lives() {
			t.Fatal("it has ended")
		}
	}
	for path, state := range c.children() {
		if state == "Z" {
			t.Errorf("%s is a zombie", path)
		}
	}
	c.stdin.Close()
	c.exits(3)
}

func (c *container) lives() bool { return c.cmd.Process.Signal(syscall.Signal(0)) == nil }

func TestSignalsArePassedOn(t *testing.T) {
	c := newContainer(t, "told")
	c.says("ready")
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		if err := c.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		c.says(map[syscall.Signal]string{syscall.SIGHUP: "got HUP", syscall.SIGTERM: "got TERM"}[sig])
	}
	c.exits(5)
}

// After an agent that was killed, what it left behind, such as a holder, may end
// its work.
func TestAKilledAgentsGuardsAreWaitedFor(t *testing.T) {
	c := newContainer(t, "left")
	c.says("last thing")
	c.exits(128 + 9)
}

// After an orderly end nobody is waited for.
func TestAnOrderlyEndIsTheEnd(t *testing.T) {
	c := newContainer(t, "over")
	c.exits(0)
}

func TestTheAgentsCodeIsPassedOn(t *testing.T) {
	c := newContainer(t, "shell")
	c.stdin.Close()
	c.exits(1) // of read, at the end of its input
}
