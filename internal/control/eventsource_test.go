package control

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// source is a client as browsers have one.
type source struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
	end   func()
}

// openSource connects; at is the id of the last event that was seen, if any.
func openSource(t *testing.T, url, at string) *source {
	t.Helper()
	ctx, end := context.WithTimeout(t.Context(), bound)
	t.Cleanup(end)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if at != "" {
		req.Header.Set("Last-Event-ID", at)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &source{t: t, resp: resp, lines: bufio.NewScanner(resp.Body), end: end}
}

// next is the id and the data of the next event.
func (s *source) next() (id, data string) {
	s.t.Helper()
	for s.lines.Scan() {
		switch line := s.lines.Text(); {
		case strings.HasPrefix(line, "id: "):
			id = strings.TrimPrefix(line, "id: ")
		case strings.HasPrefix(line, "data: "):
			data = strings.TrimPrefix(line, "data: ")
		case line == "" && id != "":
			return id, data
		}
	}
	s.t.Fatalf("the stream ended: %v", s.lines.Err())
	return "", ""
}

func (s *source) expect(seqs ...int) {
	s.t.Helper()
	for _, seq := range seqs {
		id, data := s.next()
		if want := fmt.Sprintf("4.%d", seq); id != want || !strings.Contains(data, fmt.Sprintf(`"seq":%d,`, seq)) {
			s.t.Fatalf("event %s %s, want %s", id, data, want)
		}
	}
}

func happen(b *fakeAgent, n int) {
	for range n {
		b.Append(Event{Time: noon, Type: "transition", Text: "became leader"})
	}
}

// A source that comes back goes on where it was, unless the agent is another life of itself:
// then it is told all, since the seqs begin anew.
func TestEventSourceResumes(t *testing.T) {
	b := &fakeAgent{status: leadingStatus()} // of incarnation 4
	srv := httptest.NewServer(Public(b, nil))
	t.Cleanup(srv.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	happen(b, 3)
	first := openSource(t, srv.URL, "")
	if got := first.resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	first.expect(1, 2, 3)
	happen(b, 1)
	first.expect(4)
	first.end()
	happen(b, 2)
	openSource(t, srv.URL, "4.4").expect(5, 6)
	for _, odd := range []string{"3.4", "4.x", "x", "4", "4.99999999999999999999999", ".3"} {
		want := []int{1, 2, 3, 4, 5, 6}
		s := openSource(t, srv.URL, odd)
		s.expect(want...)
		s.end()
	}
}

// A stream that nothing happens on shows that it lives, beyond the time for requests.
func TestEventSourceBeats(t *testing.T) {
	lim := defaultLimits
	lim.beat = 10 * time.Millisecond
	s := &server{reading: &fakeAgent{status: leadingStatus()}, limits: lim, isPublic: true}
	srv := httptest.NewServer(s.handler())
	t.Cleanup(srv.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	beats := 0
	for lines := openSource(t, srv.URL, "").lines; beats < 3 && lines.Scan(); {
		if lines.Text() == ": here" {
			beats++
		}
	}
	if beats < 3 {
		t.Errorf("%d beats", beats)
	}
}
