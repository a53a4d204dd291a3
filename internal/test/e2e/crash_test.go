package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// crashing is one agent on loopback, alone, started again and again.
type crashing struct {
	t     *testing.T
	dir   string
	ended chan struct{} // closed when the last one started has
}

// start starts the agent, under strace if inject is not empty.
func (c *crashing) start(inject string) {
	c.t.Helper()
	hook := func(what string) string { return fmt.Sprintf("echo %s $BULLY_EPOCH >>%s/hooks", what, c.dir) }
	words := []string{binary, "run", "--cluster", "crash", "--name", "h1", "--bind", "127.0.0.1:7963", "--state-dir", filepath.Join(c.dir, "state"),
		"--socket", filepath.Join(c.dir, "run", "agent.sock"), "--settle", "300ms", "--on-become-leader", hook("become"), "--on-lose-leadership", hook("lose")}
	if inject != "" {
		// -P: the calls on other files do not count.
		state := filepath.Join(c.dir, "state")
		words = append([]string{"strace", "-f", "-qq", "-o", "/dev/null", "-e", inject, "-P", state, "-P", filepath.Join(state, "state"),
			"-P", filepath.Join(state, "state.new")}, words...)
	}
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(c.t, err)
	defer log.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	must(c.t, cmd.Start())
	ended := make(chan struct{})
	c.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }()
}

// leads waits until the agent leads and its become hook has run, and gives the epoch;
// false if it has ended before.
func (c *crashing) leads() (epoch uint64, ok bool) {
	c.t.Helper()
	client := control.Dial(filepath.Join(c.dir, "run", "agent.sock"))
	for late := time.Now().Add(patience); time.Now().Before(late); {
		select {
		case <-c.ended:
			return 0, false
		case <-time.After(20 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		s, err := client.Status(ctx)
		cancel()
		if err != nil || s.Leader == nil {
			continue
		}
		if strings.HasSuffix(c.said(), fmt.Sprintf("become %d", s.Epoch.Counter)) {
			return s.Epoch.Counter, true
		}
	}
	c.t.Fatalf("neither led nor ended within %v", patience)
	return 0, false
}

// stop stops the agent, whoever traces it, and waits for its end.
func (c *crashing) stop() {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "state", "lock"))
	must(c.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(c.t, err)
	must(c.t, syscall.Kill(pid, syscall.SIGTERM))
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.t.Fatalf("the agent has not ended within %v", patience)
	}
}

func (c *crashing) said() string {
	text, _ := os.ReadFile(filepath.Join(c.dir, "hooks"))
	return strings.TrimSpace(string(text))
}

// The agent is killed by its kernel in each call in turn that changes its state file, on
// the way to a leadership. The next start leads again, in a higher epoch than any hook has
// seen, and the hooks alternate.
func TestKilledAtEachCallOnTheStateFile(t *testing.T) {
	needsLAN(t)
	needsStrace(t)
	t.Parallel()
	most := 2 // of each call
	if os.Getenv("BULLY_E2E") == "long" {
		most = 50
	}
	points := 0
	for _, call := range []string{"pwrite64", "fsync", "fdatasync", "renameat", "openat"} {
		for when := 1; when <= most; when++ {
			c := &crashing{t: t, dir: filepath.Join(workDir, fmt.Sprintf("%s%d", call, when))}
			must(t, os.MkdirAll(filepath.Join(c.dir, "run"), 0o700))
			c.start(fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, when))
			if _, led := c.leads(); led {
				c.stop()
				break // fewer calls than that
			}
			points++
			before := c.said()
			c.start("")
			epoch, led := c.leads()
			if !led {
				text, _ := os.ReadFile(filepath.Join(c.dir, "log"))
				t.Fatalf("killed in %s %d: the next start ended: %s", call, when, text)
			}
			c.alternates(fmt.Sprintf("killed in %s %d", call, when), before, epoch)
			c.stop()
		}
	}
	t.Logf("killed at %d points", points)
	if points < 8 {
		t.Errorf("killed only %d times", points)
	}
}

// alternates checks all lines of the hooks: become, lose, become, with epochs that rise.
func (c *crashing) alternates(where, before string, epoch uint64) {
	c.t.Helper()
	last, want := uint64(0), "become"
	for line := range strings.Lines(c.said()) {
		var what string
		var at uint64
		if _, err := fmt.Sscan(line, &what, &at); err != nil {
			c.t.Fatalf("%s: %q: %v", where, line, err)
		}
		if what == "lose" && want == "become" && at >= last { // a lose hook that was cut off is run again
			last = at
			continue
		}
		if what != want || what == "become" && at <= last || what == "lose" && at != last {
			c.t.Fatalf("%s: hooks said %q, before the restart %q", where, c.said(), before)
		}
		last, want = at, map[string]string{"become": "lose", "lose": "become"}[what]
	}
	if last != epoch {
		c.t.Fatalf("%s: leads in epoch %d, hooks said %q", where, epoch, c.said())
	}
}
