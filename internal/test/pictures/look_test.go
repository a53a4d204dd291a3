package pictures

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/browser"
)

// views are a telephone and a wide screen, in each scheme.
var views = []browser.View{{Width: 360, Height: 640}, {Width: 360, Height: 640, Dark: true}, {Width: 1400, Height: 900}, {Width: 1400, Height: 900, Dark: true}}

// outside lists the texts that a browser draws beyond the picture's edges; those that are turned are measured before they turn.
const outside = `(() => {
	const box = document.documentElement.viewBox.baseVal;
	return [...document.querySelectorAll('text:not([transform])')].filter(text => {
		const at = text.getBBox();
		return at.x < box.x || at.y < box.y || at.x + at.width > box.x + box.width || at.y + at.height > box.y + box.height;
	}).map(text => text.textContent);
})()`

// A browser draws all texts of all pictures of the documents within their edges, in its own fonts.
func TestPicturesInABrowser(t *testing.T) {
	b := browser.Open(t)
	for _, path := range all(t) {
		tab := b.Open("file://"+path, views[0])
		if n := browser.Eval[int](tab, `document.querySelectorAll('text').length`); n < 10 {
			t.Errorf("%s: %d texts", path, n)
		}
		for _, text := range browser.Eval[[]string](tab, outside) {
			t.Errorf("%s: %q lies beyond the edges", path, text)
		}
	}
}

// Pages show the pictures whole at each width. BULLY_PICTURES names a directory that keeps what was seen.
func TestPicturesOnAPage(t *testing.T) {
	b := browser.Open(t)
	for _, path := range all(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".svg")
		sheet := filepath.Join(t.TempDir(), "sheet.html")
		text := fmt.Sprintf(`<!doctype html><meta name="color-scheme" content="light dark"><style>img { max-width: 100%% }</style><img src="file://%s">`, path)
		if err := os.WriteFile(sheet, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, v := range views {
			tab := b.Open("file://"+sheet, v)
			tab.Await(`document.images[0].complete && document.images[0].naturalWidth > 0`)
			if !browser.Eval[bool](tab, `document.documentElement.scrollWidth <= innerWidth`) {
				t.Errorf("%s, %v: it is broader than the page", name, v)
			}
			tab.Picture(fmt.Sprintf("%s-%v", name, v))
		}
	}
}

// all are the paths of the documents' pictures.
func all(t *testing.T) []string {
	t.Helper()
	dir, err := filepath.Abs(docs)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil || len(files) < len(pictures) {
		t.Fatalf("%d pictures: %v", len(files), err)
	}
	return files
}
