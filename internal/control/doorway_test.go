package control

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// One user who may only look holds all the connections that he can get: root is answered at once,
// and so is another user.
func TestOneUserKeepsNobodyOut(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: only root can connect as another user")
	}
	srv := serveAgent(t, &fakeAgent{}, func(l *limits) { l.header = time.Hour })
	for file, mode := range map[string]os.FileMode{filepath.Dir(srv.path): 0o755, srv.path: 0o666} {
		if err := os.Chmod(file, mode); err != nil {
			t.Skip(err)
		}
	}
	const nobody, another = 65534, 65533
	open := 0
	var conns []net.Conn
	for range 100 {
		conns = append(conns, dialAs(t, nobody, srv.path))
	}
	for _, c := range conns {
		_, _ = c.Write([]byte("GET /v1/status HTTP/1.1\r\nX: ")) // may be closed already
	}
	for _, uid := range []int{0, another} {
		c := dialAs(t, uid, srv.path)
		send(t, c, "GET /v1/status HTTP/1.1\r\nHost: agent\r\n\r\n")
		if resp, body := answer(t, c); resp.StatusCode != http.StatusOK {
			t.Errorf("uid %d: %d %s", uid, resp.StatusCode, body)
		}
	}
	for _, c := range conns { // all were accepted before root's was
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); os.IsTimeout(err) {
			open++
		}
	}
	if open != defaultLimits.ofOne {
		t.Errorf("%d connections of one user are open, want %d", open, defaultLimits.ofOne)
	}
	conns[0].Close()
	for end := time.Now().Add(bound); ; { // the server sees the end when it gets to it
		c := dialAs(t, nobody, srv.path)
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); os.IsTimeout(err) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a place that was given back stays taken")
		}
	}
}

// Places of all others together have a bound too, and streams are left for root.
func TestPlacesOfOthers(t *testing.T) {
	l := newDoorway(nil, limits{conns: 1, others: 3, ofOne: 2}, access{owner: 1000})
	var leaves func()
	for i, tt := range []struct {
		uid  int
		want bool
	}{{7, true}, {7, true}, {7, false}, {8, true}, {8, false}, {-1, false}, {1000, true}} {
		leave, got := l.enter(peer{uid: tt.uid})
		if got != tt.want {
			t.Errorf("%d: uid %d let in: %v", i, tt.uid, got)
		}
		if i == 0 {
			leaves = leave
		}
	}
	leaves()
	if _, ok := l.enter(peer{uid: -1}); !ok {
		t.Error("a place that was given back stays taken")
	}
}
