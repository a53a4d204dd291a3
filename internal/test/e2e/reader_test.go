package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// readerOf waits for a reader of h other than that one.
func (l *lan) readerOf(h *host, other int) (pid int) {
	l.t.Helper()
	l.eventually("a reader on "+h.name, patience, func() error {
		s, err := h.status()
		if err != nil {
			return err
		}
		if s.Reader == nil || s.Reader.Process == 0 || s.Reader.Process == other || s.Reader.Error != "" {
			return fmt.Errorf("reader %+v", s.Reader)
		}
		pid = s.Reader.Process
		return nil
	})
	return pid
}

// leadsAtOnce asks the agent's socket some times: it says within 50 ms that this host leads, whatever becomes of its reader. It
// is the median, since the machine has other things to do. By default that is twenty times as much: others' tests run beside.
func (h *host) leadsAtOnce(when string) {
	h.lan.t.Helper()
	const times = 21
	most := 50 * time.Millisecond
	if os.Getenv("BULLY_E2E") == "" {
		most *= 20
	}
	var took []time.Duration
	for range times {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		began := time.Now()
		s, err := h.client.Status(ctx)
		cancel()
		must(h.lan.t, err)
		if why := s.WhyNotLeading(0); why != "" {
			h.lan.t.Errorf("%s: %s", when, why)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	if got := took[times/2]; got > most {
		h.lan.t.Errorf("%s: asked %d times, the socket answered in %v (median), want %v at most", when, times, got, most)
	}
}

// crowd opens so many connections to the port that the network asks at, from the switch, and holds them.
func (l *lan) crowd(h *host, connections int) (leave func()) {
	target := net.JoinHostPort(h.addr.Addr().String(), strconv.Itoa(pagePort))
	var held []net.Conn
	must(l.t, l.net.Switch().Within(func() error {
		for range connections {
			if c, err := net.DialTimeout("tcp4", target, time.Second); err == nil {
				held = append(held, c)
			}
		}
		return nil
	}))
	return func() {
		for _, c := range held {
			c.Close()
		}
	}
}

// The leader's reader is crowded, stopped and killed, and nothing of it is felt: nobody else leads, and whoever asks the
// agent's socket has an answer at once. Then another reader answers, without a right.
func TestAReaderHasNoPartInTheElection(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3, "--http-listen", fmt.Sprintf("0.0.0.0:%d", pagePort))
	l.start()
	best := l.best()
	l.agreeOn(best)
	before, err := best.status()
	must(t, err)
	first := l.readerOf(best, 0)
	l.hasNoRights(first)

	defer l.crowd(best, 1000)()
	best.leadsAtOnce("crowded")
	must(t, syscall.Kill(first, syscall.SIGSTOP))
	defer l.crowd(best, 1000)()
	best.leadsAtOnce("stopped")
	must(t, syscall.Kill(first, syscall.SIGKILL))
	best.leadsAtOnce("killed")
	second := l.readerOf(best, first)
	l.hasNoRights(second)
	l.answers(best)

	after, err := best.status()
	must(t, err)
	if !after.LeaderIsSelf || after.Epoch != before.Epoch {
		t.Errorf("epoch %d before, %d after; it leads: %v; %q", before.Epoch.Counter, after.Epoch.Counter, after.LeaderIsSelf, transitions(l.hosts))
	}
	l.led(best)
}

// answers waits until another host is told over the network that h leads.
func (l *lan) answers(h *host) {
	l.t.Helper()
	target := net.JoinHostPort(h.addr.Addr().String(), strconv.Itoa(pagePort))
	l.eventually("an answer over the network", patience, func() (err error) {
		inside := l.except(h)[0].net.Within(func() error { // which has connections left
			var c net.Conn
			if c, err = net.DialTimeout("tcp4", target, time.Second); err != nil {
				return nil
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Second))
			_, _ = c.Write([]byte("GET /leader HTTP/1.0\r\n\r\n"))
			text := make([]byte, 64)
			n, _ := c.Read(text)
			if !strings.Contains(string(text[:n]), " 200 ") {
				err = fmt.Errorf("answer %q", text[:n])
			}
			return nil
		})
		if inside != nil {
			return inside
		}
		return err
	})
}

// hasNoRights reads from /proc what a reader may.
func (l *lan) hasNoRights(pid int) {
	l.t.Helper()
	want := []string{"Uid:\t65534\t65534\t65534\t65534\n", "CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n",
		"CapBnd:\t0000000000000000\n", "CapAmb:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n"}
	var missing []string
	l.eventually("a reader that has given up its rights", patience, func() error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return err
		}
		missing = slices.DeleteFunc(slices.Clone(want), func(line string) bool { return strings.Contains(string(text), line) })
		if len(missing) > 0 {
			return fmt.Errorf("it has not %q", missing)
		}
		return nil
	})
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(l.t, err)
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // begins with field 3 of proc(5)
	if nice, policy := f[19-3], f[41-3]; nice != "10" || policy != "0" {
		l.t.Errorf("reader at nice %s, policy %s; want 10 and ordinary", nice, policy)
	}
}

// The leader's reader is killed a hundred times: each is followed by another, the log has a line for each, and nobody
// else leads.
func TestAReaderThatDiesAHundredTimes(t *testing.T) {
	isLong(t)
	const times = 100
	l := newLAN(t, 3, "--http-listen", fmt.Sprintf("0.0.0.0:%d", pagePort))
	l.start()
	best := l.best()
	l.agreeOn(best)
	before, err := best.status()
	must(t, err)
	for i, pid := 0, 0; i < times; i++ {
		pid = l.readerOf(best, pid)
		l.answers(best)
		if i%10 > 0 {
			time.Sleep(time.Second) // one that has lived as long is followed soon: the others have another wait for longer
		}
		must(t, syscall.Kill(pid, syscall.SIGKILL))
		best.leadsAtOnce("killed")
	}
	l.answers(best)
	if n := strings.Count(string(best.wholeLog()), "reader ended, the network is not answered; another is started"); n != times {
		t.Errorf("said %d times", n)
	}
	after, err := best.status()
	must(t, err)
	if !after.LeaderIsSelf || after.Epoch != before.Epoch {
		t.Errorf("epoch %d before, %d after; it leads: %v", before.Epoch.Counter, after.Epoch.Counter, after.LeaderIsSelf)
	}
	l.led(best)
}

// An agent that is killed, and started again while its keeper still runs the lose hook, has its port again; and a reader that
// was stopped meanwhile is gone.
func TestTheNextAgentHasThePort(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1, "--http-listen", fmt.Sprintf("0.0.0.0:%d", pagePort))
	l.hosts[0].onLose = "sleep 1"
	l.mayOverlap("a host alone")
	h := l.hosts[0]
	h.start()
	l.leads(h)
	reader := l.readerOf(h, 0)
	must(t, syscall.Kill(reader, syscall.SIGSTOP))
	h.kill()
	h.start()
	l.eventually("the agent runs", patience, func() error { _, err := h.status(); return err })
	l.readerOf(h, reader)
	l.eventually("the end of the reader of before", patience, func() error {
		if err := syscall.Kill(reader, 0); err != syscall.ESRCH {
			return fmt.Errorf("it lives: %v", err)
		}
		return nil
	})
}
