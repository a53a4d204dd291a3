package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
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

func (f *fakeLease) Enter(grace time.Duration) func() {
	if f.holders == nil {
		return func() {}
	}
	f.holders <- grace
	return func() { f.holders <- -grace }
}

func leading() Lease {
	return Lease{Leader: true, Ready: true, Epoch: Epoch{7, alphaID}, Cause: "claim-won", Until: 61_000_000_123, RemainMS: 387}
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
		ended <- Dial(srv.path).HoldLease(context.Background(), 0, nil, func(l Lease) error { seen <- l; return nil })
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
	if err := receive(t, ended, "end of HoldLease"); err != nil {
		t.Errorf("a clean stop gives %v", err)
	}
}

// The agent knows a holder from before its first line until it hangs up,
// politely or not.
func TestHolderComesAndGoes(t *testing.T) {
	b := &fakeAgent{fakeLease: fakeLease{holders: make(chan time.Duration, 10)}}
	srv := serveAgent(t, b, nil)
	enough := errors.New("enough")
	err := Dial(srv.path).HoldLease(t.Context(), 3*time.Second, nil, func(Lease) error {
		if got := receive(t, b.holders, "holder"); got != 3*time.Second {
			t.Errorf("grace %v", got)
		}
		return enough
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
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
	err = Dial(l.Addr().String()).HoldLease(t.Context(), 0, nil, func(Lease) error { return io.ErrUnexpectedEOF })
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
		err := Dial(srv.path).HoldLease(t.Context(), 0, nil, func(Lease) error { return io.ErrUnexpectedEOF })
		if errors.Is(err, io.ErrUnexpectedEOF) {
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
	if err := s.lease(nil, r); !errors.As(err, &refusal) || refusal.Status != http.StatusForbidden {
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
