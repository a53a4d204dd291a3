package paper

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Line is one curve of the chart.
type Line struct {
	Name   string
	Points []Point // with rising N
}

// Point is what a group of N nodes sends; both are at least 1, as the axes are
// logarithmic.
type Point struct{ N, Messages int }

// ChartSizes are the group sizes of the chart's points.
var ChartSizes = []int{5, 10, 20, 50, 100, 200, 500, 1000}

// Lines runs the papers' algorithms for the chart, for groups of these sizes:
// the leader has crashed, one node notices, datagrams sent.
func Lines(sizes []int) []Line {
	return []Line{
		line("Classic, worst case", sizes, func(n int) scenario { return classicFrom(n, 1) }),
		line("Smallest id, worst case", sizes, func(n int) scenario { return smallestFrom(n, shortcut) }),
		line("Enhanced, ordinary node notices", sizes, func(n int) scenario { return enhancedFrom(n, 1) }),
		line("Classic, best case", sizes, classicBest),
	}
}

func line(name string, sizes []int, of func(n int) scenario) Line {
	l := Line{Name: name}
	for _, n := range sizes {
		l.Points = append(l.Points, Point{N: n, Messages: of(n).run(n).total().Sent})
	}
	return l
}

// The picture's measures, in its own units. It is as narrow as a telephone shows without making its text small.
const (
	chartWidth  = 440
	enlarged    = 1.25 // on a wide screen
	plotLeft    = 92.0
	plotRight   = 416.0
	plotTop     = 104.0
	plotBottom  = 384.0
	legendTop   = 452.0
	legendPitch = 44.0
)

// chartStyle has colours that are told apart with any colour vision (Okabe and
// Ito's), and shades of them that stand out on dark. The lines differ in dashes
// too, for print; one is broad and pale, so that another may run on top of it.
const chartStyle = `
  .ground { fill: #ffffff }
  text { fill: #1f2328; font: 14px system-ui, "Segoe UI", Helvetica, Arial, sans-serif }
  .title { font-weight: 600 }
  .quiet { fill: #59636e }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .frame { stroke: #59636e; stroke-width: 1; fill: none }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round }
  .c0 { stroke: #c04a00; color: #c04a00 }
  .c1 { stroke: #a3487f; color: #a3487f; stroke-dasharray: 2 4 }
  .c2 { stroke: #006fae; color: #006fae }
  .c3 { stroke: #59636e; color: #59636e; stroke-dasharray: 10 3 2 3 }
  .c4 { stroke: #00805d; color: #00805d; stroke-dasharray: 8 5 }
  .line.c2 { stroke-width: 7; stroke-opacity: 0.4 }
  .dot { fill: #ffffff; stroke-width: 2; stroke-dasharray: none }
  @media (prefers-color-scheme: dark) {
    .ground, .dot { fill: #0d1117 }
    text { fill: #e6edf3 }
    .quiet { fill: #9198a1 }
    .grid { stroke: #30363d }
    .frame { stroke: #9198a1 }
    .c0 { stroke: #ff9447 }
    .c1 { stroke: #e79ac7 }
    .c2 { stroke: #56b4e9 }
    .c3 { stroke: #b1bac4 }
    .c4 { stroke: #2fc79b }
  }
`

// lineClasses is how many looks chartStyle has.
const lineClasses = 5

