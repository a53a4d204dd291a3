package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Every link within the project leads somewhere, to the heading too.
func TestLinks(t *testing.T) {
	seen := 0
	for _, p := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(p.prose(), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			seen++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := p.path
			if path != "" {
				target = filepath.Join(filepath.Dir(p.path), path)
			}
			content, err := os.ReadFile(filepath.Join(root, target))
			if err != nil {
				t.Errorf("%s: %s leads nowhere", p.path, m[1])
				continue
			}
			if anchor != "" && !(page{target, string(content)}).anchors()[anchor] {
				t.Errorf("%s: %s has no heading #%s", p.path, target, anchor)
			}
		}
	}
	if seen < 40 {
		t.Errorf("only %d links were found", seen)
	}
}

// The README leads to the list of pages, and that to every page of docs/.
func TestReadmeLeadsToEveryPage(t *testing.T) {
	const list = "docs/README.md"
	if !strings.Contains(readme(t).text, "("+list+")") {
		t.Errorf("README.md has no link to %s", list)
	}
	text := pageAt(t, list).text
	for _, p := range pages(t) {
		if filepath.Dir(p.path) == "docs" && p.path != list && !strings.Contains(text, "("+filepath.Base(p.path)+")") {
			t.Errorf("%s has no link to %s", list, p.path)
		}
	}
}

var (
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unlinked = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors gives the names of a page's headings, as GitHub makes them.
func (p page) anchors() map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(p.prose(), -1) {
		name := unlinked.ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}
