package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What an agent and its keeper cost that have nothing to do, in a cluster of five. The bounds
// are generous, since other tests run at the same time; the log has the figures.
func TestIdleCost(t *testing.T) {
	t.Parallel()
	const (
		watched = 20 * time.Second
		maxCPU  = 0.05 // of one core
		maxPSS  = 60   // MB
	)
	l := newLAN(t, 5, "--log-level", "info")
	if value := os.Getenv("BULLY_PROFILE"); value != "" { // to see what it costs
		l.env = append(l.env, "BULLY_PROFILE="+value)
	}
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
		pss := h.memoryMB()
		role := "follower"
		if h == best {
			role = "leader"
		}
		t.Logf("%s, %s: %.2f %% of a core, %.1f MB (PSS)", h, role, 100*cpu, pss)
		if cpu > maxCPU || pss > maxPSS {
			t.Errorf("%s is above %.0f %% or %d MB", h, 100*maxCPU, maxPSS)
		}
	}
	l.agreeOn(best)
	l.led(best)
}

// own are the agent and its keeper.
func (h *host) own() []int {
	return signalSome(h, func(words []string) bool { return isAgent(words) || isKeeper(words) }, 0)
}

// cpuTime is what they used so far, system calls included, other children not.
func (h *host) cpuTime() time.Duration {
	h.lan.t.Helper()
	var ticks int64
	for _, pid := range h.own() {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		must(h.lan.t, err)
		// proc(5): the second field is in parentheses and may hold anything.
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		const utime, stime = 14 - 3, 15 - 3 // f begins with field 3
		for _, field := range []int{utime, stime} {
			n, err := strconv.ParseInt(f[field], 10, 64)
			must(h.lan.t, err)
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / 100 // USER_HZ is 100 on every Linux that Go runs on
}

// memoryMB is their memory, what they share with others by its part: so all agents of the
// machine together have what the sum says.
func (h *host) memoryMB() (mb float64) {
	h.lan.t.Helper()
	for _, pid := range h.own() {
		rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		must(h.lan.t, err)
		for line := range strings.Lines(string(rollup)) {
			if value, ok := strings.CutPrefix(line, "Pss:"); ok {
				kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
				must(h.lan.t, err)
				mb += kb / 1000
			}
		}
	}
	if mb == 0 {
		h.lan.t.Fatalf("no Pss for the agent of %s", h)
	}
	return mb
}
