package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// Whoever holds a thousand connections open, sends a byte a second, and asks for all that there
// is as fast as it can, does the election no harm: nobody else leads, and no epoch is new.
func TestHTTPDoesTheElectionNoHarm(t *testing.T) {
	const (
		sources = 40
		each    = 25 // connections of one source: a thousand in all
		greedy  = 32
		lasting = 8 * time.Second
	)
	l := newLAN(t, 3, "--http-listen", "0.0.0.0:7951")
	l.hasRoomToLetGo()
	for _, h := range l.hosts {
		h.start()
	}
	leader := l.hosts[2]
	l.leads(leader)
	before, err := leader.status()
	must(t, err)

	for i := range sources + 1 {
		l.ip(l.net.Switch(), fmt.Sprintf("addr add 10.78.%d.%d/24 dev %s", l.number, 100+i, netlab.Bridge))
	}
	target := net.JoinHostPort(leader.addr.Addr().String(), "7951")
	end := time.Now().Add(lasting)
	var all sync.WaitGroup
	var slow, answers atomic.Int64
	for i := range sources { // each holds connections, byte by byte, and comes back when they are closed
		all.Go(func() {
			_ = l.net.Switch().Within(func() error {
				conns := make([]net.Conn, each)
				for time.Now().Before(end) {
					for j, conn := range conns {
						if conn == nil {
							if conns[j] = dialFrom(l, i, target); conns[j] == nil {
								continue
							}
							slow.Add(1)
							_, _ = io.WriteString(conns[j], "GET /leader HTTP/1.1\r\nX: ")
						} else if _, err := io.WriteString(conn, "x"); err != nil {
							conn.Close()
							conns[j] = nil
						}
					}
					time.Sleep(100 * time.Millisecond)
				}
				for _, conn := range conns {
					if conn != nil {
						conn.Close()
					}
				}
				return nil
			})
		})
	}
	for i := range greedy {
		path := []string{"/metrics", "/v1/status", "/v1/events", "/leader"}[i%4]
		all.Go(func() {
			_ = l.net.Switch().Within(func() error {
				for time.Now().Before(end) {
					answers.Add(askOn(dialFrom(l, sources, target), path, end))
				}
				return nil
			})
		})
	}
	all.Wait()
	t.Logf("%d slow connections, %d answers in %v", slow.Load(), answers.Load(), lasting)
	after, err := leader.status()
	must(t, err)
	if !after.LeaderIsSelf || after.Epoch != before.Epoch {
		t.Errorf("epoch %d before, %d after; it leads: %v", before.Epoch.Counter, after.Epoch.Counter, after.LeaderIsSelf)
	}
	if slow.Load() < sources*each {
		t.Error("there was no attack")
	}
}

// dialFrom connects from one of the addresses of a test's sources; nil: it cannot. The calling
// thread is in the switch's namespace.
func dialFrom(l *lan, source int, target string) net.Conn {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 78, l.number, byte(100+source))}, Timeout: time.Second}
	conn, err := d.Dial("tcp4", target)
	if err != nil {
		return nil
	}
	return conn
}

// askOn asks on one connection, again and again, and gives how many answers came.
func askOn(conn net.Conn, path string, end time.Time) (answers int64) {
	if conn == nil {
		return 0
	}
	defer conn.Close()
	_ = conn.SetDeadline(end.Add(time.Second))
	for from := bufio.NewReader(conn); time.Now().Before(end); answers++ {
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: h3\r\n\r\n", path); err != nil {
			return answers
		}
		resp, err := http.ReadResponse(from, nil)
		if err != nil {
			return answers
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return answers
}

// An agent that gives up root keeps a port that only root can open, and answers there what it
// read of hooks that root ran.
func TestHTTPOfAnAgentWithoutRights(t *testing.T) {
	const privileged = "127.0.0.1:951"
	a := newApart(t, 18960)
	a.configure(`user = "` + a.user + `"`)
	file, err := os.OpenFile(a.path("agent.toml"), os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = fmt.Fprintf(file, "[http]\nlisten = %q\n", privileged)
	must(t, err)
	must(t, file.Close())
	a.start()
	a.leads(1)
	ask := func(path string) (status int, body string) {
		resp, err := http.Get("http://" + privileged + path)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(text)
	}
	defer http.DefaultClient.CloseIdleConnections()
	if status, body := ask("/leader"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	a.until("the hook in the metrics", func() bool {
		_, body := ask("/metrics")
		return strings.Contains(body, "\nbully_leader 1\n") && strings.Contains(body, `bully_hook_runs_total{hook="become-leader",result="succeeded"} 1`)
	})
	if status, _ := ask("/v1/hooks"); status != http.StatusNotFound {
		t.Errorf("hooks are on the network: %d", status)
	}
}
