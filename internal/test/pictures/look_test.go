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

// On a telephone a page leaves a picture so many pixels, and type must be so high there. The height is arbitrary: that of small
// print on GitHub's pages is 12 and can still be read, that of a picture of a whole terminal was 3.
const telephone, leastType = 344, 10

// small lists the texts whose type is too small on a telephone.
var small = fmt.Sprintf(`(() => {
	const scale = %d / document.documentElement.viewBox.baseVal.width;
	return [...document.querySelectorAll('text')].filter(text => parseFloat(getComputedStyle(text).fontSize) * scale < %d).map(text => text.textContent);
})()`, telephone, leastType)

// pale lists the texts that do not stand out from the last opaque box before them that they lie in (WCAG 2.1, 1.4.3).
const pale = `(() => {
	const light = colour => {
		const [r, g, b] = colour.match(/\d+/g).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
	};
	const has = (box, x, y) => box.x <= x && x <= box.x + box.width && box.y <= y && y <= box.y + box.height;
	const isBefore = (a, b) => a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING;
	const boxes = [...document.querySelectorAll('rect')].filter(box => getComputedStyle(box).fillOpacity === '1');
	return [...document.querySelectorAll('text:not([transform])')].filter(text => {
		const at = text.getBBox();
		const ground = boxes.findLast(box => isBefore(box, text) && has(box.getBBox(), at.x + at.width / 2, at.y + at.height / 2));
		const [a, b] = [text, ground].map(shape => light(getComputedStyle(shape).fill)).sort((a, b) => b - a);
		return a / b < 4.5;
	}).map(text => text.textContent);
})()`

// A browser draws all texts of all pictures of the documents within their edges, in its own fonts, large enough on a telephone, and
// so that they can be told from their ground in either scheme.
func TestPicturesInABrowser(t *testing.T) {
	t.Parallel()
	b := browser.Open(t)
	for _, path := range all(t) {
		tab := b.Open("file://"+path, views[0])
		if n := browser.Eval[int](tab, `document.querySelectorAll('text').length`); n < 10 {
			t.Errorf("%s: %d texts", path, n)
		}
		for _, text := range browser.Eval[[]string](tab, outside) {
			t.Errorf("%s: %q lies beyond the edges", path, text)
		}
		for _, text := range browser.Eval[[]string](tab, small) {
			t.Errorf("%s: the type of %q is less than %d pixels high where a page leaves the picture %d", path, text, leastType, telephone)
		}
		grounds := map[string]bool{}
		for _, v := range views[:2] {
			tab.Look(v)
			grounds[browser.Eval[string](tab, `getComputedStyle(document.querySelector('rect')).fill`)] = true
			for _, text := range browser.Eval[[]string](tab, pale) {
				t.Errorf("%s, %v: %q does not stand out", path, v, text)
			}
		}
		if len(grounds) != 2 {
			t.Errorf("%s has one ground in both schemes", path)
		}
	}
}

// Pages show the pictures whole at each width. BULLY_PICTURES names a directory that keeps what was seen.
func TestPicturesOnAPage(t *testing.T) {
	t.Parallel()
	b := browser.Open(t)
	for _, path := range all(t) {
		name := strings.TrimSuffix(filepath.Base(path), ".svg")
		sheet := filepath.Join(t.TempDir(), "sheet.html")
		text := fmt.Sprintf(`<!doctype html><meta name="color-scheme" content="light dark"><style>img { max-width: 100%% }</style><img src="file://%s">`, path)
		if err := os.WriteFile(sheet, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		tab := b.Open("file://"+sheet, views[0])
		for _, v := range views {
			tab.Look(v)
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
