package httpd

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound is how long a test waits for what must happen; a pass never waits it out.
const bound = 20 * time.Second

// served is a port that is answered at.
type served struct {
	*Server
	pair *Pair // nil: plain HTTP
	addr string
	logs *lines
}

// serve answers "yes" to /ask, and to /flood more than a client's and the kernel's buffers take.
func serve(t *testing.T, cfg Config, page http.Handler, change func(*limits)) served {
	t.Helper()
	if !cfg.Listen.IsValid() {
		cfg.Listen = netip.MustParseAddrPort("127.0.0.1:0")
	}
	port, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	logs := &lines{}
	log := hclog.New(&hclog.LoggerOptions{Output: logs, Level: hclog.Info})
	var pair *Pair
	var certificate func() *tls.Certificate
	if cfg.Cert != "" {
		if pair, err = OpenPair(cfg); err != nil {
			t.Fatal(err)
		}
		pair.Use(log)
		certificate = func() *tls.Certificate { pair.Look(); return inUse(t, pair) }
	}
	l := New(port, cfg.Hosts, certificate)
	if change != nil {
		change(&l.limits)
	}
	api := http.NewServeMux()
	api.HandleFunc("/ask", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") })
	api.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "json") })
	api.HandleFunc("/flood", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64<<20)) })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- l.Serve(ctx, api, page, log)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(bound):
			t.Error("Serve did not end")
		}
	})
	return served{l, pair, port.Addr().String(), logs}
}

// inUse makes of a pair's text what a process does that has no more than that.
func inUse(t *testing.T, p *Pair) *tls.Certificate {
	cert, err := tls.X509KeyPair(p.PEM())
	if err != nil {
		t.Error(err)
	}
	return &cert
}

// lines is what was logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// dial connects from an address of this host.
func dial(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: bound}
	c, err := d.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(bound)); err != nil {
		t.Fatal(err)
	}
	return c
}

// say sends a request as it stands, and gives the answer's status; 0: the connection ended without one.
func say(t *testing.T, c net.Conn, text string) int {
	t.Helper()
	go func() { _, _ = io.WriteString(c, text) }() // the server may answer, and close, before it has read all
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

const question = "GET /ask HTTP/1.1\r\nHost: alpha\r\n\r\n"

// isClosed waits for the end of a connection.
func isClosed(t *testing.T, c net.Conn) bool {
	t.Helper()
	_, err := io.Copy(io.Discard, c)
	timeout, isNet := err.(net.Error)
	return !isNet || !timeout.Timeout()
}

// get asks with TLS if roots are given.
func get(t *testing.T, url string, cfg *tls.Config, header http.Header) (status int, body string, proto string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := (&http.Client{Transport: transport, Timeout: bound}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Proto
}
