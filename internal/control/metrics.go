package control

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// TransitionCounter begins the names of the counters of transitions in Status; the cause
// follows, as the log has it.
const TransitionCounter = "transition_"

// MetricsBackend is the part of a Backend that gives its numbers to Prometheus.
type MetricsBackend interface {
	// Metrics gives them in the format that suits an Accept header; goRuntime: those of Go, too.
	Metrics(accept string, goRuntime bool) (text []byte, contentType string, err error)
}

func (s *server) metrics(w http.ResponseWriter, r *http.Request) error {
	goRuntime := true
	err := parseQuery(r.URL.RawQuery, "expected go=true or false", map[string]func(string) error{
		"go": func(text string) (err error) {
			goRuntime, err = strconv.ParseBool(text)
			return err
		},
	})
	if err != nil {
		return err
	}
	text, contentType, err := s.reading.Metrics(r.Header.Get("Accept"), goRuntime)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", contentType)
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.limits.write))
	w.Write(text)
	return nil
}

// Metrics gives the agent's numbers in Prometheus's text format, without those of Go's runtime.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	call, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	resp, err := c.call(call, http.MethodGet, "/metrics?go=false", nil)
	if err != nil {
		return "", c.explain(ctx, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", c.explain(ctx, fmt.Errorf("read answer to /metrics: %w", err))
	}
	return string(text), nil
}
