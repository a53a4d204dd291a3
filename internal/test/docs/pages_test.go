// Package docs holds the documents against the program: what a page shows is run, what it links to is there.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// root is the module's directory, from this package's.
const root = "../../.."

// A page is one document.
type page struct {
	path string // from the root
	text string
}

// pages gives all that is written for people: every Markdown file.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == ".git" {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			all = append(all, page{relative, string(content)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 15 {
		t.Fatalf("only %d pages were found", len(all))
	}
	return all
}

// readme is the page that everybody sees first.
func readme(t *testing.T) page { return pageAt(t, "README.md") }

func pageAt(t *testing.T, path string) page {
	t.Helper()
	for _, p := range pages(t) {
		if p.path == path {
			return p
		}
	}
	t.Fatalf("there is no page %s", path)
	return page{}
}

// A block is one fenced block of a page.
type block struct{ language, text string }

var fenced = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

func (p page) blocks() []block {
	var all []block
	for _, m := range fenced.FindAllStringSubmatch(p.text, -1) {
		all = append(all, block{m[1], m[2]})
	}
	return all
}

// split cuts the page where a section begins and where it ends: at the next heading of its level or above.
func (p page) split(section string) (before, within, after string) {
	var parts [3]strings.Builder
	at, level, inBlock := 0, 0, false
	for line := range strings.Lines(p.text) {
		if strings.HasPrefix(line, "```") {
			inBlock = !inBlock
		}
		marks, title, isHeading := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if isHeading = isHeading && !inBlock && marks != "" && strings.Trim(marks, "#") == ""; isHeading {
			switch {
			case at == 0 && title == section:
				at, level = 1, len(marks)
			case at == 1 && len(marks) <= level:
				at = 2
			}
		}
		parts[at].WriteString(line)
	}
	return parts[0].String(), parts[1].String(), parts[2].String()
}

// under is one section of the page.
func (p page) under(section string) page {
	_, within, _ := p.split(section)
	return page{p.path, within}
}

// without is the page without a section.
func (p page) without(section string) page {
	before, _, after := p.split(section)
	return page{p.path, before + after}
}

// prose is the page without what it shows.
func (p page) prose() string { return fenced.ReplaceAllString(p.text, "") }

// The README is read at a sitting; and no page needs a wide window.
func TestLengths(t *testing.T) {
	const (
		lines = 120 // of the README
		width = 160 // of any line
	)
	if n := strings.Count(readme(t).text, "\n"); n > lines {
		t.Errorf("README.md has %d lines: at most %d, the rest belongs into docs/", n, lines)
	}
	for _, p := range pages(t) {
		for i, line := range strings.Split(p.text, "\n") {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%s:%d has %d characters: at most %d", p.path, i+1, n, width)
			}
		}
	}
}
