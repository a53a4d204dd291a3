package control

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// eventsQuery says which events a client wants.
type eventsQuery struct {
	since  uint64 // only those with a higher Seq
	follow bool   // and later ones as they happen
	form   form
}

// parseEventsQuery reads since=N and follow[=BOOL].
func parseEventsQuery(raw string) (q eventsQuery, err error) {
	err = parseQuery(raw, "expected since=N (a seq, 0 for all) and follow=true or false", map[string]func(string) error{
		"since": func(s string) (err error) {
			q.since, err = strconv.ParseUint(s, 10, 64)
			return err
		},
		"follow": readSwitch(&q.follow),
	})
	return q, err
}

// events streams one event per line. With follow it ends when the client hangs
// up, when the client does not take an event in time, or when the server stops.
func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	q, err := parseEventsQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if wantsEventStream(r) {
		q = s.eventSource(q, r)
	}
	// The end of the body is when net/http begins to watch for a hang-up. A body
	// that is announced and never sent would hold the stream for ever.
	if r.ContentLength != 0 {
		return &APIError{Status: http.StatusBadRequest, Message: "events takes no body"}
	}
	if q.follow {
		if s.followers.Add(1) > s.most(s.limits.followers, r) {
			s.followers.Add(-1)
			return tooManyFollowers(s.limits.followers)
		}
		defer s.followers.Add(-1)
	}
	w.Header().Set("Content-Type", q.form.mediaType())
	if r.Method == http.MethodHead {
		return nil
	}
	if err := s.stream(w, r, q); err != nil {
		s.logger.Info("event stream dropped", "addr", r.RemoteAddr, "err", err)
	}
	return nil
}

func tooManyFollowers(most int) error {
	return &APIError{
		Status:  http.StatusServiceUnavailable,
		Message: fmt.Sprintf("%d clients follow the events already", most),
		Hint:    "end one of them, or ask without follow",
	}
}

// stream writes events until there are no more, or with follow until the
// request ends. What happened up to that moment is still written, so that a
// follower sees the agent's last event.
func (s *server) stream(w http.ResponseWriter, r *http.Request, q eventsQuery) error {
	conn := http.NewResponseController(w)
	beat := time.NewTicker(s.limits.beat)
	defer beat.Stop()
	for ending, text := !q.follow, q.form.begin(); ; text = nil {
		events, newer := s.reading.Events(q.since)
		for _, e := range events {
			body, err := s.encode(e)
			if err != nil {
				return fmt.Errorf("encode event %d: %w", e.Seq, err)
			}
			text = q.form.append(text, e.Seq, body)
			q.since = e.Seq
		}
		if err := s.sendOn(w, conn, text); err != nil { // also without events: the first flush tells a follower that it is heard
			return fmt.Errorf("write events up to %d: %w", q.since, err)
		}
		if ending {
			return nil
		}
		for waiting := true; waiting; {
			waiting = false
			select {
			case <-newer:
			case <-r.Context().Done():
				ending = true
			case <-beat.C:
				if err := s.sendOn(w, conn, q.form.beat()); err != nil {
					return fmt.Errorf("follower gone: %w", err)
				}
				waiting = true
			}
		}
	}
}

// sendOn writes what there is, if anything, and has it on its way before the deadline.
func (s *server) sendOn(w http.ResponseWriter, conn *http.ResponseController, text []byte) error {
	conn.SetWriteDeadline(time.Now().Add(s.limits.write))
	if _, err := w.Write(text); err != nil {
		return err
	}
	return conn.Flush()
}
