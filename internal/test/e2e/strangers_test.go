package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Case 79: 500 idle connections to each of agents that have 256 descriptors change no
// leader, and leave enough of these for hooks.
func TestCase79IdleConnections(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	l.start()
	best := l.best()
	l.agreeOn(best)
	for _, h := range l.hosts {
		few := unix.Rlimit{Cur: 256, Max: 256}
		must(t, unix.Prlimit(h.agent.cmd.Process.Pid, unix.RLIMIT_NOFILE, &few, nil))
	}
	before := transitions(l.hosts)
	must(t, l.net.Switch().Within(func() error {
		for i := range 500 {
			for _, h := range l.hosts {
				c, err := net.DialTimeout("tcp", h.addr.String(), 2*time.Second)
				if err != nil {
					return fmt.Errorf("connection %d to %s: %w", i, h, err)
				}
				t.Cleanup(func() { _ = c.Close() })
			}
		}
		return nil
	}))
	l.steady(best, 2*time.Second)
	if after := transitions(l.hosts); len(after) != len(before) {
		t.Errorf("it led to %v", after[len(before):])
	}
	for _, h := range l.hosts {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.agent.cmd.Process.Pid))
		must(t, err)
		if t.Logf("%s has %d descriptors open", h, len(fds)); len(fds) > 128 {
			t.Errorf("%s has %d descriptors open", h, len(fds))
		}
	}
	if out, code := best.cli("step-down"); code != 0 {
		t.Fatalf("step-down: %d, %s", code, out)
	}
	l.agreeOn(l.next())
	l.led(best, l.next()) // their hooks ran
}

// Cases 75 and 76: an agent has one port open, for both kinds of traffic, and no HTTP on any
// address that nobody has asked for.
func TestCase75And76OnePort(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	h.start()
	l.agreeOn(h)
	open := map[string]int{}
	for _, table := range []string{"udp", "udp6", "tcp", "tcp6"} {
		text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(h.agent.cmd.Process.Pid), "net", table))
		must(t, err)
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
			words := strings.Fields(line)
			if strings.HasPrefix(table, "tcp") && words[3] != "0A" { // LISTEN
				continue
			}
			_, port, _ := strings.Cut(words[1], ":")
			open[table[:3]+" "+port]++
		}
	}
	want := fmt.Sprintf("%04X", h.addr.Port())
	if len(open) != 2 || open["udp "+want] != 1 || open["tcp "+want] != 1 {
		t.Errorf("open are %v; expected UDP and TCP %s", open, want)
	}
}
