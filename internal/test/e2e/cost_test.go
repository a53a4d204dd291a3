package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What an agent costs that has nothing to do, in a cluster of five. The bounds
// are generous, since other tests run at the same time; the log has the figures.
func TestIdleCost(t *testing.T) {
	t.Parallel()
	const (
		watched = 20 * time.Second
		maxCPU  = 0.05 // of one core
		maxRSS  = 60   // MB
	)
	l := newLAN(t, 5, "--log-level", "info")
	l.start()
	best := l.best()
	l.agreeOn(best)
	before := make(map[*host]time.Duration)
	begun := time.Now()
	for _, h := range l.hosts {
		before[h] = h.cpuTime()
	}
	time.Sleep(watched) // this is a measurement, not a wait
	for _, h := range l.hosts {
		cpu := float64(h.cpuTime()-before[h]) / float64(time.Since(begun))
		rss := h.residentMB()
		role := "follower"
		if h == best {
			role = "leader"
		}
		t.Logf("%s, %s: %.2f %% of a core, %.1f MB resident", h, role, 100*cpu, rss)
		if cpu > maxCPU || rss > maxRSS {
			t.Errorf("%s is above %.0f %% or %d MB", h, 100*maxCPU, maxRSS)
		}
	}
	l.agreeOn(best)
	l.led(best)
}

// cpuTime is what the agent used so far, system calls included, children not.
func (h *host) cpuTime() time.Duration {
	h.lan.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.agent.cmd.Process.Pid))
	must(h.lan.t, err)
	// proc(5): the second field is in parentheses and may hold anything.
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const utime, stime = 14 - 3, 15 - 3 // f begins with field 3
	var ticks int64
	for _, field := range []int{utime, stime} {
		n, err := strconv.ParseInt(f[field], 10, 64)
		must(h.lan.t, err)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100 // USER_HZ is 100 on every Linux that Go runs on
}

// residentMB is the agent's resident memory.
func (h *host) residentMB() float64 {
	h.lan.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.agent.cmd.Process.Pid))
	must(h.lan.t, err)
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			must(h.lan.t, err)
			return kb / 1000
		}
	}
	h.lan.t.Fatalf("no VmRSS for the agent of %s", h)
	return 0
}