// SVG draws the lines, on logarithmic axes and with the last value of each in
// the legend. It needs no other file, and follows the reader's light or dark
// scheme. Without a point there is nothing to draw, and it is "".
func SVG(lines []Line) string {
	plot, ok := newPlot(lines)
	if !ok {
		return ""
	}
	height := legendTop + legendPitch*float64(len(lines))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" width="%.0f" height="%.0f" role="img" aria-labelledby="title desc">
<title id="title">Messages of one election against the number of nodes</title>
<desc id="desc">%s</desc>
<style>%s</style>
<rect class="ground" width="100%%" height="100%%"/>
`, chartWidth, height, chartWidth*enlarged, height*enlarged, escaped(summary(lines)), chartStyle)
	b.WriteString(`<text class="title" x="14" y="24">Messages of one election</text>
<text class="quiet" x="14" y="46">The leader has crashed, one node notices first,</text>
<text class="quiet" x="14" y="64">and no message is lost.</text>
<text x="14" y="90">datagrams sent (log scale)</text>
`)
	plot.writeAxes(&b)
	for i, l := range lines {
		plot.writeLine(&b, i, l)
		writeLegend(&b, i, l)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// summary is the chart for those who do not see it.
func summary(lines []Line) string {
	var parts []string
	for _, l := range lines {
		parts = append(parts, l.Name+": "+lastValue(l))
	}
	return "Datagrams sent. " + strings.Join(parts, ". ") + "."
}

func lastValue(l Line) string {
	if len(l.Points) == 0 {
		return "no figures"
	}
	last := l.Points[len(l.Points)-1]
	return grouped(last.Messages) + " for " + grouped(last.N) + " nodes"
}

// plot maps values to the picture.
type plot struct {
	minN, maxN      float64
	bottom, highest float64 // powers of ten
}

// newPlot is wide enough for all points; false without any.
func newPlot(lines []Line) (plot, bool) {
	p := plot{minN: math.Inf(1), bottom: math.Inf(1)}
	for _, l := range lines {
		for _, point := range l.Points {
			p.minN, p.maxN = min(p.minN, float64(point.N)), max(p.maxN, float64(point.N))
			p.bottom, p.highest = min(p.bottom, float64(point.Messages)), max(p.highest, float64(point.Messages))
		}
	}
	if p.maxN == 0 {
		return plot{}, false
	}
	p.bottom, p.highest = math.Floor(math.Log10(p.bottom)), math.Ceil(math.Log10(p.highest))
	p.highest = max(p.highest, p.bottom+1)
	return p, true
}

func (p plot) x(n float64) float64 {
	if p.minN == p.maxN {
		return (plotLeft + plotRight) / 2
	}
	return plotLeft + (plotRight-plotLeft)*math.Log(n/p.minN)/math.Log(p.maxN/p.minN)
}

func (p plot) y(messages float64) float64 {
	return plotBottom - (plotBottom-plotTop)*(math.Log10(messages)-p.bottom)/(p.highest-p.bottom)
}

func (p plot) writeAxes(b *strings.Builder) {
	for exponent := p.bottom; exponent <= p.highest; exponent++ {
		value := math.Pow(10, exponent)
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %.1fH%.1f"/><text class="quiet" x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n",
			plotLeft, p.y(value), plotRight, plotLeft-8, p.y(value)+5, grouped(int(value)))
	}
	for _, n := range p.ticks() {
		fmt.Fprintf(b, `<path class="grid" d="M%.1f %.1fV%.1f"/><text class="quiet" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			p.x(n), plotTop, plotBottom, p.x(n), plotBottom+20, grouped(int(n)))
	}
	fmt.Fprintf(b, `<path class="frame" d="M%.1f %.1fV%.1fH%.1f"/>`+"\n", plotLeft, plotTop, plotBottom, plotRight)
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">nodes, the crashed leader included (log scale)</text>`+"\n",
		chartWidth/2.0, plotBottom+42)
}

// ticks are the round numbers, 1, 2 and 5 times a power of ten, on the axis of
// nodes.
func (p plot) ticks() []float64 {
	var ticks []float64
	for power := 1.0; power <= p.maxN; power *= 10 {
		for _, factor := range []float64{1, 2, 5} {
			if n := factor * power; n >= p.minN && n <= p.maxN {
				ticks = append(ticks, n)
			}
		}
	}
	return ticks
}

func (p plot) writeLine(b *strings.Builder, index int, l Line) {
	var path, dots strings.Builder
	for i, point := range l.Points {
		x, y := p.x(float64(point.N)), p.y(float64(point.Messages))
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], x, y) // move there, then lines
		fmt.Fprintf(&dots, `<circle class="dot c%d" cx="%.1f" cy="%.1f" r="3.5"><title>%s: %s messages, %s nodes</title></circle>`+"\n",
			index%lineClasses, x, y, escaped(l.Name), grouped(point.Messages), grouped(point.N))
	}
	fmt.Fprintf(b, `<path class="line c%d" d="%s"/>`+"\n%s", index%lineClasses, path.String(), dots.String())
}

func writeLegend(b *strings.Builder, index int, l Line) {
	y := legendTop + legendPitch*float64(index)
	fmt.Fprintf(b, `<path class="line c%d" d="M14 %.1fh36"/><text x="62" y="%.1f">%s</text><text class="quiet" x="62" y="%.1f">%s</text>`+"\n",
		index%lineClasses, y-5, y, escaped(l.Name), y+18, lastValue(l))
}

// grouped is 12,345.
func grouped(v int) string {
	digits := strconv.Itoa(v)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

func escaped(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(text)
}
