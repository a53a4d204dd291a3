package mutants

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checker type-checks mutated packages in this process: a build of each would
// take a second per mutant.
type checker struct {
	fset    *token.FileSet
	imports types.Importer
	parsed  map[string]original // the files as they are
}

// original is a file as it is.
type original struct {
	whole  *ast.File
	outer  *ast.File // its functions do nothing
	facade string    // its text without what is in functions
}

// newChecker takes what the packages in these directories import from the build cache.
func newChecker(t *testing.T, dirs ...string) *checker {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, dir := range dirs {
		args = append(args, "./"+dir)
	}
	list := exec.Command("go", args...)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list what the packages of mutants import: %v", err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = file
	}
	fset := token.NewFileSet()
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	return &checker{fset: fset, imports: importer.ForCompiler(fset, "gc", open), parsed: map[string]original{}}
}

// check says why a package does not compile with the changed files in it. What changes in functions alone can break no other file:
// then the functions of the others are left out, which is most of the work.
func (c *checker) check(dir string, changed map[string][]byte) error {
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return err
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
	mutated := map[string]*ast.File{}
	inFunctions := len(changed) > 0
	for _, path := range paths {
		text := changed[dir+"/"+filepath.Base(path)]
		if text == nil {
			continue
		}
		f, err := parser.ParseFile(c.fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		was, err := c.original(path)
		if err != nil {
			return err
		}
		mutated[path] = f
		inFunctions = inFunctions && facade(c.fset, f, text) == was.facade
	}
	var files []*ast.File
	for _, path := range paths {
		f := mutated[path]
		if f == nil {
			was, err := c.original(path)
			if err != nil {
				return err
			}
			if f = was.whole; inFunctions {
				f = was.outer
			}
		}
		files = append(files, f)
	}
	return c.judge(dir, files, func(path string) bool { return !inFunctions || mutated[path] != nil })
}

// judge gives the first error in a file that counts: one whose functions are left out seems to import too much.
func (c *checker) judge(dir string, files []*ast.File, counts func(path string) bool) error {
	var first error
	note := func(err error) {
		var at types.Error
		if first == nil && (!errors.As(err, &at) || counts(at.Fset.Position(at.Pos).Filename)) {
			first = err
		}
	}
	_, _ = (&types.Config{Importer: c.imports, Error: note}).Check(dir, c.fset, files, nil)
	return first
}

// original parses a file as it is, once.
func (c *checker) original(path string) (original, error) {
	if f, ok := c.parsed[path]; ok {
		return f, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return original{}, err
	}
	var f original
	if f.whole, err = parser.ParseFile(c.fset, path, text, parser.SkipObjectResolution); err != nil {
		return original{}, err
	}
	f.facade = facade(c.fset, f.whole, text)
	if f.outer, err = parser.ParseFile(c.fset, path, text, parser.SkipObjectResolution); err != nil {
		return original{}, err
	}
	for _, d := range f.outer.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
			at := d.Body.Lbrace // a loop without end returns whatever is promised
			d.Body.List = []ast.Stmt{&ast.ForStmt{For: at, Body: &ast.BlockStmt{Lbrace: at, Rbrace: at}}}
		}
	}
	c.parsed[path] = f
	return f, nil
}

// facade gives a file's text without what is in functions.
func facade(fset *token.FileSet, f *ast.File, text []byte) string {
	var b strings.Builder
	from := 0
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
			b.Write(text[from:fset.Position(d.Body.Lbrace).Offset])
			from = fset.Position(d.Body.Rbrace).Offset
		}
	}
	b.Write(text[from:])
	return b.String()
}
