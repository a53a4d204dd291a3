package control

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/api.md has each route, with the right that it needs and whether the network has it,
// and no other; and each name that the network is not shown.
func TestTheDocumentHasTheRoutes(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(GET|POST) (/[^`]*)` \\| ([a-z]*) ?\\| (yes|no|only) \\| ").FindAllStringSubmatch(string(text), -1) {
		has[strings.Join(m[1:], " ")] = true
	}
	s := &server{backend: &fakeAgent{}}
	row := func(r route, right Right, network string) {
		want := fmt.Sprintf("%s %s %s %s", r.method, strings.TrimSuffix(r.path, "{$}"), right, network)
		if !has[want] {
			t.Errorf("docs/api.md has no row for: %s", want)
		}
		delete(has, want)
	}
	public := map[string]bool{}
	for _, r := range s.publicRoutes() {
		public[r.path] = true
	}
	for _, r := range s.routes() {
		network := map[bool]string{true: "yes", false: "no"}[r.method == "GET" && public[r.path]]
		row(r, r.needs, network)
	}
	for _, r := range s.healthRoutes() {
		row(r, "", "only")
	}
	for rest := range has {
		t.Errorf("docs/api.md has a route that is not there: %s", rest)
	}
	_, shows, _ := strings.Cut(string(text), "### What it shows")
	shows, _, _ = strings.Cut(shows, "### TLS")
	for of, names := range withheld {
		for _, name := range names {
			if !strings.Contains(shows, "`"+name+"`") {
				t.Errorf("docs/api.md does not say that %s of %s is not shown", name, of)
			}
		}
	}
}
