package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Lease answers /v1/lease: whether this host may act as the leader, and until
// when.
type Lease struct {
	// Leader says that something may be begun on the strength of this lease, if
	// Ready says so too: this host leads, and Until has not passed.
	Leader bool `json:"leader"`
	// Ready says that the become-leader hook of this epoch has succeeded.
	Ready bool   `json:"ready"`
	Epoch Epoch  `json:"epoch"`
	Cause string `json:"cause"` // of the last change of role
	// Until is the end of the lease, a reading of CLOCK_BOOTTIME in nanoseconds;
	// 0: there is none. Each renewal moves it. Whatever runs on the strength of
	// the lease must be gone by then, also when Leader is false: the leadership
	// is being ended.
	Until int64 `json:"until_boottime_ns"`
	// RemainMS is what was left of it when this was written, for people.
	RemainMS int64 `json:"remain_ms"`
	// Clock is the agent's reading of CLOCK_BOOTTIME as this was written. A process of another
	// time namespace has another clock, and Until tells it nothing. 0: of an older agent.
	Clock int64 `json:"clock_boottime_ns"`
}

// LeaseBackend is the part of a Backend that lends its lease.
type LeaseBackend interface {
	// Lease is true at the moment of the call, as Status is. What it tells is lent: a
	// planned end of the leadership waits until that has passed. The channel is
	// closed when there is something else to say: at once for a loss, and for
	// renewals as often as a holder of the lease needs to hear of them.
	Lease() (Lease, <-chan struct{})
	// Enter tells the agent that somebody runs something on the strength of the
	// lease, and may need up to grace to end it: where the agent hands over, it
	// runs the lose-leadership hook when all have left, or when their time is up.
	// lease is what this holder may be told: later ends than others as long as it is waited
	// for. leave says whether what it ran has ended, as far as is known; it may be called
	// more than once.
	Enter(grace time.Duration) (lease func() (Lease, <-chan struct{}), leave func(hasEnded bool))
}

// longestGrace bounds for how long a client can hold up a hand-over.
const longestGrace = 24 * time.Hour

// leaseQuery says how a client wants the lease.
type leaseQuery struct {
	follow bool
	enters bool
	grace  time.Duration
}

func parseLeaseQuery(raw string) (q leaseQuery, err error) {
	const expected = "expected follow=true or false, and with follow grace=TIME, such as 5s, at most 24h"
	err = parseQuery(raw, expected, map[string]func(string) error{
		"follow": readSwitch(&q.follow),
		"grace": func(s string) (err error) {
			q.enters = true
			if q.grace, err = time.ParseDuration(s); err == nil && (q.grace < 0 || q.grace > longestGrace) {
				err = errors.New("out of range")
			}
			return err
		},
	})
	if err == nil && q.enters && !q.follow {
		err = &APIError{Status: http.StatusBadRequest, Message: "grace is given without follow", Hint: expected}
	}
	return q, err
}

// lease gives the lease, or with follow one line for each change and renewal,
// until the client hangs up, does not take a line in time, or the server stops.
func (s *server) lease(w http.ResponseWriter, r *http.Request) error {
	q, err := parseLeaseQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if r.ContentLength != 0 { // as with events: it would keep a hang-up from being seen
		return &APIError{Status: http.StatusBadRequest, Message: "lease takes no body"}
	}
	if !q.follow {
		lease, _ := s.backend.Lease()
		s.write(w, http.StatusOK, lease)
		return nil
	}
	if s.holders.Add(1) > s.most(s.limits.holders, r) {
		s.holders.Add(-1)
		return &APIError{Status: http.StatusServiceUnavailable, Hint: "end one of them",
			Message: fmt.Sprintf("%d clients follow the lease already", s.limits.holders)}
	}
	defer s.holders.Add(-1)
	w.Header().Set("Content-Type", "application/x-ndjson")
	if r.Method == http.MethodHead {
		return nil
	}
	lease, leave := s.backend.Lease, func(bool) {}
	if q.enters {
		lease, leave = s.backend.Enter(q.grace)
	}
	hasEnded := false // a client that could not be told has not hung up, and may still act
	defer func() { leave(hasEnded) }()
	err = s.streamLease(w, r, lease)
	if hasEnded = err == nil; !hasEnded {
		s.logger.Info("lease stream dropped", "addr", r.RemoteAddr, "err", err)
	}
	return nil
}

func (s *server) streamLease(w http.ResponseWriter, r *http.Request, read func() (Lease, <-chan struct{})) error {
	lines, conn := json.NewEncoder(w), http.NewResponseController(w)
	for {
		lease, newer := read()
		conn.SetWriteDeadline(time.Now().Add(s.limits.write))
		if err := lines.Encode(lease); err != nil {
			return fmt.Errorf("write lease: %w", err)
		}
		if err := conn.Flush(); err != nil {
			return fmt.Errorf("flush lease: %w", err)
		}
		select {
		case <-newer:
		case <-r.Context().Done():
			return nil
		}
	}
}
