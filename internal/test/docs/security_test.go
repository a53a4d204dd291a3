package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9_]*)`")
	listed   = regexp.MustCompile(`(?m)^([0-9]+)\. (.*(?:\n {3}.*)*)$`)
	noted    = regexp.MustCompile(`\(([0-9]+(?:, [0-9]+)*)\)$`)
)

// Each cell of the tables that say who can do what names a test that shows it, or says yes; and each test that the page
// names is there.
func TestSecurityIsShown(t *testing.T) {
	page := pageAt(t, "docs/security.md")
	there := tests(t)
	named := testName.FindAllStringSubmatch(page.text, -1)
	for _, m := range named {
		if !there[m[1]] {
			t.Errorf("there is no %s", m[1])
		}
	}
	section := page.under("Who can do what").text
	isListed, isUsed := map[string]bool{}, map[string]bool{}
	for _, m := range listed.FindAllStringSubmatch(section, -1) {
		if isListed[m[1]] = testName.MatchString(m[2]); !isListed[m[1]] {
			t.Errorf("%s names no test", m[0])
		}
	}
	cells := 0
	for _, row := range rowsBelow(section, "| can it |") {
		for _, cell := range row[1:] {
			cells++
			numbers := noted.FindStringSubmatch(cell)
			if numbers == nil {
				if !strings.HasPrefix(cell, "yes") {
					t.Errorf("%s: %q names no test", row[0], cell)
				}
				continue
			}
			for _, n := range strings.Split(numbers[1], ", ") {
				isUsed[n] = true
				if !isListed[n] {
					t.Errorf("%s: %q names a test that is not listed", row[0], cell)
				}
			}
		}
	}
	for n := range isListed {
		if !isUsed[n] {
			t.Errorf("no cell names %s", n)
		}
	}
	if cells < 70 || len(named) < 30 {
		t.Errorf("only %d cells and %d names of tests were found", cells, len(named))
	}
}

// rowsBelow are the cells of the tables whose first line begins so.
func rowsBelow(text, head string) (rows [][]string) {
	in := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, head):
			in = true
		case !strings.HasPrefix(line, "|"):
			in = false
		case in && !strings.HasPrefix(line, "| ---"):
			var cells []string
			for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
				cells = append(cells, strings.TrimSpace(cell))
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// tests are the names of all tests of the module.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				all[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
