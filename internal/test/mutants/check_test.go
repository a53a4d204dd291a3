package mutants

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checker type-checks mutated packages in this process: a build of each would
// take a second per mutant.
type checker struct {
	fset    *token.FileSet
	imports types.Importer
	parsed  map[string]*ast.File // of the files as they are
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
	return &checker{fset: fset, imports: importer.ForCompiler(fset, "gc", open), parsed: map[string]*ast.File{}}
}

// check says why a package does not compile with the changed files in it.
func (c *checker) check(dir string, changed map[string][]byte) error {
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return err
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := c.parse(path, changed[dir+"/"+filepath.Base(path)])
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	_, err = (&types.Config{Importer: c.imports}).Check(dir, c.fset, files, nil)
	return err
}

// parse gives the file, from text where a mutant changed it.
func (c *checker) parse(path string, text []byte) (*ast.File, error) {
	if text != nil {
		return parser.ParseFile(c.fset, path, text, parser.SkipObjectResolution)
	}
	if f := c.parsed[path]; f != nil {
		return f, nil
	}
	f, err := parser.ParseFile(c.fset, path, nil, parser.SkipObjectResolution)
	c.parsed[path] = f
	return f, err
}
