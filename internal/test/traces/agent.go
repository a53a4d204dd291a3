package traces

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Agent is a process of the test's own program that acts as an agent, in a process group of its own: what it
// starts must not be in that.
type Agent struct {
	*bufio.Scanner // of what it prints
	t              testing.TB
	cmd            *exec.Cmd
}

// Act starts one: with the argument "agent", and an order in JSON on its standard input. It is killed when the test
// ends, if it has not been.
func Act(t testing.TB, order any) *Agent {
	t.Helper()
	text, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "agent")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &Agent{Scanner: bufio.NewScanner(out), t: t, cmd: cmd}
}

// Signal goes to its process group.
func (a *Agent) Signal(sig unix.Signal) {
	a.t.Helper()
	if err := unix.Kill(-a.cmd.Process.Pid, sig); err != nil {
		a.t.Fatal(err)
	}
}
