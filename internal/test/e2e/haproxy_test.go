package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// HAProxy with the configuration of deploy/examples/haproxy, on real links: three hosts with a
// service each, and a client that asks HAProxy 50 times a second which host it reaches, while
// the leader is killed, stopped and cut off.

// haproxyBound is far above what is measured.
const haproxyBound = 10 * time.Second

// balanced is a LAN behind HAProxy.
type balanced struct {
	lan  *lan
	addr string

	mu      sync.Mutex
	replies []reply
	last    error // of the client; the next leader may not be there yet
}

func newBalanced(t *testing.T) *balanced {
	t.Helper()
	needsLAN(t)
	haproxy, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("skipped: haproxy is not installed")
	}
	l := newLAN(t, 3, "--http-listen", "0.0.0.0:7951", "--preempt", "never")
	l.hasRoomToLetGo()
	config, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "examples", "haproxy", "haproxy.cfg"))
	must(t, err)
	text := string(config)
	for i, h := range l.hosts {
		text = strings.ReplaceAll(text, fmt.Sprintf("192.168.1.%d:", 11+i), h.addr.Addr().String()+":")
		serveName(h)
	}
	file := filepath.Join(l.dir, "haproxy.cfg")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	for _, h := range l.hosts {
		h.start()
	}
	l.leads(l.hosts[2])
	b := &balanced{lan: l, addr: net.JoinHostPort(l.gateway().String(), "8080")}
	run := exec.Command("ip", "netns", "exec", string(l.net.Switch()), haproxy, "-f", file, "-db")
	run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	run.Stdout, run.Stderr = &said, &said
	must(t, run.Start())
	t.Cleanup(func() {
		_ = run.Process.Kill()
		if _ = run.Wait(); t.Failed() {
			t.Logf("haproxy says:\n%s\nthe client heard last: %v, %v", said.String(), b.replies[max(0, len(b.replies)-5):], b.last)
		}
	})
	l.ip(l.net.Switch(), "link set lo up") // the client is where HAProxy is
	b.ask()
	return b
}

// leads waits until that host leads.
func (l *lan) leads(h *host) {
	l.t.Helper()
	l.eventually(h.name+" leads", 30*time.Second, func() error {
		s, err := h.status()
		if err == nil && (!s.LeaderIsSelf || !s.Ready) {
			err = fmt.Errorf("%s is %s", h, s.Role)
		}
		return err
	})
}

// serveName is the service: it says on which host it is. It goes on whatever becomes of the agent.
func serveName(h *host) {
	t := h.lan.t
	var listener net.Listener
	must(t, h.net.Within(func() (err error) {
		listener, err = net.Listen("tcp", ":80")
		return err
	}))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, h.name) })}
	ended := make(chan struct{})
	go func() { _ = server.Serve(listener); close(ended) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
}

// askers are so many, of which each asks at its turn: one that waits for a host that is gone does not keep the others.
const askers = 10

// ask starts the client, which ends with the test. Each question is a connection of its own, made on a thread that is in
// the switch's namespace.
func (b *balanced) ask() {
	stop := make(chan struct{})
	var asking sync.WaitGroup
	b.lan.t.Cleanup(func() { close(stop); asking.Wait() })
	for i := range askers {
		asking.Go(func() {
			time.Sleep(time.Duration(i) * askEvery())
			_ = b.lan.net.Switch().Within(func() error {
				for tick := time.NewTicker(askers * askEvery()); ; {
					b.note(answerOf(b.addr))
					select {
					case <-stop:
						return nil
					case <-tick.C:
					}
				}
			})
		})
	}
}

// answerOf asks once.
func answerOf(addr string) (string, error) {
	conn, err := net.DialTimeout("tcp4", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n"); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	name, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(name), err
}

func (b *balanced) note(host string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last = err; err == nil {
		b.replies = append(b.replies, reply{time.Now(), host})
	}
}

// firstOf waits for an answer by another host than that one, and gives how long that took.
func (b *balanced) firstOf(not string, since time.Time) (host string, took time.Duration) {
	b.lan.t.Helper()
	b.lan.eventually("traffic leaves "+not, haproxyBound, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, r := range b.replies {
			if r.at.After(since) && r.host != not {
				host, took = r.host, r.at.Sub(since)
				return nil
			}
		}
		return fmt.Errorf("no answer by another host than %s", not)
	})
	return host, took
}

// leader is the host that all agree on.
func (b *balanced) leader() *host {
	var leader *host
	b.lan.eventually("a leader of all, and traffic to it", 30*time.Second, func() error {
		for _, h := range b.lan.hosts {
			if s, err := h.status(); err != nil || s.Leader == nil {
				return fmt.Errorf("%s knows no leader: %v", h, err)
			} else if s.LeaderIsSelf && s.Ready {
				leader = h
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if leader == nil || len(b.replies) == 0 || b.replies[len(b.replies)-1].host != leader.name {
			return fmt.Errorf("no traffic to %v", leader)
		}
		return nil
	})
	return leader
}

func TestHAProxyFollowsTheLeader(t *testing.T) {
	const rounds = 7
	b := newBalanced(t)
	for _, fault := range []struct {
		name      string
		end, mend func(*host)
	}{
		{"kill -9 of the leader's agent", (*host).kill, (*host).start},
		{"stop of the leader's agent", func(h *host) { h.stop() }, (*host).start},
		{"leader cut off", b.lan.cut, b.lan.plug},
	} {
		var all []time.Duration
		for range rounds {
			leader := b.leader()
			begun := time.Now()
			fault.end(leader)
			next, took := b.firstOf(leader.name, begun)
			all = append(all, took)
			fault.mend(leader)
			if s, err := b.host(next).status(); err != nil || !s.LeaderIsSelf {
				t.Logf("traffic went to %s, which leads no more: %v", next, err)
			}
		}
		slices.Sort(all)
		t.Logf("%s: traffic to the next leader after %v (median), %v to %v, of %d", fault.name,
			all[len(all)/2].Round(time.Millisecond), all[0].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond), len(all))
	}
}

func (b *balanced) host(name string) *host {
	i := slices.IndexFunc(b.lan.hosts, func(h *host) bool { return h.name == name })
	return b.lan.hosts[i]
}
