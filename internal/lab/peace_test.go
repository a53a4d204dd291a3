package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// peace is what five hosts cost while nothing happens: agent, keeper and guards of each.
type peace struct {
	frames           float64 // datagrams sent a second, all hosts together
	leader, follower float64 // percent of a core; of the followers the median
	pss              float64 // MiB, of the host that has most
}

// peaceFor is for how long it is looked at, after peaceAfter: until then hosts still meet.
const (
	peaceAfter = 20 * time.Second
	peaceFor   = 30 * time.Second
)

// measurePeace runs a lab of five hosts and reads in /proc what they use, so that binaries can be
// compared that do not tell.
func measurePeace(t *testing.T, binary string, args ...string) (p peace) {
	t.Helper()
	args = append([]string{"lab", "--nodes", "5", "--netns", "--json", "--watch", (peaceAfter + peaceFor + 30*time.Second).String()}, args...)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, binary, args...)
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it takes its agents along
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	time.Sleep(peaceAfter)
	before := usageOf(t, cmd.Process.Pid)
	time.Sleep(peaceFor)
	after := usageOf(t, cmd.Process.Pid)
	if len(before) != 5 || len(after) != 5 {
		t.Fatalf("%d hosts, then %d, expected 5:\n%s", len(before), len(after), log.String())
	}
	var used []float64
	leads, most := 0, uint64(0) // nobody sends as much as the leader
	for host, u := range after {
		was := before[host]
		used = append(used, 100*(u.cpu-was.cpu).Seconds()/peaceFor.Seconds())
		sent := u.sent - was.sent
		if sent > most {
			leads, most = len(used)-1, sent
		}
		p.frames += float64(sent) / peaceFor.Seconds()
		p.pss = max(p.pss, u.pss)
	}
	p.leader = used[leads]
	used = slices.Delete(used, leads, leads+1)
	slices.Sort(used)
	p.follower = (used[1] + used[2]) / 2
	return p
}

// spending is what the processes of one network namespace have used so far.
type spending struct {
	cpu  time.Duration
	sent uint64 // datagrams
	pss  float64
}

// usageOf gives what the descendants of a process use, by the network namespace that they are in,
// those in its own left out.
func usageOf(t *testing.T, root int) map[string]spending {
	t.Helper()
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string]spending{}
	for _, pid := range descendants(root) {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		ns, err := os.Readlink(dir + "/ns/net")
		if err != nil || ns == own {
			continue // it has ended, or is no agent's
		}
		u := hosts[ns]
		u.cpu += cpuOf(dir)
		u.pss += pssOf(dir)
		if u.sent, err = sentFrom(dir); err != nil {
			t.Fatal(err)
		}
		hosts[ns] = u
	}
	return hosts
}

// descendants gives the processes that come from this one.
func descendants(root int) (out []int) {
	parents := map[int]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	for pid := range parents {
		for at := pid; at != 0; at = parents[at] {
			if at == root {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}

// cpuOf adds up the time that each thread of a process has run, in nanoseconds as the scheduler counts.
func cpuOf(dir string) (ran time.Duration) {
	tasks, _ := filepath.Glob(dir + "/task/*/schedstat")
	for _, path := range tasks {
		text, _ := os.ReadFile(path)
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			ns, _ := strconv.ParseInt(fields[0], 10, 64)
			ran += time.Duration(ns)
		}
	}
	return ran
}

// pssOf is the memory of a process in MiB, of what it shares its part.
func pssOf(dir string) float64 {
	text, _ := os.ReadFile(dir + "/smaps_rollup")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Pss:" {
			kib, _ := strconv.ParseFloat(fields[1], 64)
			return kib / 1024
		}
	}
	return 0
}

// sentFrom counts the datagrams that were sent from a process's network namespace.
func sentFrom(dir string) (sent uint64, err error) {
	text, err := os.ReadFile(dir + "/net/snmp")
	if err != nil {
		return 0, err
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] != "Udp:":
		case names == nil:
			names = fields
		default:
			return strconv.ParseUint(fields[slices.Index(names, "OutDatagrams")], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s/net/snmp has no count of datagrams", dir)
}
