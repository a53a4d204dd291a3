package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
)

// fakeLease is a lease that a test sets, and its holders.
type fakeLease struct {
	mu      sync.Mutex
	lease   Lease
	newer   chan struct{}
	holders chan time.Duration // the grace of each that enters, its negative when it leaves
}

func (f *fakeLease) Lease() (Lease, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.newer == nil {
		f.newer = make(chan struct{})
	}
	return f.lease, f.newer
}

func (f *fakeLease) set(l Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lease = l
	if f.newer != nil {
		close(f.newer)
		f.newer = nil
	}
}

func (f *fakeLease) Enter(grace time.Duration) (lease func() (Lease, <-chan struct{}), leave func(bool)) {
	if f.holders == nil {
		return f.Lease, func(bool) {}
	}
	f.holders <- grace
	return f.Lease, func(bool) { f.holders <- -grace }
}

func leading() Lease {
	return Lease{Leader: true, Ready: true, Epoch: Epoch{7, alphaID}, Cause: "claim-won", Until: 61_000_000_123, RemainMS: 387, Clock: 60_613_000_123}
}

func TestLeaseIsAnswered(t *testing.T) {
	b := &fakeAgent{}
	b.set(leading())
	srv := serveAgent(t, b, nil)
	got, err := Dial(srv.path).Lease(t.Context())
	if diff := cmp.Diff(leading(), got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, target := range []string{"/v1/lease", "/v1/lease?follow", "/v1/lease?follow&grace=1s"} {
		if resp, _ := request(t, srv.path, http.MethodHead, target, ""); resp.StatusCode != http.StatusOK {
			t.Errorf("HEAD %s: %d", target, resp.StatusCode)
		}
	}
}

// A holder hears of each change as soon as it is made, and nothing twice.
func TestHolderHearsEachChange(t *testing.T) {
	b := &fakeAgent{}
	srv := serveAgent(t, b, nil)
	seen, ended := make(chan Lease), make(chan error, 1)
	go func() {
		ended <- follows(t, srv.path, func(l Lease) { seen <- l })
	}()
	lease := Lease{}
	for _, change := range []func(){
		func() {},
		func() { lease = leading(); lease.Ready = false },
		func() { lease.Ready = true },
		func() { lease.Until += 50_000_000 },
		func() { lease.Leader = false },
	} {
		change()
		if lease != (Lease{}) {
			b.set(lease)
		}
		if got := receive(t, seen, "lease"); got != lease {
			t.Errorf("got %+v, want %+v", got, lease)
		}
	}
	srv.stop()
	if err := receive(t, ended, "end of the tenure"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a clean stop gives %v", err)
	}
}

// follows holds the lease for as long as there is an agent.
func follows(t *testing.T, path string, fn func(Lease)) error {
	tenure, err := Dial(path).HoldLease(t.Context(), 0, AnswerPatience)
	if err != nil {
		return err
	}
	defer tenure.Close()
	for {
		l, err := tenure.Next()
		if err != nil {
			return err
		}
		fn(l)
	}
}

// Whoever is handed a tenure reads on where the other has stopped, in the middle of a
// line, too; the agent's holder stays the same one, and leaves when either shuts the line
// down.
func TestTenureIsPassedOn(t *testing.T) {
	b := &fakeAgent{fakeLease: fakeLease{holders: make(chan time.Duration, 10)}}
	srv := serveAgent(t, b, nil)
	tenure, err := Dial(srv.path).HoldLease(t.Context(), 3*time.Second, AnswerPatience)
	if err != nil {
		t.Fatal(err)
	}
	defer tenure.Close()
	if _, err := tenure.Next(); err != nil {
		t.Fatal(err)
	}
	receive(t, b.holders, "holder")
	tenure.heard = []byte(`{"cause":`) // it has read so much of a line
	tenure.lines = bufio.NewReader(io.MultiReader(strings.NewReader(`"split"`), tenure.conn))
	_, _ = tenure.lines.Peek(1)
	tenure.Interrupt()
	if _, err := tenure.Next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("interrupted: %v", err)
	}
	file, heard, err := tenure.PassOn()
	if err != nil || string(heard) != `{"cause":"split"` {
		t.Fatalf("passed on after %q: %v", heard, err)
	}
	conn, err := net.FileConn(file)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b.set(leading())
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if got, bad := ReadLease(line); err != nil || bad != nil || got != leading() {
		t.Errorf("it reads %q: %v", line, err)
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, b.holders, "departure"); got != -3*time.Second {
		t.Errorf("departure of %v", got)
	}
}

// The agent knows a holder from before its first line until it hangs up,
// politely or not.
func TestHolderComesAndGoes(t *testing.T) {
	b := &fakeAgent{fakeLease: fakeLease{holders: make(chan time.Duration, 10)}}
	srv := serveAgent(t, b, nil)
	tenure, err := Dial(srv.path).HoldLease(t.Context(), 3*time.Second, AnswerPatience)
	if err != nil {
		t.Fatal(err)
	}
	if got := receive(t, b.holders, "holder"); got != 3*time.Second {
		t.Errorf("grace %v", got)
	}
	tenure.Close()
	if got := receive(t, b.holders, "departure"); got != -3*time.Second {
		t.Errorf("departure of %v", got)
	}

	killed := hold(t, srv.path, "follow&grace=4s")
	receive(t, b.holders, "holder")
	killed.conn.Close() // as the kernel does for a dead process
	receive(t, b.holders, "departure")

	watcher := hold(t, srv.path, "follow")
	watcher.conn.Close()
	hold(t, srv.path, "follow&grace=5s")
	if got := receive(t, b.holders, "holder"); got != 5*time.Second {
		t.Errorf("who only looks became a holder: %v", got)
	}
	srv.stop()
	if got := receive(t, b.holders, "departure"); got != -5*time.Second {
		t.Errorf("departure of %v", got)
	}
}

