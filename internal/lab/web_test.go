package lab

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// idleWeb is the page of a lab whose agents have not been started.
func idleWeb(t *testing.T) *web {
	t.Helper()
	l := &lab{Options: Options{Nodes: 1, Mode: modeAvailable, Profile: "lan"}}
	l.journal = newJournal(nil)
	l.nodes = []*node{{name: "n1", lab: l}}
	w, err := openWeb(newBoard(l), defaultPage)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.listener.Close() })
	return w
}

// An order that is not refused at the door gets as far as the node, which has no process to kill.
func TestWhoMayPressAButton(t *testing.T) {
	w := idleWeb(t)
	own := "http://" + w.host()
	tests := []struct {
		name, method, host, origin, site, token, kind, body string
		want                                                int
		says                                                string
	}{
		{name: "the page", origin: own, site: "same-origin", want: http.StatusConflict, says: "does not run"},
		{name: "curl with the token", want: http.StatusConflict, says: "does not run"},
		{name: "another page", origin: "http://evil.example", site: "cross-site", want: http.StatusForbidden, says: "another page"},
		{name: "a page without a referrer", origin: "null", want: http.StatusForbidden, says: "another page"},
		{name: "another port of this host", origin: "http://127.0.0.1:1", site: "same-site", want: http.StatusForbidden, says: "another page"},
		{name: "a name that is made to resolve to this host", host: "evil.example", origin: "http://evil.example", want: http.StatusMisdirectedRequest, says: "asked for"},
		{name: "no token", token: "-", origin: own, want: http.StatusForbidden, says: "token"},
		{name: "a wrong token", token: "x", origin: own, want: http.StatusForbidden, says: "token"},
		{name: "a form", origin: own, kind: "application/x-www-form-urlencoded", want: http.StatusUnsupportedMediaType, says: "application/json"},
		{name: "GET", method: http.MethodGet, origin: own, want: http.StatusMethodNotAllowed},
		{name: "an unknown node", origin: own, body: `{"node":"n9","do":"kill"}`, want: http.StatusConflict, says: "no such node"},
		{name: "whoever leads", origin: own, body: `{"node":"leader","do":"kill"}`, want: http.StatusConflict, says: "no such node"},
		{name: "an unknown order", origin: own, body: `{"node":"n1","do":"rm -rf"}`, want: http.StatusConflict, says: "no such order"},
		{name: "no JSON", origin: own, body: "kill n1", want: http.StatusBadRequest, says: "expected"},
		{name: "more than an order", origin: own, body: `{"node":"n1","do":"kill","with":"a hammer"}`, want: http.StatusBadRequest, says: "expected"},
		{name: "a flood", origin: own, body: `{"node":"` + strings.Repeat("n", 1<<20) + `"}`, want: http.StatusBadRequest, says: "too large"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			or := func(given, usual string) string {
				if given == "" {
					return usual
				}
				return given
			}
			r := httptest.NewRequest(or(test.method, http.MethodPost), own+"/lab/act", strings.NewReader(or(test.body, `{"node":"n1","do":"kill"}`)))
			r.Host = or(test.host, w.host())
			for name, value := range map[string]string{"Origin": test.origin, "Sec-Fetch-Site": test.site,
				"Content-Type": or(test.kind, "application/json"), tokenHeader: strings.TrimPrefix(or(test.token, w.token), "-")} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			got := httptest.NewRecorder()
			w.handler().ServeHTTP(got, r)
			if got.Code != test.want || !strings.Contains(got.Body.String(), test.says) {
				t.Errorf("%d, %s: expected %d and %q", got.Code, got.Body, test.want, test.says)
			}
		})
	}
	for path, want := range map[string]int{"/": 200, "/page/lab.js": 200, "/v1/status": 200, "/lab/nodes": 200, "/metrics": 404, "/v1/step-down": 404} {
		r := httptest.NewRequest(http.MethodGet, own+path, nil)
		got := httptest.NewRecorder()
		if w.handler().ServeHTTP(got, r); got.Code != want {
			t.Errorf("GET %s: %d, expected %d", path, got.Code, want)
		}
	}
}

func TestPageOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"--page=0.0.0.0:80: expected a loopback address":  {Nodes: 3, Page: true, PageAddr: "0.0.0.0:80"},
		"--page=localhost:80: expected a loopback":        {Nodes: 3, Page: true, PageAddr: "localhost:80"},
		"--page is driven by hand: leave out --script":    {Nodes: 3, Page: true, Fault: "kill"},
		"--page is off, and has the address 127.0.0.1:80": {Nodes: 3, PageAddr: "127.0.0.1:80"},
	} {
		if err := Run(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: expected %q", err, want)
		}
	}
}
