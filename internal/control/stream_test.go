package control

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// follower reads an event stream line by line.
type follower struct {
	conn  net.Conn
	lines *bufio.Reader
}

func follow(t *testing.T, path string, since uint64) *follower {
	t.Helper()
	c := connect(t, path)
	send(t, c, fmt.Sprintf("GET /v1/events?follow&since=%d HTTP/1.1\r\nHost: agent\r\n\r\n", since))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	// The body stays open: to close it would wait for the stream's end.
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%s, %v", resp.Status, resp.Header)
	}
	return &follower{conn: c, lines: bufio.NewReader(resp.Body)}
}

// sees checks that the next lines are the events with these numbers.
func (f *follower) sees(t *testing.T, seqs ...uint64) {
	t.Helper()
	for _, want := range seqs {
		line, err := f.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("event %d: %v", want, err)
		}
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if e.Seq != want {
			t.Fatalf("got event %d, want %d", e.Seq, want)
		}
	}
}

func (f *follower) seesTheEnd(t *testing.T) {
	t.Helper()
	if line, err := f.lines.ReadString('\n'); err != io.EOF {
		t.Fatalf("got %q, %v, want the clean end of the stream", line, err)
	}
}

func agentWith(events int) *fakeAgent {
	b := &fakeAgent{}
	for i := range events {
		b.Append(Event{Time: noon, Type: "member", Text: fmt.Sprint("event ", i+1)})
	}
	return b
}

func TestEventsSince(t *testing.T) {
	srv := serveAgent(t, agentWith(3), nil)
	for query, want := range map[string]int{
		"": 3, "?since=0": 3, "?since=2": 1, "?since=3": 0, "?since=18446744073709551615": 0, "?follow=false": 3, "?follow=0&since=1": 2,
	} {
		resp, body := request(t, srv.path, http.MethodGet, "/v1/events"+query, "")
		if got := strings.Count(body, "\n"); resp.StatusCode != http.StatusOK || got != want {
			t.Errorf("%q: %d, %d lines, want %d: %s", query, resp.StatusCode, got, want, body)
		}
	}
}

func TestFollowerSeesWhatComesInOrderAndTheEnd(t *testing.T) {
	b := agentWith(2)
	srv := serveAgent(t, b, nil)
	f := follow(t, srv.path, 1)
	f.sees(t, 2)
	b.Append(Event{Type: "transition"})
	f.sees(t, 3)
	for range 50 {
		b.Append(Event{Type: "member"})
	}
	for seq := range uint64(50) {
		f.sees(t, 4+seq)
	}
	b.Append(Event{Type: "stop"})
	srv.stop()
	f.sees(t, 54)
	f.seesTheEnd(t)
}

// sleepyAgent never wakes a follower, as when its last event and the end of the
// server come at the same moment.
type sleepyAgent struct{ *fakeAgent }

func (s sleepyAgent) Events(since uint64) ([]Event, <-chan struct{}) {
	events, _ := s.fakeAgent.Events(since)
	return events, nil
}

func TestFollowerSeesTheAgentsLastEvent(t *testing.T) {
	b := agentWith(1)
	srv := serveAgent(t, sleepyAgent{b}, nil)
	f := follow(t, srv.path, 0)
	f.sees(t, 1)
	b.Append(Event{Type: "stop"})
	srv.stop()
	f.sees(t, 2)
	f.seesTheEnd(t)
}

func TestFollowerIsHeardBeforeTheFirstEvent(t *testing.T) {
	b := agentWith(0)
	f := follow(t, serveAgent(t, b, nil).path, 0) // returns once the head has come
	b.Append(Event{Type: "start"})
	f.sees(t, 1)
}

func TestFollowerOutlivesTheRequestTimeout(t *testing.T) {
	const request = 20 * time.Millisecond
	b := agentWith(0)
	srv := serveAgent(t, b, func(l *limits) { l.header, l.request, l.write = request, request, bound })
	f := follow(t, srv.path, 0)
	idle := connect(t, srv.path)
	if !closed(t, idle) { // when this one is cut off, the follower's time has ended too
		t.Fatal("an idle connection stays open")
	}
	b.Append(Event{Type: "start"})
	f.sees(t, 1)
}

func TestSlowReaderIsDroppedAndHoldsNobodyUp(t *testing.T) {
	b := agentWith(0)
	srv := serveAgent(t, b, func(l *limits) { l.write = 50 * time.Millisecond })
	follow(t, srv.path, 0) // and never reads on
	quick := follow(t, srv.path, 0)
	for i := range uint64(RingSize) {
		b.Append(Event{Type: "member", Text: strings.Repeat("x", 1024)})
		quick.sees(t, i+1)
	}
	srv.logs.waitFor(t, "event stream dropped")
}

func TestOneFollowerTooManyIsRefused(t *testing.T) {
	b := agentWith(1)
	srv := serveAgent(t, b, func(l *limits) { l.followers = 1 })
	first := follow(t, srv.path, 0)
	resp, body := request(t, srv.path, http.MethodGet, "/v1/events?follow=true", "")
	checkRefusal(t, resp, body, http.StatusServiceUnavailable, "")
	if resp, _ := request(t, srv.path, http.MethodGet, "/v1/events", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("without follow: %d", resp.StatusCode)
	}
	first.conn.Close()
	client := Dial(srv.path)
	for deadline := time.Now().Add(bound); ; {
		ctx, cancel := context.WithCancel(t.Context())
		err := client.Events(ctx, 0, true, func(Event) error { cancel(); return nil })
		cancel()
		if ctx.Err() != nil && !isRefusal(err) {
			return // the place of the one that hung up is free
		}
		if time.Now().After(deadline) {
			t.Fatalf("a follower that hung up keeps its place: %v", err)
		}
	}
}

func TestBadEventQueriesAreRefused(t *testing.T) {
	srv := serveAgent(t, agentWith(1), nil)
	for _, query := range []string{
		"since=-1", "since=", "since=1.5", "since=0x10", "since=18446744073709551616", "since=yesterday", "since=1&since=2",
		"follow=maybe", "follow=2", "follow&follow", "foo=1", "Since=1", "since=1;follow", "%zz", "since=%00", "=",
	} {
		c := connect(t, srv.path)
		send(t, c, "GET /v1/events?"+query+" HTTP/1.1\r\nHost: agent\r\n\r\n")
		resp, body := answer(t, c)
		checkRefusal(t, resp, body, http.StatusBadRequest, "")
	}
}
