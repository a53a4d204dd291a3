package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// checkRefusal checks that an answer is an error in JSON with something to say.
func checkRefusal(t *testing.T, resp *http.Response, body string, status int, code string) {
	t.Helper()
	if resp.StatusCode != status {
		t.Errorf("status %d, want %d: %s", resp.StatusCode, status, body)
	}
	if got := resp.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q: %s", got, body)
	}
	var refusal APIError
	if err := json.Unmarshal([]byte(body), &refusal); err != nil {
		t.Fatalf("no JSON: %v: %q", err, body)
	}
	if refusal.Message == "" || refusal.Code != code {
		t.Errorf("refusal %+v, want a message and code %q", refusal, code)
	}
}

func TestEveryQuestionIsAnswered(t *testing.T) {
	b := &fakeAgent{status: leadingStatus(), members: twoMembers(), history: twoLeaderships()}
	b.Append(Event{Time: noon, Type: "start", Text: "agent started"})
	srv := serveAgent(t, b, nil)
	b.explanation = alphaExplained()
	tests := map[string]string{ // route → file in testdata
		"/v1/status":  "status_leading",
		"/v1/leader":  "leader",
		"/v1/members": "members",
		"/v1/history": "history",
		"/v1/events":  "event_short",
		"/v1/explain": "explain",
	}
	for target, file := range tests {
		t.Run(target, func(t *testing.T) {
			resp, body := request(t, srv.path, http.MethodGet, target, "")
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", resp.StatusCode, body)
			}
			want, err := os.ReadFile(filepath.Join("testdata", file+".json"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decoded(t, string(want)), decoded(t, body)); diff != "" {
				t.Error(diff)
			}
			head, _ := request(t, srv.path, http.MethodHead, target, "")
			if head.StatusCode != http.StatusOK {
				t.Errorf("HEAD: status %d", head.StatusCode)
			}
		})
	}
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return v
}

func TestNothingIsAnEmptyList(t *testing.T) {
	srv := serveAgent(t, &fakeAgent{}, nil)
	for _, target := range []string{"/v1/members", "/v1/history"} {
		if _, body := request(t, srv.path, http.MethodGet, target, ""); body != "[]\n" {
			t.Errorf("%s: %q", target, body)
		}
	}
	_, body := request(t, srv.path, http.MethodGet, "/v1/status", "")
	if !strings.Contains(body, `"notes":[],"counters":{}`) {
		t.Errorf("status has null where one iterates: %s", body)
	}
	resp, body := request(t, srv.path, http.MethodGet, "/v1/leader", "")
	checkRefusal(t, resp, body, http.StatusNotFound, codeNoLeader)
}

func TestLeaderSince(t *testing.T) {
	status := leadingStatus()
	tests := map[string]struct {
		history []Leadership
		want    time.Time
	}{
		"no history":          {nil, time.Time{}},
		"another epoch":       {twoLeaderships()[:1], time.Time{}},
		"this one":            {twoLeaderships(), noon},
		"this one has ended":  {[]Leadership{{Epoch: status.Epoch, From: noon, To: noon.Add(1)}}, noon},
		"equal counter, else": {[]Leadership{{Epoch: Epoch{7, betaID}, From: noon}}, time.Time{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &server{reading: &fakeAgent{status: status, history: tt.history}}
			answer, err := s.leader()
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.(Leader).Since; !got.Equal(tt.want) {
				t.Errorf("since %v, want %v", got, tt.want)
			}
		})
	}
}

