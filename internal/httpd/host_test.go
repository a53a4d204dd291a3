package httpd

import (
	"io"
	"net/http"
	"testing"
)

func TestHosts(t *testing.T) {
	for header, want := range map[string]bool{
		"": true, "127.0.0.1": true, "192.168.1.11:7951": true, "[::1]:7951": true, "[2001:db8::1]": true,
		"alpha": true, "alpha:7951": true, "localhost:7951": true, "ALPHA.LAN:7951": true, "alpha.lan.": true, "alpha.local": true,
		"nas.home.arpa": true, "a.b.internal": true, "alpha.example.com": true, "Alpha.Example.Com:7951": true,
		"evil.example.net": false, "evil.example.net:7951": false, "alpha.evil.example.net": false, "127.0.0.1.example.net": false,
		"lan.example.net": false, "evillan.example": false, "alpha.example.com.evil.net": false, "xlan": true,
	} {
		if got := isKnownHost(header, []string{"alpha.example.com"}); got != want {
			t.Errorf("Host %q: answered %v, want %v", header, got, want)
		}
	}
}

// A page that has its own name resolve to this host learns nothing from it.
func TestForeignHostIsRefused(t *testing.T) {
	s := serve(t, Config{Hosts: []string{"alpha.example.com"}}, nil, nil)
	for host, want := range map[string]int{"evil.example.net": http.StatusMisdirectedRequest, "alpha.example.com": http.StatusOK, "alpha.lan": http.StatusOK} {
		status, body, _ := get(t, "http://"+s.addr+"/ask", nil, http.Header{"Host": {host}})
		if status != want || (status == http.StatusOK) != (body == "yes") {
			t.Errorf("Host %s: %d %s", host, status, body)
		}
	}
	for _, old := range []string{"GET /ask HTTP/1.0\r\n\r\n", "OPTIONS /ask HTTP/1.0\r\n\r\n"} { // as HAProxy asks
		if got := say(t, dial(t, "127.0.0.1", s.addr), old); got != http.StatusOK {
			t.Errorf("%q: %d", old, got)
		}
	}
}

// Browsers get the page where there is one, and programs what they always get.
func TestPage(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page "+r.URL.Path) })
	s := serve(t, Config{}, page, nil)
	for _, tt := range []struct{ path, accept, want string }{
		{"/", "text/html,application/xhtml+xml,*/*;q=0.8", "page /"},
		{"/", "*/*", "json"},
		{"/", "application/json", "json"},
		{"/page/style.css", "text/css", "page /page/style.css"},
		{"/ask", "text/html", "yes"},
	} {
		if _, body, _ := get(t, "http://"+s.addr+tt.path, nil, http.Header{"Accept": {tt.accept}}); body != tt.want {
			t.Errorf("%s as %s: %q, want %q", tt.path, tt.accept, body, tt.want)
		}
	}
	bare := serve(t, Config{}, nil, nil)
	if _, body, _ := get(t, "http://"+bare.addr+"/", nil, http.Header{"Accept": {"text/html"}}); body != "json" {
		t.Errorf("without a page: %q", body)
	}
}
