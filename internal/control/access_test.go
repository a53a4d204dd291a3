package control

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// rights is what each route needs. What it shows or does says why.
var rights = map[string]Right{
	"GET /v1/status": Read, "GET /v1/leader": Read, "GET /v1/ok-to-stop": Read, "GET /v1/members": Read, "GET /v1/history": Read, "GET /v1/events": Read,
	"GET /v1/hooks": Read, "GET /v1/hooks/runs": Read, "GET /v1/jobs": Read, "GET /v1/jobs/runs": Read,
	"GET /v1/keys": Read, "GET /v1/explain": Read, "GET /metrics": Read, "GET /v1/lease": Lend, "GET /v1/jobs/output": Act,
}

// Each route needs a right: what only shows reads, all that changes something acts.
func TestEachRouteNeedsARight(t *testing.T) {
	s := &server{backend: &fakeAgent{}}
	for _, r := range s.routes() {
		want, ok := rights[r.method+" "+r.path]
		if r.method == http.MethodPost {
			want, ok = Act, true
		}
		if !ok || r.needs != want {
			t.Errorf("%s %s needs %q, want %q", r.method, r.path, r.needs, want)
		}
	}
}

func TestWhatIsGranted(t *testing.T) {
	a, all := access{Access{GID: 7, May: []Right{Read, Lend}}, 1000}, []Right{Read, Act, Lend}
	for name, tt := range map[string]struct {
		who  peer
		want []Right
	}{
		"root":               {peer{uid: 0}, all},
		"the agent's user":   {peer{uid: 1000}, all},
		"a member":           {peer{uid: 5, groups: []int{3, 7}}, []Right{Read, Lend}},
		"one who was let in": {peer{uid: 5, groups: []int{3}}, []Right{Read}},
		"nobody knows who":   {peer{uid: -1}, nil},
	} {
		var got []Right
		for _, right := range all {
			if a.grants(tt.who, right) {
				got = append(got, right)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Whoever asks for what he may not, again and again, has the log tell of it some times and then
// once a minute; of others it tells meanwhile.
func TestRefusalsAreToldNowAndThen(t *testing.T) {
	var told refusals
	now := time.Unix(1_000_000, 0)
	count := func(uid, tries int) (n int) {
		for range tries {
			if told.mayTell(uid, now) {
				n++
			}
		}
		return n
	}
	if n := count(1000, 500); n != refusalBurst {
		t.Errorf("500 refusals of one user are %d lines, want %d", n, refusalBurst)
	}
	if n := count(1001, 1); n != 1 {
		t.Error("another's is not told")
	}
	now = now.Add(refusalEvery)
	if n := count(1000, 500); n != 1 {
		t.Errorf("a minute later they are %d lines, want one", n)
	}
	for uid := range 3 * maxRefused {
		count(uid, 1)
	}
	if len(told.of) > maxRefused {
		t.Errorf("%d users are told apart", len(told.of))
	}
}

// A refused request is refused each time, whatever the log tells.
func TestAFloodOfRefusals(t *testing.T) {
	var logs bytes.Buffer
	s := &server{backend: &fakeAgent{}, logger: hclog.New(&hclog.LoggerOptions{Output: &logs})}
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), peerKey{}, peer{uid: 1000}), http.MethodPost, "/v1/reload", nil)
	for range 100 {
		if _, err := s.permit(r, route{needs: Act}); err == nil {
			t.Fatal("it is permitted")
		}
	}
	if n := strings.Count(logs.String(), "not-permitted"); n != refusalBurst {
		t.Errorf("%d lines for a hundred refused requests, want %d", n, refusalBurst)
	}
}

// A group that may read the agent is not told what commands have printed, and lends nothing.
func TestCase66GroupReadsNoOutput(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root can connect as another user")
	}
	const gid, nobody = 54321, 65534
	path := filepath.Join(filepath.Dir(socketPath(t)), ownDir, "agent.sock")
	l, err := Listen(path, Access{GID: gid, May: []Right{Read}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755); err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, &fakeAgent{})
	if _, err := dialAsMember(nobody, nobody, path); !errors.Is(err, os.ErrPermission) {
		t.Errorf("one who is not of the group: %v", err)
	}
	for target, want := range map[string]int{"/v1/status": 200, "/v1/hooks": 200, "/v1/hooks/runs": 200, "/v1/hooks/runs?seq=1": 403,
		"/v1/jobs/output?run=a": 403, "/v1/lease": 403, "/v1/lease?follow": 403} {
		c, err := dialAsMember(nobody, gid, path)
		if err != nil {
			t.Fatal(err)
		}
		send(t, c, "GET "+target+" HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n")
		if resp, body := answer(t, c); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d: %s", target, resp.StatusCode, want, body)
		}
		c.Close()
	}
}

