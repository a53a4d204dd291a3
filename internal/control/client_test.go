package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func isRefusal(err error) bool {
	var refusal *APIError
	return errors.As(err, &refusal)
}

func TestClientGetsWhatTheAgentSays(t *testing.T) {
	b := &fakeAgent{status: leadingStatus(), members: twoMembers(), history: twoLeaderships()}
	client := Dial(serveAgent(t, b, nil).path)
	ctx := t.Context()
	check := func(what string, want, got any, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", what, err, diff)
		}
	}
	status, err := client.Status(ctx)
	check("status", b.status, status, err)
	leader, err := client.Leader(ctx)
	check("leader", Leader{Node: alpha, Epoch: Epoch{7, alphaID}, Self: true, Ready: true, Since: noon}, leader, err)
	members, err := client.Members(ctx)
	check("members", b.members, members, err)
	ok, err := client.OKToStop(ctx)
	check("ok-to-stop", okToStop(), ok, err)
	history, err := client.History(ctx)
	check("history", b.history, history, err)
}

func TestClientGivesCommands(t *testing.T) {
	var got []string
	b := &fakeAgent{
		reload: func(context.Context) error { got = append(got, "reload"); return nil },
		command: func(_ context.Context, name string, args map[string]string) error {
			got = append(got, fmt.Sprint(name, args))
			return nil
		},
	}
	client := Dial(serveAgent(t, b, nil).path)
	for _, err := range []error{
		client.Reload(t.Context(), false),
		client.StepDown(t.Context(), 0),
		client.StepDown(t.Context(), 90*time.Second),
		client.Stand(t.Context()),
		client.HandOver(t.Context(), "beta"),
		client.Forget(t.Context(), "gamma", false),
		client.Forget(t.Context(), "gamma", true),
		client.Maintain(t.Context(), "kernel upgrade", time.Hour, true),
		client.EndMaintenance(t.Context()),
		client.Command(t.Context(), "leave", nil),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"reload", "step-downmap[]", "step-downmap[for:1m30s]", "standmap[]", "handovermap[to:beta]",
		"forgetmap[member:gamma]", "forgetmap[force:true member:gamma]",
		"maintenancemap[for:1h0m0s force:true reason:kernel upgrade state:on]", "maintenancemap[state:off]", "leavemap[]"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestClientTellsRefusalsApart(t *testing.T) {
	b := &fakeAgent{reload: func(context.Context) error {
		return &APIError{Status: 422, Message: "agent.toml:7:12: unknown key", Hint: "did you mean priority?", Code: codeInvalid}
	}}
	client := Dial(serveAgent(t, b, nil).path)
	_, noLeader := client.Leader(t.Context())
	tests := map[string]struct {
		err    error
		is     error
		status int
		text   string
	}{
		"no leader":       {noLeader, ErrNoLeader, 404, "no leader is known"},
		"not yet":         {client.Command(t.Context(), "handover", nil), ErrUnsupported, 501, "not supported"},
		"unknown command": {client.Command(t.Context(), "a/../../x?y", nil), ErrUnsupported, 404, "there is no"},
		"bad reload":      {client.Reload(t.Context(), false), ErrInvalid, 422, "agent.toml:7:12: unknown key: did you mean priority?"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var refusal *APIError
			if !errors.As(tt.err, &refusal) || refusal.Status != tt.status {
				t.Fatalf("got %#v, want a refusal with status %d", tt.err, tt.status)
			}
			if errors.Is(tt.err, ErrUnreachable) || tt.is != nil && !errors.Is(tt.err, tt.is) {
				t.Errorf("%v is not %v", tt.err, tt.is)
			}
			if !strings.Contains(tt.err.Error(), tt.text) {
				t.Errorf("%q lacks %q", tt.err, tt.text)
			}
		})
	}
}

func TestClientFollowsUntilTheAgentStops(t *testing.T) {
	b := agentWith(2)
	srv := serveAgent(t, b, nil)
	seen := make(chan uint64, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- Dial(srv.path).Events(context.Background(), 1, true, func(e Event) error { seen <- e.Seq; return nil })
	}()
	if seq := receive(t, seen, "event 2"); seq != 2 {
		t.Fatalf("got event %d", seq)
	}
	b.Append(Event{Type: "stop"})
	if seq := receive(t, seen, "event 3"); seq != 3 {
		t.Fatalf("got event %d", seq)
	}
	srv.stop()
	if err := receive(t, ended, "end of Events"); err != nil {
		t.Errorf("a clean stop gives %v", err)
	}
}

func TestClientStopsFollowing(t *testing.T) {
	client := Dial(serveAgent(t, agentWith(3), nil).path)
	t.Run("when its function fails", func(t *testing.T) {
		enough := errors.New("enough")
		calls := 0
		err := client.Events(t.Context(), 0, true, func(Event) error { calls++; return enough })
		if err != enough || calls != 1 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
	t.Run("when its context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := client.Events(ctx, 0, true, func(Event) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("after the newest, without follow", func(t *testing.T) {
		calls := 0
		if err := client.Events(t.Context(), 1, false, func(Event) error { calls++; return nil }); err != nil || calls != 2 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}

// impostor answers every connection to path with text, then closes it; with no
// text it keeps silent.
func impostor(t *testing.T, text string) string {
	t.Helper()
	path := socketPath(t)
	l := mustListen(t, path)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if text == "" {
				t.Cleanup(func() { c.Close() })
				continue
			}
			c.Read(make([]byte, 4096))
			io.WriteString(c, text)
			c.Close()
		}
	}()
	return path
}

func TestClientSaysWhyNobodyAnswers(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	stale := socketPath(t)
	leaveStale(t, stale)
	tests := map[string]struct{ path, says string }{
		"no socket":       {socketPath(t), "no such file or directory: is the agent running? --socket"},
		"stale socket":    {stale, "connection refused: is the agent running? --socket"},
		"no path":         {"", "no home directory to look for its socket in: name it"},
		"path too long":   {"/" + strings.Repeat("x", 200), "a unix socket may have 107"},
		"silent agent":    {impostor(t, ""), "no answer within 20ms: is the agent stopped"},
		"not HTTP":        {impostor(t, "220 mail ready\r\n"), "malformed HTTP"},
		"not JSON":        {impostor(t, ok+"Content-Length: 4\r\n\r\nmail"), "decode answer to /v1/status"},
		"dies in between": {impostor(t, ok+"Content-Length: 400\r\n\r\n{\"version\":"), "unexpected EOF"},
		"dies at once":    {impostor(t, " "), "is the agent running?"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			client := Dial(tt.path)
			if name == "silent agent" {
				client.patience = 20 * time.Millisecond
			}
			_, asked := client.Status(t.Context())
			followed := client.Events(t.Context(), 0, true, func(Event) error { return nil })
			for call, err := range map[string]error{"status": asked, "events": followed} {
				if !errors.Is(err, ErrUnreachable) || isRefusal(err) {
					t.Fatalf("%s: got %v", call, err)
				}
				at := " at " + tt.path
				if tt.path == "" {
					at = ": "
				}
				if !strings.Contains(err.Error(), "agent not reachable"+at) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %q", call, err)
				}
			}
			if !strings.Contains(asked.Error(), tt.says) {
				t.Errorf("%q lacks %q", asked, tt.says)
			}
		})
	}
}

