package control

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound is how long a test waits for what must happen; a pass never waits it out.
const bound = 20 * time.Second

// fakeAgent is a Backend that says what a test puts into it.
type fakeAgent struct {
	Ring
	fakeLease
	fakeHooks
	fakeJobs
	status  Status
	members []Member
	keys    Keys
	found   Examination
	history []Leadership
	reload  func(context.Context) error
	command func(ctx context.Context, name string, args map[string]string) error

	explanation Explanation
}

func (f *fakeAgent) Status() Status    { return f.status }
func (f *fakeAgent) Members() []Member { return f.members }
func (f *fakeAgent) Metrics(string, bool) ([]byte, string, error) {
	return []byte("bully_leader 1\n"), "text/plain", nil
}
func (f *fakeAgent) Keys() Keys                                 { return f.keys }
func (f *fakeAgent) History() []Leadership                      { return f.history }
func (f *fakeAgent) OKToStop(context.Context) (OKToStop, error) { return okToStop(), nil }

func okToStop() OKToStop {
	return OKToStop{OK: true, Text: "ok: alpha would lead, 2 of 3 voters stay", Leader: &alpha, Stay: 2, Of: 3, Need: 2}
}

func (f *fakeAgent) Explain(_ context.Context, member string) (Explanation, error) {
	if member != "" && member != f.explanation.Member.Name {
		return Explanation{}, &APIError{Status: http.StatusConflict, Message: "nobody is called " + member, Code: "unknown_member"}
	}
	return f.explanation, nil
}

func (f *fakeAgent) Examine(context.Context) (Examination, error) { return f.found, nil }

func (f *fakeAgent) Reload(ctx context.Context, _ bool) error {
	if f.reload == nil {
		return nil
	}
	return f.reload(ctx)
}

func (f *fakeAgent) Command(ctx context.Context, name string, args map[string]string) error {
	if f.command == nil {
		return ErrUnsupported
	}
	return f.command(ctx, name, args)
}

// served is a running server and its socket.
type served struct {
	path string
	logs *logLines
	stop func() // ends the server and waits for it; may be called twice
}

// serveAgent runs a server for b until the test ends.
func serveAgent(t *testing.T, b Backend, change func(*limits)) served {
	t.Helper()
	lim := defaultLimits
	if change != nil {
		change(&lim)
	}
	path := socketPath(t)
	l, err := Listen(path, Access{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	logs := &logLines{seen: make(chan string, 100)}
	logger := hclog.New(&hclog.LoggerOptions{Output: logs, Level: hclog.Debug})
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, l, b, logger, lim) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := receive(t, ended, "end of Serve"); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return served{path: path, logs: logs, stop: stop}
}

// socketPath gives a path of its own to the test. t.TempDir can be longer than
// the 107 bytes that a socket may have.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "agent.sock")
}

// logLines hands on what was logged; lines that nobody takes are dropped.
type logLines struct{ seen chan string }

func (l *logLines) Write(p []byte) (int, error) {
	select {
	case l.seen <- string(p):
	default:
	}
	return len(p), nil
}

func (l *logLines) waitFor(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(receive(t, l.seen, "log line "+text), text) {
	}
}

func receive[T any](t *testing.T, from <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(bound):
		t.Fatalf("waited %v for %s", bound, what)
	}
	return v
}

// connect opens a bare connection, for what no proper client would send.
func connect(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(bound))
	return c.(*net.UnixConn)
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// answer reads one answer off a bare connection.
func answer(t *testing.T, c net.Conn) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read answer's body: %v", err)
	}
	return resp, string(body)
}

// request sends one request on a connection of its own.
func request(t *testing.T, path, method, target, body string) (*http.Response, string) {
	t.Helper()
	c := connect(t, path)
	req, err := http.NewRequest(method, "http://agent"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := req.Write(&text); err != nil {
		t.Fatal(err)
	}
	// The server may refuse and close before it has read all; what it said can
	// be read all the same.
	if _, err := c.Write(text.Bytes()); err != nil && !errors.Is(err, syscall.EPIPE) {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		t.Fatalf("read answer to %s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(answer)
}
