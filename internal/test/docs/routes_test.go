package docs

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// route is a row of docs/api.md.
var route = regexp.MustCompile("(?m)^\\| `(GET|POST) (/[^`]*)` \\| [a-z]* ?\\| (yes|no|only) \\| ")

// refused are the answers of requests that ask for too little: an order without what it needs, the output of no run, and what this
// version does not do. All others are 200.
var refused = map[string]string{"GET /v1/jobs/output": "404", "POST /v1/leave": "501"}

// curl asks the leader for each route that docs/api.md lists, at both places: it answers where the page says so, and nowhere else.
// Orders are given an argument that none has, so that nothing is done.
func TestRoutesByCurl(t *testing.T) {
	if testing.Short() {
		t.Skip("starts agents")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("skipped: " + err.Error())
	}
	t.Parallel()
	all := pages(t)
	api := all[slices.IndexFunc(all, func(p page) bool { return p.path == "docs/api.md" })]
	rows := route.FindAllStringSubmatch(api.text, -1)
	if len(rows) < 30 {
		t.Fatalf("%s has %d routes: the test does not read it as it is written", api.path, len(rows))
	}
	h := startHosts(t, build(t), plan{leader: "alpha", http: true})
	h.await("alpha", "me")
	ask := func(where, path, want string) {
		t.Helper()
		line := fmt.Sprintf("curl -sS -m 15 -w '\\n%%{http_code}' %s%s", where, path)
		said, err := h.run("alpha", line)
		body, code, _ := cutLast(said)
		switch {
		case err != nil || code != want:
			t.Errorf("%s answers %s (%v), want %s: %.300s", line, code, err, want, body)
		case code >= "400" && !strings.Contains(body, `"error":"`) && !strings.Contains(body, `"why":"`):
			t.Errorf("%s refuses without a reason: %.300s", line, body)
		}
	}
	for _, row := range rows {
		method, path, network := row[1], row[2], row[3]
		onSocket, onNetwork, with := "200", "200", ""
		switch is, odd := refused[method+" "+path]; {
		case odd:
			onSocket = is
		case network == "only":
			onSocket = "404"
		case method == "POST" && path != "/v1/doctor": // which takes no argument
			onSocket = "400"
		}
		if network == "no" {
			onNetwork = "404"
		}
		if path == "/follower" {
			onNetwork = "503" // alpha leads
		}
		if method == "POST" {
			with = `-d '{"none": "such"}' `
		}
		ask(with+"--unix-socket /run/bully-agent/agent.sock http://agent", path, onSocket)
		ask("-X "+method+" http://alpha:7951", path, onNetwork)
	}
}

// cutLast takes the last line off.
func cutLast(text string) (before, last string, found bool) {
	i := strings.LastIndexByte(text, '\n')
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+1:], true
}