// serveOn runs a server on a listener until the test ends.
func serveOn(t *testing.T, l net.Listener, b Backend) {
	t.Helper()
	done := make(chan error, 1)
	ctx := t.Context()
	go func() { done <- serve(ctx, l, b, nil, defaultLimits) }()
	t.Cleanup(func() { <-done })
}

// dialAsMember connects as a user whose only supplementary group is that.
func dialAsMember(uid, gid int, path string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	dialled := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		groups, keep := [1]uint32{uint32(gid)}, ^uintptr(0)
		if err := setThreadGroups(groups[:]); err != nil {
			dialled <- result{err: err}
			return
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep); errno != 0 {
			dialled <- result{err: errno}
			return
		}
		c, err := net.Dial("unix", path)
		dialled <- result{c, err}
	}()
	r := <-dialled
	return r.conn, r.err
}

// A directory that is another's, or that others may write to, is none to listen in.
func TestCase64ForeignSocketDirectory(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"of another": func(dir string) error { return os.Chown(dir, 12345, 0) },
		"a group's":  func(dir string) error { return errors.Join(os.Chown(dir, -1, 12345), os.Chmod(dir, 0o770)) },
		"of all":     func(dir string) error { return os.Chmod(dir, 0o777) },
	} {
		path := socketPath(t)
		if err := change(filepath.Dir(path)); errors.Is(err, os.ErrPermission) {
			continue // only root gives directories away
		} else if err != nil {
			t.Fatal(err)
		}
		if l, err := Listen(path, Access{}); err == nil || !strings.Contains(err.Error(), "pose as the agent") {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				l.Close()
			}
		}
	}
}

// A client tells nothing to a process that only happens to listen.
func TestCase67ForeignListener(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root can listen as another user")
	}
	for name, tt := range map[string]struct {
		owner int // of the directory
		mode  os.FileMode
		ok    bool
	}{
		"in a directory for all":     {0, 0o777 | os.ModeSticky, false},
		"in its own directory":       {65534, 0o755, true},
		"in its own, open directory": {65534, 0o777, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			if err := errors.Join(os.Chown(filepath.Dir(path), tt.owner, 0), os.Chmod(filepath.Dir(path), tt.mode)); err != nil {
				t.Fatal(err)
			}
			listening := make(chan net.Listener, 1)
			go func() {
				runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
				keep := ^uintptr(0)
				_, _, _ = unix.RawSyscall(unix.SYS_SETRESUID, keep, 65534, keep)
				l, _ := net.Listen("unix", path)
				listening <- l
			}()
			l := <-listening
			if l == nil {
				t.Fatal("the other user cannot listen")
			}
			serveOn(t, l, &fakeAgent{})
			_, err := Dial(path).Status(t.Context())
			if (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "uid 65534 listens there") {
				t.Errorf("%v", err)
			}
		})
	}
}

// What groups a process has is asked of each connection: it may have others by now, and its
// number may be another's.
func TestGroupsAreThoseOfTheConnection(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root can connect with other groups")
	}
	const nobody = 65534
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := errors.Join(os.Chmod(filepath.Dir(path), 0o755), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, gid := range []int{54321, 54322} {
		theirs, err := dialAsMember(nobody, gid, path)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if p := peerOf(ours); p.pid != os.Getpid() || !slices.Contains(p.groups, gid) {
			t.Errorf("a member of %d: pid %d, groups %v", gid, p.pid, p.groups)
		}
		_, _ = theirs.Close(), ours.Close()
	}
}
