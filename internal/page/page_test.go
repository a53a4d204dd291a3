package page_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/page"
)

func get(t *testing.T, h http.Handler, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(body)
}

func TestEveryFileIsUnderThePolicy(t *testing.T) {
	for path, kind := range map[string]string{"/": "text/html; charset=utf-8", "/page/page.css": "text/css; charset=utf-8",
		"/page/page.js": "text/javascript; charset=utf-8", "/page/icon.svg": "image/svg+xml"} {
		resp, body := get(t, page.Handler(), http.MethodGet, path)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != kind || body == "" {
			t.Errorf("%s: %s, %q, %d bytes", path, resp.Status, resp.Header.Get("Content-Type"), len(body))
		}
		policy := resp.Header.Get("Content-Security-Policy")
		for _, rule := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, rule) {
				t.Errorf("%s: no %s in %q", path, rule, policy)
			}
		}
		for _, loose := range []string{"unsafe", "*", "http:", "data:"} {
			if strings.Contains(policy, loose) {
				t.Errorf("%s: the policy has %s: %q", path, loose, policy)
			}
		}
		for name, value := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"} {
			if got := resp.Header.Get(name); got != value {
				t.Errorf("%s: %s is %q: expected %q", path, name, got, value)
			}
		}
	}
}

func TestThePageIsReadAndNothingElse(t *testing.T) {
	if resp, _ := get(t, page.Handler(), http.MethodPost, "/"); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /: %s", resp.Status)
	}
	if resp, body := get(t, page.Handler(), http.MethodHead, "/"); resp.StatusCode != http.StatusOK || body != "" {
		t.Errorf("HEAD /: %s with %d bytes", resp.Status, len(body))
	}
	for _, path := range []string{"/page/", "/page/page.html", "/page/../page.go", "/page/static/page.js", "/page/lab.js", "/other"} {
		if resp, _ := get(t, page.Handler(), http.MethodGet, path); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

func TestAPageThatTheBrowserHasIsNotSentAgain(t *testing.T) {
	first, _ := get(t, page.Handler(), http.MethodGet, "/page/page.js")
	again, body := get(t, page.Handler(), http.MethodGet, "/page/page.js", "If-None-Match", first.Header.Get("Etag"))
	if again.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("%s with %d bytes", again.Status, len(body))
	}
}

func TestTheLabsPartIsTheLabsAlone(t *testing.T) {
	const script = "page/lab.js"
	if _, body := get(t, page.Handler(), http.MethodGet, "/"); strings.Contains(body, script) {
		t.Error("the agent's page has the lab's part")
	}
	if _, body := get(t, page.LabHandler(), http.MethodGet, "/"); !strings.Contains(body, script) {
		t.Error("the lab's page has no part of the lab's")
	}
	if resp, _ := get(t, page.LabHandler(), http.MethodGet, "/"+script); resp.StatusCode != http.StatusOK {
		t.Errorf("the lab's part: %s", resp.Status)
	}
}
