package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// HookSetting is the hook of one event: what is configured, whether it could run,
// and how it ended last. Shell and Argv are both empty if there is none.
type HookSetting struct {
	Event   string   `json:"event"`
	Shell   string   `json:"shell"`   // run by /bin/sh -c
	Argv    []string `json:"argv"`    // run without a shell
	Problem string   `json:"problem"` // why it would be refused now; empty: it would run
	Running bool     `json:"running"` // it runs, or waits for its turn
	Last    *HookRun `json:"last"`    // null if no run of it is kept
}

// HookRun is one run of a hook.
type HookRun struct {
	Seq     uint64    `json:"seq"` // BULLY_SEQ; 0 if nothing was started
	Event   string    `json:"event"`
	Cause   string    `json:"cause"`
	Epoch   uint64    `json:"epoch"` // counter
	Attempt int       `json:"attempt"`
	Started time.Time `json:"started,omitzero"`
	TookMS  float64   `json:"took_ms"`
	Exit    int       `json:"exit"` // exit status; -1 when a signal ended it, or nothing was started
	OK      bool      `json:"ok"`
	Error   string    `json:"error"`            // empty if it succeeded
	Printed int64     `json:"printed"`          // bytes, of which the last 64 KiB are kept
	Output  string    `json:"output,omitempty"` // in the answer for a single run only
}

// HookBackend is the part of a Backend that knows of hooks. All but RunHook wait for
// nothing but the disk.
type HookBackend interface {
	// Hooks gives one entry for each event, configured or not.
	Hooks() ([]HookSetting, error)
	// HookRuns lists the last runs, oldest first, without their output.
	HookRuns() ([]HookRun, error)
	// HookRun gives one run with its output.
	HookRun(seq uint64) (HookRun, error)
	// RunHook runs the hook of the event again and returns when that has ended. It
	// is refused where it would break the order of become and lose.
	RunHook(ctx context.Context, event string) (HookRun, error)
}

func (s *server) hookRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/hooks", Read, s.look(func() (any, error) {
			hooks, err := s.backend.Hooks()
			return list(hooks), err
		})},
		{http.MethodGet, "/v1/hooks/runs", Read, s.hookRuns},
		{http.MethodPost, "/v1/hooks/run", Act, s.runHook},
	}
}

// hookRuns lists the runs, or with seq=N shows one.
func (s *server) hookRuns(w http.ResponseWriter, r *http.Request) error {
	var seq uint64
	err := parseQuery(r.URL.RawQuery, "expected nothing, or seq=N for the output of one run", map[string]func(string) error{
		"seq": func(text string) (err error) {
			if seq, err = strconv.ParseUint(text, 10, 64); err == nil && seq == 0 {
				err = strconv.ErrRange
			}
			return err
		},
	})
	if err != nil {
		return err
	}
	if seq > 0 { // what a command prints may be a secret
		if _, err := s.permit(r, route{path: "/v1/hooks/runs?seq", needs: Act}); err != nil {
			return err
		}
	}
	return s.look(func() (any, error) {
		if seq > 0 {
			return s.backend.HookRun(seq)
		}
		runs, err := s.backend.HookRuns()
		return list(runs), err
	})(w, r)
}

// runHook takes {"event":"become-leader"} and answers when the hook has ended.
func (s *server) runHook(w http.ResponseWriter, r *http.Request) error {
	asker := peerIn(r)
	args, err := parseArgs(r.Body)
	if err != nil {
		return err
	}
	event := args["event"]
	if event == "" || len(args) != 1 {
		return &APIError{Status: http.StatusBadRequest, Message: "the event is missing", Hint: `expected {"event":"become-leader"} or another one`}
	}
	s.logger.Info("hooks run requested", "addr", asker.String(), "event", event)
	run, err := s.backend.RunHook(r.Context(), event)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, run)
	return nil
}

// Hooks asks for what is configured for each event.
func (c *Client) Hooks(ctx context.Context) ([]HookSetting, error) {
	return ask[[]HookSetting](ctx, c, "/v1/hooks")
}

// HookRuns asks for the last runs of hooks, oldest first, without their output.
func (c *Client) HookRuns(ctx context.Context) ([]HookRun, error) {
	return ask[[]HookRun](ctx, c, "/v1/hooks/runs")
}

// HookRun asks for one run with the end of what it printed.
func (c *Client) HookRun(ctx context.Context, seq uint64) (HookRun, error) {
	return ask[HookRun](ctx, c, "/v1/hooks/runs?"+url.Values{"seq": {strconv.FormatUint(seq, 10)}}.Encode())
}

// RunHook has the hook of the event run again and waits for its end, which may take
// as long as ctx lets it.
func (c *Client) RunHook(ctx context.Context, event string) (run HookRun, err error) {
	body, _ := json.Marshal(map[string]string{"event": event}) // strings always have a JSON form
	resp, err := c.call(ctx, http.MethodPost, "/v1/hooks/run", body)
	if err != nil {
		return run, c.explain(ctx, err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&run); err != nil {
		return run, c.explain(ctx, fmt.Errorf("decode answer to /v1/hooks/run: %w", err))
	}
	return run, nil
}
