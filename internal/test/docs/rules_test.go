package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

var (
	// A number is what docs/protocol.md, internal/jobs/doc.go and the model's README call their rules, R7 or CE4, and
	// nothing else in a comment may look like one: it would send its reader looking.
	number     = regexp.MustCompile(`\b[A-Z]{1,2}[0-9]{1,2}\b`)
	definition = regexp.MustCompile(`(?m)(?:\*\*|^//   - )([A-Z]{1,2}[0-9]{1,2})\b`)
	// a section of docs/protocol.md, as comments cite it
	section        = regexp.MustCompile(`\bprotocol(?:\.md)?,? ([0-9]{1,2}(?:\.[0-9])?)\b`)
	sectionHeading = regexp.MustCompile(`(?m)^##+ ([0-9]{1,2}(?:\.[0-9])?) `)
)

// Every rule that a comment or a mutant cites is defined, and so is every section of the protocol.
func TestRulesAreDefined(t *testing.T) {
	model := filepath.Join("internal", "test", "spec")
	rules := defined(t, definition, filepath.Join("docs", "protocol.md"), filepath.Join("internal", "jobs", "doc.go"))
	ofModel := defined(t, definition, filepath.Join(model, "README.md"))
	sections := defined(t, sectionHeading, filepath.Join("docs", "protocol.md"))
	if len(rules) < 80 || len(ofModel) < 3 || len(sections) < 20 {
		t.Fatalf("only %d rules, %d of the model and %d sections were found", len(rules), len(ofModel), len(sections))
	}
	cited := 0
	for _, c := range citations(t) {
		for _, rule := range number.FindAllString(c.text, -1) {
			cited++
			if !rules[rule] && !(filepath.Dir(c.path) == model && ofModel[rule]) {
				t.Errorf("%s: no rule is called %s: see docs/protocol.md and internal/jobs/doc.go", c.path, rule)
			}
		}
		for _, m := range section.FindAllStringSubmatch(c.text, -1) {
			cited++
			if !sections[m[1]] {
				t.Errorf("%s: docs/protocol.md has no section %s", c.path, m[1])
			}
		}
	}
	if cited < 500 {
		t.Errorf("only %d citations were found", cited)
	}
}

// defined gives what the first group of a pattern finds in files.
func defined(t *testing.T, pattern *regexp.Regexp, paths ...string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, path := range paths {
		content, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pattern.FindAllStringSubmatch(string(content), -1) {
			all[m[1]] = true
		}
	}
	return all
}

// citations are all comments of the code, and the heads of the mutants, which name the rule that each takes out.
func citations(t *testing.T) []page {
	t.Helper()
	var all []page
	for _, file := range sources(t) {
		for _, group := range file.tree.Comments {
			all = append(all, page{file.path, group.Text()})
		}
	}
	mutants, err := filepath.Glob(filepath.Join(root, "testdata", "mutants", "*.txt"))
	if err != nil || len(mutants) == 0 {
		t.Fatalf("no mutants: %v", err)
	}
	for _, path := range mutants {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rule, _, _ := strings.Cut(string(content), "\n")
		all = append(all, page{filepath.Join("testdata", "mutants", filepath.Base(path)), rule})
	}
	return all
}

// A source is one file of Go.
type source struct {
	path string // from the root
	tree *ast.File
	set  *token.FileSet // of its positions
}

// parsed is all that is parsed here, once for all tests: nobody changes it.
var parsed = sync.OnceValues(func() (all []source, err error) {
	set := token.NewFileSet()
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		tree, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		all = append(all, source{relative, tree, set})
		return err
	})
	return all, err
})

func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}