func TestClientPassesOnAPlainRefusal(t *testing.T) {
	path := impostor(t, "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n431")
	_, err := Dial(path).Status(t.Context())
	var refusal *APIError
	if !errors.As(err, &refusal) || refusal.Status != 431 || refusal.Message != "agent answered 431 Request Header Fields Too Large" {
		t.Errorf("got %v", err)
	}
}

func TestClientWithoutTheRight(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may connect anywhere")
	}
	path := socketPath(t)
	mustListen(t, path)
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	_, err := Dial(path).Status(t.Context())
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "permission denied: run it as root or as the agent's user") {
		t.Errorf("got %v", err)
	}
}

func TestTheCallersOwnDeadlineIsNotTheAgentsFault(t *testing.T) {
	client := Dial(impostor(t, ""))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for call, err := range map[string]error{
		"command": client.Reload(ctx, false),
		"events":  client.Events(ctx, 0, true, func(Event) error { return nil }),
	} {
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: got %v", call, err)
		}
	}
}

// A client of today reads an agent of tomorrow.
func TestClientIgnoresWhatItDoesNotKnow(t *testing.T) {
	body := `{"version":"9.0.0","colour":"green","epoch":{"counter":7,"owner":"x","shard":1}}`
	path := impostor(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	status, err := Dial(path).Status(t.Context())
	if err != nil || status.Version != "9.0.0" || status.Epoch.Counter != 7 {
		t.Errorf("%+v, %v", status, err)
	}
}