func TestRefusalsAreJSON(t *testing.T) {
	tests := map[string]struct {
		method, target, body string
		status               int
		code, allow          string
	}{
		"unknown route":        {"GET", "/v1/stats", "", 404, codeUnsupported, ""},
		"root":                 {"GET", "/", "", 404, codeUnsupported, ""},
		"other version":        {"GET", "/v2/status", "", 404, codeUnsupported, ""},
		"slash at the end":     {"GET", "/v1/status/", "", 404, codeUnsupported, ""},
		"path with a newline":  {"GET", "/v1/%0aevil", "", 404, codeUnsupported, ""},
		"unknown command":      {"POST", "/v1/explode", "", 404, codeUnsupported, ""},
		"status by POST":       {"POST", "/v1/status", "", 405, "", "GET, HEAD"},
		"events by DELETE":     {"DELETE", "/v1/events", "", 405, "", "GET, HEAD"},
		"reload by GET":        {"GET", "/v1/reload", "", 405, "", "POST"},
		"handover by OPTIONS":  {"OPTIONS", "/v1/handover", "", 405, "", "POST"},
		"odd method":           {"BREW", "/v1/leader", "", 405, "", "GET, HEAD"},
		"no such command yet":  {"POST", "/v1/step-down", "", 501, codeUnsupported, ""},
		"not JSON":             {"POST", "/v1/step-down", "for=30s", 400, "", ""},
		"half JSON":            {"POST", "/v1/step-down", `{"for":`, 400, "", ""},
		"a list":               {"POST", "/v1/step-down", `["30s"]`, 400, "", ""},
		"a number inside":      {"POST", "/v1/step-down", `{"for":30}`, 400, "", ""},
		"two objects":          {"POST", "/v1/step-down", `{"for":"30s"}{}`, 400, "", ""},
		"deep nesting":         {"POST", "/v1/step-down", strings.Repeat(`{"a":`, 10_000), 400, "", ""},
		"deeper nesting":       {"POST", "/v1/step-down", strings.Repeat("[", 60_000), 400, "", ""},
		"64 KiB and one":       {"POST", "/v1/step-down", `{"a":"` + strings.Repeat("x", maxBody-7) + `"}`, 413, "", ""},
		"1 MB":                 {"POST", "/v1/reload", strings.Repeat(" ", 1<<20), 413, "", ""},
		"reload with argument": {"POST", "/v1/reload", `{"file":"x"}`, 400, "", ""},
		"unknown parameter":    {"GET", "/v1/events?form=3", "", 400, "", ""},
		"events with a body":   {"GET", "/v1/events", "{}", 400, "", ""},
	}
	srv := serveAgent(t, &fakeAgent{}, nil)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			resp, body := request(t, srv.path, tt.method, tt.target, tt.body)
			checkRefusal(t, resp, body, tt.status, tt.code)
			if got := resp.Header.Get("Allow"); got != tt.allow {
				t.Errorf("Allow %q, want %q", got, tt.allow)
			}
		})
	}
}

// Whatever page or name a request says to come from, who asks is what the kernel says. Where
// it says nothing, as on a port of the network, nothing can be changed.
func TestCase77ForeignHostAndOriginMeanNothing(t *testing.T) {
	b := &fakeAgent{reload: func(context.Context) error { t.Error("a stranger reloaded"); return nil }}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, b, nil) }()
	for _, head := range []string{"Host: agent", "Host: evil.example", "Host: agent\r\nOrigin: http://evil.example", "Host: localhost\r\nX-Forwarded-For: 127.0.0.1"} {
		for _, route := range []string{"POST /v1/reload", "POST /v1/step-down", "GET /v1/jobs/output?id=x", "GET /v1/lease"} {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			send(t, c, route+" HTTP/1.1\r\n"+head+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			resp, body := answer(t, c)
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s with %q: %d %s", route, head, resp.StatusCode, body)
			}
			_ = c.Close()
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestBodyOf64KiBIsTaken(t *testing.T) {
	got := make(chan int, 1)
	b := &fakeAgent{command: func(_ context.Context, _ string, args map[string]string) error {
		got <- len(args["a"])
		return nil
	}}
	srv := serveAgent(t, b, nil)
	value := strings.Repeat("x", maxBody-len(`{"a":""}`))
	resp, body := request(t, srv.path, http.MethodPost, "/v1/leave", `{"a":"`+value+`"}`)
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("status %d: %s", resp.StatusCode, body)
	}
	if n := <-got; n != len(value) {
		t.Errorf("%d bytes arrived of %d", n, len(value))
	}
}

func TestBackendChoosesTheRefusal(t *testing.T) {
	tests := map[string]struct {
		err    error
		status int
		says   string
	}{
		"of its own":    {&APIError{Status: 409, Message: "not the leader", Hint: "ask beta"}, 409, `"hint":"ask beta"`},
		"wrapped":       {fmt.Errorf("run: %w", &APIError{Status: 409, Message: "not the leader"}), 409, "not the leader"},
		"unsupported":   {fmt.Errorf("stage 2: %w", ErrUnsupported), 501, codeUnsupported},
		"no leader":     {ErrNoLeader, 404, codeNoLeader},
		"plain":         {errors.New("disk is full"), 500, "disk is full"},
		"not a refusal": {&APIError{Status: 200, Message: "fine"}, 500, "fine"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			refusal := asAPIError(tt.err)
			text, err := json.Marshal(refusal)
			if err != nil {
				t.Fatal(err)
			}
			if refusal.Status != tt.status || !strings.Contains(string(text), tt.says) {
				t.Errorf("%d %s, want %d with %q", refusal.Status, text, tt.status, tt.says)
			}
		})
	}
}

