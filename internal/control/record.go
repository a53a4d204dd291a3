package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// RecordBackend is the part of a Backend that has a flight recorder.
type RecordBackend interface {
	// Record writes the record, a piece at a time, or returns an *APIError before the
	// first.
	Record(ctx context.Context, to io.Writer) error
}

// recordRoute needs the right to act: a record has the numbers of this life's frames, and
// the state of its source of chance. Without keys that helps whoever would write frames in
// this host's name.
func (s *server) recordRoute() route {
	return route{http.MethodGet, "/v1/record", Act, s.record}
}

func (s *server) record(w http.ResponseWriter, r *http.Request) error {
	out := &patientWriter{w: w, patience: s.limits.write}
	err := s.backend.Record(r.Context(), out)
	if err != nil && out.isBegun {
		s.logger.Debug("record broke off", "err", err)
		panic(http.ErrAbortHandler) // so that the client sees an end that is none
	}
	return err
}

// patientWriter gives the client so long for each piece.
type patientWriter struct {
	w        http.ResponseWriter
	patience time.Duration
	isBegun  bool
}

func (p *patientWriter) Write(b []byte) (int, error) {
	if !p.isBegun {
		p.isBegun = true
		p.w.Header().Set("Content-Type", "application/octet-stream")
	}
	_ = http.NewResponseController(p.w).SetWriteDeadline(time.Now().Add(p.patience)) // a recorder has none
	return p.w.Write(b)
}

// Record writes the agent's record to a writer.
func (c *Client) Record(ctx context.Context, to io.Writer) error {
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	hurry := time.AfterFunc(c.patience, cancel)
	resp, err := c.call(call, http.MethodGet, "/v1/record", nil)
	hurry.Stop()
	if err != nil {
		return c.explain(ctx, err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(to, resp.Body)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return c.explain(ctx, fmt.Errorf("the answer broke off: %w", err))
	case err != nil:
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}
