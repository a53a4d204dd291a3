package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// commands are the names that Backend.Command may be called with.
var commands = []string{"step-down", "handover", "stand", "forget", "leave", "maintenance"}

// maxBody is what a request may carry.
const maxBody = 64 << 10

func (s *server) reload(ctx context.Context, args map[string]string) error {
	drops := args["drop"] == "true"
	if len(args) > 1 || len(args) == 1 && !drops {
		return &APIError{Status: http.StatusBadRequest, Message: "reload takes one argument: drop", Hint: `send no body, or {"drop": "true"}`}
	}
	return s.backend.Reload(ctx, drops)
}

// change makes an endpoint of a command.
func (s *server) change(name string, run func(context.Context, map[string]string) error) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		asker := peerIn(r)
		args, err := parseArgs(r.Body)
		if err != nil {
			return err
		}
		s.logger.Info(name+" requested", "addr", asker.String())
		if err := run(r.Context(), args); err != nil {
			s.logger.Info(name+" failed", "addr", asker.String(), "err", err)
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

// peerIn is who asks, for the log.
func peerIn(r *http.Request) peer {
	asker, known := r.Context().Value(peerKey{}).(peer)
	if !known {
		asker.uid = -1
	}
	return asker
}

// parseArgs reads the body of a command: nothing, or one JSON object of strings.
func parseArgs(body io.Reader) (map[string]string, error) {
	d := json.NewDecoder(body)
	var args map[string]string
	err := d.Decode(&args)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return args, nil
		}
	}
	return nil, badBody(err)
}

// badBody tells a body that came badly from one that says nonsense. A nil err
// is a second value after the first.
func badBody(err error) error {
	if tooBig := (*http.MaxBytesError)(nil); errors.As(err, &tooBig) {
		return &APIError{
			Status:  http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("body is longer than %d bytes", tooBig.Limit),
		}
	}
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return &APIError{Status: http.StatusRequestTimeout, Message: "body did not arrive in time"}
	}
	return &APIError{
		Status:  http.StatusBadRequest,
		Message: "body is not one JSON object of strings",
		Hint:    `expected nothing, or an object such as {"for":"30s"}`,
	}
}
