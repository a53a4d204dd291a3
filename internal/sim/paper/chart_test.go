package paper

import (
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
)

// elements parses the picture, and fails the test if it is not XML.
func elements(t *testing.T, svg string) []xml.StartElement {
	t.Helper()
	var all []xml.StartElement
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("the chart is no XML: %v", err)
		}
		if start, ok := token.(xml.StartElement); ok {
			all = append(all, start.Copy())
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func TestChartOfTheAlgorithms(t *testing.T) {
	lines := append(Lines([]int{5, 10, 20, 100}), Line{Name: `"Ours" <& more>`, Points: []Point{{5, 6}, {100, 196}}})
	svg := SVG(lines)
	if strings.Contains(svg, "%!") || strings.Contains(svg, "NaN") {
		t.Error("the chart has a formatting mistake")
	}
	dots := 0
	for _, e := range elements(t, svg) {
		if e.Name.Local != "circle" {
			continue
		}
		dots++
		x, _ := strconv.ParseFloat(attribute(e, "cx"), 64)
		y, _ := strconv.ParseFloat(attribute(e, "cy"), 64)
		if x < plotLeft || x > plotRight || y < plotTop || y > plotBottom {
			t.Errorf("a point at %v, %v is outside the plot", x, y)
		}
	}
	if want := 4*4 + 2; dots != want {
		t.Errorf("%d points are drawn, want %d", dots, want)
	}
	for _, want := range []string{
		"Classic, worst case: 9,900 messages, 100 nodes", "Smallest id, worst case: 295 messages, 100 nodes",
		"Enhanced, ordinary node notices: 198 messages, 100 nodes", "Classic, best case: 99 messages, 100 nodes",
		"&quot;Ours&quot; &lt;&amp; more&gt;: 196 messages, 100 nodes",
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the chart does not say %q", want)
		}
	}
}

// TestChartGrowsUpwards: a tenfold count is one decade higher, and sizes go from
// left to right.
func TestChartGrowsUpwards(t *testing.T) {
	p, ok := newPlot([]Line{{Points: []Point{{5, 4}, {1000, 999000}}}})
	if !ok {
		t.Fatal("no plot of two points")
	}
	decade := (plotBottom - plotTop) / 6
	for _, test := range []struct{ got, want float64 }{
		{p.y(1), plotBottom}, {p.y(1e6), plotTop}, {p.y(1000) - p.y(10000), decade},
		{p.x(5), plotLeft}, {p.x(1000), plotRight},
	} {
		if diff := test.got - test.want; diff > 1e-6 || diff < -1e-6 {
			t.Errorf("at %v, want %v", test.got, test.want)
		}
	}
}

func TestChartOfLittle(t *testing.T) {
	if svg := SVG(nil); svg != "" {
		t.Errorf("a chart of nothing: %s", svg)
	}
	for _, lines := range [][]Line{
		{{Name: "one point", Points: []Point{{5, 1}}}},
		{{Name: "none"}, {Name: "two", Points: []Point{{5, 10}, {10, 10}}}},
	} {
		svg := SVG(lines)
		if elements(t, svg); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%v: a number is missing in\n%s", lines, svg)
		}
	}
}

func TestGrouped(t *testing.T) {
	for v, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 999000: "999,000", 1234567: "1,234,567"} {
		if got := grouped(v); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
