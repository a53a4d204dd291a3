package httpd

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// One source has its share and no more, and takes nothing of another's.
func TestOneSourceHasItsShare(t *testing.T) {
	s := serve(t, Config{}, nil, func(l *limits) { l.fromOne, l.header = 8, bound })
	var kept []net.Conn
	for range s.limits.fromOne {
		c := dial(t, "127.0.0.1", s.addr)
		if got := say(t, c, question); got != http.StatusOK {
			t.Fatalf("within its share: %d", got)
		}
		kept = append(kept, c)
	}
	for range 3 {
		if c := dial(t, "127.0.0.1", s.addr); !isClosed(t, c) {
			t.Error("one more than its share stays open")
		}
	}
	if got := say(t, dial(t, "127.0.0.2", s.addr), question); got != http.StatusOK {
		t.Errorf("another source: %d", got)
	}
	kept[0].Close()
	for end := time.Now().Add(bound); ; { // the server sees the end when it gets to it
		if say(t, dial(t, "127.0.0.1", s.addr), question) == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a place that was given back stays taken")
		}
	}
}

// A thousand connections that send a byte now and then: no more than so many are held, all of
// them end by themselves, and whoever asks then is answered.
func TestAThousandSlowSenders(t *testing.T) {
	s := serve(t, Config{}, nil, func(l *limits) { l.header = 500 * time.Millisecond })
	var conns []net.Conn
	for i := range 1000 {
		c := dial(t, fmt.Sprintf("127.0.1.%d", 1+i/25), s.addr)
		_, _ = io.WriteString(c, "GET /ask HT") // may be closed already
		conns = append(conns, c)
	}
	for i, c := range conns {
		if !isClosed(t, c) {
			t.Fatalf("connection %d is still open", i)
		}
	}
	if got := say(t, dial(t, "127.0.0.9", s.addr), question); got != http.StatusOK {
		t.Errorf("after them: %d", got)
	}
}

func TestWhatIsOneSource(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.1:5":             "10.0.0.1",
		"[::ffff:10.0.0.1]:5":    "10.0.0.1",
		"[2001:db8:1:2:3::4]:5":  "2001:db8:1:2::",
		"[2001:db8:1:2:9::9]:66": "2001:db8:1:2::",
		"[fe80::1%eth0]:5":       "fe80::",
	} {
		if got := sourceOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))); got.String() != want {
			t.Errorf("%s is of %v, want %s", addr, got, want)
		}
	}
}

// Whoever takes its answer slowly is not waited for.
func TestSlowReader(t *testing.T) {
	s := serve(t, Config{}, nil, func(l *limits) { l.write = 300 * time.Millisecond })
	c := dial(t, "127.0.0.1", s.addr)
	if _, err := io.WriteString(c, "GET /flood HTTP/1.1\r\nHost: alpha\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * s.limits.write) // it reads nothing: what the test is about
	n, err := io.Copy(io.Discard, c)
	if n >= 64<<20 || err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("it got %d bytes, %v", n, err)
	}
}

// A request has no body and a short head.
func TestLargeRequests(t *testing.T) {
	s := serve(t, Config{}, nil, nil)
	mega := strings.Repeat("x", 1<<20)
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"body":           {"GET /ask HTTP/1.1\r\nHost: alpha\r\nContent-Length: 1048576\r\n\r\n" + mega, http.StatusRequestEntityTooLarge},
		"announced body": {"GET /ask HTTP/1.1\r\nHost: alpha\r\nContent-Length: 1048576\r\n\r\n", http.StatusRequestEntityTooLarge},
		"chunked body":   {"POST /ask HTTP/1.1\r\nHost: alpha\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n" + mega, http.StatusRequestEntityTooLarge},
		"header":         {"GET /ask HTTP/1.1\r\nHost: alpha\r\nX: " + mega + "\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
		"path":           {"GET /" + mega + " HTTP/1.1\r\nHost: alpha\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
		"no HTTP":        {"\x16\x03\x01\r\n\r\n", http.StatusBadRequest},
		"two lengths":    {"GET /ask HTTP/1.1\r\nHost: alpha\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", http.StatusBadRequest},
	} {
		if got := say(t, dial(t, "127.0.0.1", s.addr), tt.text); got != tt.want && got != 0 { // closed while it still sends: the answer may be lost
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
	if got := say(t, dial(t, "127.0.0.1", s.addr), "GET /ask HTTP/1.1\r\nHost: alpha\r\nContent-Length: 5\r\n\r\nhello"); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a small body: %d", got)
	}
}
