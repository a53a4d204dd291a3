package arch

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// `make fuzz` names the packages whose targets it feeds: one that is not named is never fed.
func TestEachPackageWithAFuzzTargetIsFed(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	loop := regexp.MustCompile(`(?m)^fuzz:.*\n\t@for p in (.*); do`).FindStringSubmatch(string(makefile))
	if loop == nil {
		t.Fatal("the Makefile has no loop over packages to fuzz: this test looks for the wrong words")
	}
	fed := strings.Fields(loop[1])
	targets := regexp.MustCompile(`(?m)^func Fuzz[A-Z]`)
	var with []string
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if dir := path.Dir(name); targets.Match(text) && !slices.Contains(with, dir) {
			with = append(with, dir)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(fed)
	slices.Sort(with)
	if !slices.Equal(fed, with) {
		t.Errorf("make fuzz feeds the packages %q, and there are targets in %q", fed, with)
	}
}
