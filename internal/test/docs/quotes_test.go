package docs

import (
	"regexp"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile(`(docs/[a-z]+\.md|README)(?:, [0-9.]+)?: "([^"]*)"`)

// What a comment quotes from a page stands there: the simulator excuses what a page says, and nothing else.
func TestQuotes(t *testing.T) {
	seen := 0
	for _, file := range sources(t) {
		for _, group := range file.tree.Comments {
			for _, m := range quoted.FindAllStringSubmatch(plain(group.Text()), -1) {
				seen++
				path := m[1]
				if path == "README" {
					path = "README.md"
				}
				text := plain(pageAt(t, path).text)
				for part := range strings.SplitSeq(m[2], "…") {
					if part = strings.Trim(part, " .,:"); !strings.Contains(text, part) {
						t.Errorf("%s quotes %q, which is not in %s", file.path, part, path)
					}
				}
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d quotes were found", seen)
	}
}

// plain is a text as it is read: on one line, without marks, in lower case.
func plain(text string) string {
	text = strings.NewReplacer("*", "", "`", "").Replace(text)
	return strings.ToLower(strings.Join(strings.Fields(text), " "))
}
