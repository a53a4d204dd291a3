package docs

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A text is what people read from one file: a page, or what of it help and messages have.
type text struct {
	kind      string // documents, help or messages
	path      string // from the root
	sentences []sentence
}

const (
	documents = "documents"
	helps     = "help"
	messages  = "messages"
)

// texts gives all that the program and its documents say to people.
func texts(t *testing.T) []text {
	t.Helper()
	var all []text
	for _, p := range pages(t) {
		all = append(all, text{documents, p.path, sentences(p.text)})
	}
	all = append(all, text{helps, referencePath, settings(t)})
	for _, file := range sources(t) {
		if strings.HasSuffix(file.path, "_test.go") || strings.HasPrefix(file.path, filepath.Join("internal", "test")) {
			continue
		}
		byKind := file.says()
		for _, kind := range []string{helps, messages} {
			if len(byKind[kind]) > 0 {
				all = append(all, text{kind, file.path, byKind[kind]})
			}
		}
	}
	return all
}

var referencePath = filepath.Join("internal", "config", "reference.toml")

// settings are the comments of the reference configuration, of which the help of run and the manual are made.
func settings(t *testing.T) []sentence {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, referencePath))
	if err != nil {
		t.Fatal(err)
	}
	value := regexp.MustCompile(`^# (?:[a-z_]+ = |\[)`)
	lines := strings.Split(string(content), "\n")
	for i, line := range lines {
		about, isComment := strings.CutPrefix(line, "#")
		if !isComment || value.MatchString(line) {
			about = ""
		}
		lines[i] = strings.TrimSpace(about)
	}
	return sentences(strings.Join(lines, "\n"))
}

// says gives the sentences in a file's literals, by kind.
func (file source) says() map[string][]sentence {
	all := map[string][]sentence{}
	kind := messages
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field:
			return false // paths and tags
		case *ast.KeyValueExpr:
			if name, ok := n.Key.(*ast.Ident); ok && file.isHelp(name.Name) {
				kind = helps
				ast.Inspect(n.Value, visit)
				kind = messages
				return false
			}
		case *ast.BinaryExpr, *ast.BasicLit:
			if said, ok := joined(n.(ast.Expr)); ok {
				all[kind] = append(all[kind], file.sentences(n.Pos(), said)...)
				return false
			}
		}
		return true
	}
	ast.Inspect(file.tree, visit)
	return all
}

func (file source) isHelp(field string) bool {
	return filepath.Dir(file.path) == filepath.Join("internal", "cli") && slices.Contains([]string{"usage", "about", "fallback"}, field)
}

// joined is a literal, or several with values between them, each of which is a word of x.
func joined(e ast.Expr) (said string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		said, err := strconv.Unquote(e.Value)
		return said, err == nil
	case *ast.BinaryExpr:
		left, ofLeft := joined(e.X)
		right, ofRight := joined(e.Y)
		if e.Op != token.ADD || !ofLeft && !ofRight {
			return "", false
		}
		if !ofLeft {
			left = "x"
		}
		if !ofRight {
			right = "x"
		}
		return left + right, true
	}
	return "", false
}

var (
	spoken  = regexp.MustCompile(`(?:^|[\s(])[a-z]{2,}[,.:;)]?(?:\s|$)`)
	machine = regexp.MustCompile(`[{}<>]\n|</|=>|\bfunction\b|#!/`) // a script, a template, a page
)

// sentences are those of a literal at a position. Prose has four words at least.
func (file source) sentences(at token.Pos, said string) []sentence {
	if machine.MatchString(said) {
		return nil
	}
	line := file.set.Position(at).Line
	var all []sentence
	for _, s := range sentences(said) {
		if s.words() > label && len(spoken.FindAllString(s.plain, -1)) > 1 {
			s.line += line - 1
			all = append(all, s)
		}
	}
	return all
}
