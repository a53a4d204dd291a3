package control

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeHooks has two runs of hooks, and runs those that a test asks for.
type fakeHooks struct {
	settings   []HookSetting
	hookRuns   []HookRun
	hookAsked  string // the event that was run last
	hookRefuse error
}

func (f *fakeHooks) Hooks() ([]HookSetting, error) { return f.settings, nil }
func (f *fakeHooks) HookRuns() ([]HookRun, error)  { return f.hookRuns, nil }

func (f *fakeHooks) HookRun(seq uint64) (HookRun, error) {
	for _, run := range f.hookRuns {
		if run.Seq == seq {
			run.Output = "what it printed\n"
			return run, nil
		}
	}
	return HookRun{}, &APIError{Status: http.StatusNotFound, Message: "no such run", Code: "unknown_run"}
}

func (f *fakeHooks) RunHook(_ context.Context, event string) (HookRun, error) {
	f.hookAsked = event
	if f.hookRefuse != nil {
		return HookRun{}, f.hookRefuse
	}
	return HookRun{Seq: 3, Event: event, OK: true}, nil
}

func failedRun() HookRun {
	return HookRun{Seq: 2, Event: "become-leader", Cause: "boot", Epoch: 7, Attempt: 3, Started: noon, TookMS: 12.5, Exit: 75,
		Error: "exit status 75 (try again), attempt 3", Printed: 16}
}

func hookAgent() *fakeAgent {
	last := failedRun()
	return &fakeAgent{fakeHooks: fakeHooks{hookRuns: []HookRun{{Seq: 1, Event: "leader-change", OK: true}, failedRun()},
		settings: []HookSetting{{Event: "become-leader", Shell: "exit 75", Running: true, Last: &last}, {Event: "lose-leadership"}}}}
}

func TestHooksAreAnswered(t *testing.T) {
	b := hookAgent()
	client := Dial(serveAgent(t, b, nil).path)
	settings, err := client.Hooks(t.Context())
	if diff := cmp.Diff(b.settings, settings); err != nil || diff != "" {
		t.Errorf("hooks: %v %s", err, diff)
	}
	runs, err := client.HookRuns(t.Context())
	if diff := cmp.Diff(b.hookRuns, runs); err != nil || diff != "" {
		t.Errorf("runs: %v %s", err, diff)
	}
	run, err := client.HookRun(t.Context(), 2)
	if err != nil || run.Output != "what it printed\n" || run.Exit != 75 {
		t.Errorf("run 2: %+v, %v", run, err)
	}
	refusal := &APIError{}
	if _, err := client.HookRun(t.Context(), 9); !errors.As(err, &refusal) || refusal.Code != "unknown_run" {
		t.Errorf("run 9: %v", err)
	}
}

func TestHookIsRun(t *testing.T) {
	b := hookAgent()
	client := Dial(serveAgent(t, b, nil).path)
	run, err := client.RunHook(t.Context(), "lose-leadership")
	if err != nil || run.Seq != 3 || b.hookAsked != "lose-leadership" {
		t.Errorf("ran %+v, %v; asked for %q", run, err, b.hookAsked)
	}
	b.hookRefuse = &APIError{Status: http.StatusConflict, Message: "this host leads", Code: "refused"}
	refusal := &APIError{}
	if _, err := client.RunHook(t.Context(), "lose-leadership"); !errors.As(err, &refusal) || refusal.Code != "refused" {
		t.Errorf("refused with %v", err)
	}
}

func TestBadHookRequests(t *testing.T) {
	srv := serveAgent(t, hookAgent(), nil)
	for _, tt := range []struct{ method, target, body string }{
		{http.MethodGet, "/v1/hooks/runs?seq=0", ""},
		{http.MethodGet, "/v1/hooks/runs?seq=x", ""},
		{http.MethodGet, "/v1/hooks/runs?tail", ""},
		{http.MethodPost, "/v1/hooks/run", ""},
		{http.MethodPost, "/v1/hooks/run", `{"kind":"become-leader"}`},
		{http.MethodPost, "/v1/hooks/run", `{"event":"become-leader","epoch":"7"}`},
	} {
		resp, body := request(t, srv.path, tt.method, tt.target, tt.body)
		checkRefusal(t, resp, body, http.StatusBadRequest, "")
	}
}

func TestNoHooksAreEmptyLists(t *testing.T) {
	srv := serveAgent(t, &fakeAgent{}, nil)
	for _, target := range []string{"/v1/hooks", "/v1/hooks/runs"} {
		if _, body := request(t, srv.path, http.MethodGet, target, ""); body != "[]\n" {
			t.Errorf("%s: %q", target, body)
		}
	}
}