func TestAnswerWithoutJSONFormIsAnError(t *testing.T) {
	srv := serveAgent(t, &fakeAgent{status: Status{Uptime: math.NaN()}}, nil)
	resp, body := request(t, srv.path, http.MethodGet, "/v1/status", "")
	checkRefusal(t, resp, body, http.StatusInternalServerError, "")
	srv.logs.waitFor(t, "answer dropped")
}

// A monitoring group may be let in by chmod; it may look and nothing else.
func TestCase65OnlyRootAndTheAgentsUserMayChange(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can connect as another user")
	}
	b := &fakeAgent{reload: func(context.Context) error { t.Error("a stranger reloaded"); return nil }}
	srv := serveAgent(t, b, nil)
	for file, mode := range map[string]os.FileMode{filepath.Dir(srv.path): 0o755, srv.path: 0o666} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	const nobody = 65534
	looker := dialAs(t, nobody, srv.path)
	send(t, looker, "GET /v1/status HTTP/1.1\r\nHost: agent\r\n\r\n")
	if resp, body := answer(t, looker); resp.StatusCode != http.StatusOK {
		t.Errorf("look: %d %s", resp.StatusCode, body)
	}
	for _, name := range append(commands, "reload") {
		c := dialAs(t, nobody, srv.path)
		send(t, c, "POST /v1/"+name+" HTTP/1.1\r\nHost: agent\r\nContent-Length: 0\r\n\r\n")
		resp, body := answer(t, c)
		checkRefusal(t, resp, body, http.StatusForbidden, "")
	}
	srv.logs.waitFor(t, "uid 65534")
}

func TestWhoMayChange(t *testing.T) {
	me := os.Geteuid()
	for uid, want := range map[int]bool{0: true, me: true, me + 1: false, -1: false} {
		if got := (access{owner: me}).grants(peer{pid: 1, uid: uid}, Act); got != want {
			t.Errorf("uid %d: %v, want %v", uid, got, want)
		}
	}
}

func TestCase78OversizedHeaderIsRefused(t *testing.T) {
	srv := serveAgent(t, &fakeAgent{}, nil)
	for size, want := range map[int]int{7 << 10: http.StatusOK, 9 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		c := connect(t, srv.path)
		send(t, c, "GET /v1/status HTTP/1.1\r\nHost: agent\r\nX-Pad: "+strings.Repeat("x", size)+"\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want {
			t.Errorf("%d bytes: status %d, want %d", size, resp.StatusCode, want)
		}
	}
}

// closed reports whether the server ends c within the bound.
func closed(t *testing.T, c net.Conn) bool {
	t.Helper()
	for buf := make([]byte, 512); ; {
		if _, err := c.Read(buf); err != nil {
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}

func TestCase78SlowSendersAreCutOff(t *testing.T) {
	srv := serveAgent(t, &fakeAgent{}, func(l *limits) {
		l.header, l.request, l.idle = 50*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
	})
	for name, text := range map[string]string{
		"silent":         "",
		"half a head":    "GET /v1/status HTTP/1.1\r\nHos",
		"idle afterward": "GET /v1/status HTTP/1.1\r\nHost: agent\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, srv.path)
			send(t, c, text)
			if !closed(t, c) {
				t.Error("the connection stays open")
			}
		})
	}
	t.Run("half a body", func(t *testing.T) {
		c := connect(t, srv.path)
		send(t, c, "POST /v1/leave HTTP/1.1\r\nHost: agent\r\nContent-Length: 100\r\n\r\n{")
		resp, body := answer(t, c)
		checkRefusal(t, resp, body, http.StatusRequestTimeout, "")
	})
}

