package docs

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	message = regexp.MustCompile("`([^`]*)`")
	// what differs from one message to the next, in a heading and in the code that prints it
	differs = regexp.MustCompile(`…|\b\d+\b|\b(?:beta|backup)\b`)
	verb    = regexp.MustCompile(`%[+#]?[vdsqtx]`)
)

// Whoever looks a message up under docs/troubleshooting.md has it from the program: each that a heading has is one that
// the code has, or that a command prints in a page, as TestShown sees.
func TestMessagesAreSaid(t *testing.T) {
	said := literals(t)
	for _, p := range pages(t) {
		for _, b := range p.blocks() {
			if b.language == "console" {
				said += b.text
			}
		}
	}
	seen := 0
	for _, h := range heading.FindAllStringSubmatch(pageAt(t, "docs/troubleshooting.md").prose(), -1) {
		for _, m := range message.FindAllStringSubmatch(h[1], -1) {
			if !strings.Contains(m[1], " ") || m[1] == "jobs list" {
				continue // a word or a command
			}
			seen++
			for _, part := range differs.Split(m[1], -1) {
				if part = strings.Trim(part, " :,"); strings.Contains(part, " ") && !strings.Contains(said, part) {
					t.Errorf("%q: nothing in the code says %q", m[1], part)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d messages were found", seen)
	}
}

// literals are the strings of the program, without its tests, one to a line, their verbs taken out.
func literals(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, file := range sources(t) {
		if strings.HasSuffix(file.path, "_test.go") {
			continue
		}
		ast.Inspect(file.tree, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil {
					all.WriteString(verb.ReplaceAllString(text, "\x00") + "\n")
				}
			}
			return true
		})
	}
	return all.String()
}
