package control

import (
	"errors"
	"net/http"
)

// Codes tell refusals apart that share an HTTP status.
const (
	codeNoLeader    = "no_leader"
	codeUnsupported = "unsupported"
	codeInvalid     = "invalid"
)

var (
	// ErrNoLeader is returned by Client.Leader when the agent knows no leader.
	ErrNoLeader = errors.New("no leader is known")
	// ErrUnsupported is returned for a command that the agent does not have.
	ErrUnsupported = errors.New("command is not supported by this agent")
	// ErrInvalid is returned for a reload of a configuration that has mistakes.
	// Nothing was changed.
	ErrInvalid = errors.New("configuration is invalid")
	// ErrUnreachable is returned by every method of Client when no agent
	// answers on the socket, or when it stopped in mid-sentence.
	ErrUnreachable = errors.New("agent not reachable")
)

// APIError is a refusal by an agent that does answer. A Backend may return one
// to choose the status and the hint.
type APIError struct {
	Status  int    `json:"-"`     // HTTP status, 400 to 599
	Message string `json:"error"` // what and where
	Hint    string `json:"hint,omitempty"`
	Code    string `json:"code,omitempty"`
}

// Error gives message and hint on one line.
func (e *APIError) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + ": " + e.Hint
}

// Unwrap lets errors.Is find the sentinel behind the code.
func (e *APIError) Unwrap() error {
	switch e.Code {
	case codeNoLeader:
		return ErrNoLeader
	case codeUnsupported:
		return ErrUnsupported
	case codeInvalid:
		return ErrInvalid
	}
	return nil
}

// asAPIError finds the status that goes with err.
func asAPIError(err error) *APIError {
	var refusal *APIError
	switch {
	case errors.As(err, &refusal) && refusal.Status >= 400 && refusal.Status <= 599:
		return refusal
	case errors.Is(err, ErrNoLeader):
		return &APIError{
			Status:  http.StatusNotFound,
			Message: ErrNoLeader.Error(),
			Hint:    "wait for an election, or see status",
			Code:    codeNoLeader,
		}
	case errors.Is(err, ErrUnsupported):
		return &APIError{
			Status:  http.StatusNotImplemented,
			Message: ErrUnsupported.Error(),
			Hint:    "see the agent's version in status",
			Code:    codeUnsupported,
		}
	}
	return &APIError{Status: http.StatusInternalServerError, Message: err.Error()}
}