// A shell's "printf … | nc -U" closes its sending half at once.
func TestHalfClosedClientIsAnswered(t *testing.T) {
	srv := serveAgent(t, &fakeAgent{status: leadingStatus()}, nil)
	c := connect(t, srv.path)
	send(t, c, "GET /v1/status HTTP/1.0\r\n\r\n")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if resp, body := answer(t, c); resp.StatusCode != http.StatusOK || !strings.Contains(body, "home-lab") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestGarbageDoesNoHarm(t *testing.T) {
	srv := serveAgent(t, &fakeAgent{}, nil)
	for _, text := range []string{"\x00\xff\xfe", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET\r\n\r\n", "\r\n\r\n\r\n",
		"GET /v1/status HTTP/9.9\r\n\r\n", "POST /v1/leave HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"} {
		c := connect(t, srv.path)
		send(t, c, text)
		c.CloseWrite()
		if !closed(t, c) {
			t.Errorf("%q: the connection stays open", text)
		}
	}
	if resp, _ := request(t, srv.path, http.MethodGet, "/v1/status", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %d", resp.StatusCode)
	}
}

func TestOneConnectionTooManyWaitsItsTurn(t *testing.T) {
	srv := serveAgent(t, &fakeAgent{}, func(l *limits) { l.idle = time.Hour })
	const ask = "GET /v1/status HTTP/1.1\r\nHost: agent\r\n\r\n"
	var held []net.Conn
	for range defaultLimits.conns {
		c := connect(t, srv.path)
		send(t, c, ask)
		answer(t, c) // so it is accepted, and kept alive
		held = append(held, c)
	}
	surplus := connect(t, srv.path)
	send(t, surplus, ask)
	surplus.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := surplus.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d, %v: connection %d was served", n, err, len(held)+1)
	}
	held[0].Close()
	surplus.SetReadDeadline(time.Now().Add(bound))
	if resp, body := answer(t, surplus); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// A thousand connections are open before one of them asks anything; then each is answered.
func TestCase78AThousandConnectionsAreAllServed(t *testing.T) {
	srv := serveAgent(t, &fakeAgent{status: leadingStatus()}, func(l *limits) { l.header = bound })
	const many, atOnce = 1000, 100
	late := time.Now().Add(bound)
	conns := make([]net.Conn, many)
	for i := range conns {
		c, err := net.Dial("unix", srv.path)
		// The kernel refuses what exceeds its queue (net.core.somaxconn, in places still 128), behind
		// those that are served at a time: whoever is there asks, so that others have a place.
		for ; errors.Is(err, unix.EAGAIN) && i >= atOnce && time.Now().Before(late); c, err = net.Dial("unix", srv.path) {
			asks(t, conns[:i])
			time.Sleep(time.Millisecond)
		}
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		_ = c.SetDeadline(late)
		conns[i] = c
		t.Cleanup(func() { _ = c.Close() })
	}
	asks(t, conns)
}

// asks has each of the connections that are left ask for the status, and close.
func asks(t *testing.T, conns []net.Conn) {
	t.Helper()
	for i, c := range conns {
		if c == nil {
			continue
		}
		send(t, c, "GET /v1/status HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n")
		if resp, body := answer(t, c); resp.StatusCode != http.StatusOK || !strings.Contains(body, "home-lab") {
			t.Errorf("connection %d: %d %s", i, resp.StatusCode, body)
		}
		_ = c.Close()
		conns[i] = nil
	}
}

func TestRunningRequestsEndWithTheServer(t *testing.T) {
	running := make(chan struct{})
	b := &fakeAgent{reload: func(ctx context.Context) error {
		close(running)
		<-ctx.Done()
		return &APIError{Status: 503, Message: "agent is stopping"}
	}}
	srv := serveAgent(t, b, nil)
	answered := make(chan error, 1)
	go func() { answered <- Dial(srv.path).Reload(context.Background(), false) }()
	receive(t, running, "reload")
	srv.stop()
	if err := receive(t, answered, "answer"); err == nil || !strings.Contains(err.Error(), "agent is stopping") {
		t.Errorf("a request that was running got: %v", err)
	}
	if _, err := os.Lstat(srv.path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestServeReturnsWhenTheListenerFails(t *testing.T) {
	l := mustListen(t, socketPath(t))
	l.Close()
	err := Serve(t.Context(), l, &fakeAgent{}, nil)
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
