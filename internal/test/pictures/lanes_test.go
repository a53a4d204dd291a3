package pictures

// lanes are hosts side by side with the time running down.
type lanes struct {
	*drawing
	top, bottom float64
	x           map[string]float64
}

const (
	barWide = 14
	gap     = 4 // between a line and what is written above it
)

// lanesOf draws the heads, and the lines on which everything else stands.
func lanesOf(d *drawing, top, bottom float64, heads ...head) lanes {
	l := lanes{d, top, bottom, map[string]float64{}}
	for _, h := range heads {
		l.x[h.name] = h.x
		half := breadth(h.name)/2 + 14
		d.path(quiet, point{h.x, top + 28}, point{h.x, bottom})
		d.box(area{h.x - half, top, h.x + half, top + 28}, plain, h.name)
	}
	return l
}

// A head names a lane.
type head struct {
	name string
	x    float64
}

// bar shows what a host is from one time to another.
func (l lanes) bar(name string, from, to float64, c class) {
	x := l.x[name]
	l.add(`<rect class="box %s" x="%g" y="%g" width="%d" height="%g" rx="2"/>`, c, x-barWide/2, from, barWide, to-from)
}

// send is a message from one lane to another.
func (l lanes) send(from, to string, y float64, c class, text string) {
	a, b := l.x[from], l.x[to]
	side := sign(b-a) * (barWide/2 + 1)
	l.arrow(c, point{a + side, y}, point{b - side, y})
	l.text((a+b)/2, y-gap, middle, c, text)
}

// left and right say something about a host beside its lane.
func (l lanes) left(name string, y float64, lines ...string) {
	l.text(l.x[name]-barWide, y, end, plain, lines...)
}

func (l lanes) right(name string, y float64, lines ...string) {
	l.text(l.x[name]+barWide, y, start, plain, lines...)
}

// death is a cross on a lane.
func (l lanes) death(name string, y float64) {
	const half = 7
	x := l.x[name]
	l.path(refused, point{x - half, y - half}, point{x + half, y + half})
	l.path(refused, point{x - half, y + half}, point{x + half, y - half})
}