// hold follows the lease on a bare connection and reads one line.
func hold(t *testing.T, path, query string) *follower {
	t.Helper()
	c := connect(t, path)
	send(t, c, "GET /v1/lease?"+query+" HTTP/1.1\r\nHost: agent\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%s, %v", resp.Status, resp.Header)
	}
	f := &follower{conn: c, lines: bufio.NewReader(resp.Body)}
	line, err := f.lines.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var l Lease
	if err := json.Unmarshal(line, &l); err != nil {
		t.Fatalf("%v: %q", err, line)
	}
	return f
}

// A client of this version and an agent before it: 404 and no shape of ours.
func TestHolderOfAnOlderAgentIsTold(t *testing.T) {
	l, err := net.Listen("unix", socketPath(t))
	if err != nil {
		t.Fatal(err)
	}
	old := &http.Server{Handler: http.NotFoundHandler()}
	go old.Serve(l)
	t.Cleanup(func() { old.Close() })
	_, err = Dial(l.Addr().String()).HoldLease(t.Context(), 0, AnswerPatience)
	if !isRefusal(err) {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestOneHolderTooManyIsRefused(t *testing.T) {
	b := &fakeAgent{fakeLease: fakeLease{holders: make(chan time.Duration, 10)}}
	srv := serveAgent(t, b, func(l *limits) { l.holders = 1 })
	first := hold(t, srv.path, "follow&grace=1s")
	resp, body := request(t, srv.path, http.MethodGet, "/v1/lease?follow", "")
	checkRefusal(t, resp, body, http.StatusServiceUnavailable, "")
	follow(t, srv.path, 0) // events have places of their own
	first.conn.Close()
	receive(t, b.holders, "holder")
	receive(t, b.holders, "departure")
	for deadline := time.Now().Add(bound); ; {
		tenure, err := Dial(srv.path).HoldLease(t.Context(), 0, AnswerPatience)
		if err == nil {
			tenure.Close()
			return // the place of the one that hung up is free
		}
		if time.Now().After(deadline) {
			t.Fatalf("a holder that hung up keeps its place: %v", err)
		}
	}
}

func TestFullOfFollowersAndHoldersAnswersQuestions(t *testing.T) {
	if l := defaultLimits; l.followers+l.holders >= l.conns {
		t.Errorf("%d followers and %d holders take all %d connections", l.followers, l.holders, l.conns)
	}
}

func TestBadLeaseQueriesAreRefused(t *testing.T) {
	srv := serveAgent(t, &fakeAgent{}, nil)
	for _, query := range []string{
		"since=1", "follow=maybe", "follow&grace=", "follow&grace=soon", "follow&grace=-1s", "follow&grace=25h", "grace=1s",
		"follow=false&grace=1s", "follow&follow", "grace=1s&grace=2s&follow", "%zz", "=",
	} {
		c := connect(t, srv.path)
		send(t, c, "GET /v1/lease?"+query+" HTTP/1.1\r\nHost: agent\r\n\r\n")
		resp, body := answer(t, c)
		checkRefusal(t, resp, body, http.StatusBadRequest, "")
	}
	resp, body := request(t, srv.path, http.MethodGet, "/v1/lease?follow", "body")
	checkRefusal(t, resp, body, http.StatusBadRequest, "")
}

// Whoever may only look may not hold up a hand-over.
func TestStrangerIsNoHolder(t *testing.T) {
	s := &server{backend: &fakeAgent{}, limits: defaultLimits, logger: hclog.NewNullLogger()}
	ctx := context.WithValue(t.Context(), peerKey{}, peer{pid: 1, uid: 12345})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/v1/lease?follow&grace=1s", nil)
	if err != nil {
		t.Fatal(err)
	}
	var refusal *APIError
	if err := s.guarded(route{path: "/v1/lease", needs: Lend, answer: s.lease})(nil, r); !errors.As(err, &refusal) || refusal.Status != http.StatusForbidden {
		t.Errorf("got %v, want status %d", err, http.StatusForbidden)
	}
}

// Whatever a client asks for is understood as it stands or refused with 400.
func FuzzLeaseQuery(f *testing.F) {
	for _, seed := range []string{"", "follow", "follow&grace=5s", "grace=5s", "follow=true&grace=-1ns", "follow&grace=1e9h",
		"%zz", "follow=\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseLeaseQuery(raw)
		var refusal *APIError
		switch {
		case err != nil && (!errors.As(err, &refusal) || refusal.Status != 400 || refusal.Hint == ""):
			t.Fatalf("%q: %#v", raw, err)
		case err == nil && (q.grace < 0 || q.grace > longestGrace || q.enters && !q.follow):
			t.Fatalf("%q: %+v", raw, q)
		}
	})
}
