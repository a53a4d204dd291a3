package docs

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docs/hooks.md has each cause that there is, once, and no other: those of the election, of the agent beside it, of hooks
// that nobody's leadership asks for, and of changes of members.
func TestCausesAreListed(t *testing.T) {
	var want []string
	for _, file := range sources(t) {
		if strings.HasSuffix(file.path, "_test.go") || !slices.Contains([]string{"election", "agent", "hooks"}, filepath.Dir(file.path)) {
			continue
		}
		for _, decl := range file.tree.Decls {
			if of, isFunc := decl.(*ast.FuncDecl); isFunc && file.path == filepath.Join("agent", "view.go") && of.Name.Name == "update" {
				want = append(want, textsIn(of)...) // what became of a member is no constant
			}
			group, isGroup := decl.(*ast.GenDecl)
			if !isGroup {
				continue
			}
			for _, spec := range group.Specs {
				if value, isValue := spec.(*ast.ValueSpec); isValue && isCause(value) {
					word, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
					if err != nil {
						t.Fatalf("%s: %v", file.path, err)
					}
					want = append(want, word)
				}
			}
		}
	}
	if len(want) < 50 {
		t.Fatalf("only %d causes were found in the code", len(want))
	}
	var listed []string
	_, table, _ := strings.Cut(pageAt(t, "docs/hooks.md").prose(), "\n| cause | why |\n")
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "|") {
			break
		}
		for _, m := range cause.FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			listed = append(listed, m[1])
		}
	}
	want = set(want)
	slices.Sort(listed) // with what is there twice
	if !slices.Equal(listed, want) {
		t.Errorf("docs/hooks.md has the causes\n%q\nand there are\n%q", listed, want)
	}
}

var cause = regexp.MustCompile("`([a-z-]+)`")

// isCause is a constant of type election.Cause, or a text that is called one.
func isCause(value *ast.ValueSpec) bool {
	if len(value.Values) != 1 {
		return false
	}
	literal, isLiteral := value.Values[0].(*ast.BasicLit)
	if !isLiteral || literal.Kind != token.STRING {
		return false
	}
	switch of := value.Type.(type) {
	case *ast.Ident:
		return of.Name == "Cause"
	case *ast.SelectorExpr:
		return of.Sel.Name == "Cause"
	case nil:
		return strings.HasPrefix(strings.ToLower(value.Names[0].Name), "cause")
	}
	return false
}

// textsIn are the texts in a function that are not empty.
func textsIn(of *ast.FuncDecl) (all []string) {
	ast.Inspect(of, func(n ast.Node) bool {
		if literal, isLiteral := n.(*ast.BasicLit); isLiteral && literal.Kind == token.STRING && literal.Value != `""` {
			all = append(all, strings.Trim(literal.Value, `"`))
		}
		return true
	})
	return all
}
