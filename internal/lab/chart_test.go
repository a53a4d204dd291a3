package lab

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"
)

// The chart of TestBeside: a line for each program and fault on an axis of powers of ten, from its least time to its
// longest, the median as a mark. Two faults never share a colour alone: their marks differ as well.

const (
	chartWidth  = 860
	chartLeft   = 210 // for names
	chartRight  = 90  // for the median in figures
	chartTop    = 46
	chartRow    = 46
	chartFloor  = 5 * time.Millisecond
	chartCeil   = 20 * time.Second
	chartColour = `<style>text{font:13px system-ui,sans-serif;fill:#333}.a{stroke:#ddd}.kill{stroke:#2563a8;fill:#2563a8}.cut{stroke:#b4541a;fill:#b4541a}` +
		`line.kill,line.cut{stroke-width:3}text.kill,text.cut{stroke:none}</style>`
)

func chart(rivals []*rival, rounds int) []byte {
	height := chartTop + chartRow*len(rivals) + 40
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="time until another host leads, by program and fault">`+"\n%s\n",
		chartWidth, height, chartColour)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", chartWidth, height)
	fmt.Fprintf(&b, `<text x="%d" y="18">Time until another host leads, five hosts, %d rounds each: least, median, longest</text>`+"\n", 10, rounds)
	for i, f := range besideFaults {
		x := 560 + 130*i
		fmt.Fprintf(&b, "%s<text x=\"%d\" y=\"36\" class=\"%s\">%s</text>\n", mark(f, float64(x), 32), x+10, f, faultWords[f])
	}
	for at := 10 * time.Millisecond; at <= chartCeil; at *= 10 {
		x := chartX(at)
		fmt.Fprintf(&b, `<line class="a" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle">%v</text>`+"\n",
			x, chartTop, x, height-34, x, height-14, at)
	}
	for i, r := range rivals {
		y := float64(chartTop + chartRow*i + chartRow/2)
		fmt.Fprintf(&b, `<text x="10" y="%.0f">%s</text>`+"\n", y+4, html.EscapeString(r.name))
		for k, f := range besideFaults {
			b.WriteString(span(r.took[f], f, y-9+18*float64(k)))
		}
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

var faultWords = map[fault]string{kill: "processes killed", cut: "cable cut"}

// span draws the times of one program and fault at a height.
func span(took []time.Duration, f fault, y float64) string {
	took = slices.Sorted(slices.Values(took))
	low, mid, high := chartX(took[0]), chartX(took[(len(took)-1)/2]), chartX(took[len(took)-1])
	return fmt.Sprintf(`<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>%s<text class="%s" x="%d" y="%.1f" text-anchor="end">%s ms</text>`+"\n",
		f, low, y, high, y, mark(f, mid, y), f, chartWidth-10, y+4, quantile(took, 0.5))
}

func mark(f fault, x, y float64) string {
	if f == kill {
		return fmt.Sprintf(`<circle class="%s" cx="%.1f" cy="%.1f" r="5"/>`, f, x, y)
	}
	return fmt.Sprintf(`<rect class="%s" x="%.1f" y="%.1f" width="9" height="9"/>`, f, x-4.5, y-4.5)
}

// chartX is where on the axis a time is.
func chartX(d time.Duration) float64 {
	d = min(max(d, chartFloor), chartCeil)
	span := math.Log(float64(chartCeil) / float64(chartFloor))
	return chartLeft + (chartWidth-chartLeft-chartRight)*math.Log(float64(d)/float64(chartFloor))/span
}
