package control

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// form is how events are written: a line of JSON each, or as server-sent events (WHATWG
// HTML, 9.2), which browsers read and resume by themselves.
type form struct {
	isSource bool
	life     uint32 // incarnation of the agent, which begins each id: seqs begin anew with each
}

// wantsEventStream reports whether the client is an EventSource, or reads what one does.
func wantsEventStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// eventSource is the query of one, which always follows. Its first request may say since; when it
// comes back it says where it was. What it saw of an agent's former life is not counted: all
// that is kept of this one is new to it.
func (s *server) eventSource(q eventsQuery, r *http.Request) eventsQuery {
	q.follow, q.form = true, form{isSource: true, life: s.reading.Status().Self.Incarnation}
	life, seq, _ := strings.Cut(r.Header.Get("Last-Event-ID"), ".")
	if life == "" {
		return q
	}
	q.since = 0
	if at, err := strconv.ParseUint(seq, 10, 64); err == nil && life == strconv.FormatUint(uint64(q.form.life), 10) {
		q.since = at
	}
	return q
}

func (f form) mediaType() string {
	if f.isSource {
		return "text/event-stream"
	}
	return "application/x-ndjson"
}

// begin is what a stream starts with: how long, in milliseconds, a source waits before it comes back.
func (f form) begin() []byte {
	if f.isSource {
		return []byte("retry: 2000\n\n")
	}
	return nil
}

// append adds an event, which has no line break: it is JSON.
func (f form) append(to []byte, seq uint64, body []byte) []byte {
	if f.isSource {
		return fmt.Appendf(to, "id: %d.%d\ndata: %s\n\n", f.life, seq, bytes.TrimSpace(body))
	}
	return append(append(to, body...), '\n')
}

// beat keeps what is between from giving the connection up, and finds a client that has gone.
// Whoever reads lines of JSON gets none: an empty line is no JSON.
func (f form) beat() []byte {
	if f.isSource {
		return []byte(": here\n\n")
	}
	return nil
}
