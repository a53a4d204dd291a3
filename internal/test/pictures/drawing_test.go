package pictures

import (
	"fmt"
	"html"
	"strings"
)

// Each picture is as wide as a telephone shows without making its text small: 440 of its own units, 14 of them a line's type.
const (
	width    = 440
	enlarged = 1.25 // on a wide screen
	fontSize = 14
	lineStep = 18
	headSize = 7 // of an arrow
)

// A class is how a shape looks, as in style.
type class string

const (
	plain     class = "plain"
	follower  class = "follower"
	candidate class = "candidate"
	leader    class = "leader"
	refused   class = "refused"
	quiet     class = "quiet" // dashed
	thin      class = "thin"
)

// style has the colours of internal/sim/paper's chart: they are told apart with any colour vision, and no colour alone says anything.
const style = `
  .ground { fill: #ffffff }
  text { fill: #1f2328; font: 14px system-ui, "Segoe UI", Helvetica, Arial, sans-serif }
  text.bold { font-weight: 600 }
  text.quiet { fill: #59636e }
  text.refused { fill: #b03a00 }
  .box { stroke-width: 1.5; fill: #ffffff; stroke: #59636e }
  .line { stroke-width: 1.5; fill: none; stroke: #59636e }
  .head { fill: #59636e }
  .head.refused { fill: #b03a00 }
  .line.refused { stroke: #b03a00 }
  .line.thin { stroke-width: 0.75 }
  .line.quiet { stroke-dasharray: 3 4 }
  .box.quiet { stroke-dasharray: 4 3 }
  .box.follower { fill: #ddf0fb; stroke: #006fae }
  .box.candidate { fill: #fbe8d5; stroke: #c04a00 }
  .box.leader { fill: #d5f2e8; stroke: #00805d }
  .box.refused { stroke: #b03a00 }
  .box.band { stroke: none; fill-opacity: 0.4 }
  @media (prefers-color-scheme: dark) {
    .ground, .box { fill: #0d1117 }
    text { fill: #e6edf3 }
    text.quiet { fill: #9198a1 }
    text.refused { fill: #ff9447 }
    .box, .line { stroke: #9198a1 }
    .head { fill: #9198a1 }
    .head.refused { fill: #ff9447 }
    .line.refused { stroke: #ff9447 }
    .box.follower { fill: #0c2d43; stroke: #56b4e9 }
    .box.candidate { fill: #45220a; stroke: #ff9447 }
    .box.leader { fill: #0b3a2d; stroke: #2fc79b }
    .box.refused { stroke: #ff9447 }
    .box.band { stroke: none }
  }
`

// A drawing is one picture, in the order in which it is drawn.
type drawing struct {
	title, about string // about is for those who do not see it
	height       int
	style        string // what no other picture has
	body         strings.Builder
	labels       []label
}

// A label is one line of text, and where it must stay.
type label struct {
	text       string
	at, within area
}

// An area is a rectangle, by its edges.
type area struct{ left, top, right, bottom float64 }

func (a area) has(b area) bool {
	return a.left <= b.left && b.right <= a.right && a.top <= b.top && b.bottom <= a.bottom
}

func (a area) overlaps(b area) bool {
	return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom
}

func (d *drawing) area() area { return area{0, 0, width, float64(d.height)} }

// svg is the picture as a file, which needs no other.
func (d *drawing) svg() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%.0f" height="%.0f" role="img" aria-labelledby="title desc">
<title id="title">%s</title>
<desc id="desc">%s</desc>
<style>%s</style>
<rect class="ground" width="100%%" height="100%%"/>
%s</svg>
`, width, d.height, width*enlarged, float64(d.height)*enlarged, html.EscapeString(d.title), html.EscapeString(d.about), style+strings.TrimPrefix(d.style, "\n"), d.body.String())
}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.body, format+"\n", args...) }

// An anchor says which part of a text stands at its x.
type anchor string

const (
	start  anchor = "start"
	middle anchor = "middle"
	end    anchor = "end"
)

// text writes lines, the first with its base at y.
func (d *drawing) text(x, y float64, a anchor, c class, lines ...string) {
	for i, line := range lines {
		d.line(x, y+float64(i*lineStep), a, string(c), line, d.area())
	}
}

// bold writes one line that stands out.
func (d *drawing) bold(x, y float64, a anchor, line string) { d.line(x, y, a, "bold", line, d.area()) }

func (d *drawing) line(x, y float64, a anchor, classes, text string, within area) {
	wide := breadth(text)
	if classes == "bold" {
		wide *= 1.15
	}
	left := map[anchor]float64{start: x, middle: x - wide/2, end: x - wide}[a]
	d.labels = append(d.labels, label{text, area{left, y - 0.8*fontSize, left + wide, y + 0.25*fontSize}, within})
	d.add(`<text x="%g" y="%g" text-anchor="%s" class="%s">%s</text>`, x, y, a, classes, html.EscapeString(text))
}

// box draws a box with lines in its middle, the first of them bold.
func (d *drawing) box(a area, c class, lines ...string) {
	d.add(`<rect class="box %s" x="%g" y="%g" width="%g" height="%g" rx="6"/>`, c, a.left, a.top, a.right-a.left, a.bottom-a.top)
	y := (a.top+a.bottom)/2 + 5 - float64((len(lines)-1)*lineStep)/2
	for i, text := range lines {
		looks := "bold"
		if i > 0 {
			looks = "plain"
		}
		d.line((a.left+a.right)/2, y+float64(i*lineStep), middle, looks, text, a)
	}
}

// band colours a part of the picture over its whole breadth.
func (d *drawing) band(top, bottom float64, c class) {
	d.add(`<rect class="box %s band" x="0" y="%g" width="%d" height="%g"/>`, c, top, width, bottom-top)
}

// A point is a place in a drawing.
type point struct{ x, y float64 }

// path draws straight lines from point to point.
func (d *drawing) path(c class, points ...point) {
	var at []string
	for _, p := range points {
		at = append(at, fmt.Sprintf("%g,%g", p.x, p.y))
	}
	d.add(`<polyline class="line %s" points="%s"/>`, c, strings.Join(at, " "))
}

// arrow is a path with a head at its last point, to which it comes upright or level.
func (d *drawing) arrow(c class, points ...point) {
	d.path(c, points...)
	from, to := points[len(points)-2], points[len(points)-1]
	dx, dy := sign(to.x-from.x)*headSize, sign(to.y-from.y)*headSize
	d.add(`<polygon class="head %s" points="%g,%g %g,%g %g,%g"/>`, c, to.x, to.y,
		to.x-dx-dy/2, to.y-dy-dx/2, to.x-dx+dy/2, to.y-dy+dx/2)
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// breadths are those of DejaVu Sans, the broadest font in use, in thousandths of the type's size and rounded up.
var breadths = map[int]string{
	300: `'IJijl`, 350: ` ,./:;\|·’`, 400: `!()-[]ft`, 450: `r`, 500: `"*_–`, 550: `?csz`, 600: `FLkvxy`, 650: `$0123456789EPSTYabdeghnopqu{}`,
	700: `ABCKRVXZ`, 750: `NU`, 800: `&DGHOQ`, 850: `#+<=>w~→×`, 900: `M`, 950: `%`, 1000: `@Wm…`,
}

// breadth is how broad a line of text is at most.
func breadth(text string) float64 {
	sum := 0
	for _, r := range text {
		sum += breadthOf(r)
	}
	return float64(sum) * fontSize / 1000
}

func breadthOf(r rune) int {
	for n, runes := range breadths {
		if strings.ContainsRune(runes, r) {
			return n
		}
	}
	return 1000
}
