package pictures

import (
	"bufio"
	_ "embed"
	"fmt"
	"math"
	"strings"
)

//go:embed testdata/beside.txt
var besideTimes string

// A race is one program and one fault: how long it took until another host led, in milliseconds.
type race struct {
	fault, program         string
	least, median, longest float64
}

// faults are in the order in which a program shows them. They share no mark, so that no colour alone says anything.
var faults = []struct {
	name, says string
	looks      class
}{
	{"kill", "all processes killed", follower},
	{"cut", "cable cut", candidate},
}

// races reads what make beside has measured.
func races(text string) (rounds int, all []race, err error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := fmt.Sscanf(line, "rounds %d", &rounds); err == nil {
			continue
		}
		var r race
		if _, err := fmt.Sscan(line, &r.fault, &r.least, &r.median, &r.longest); err != nil {
			return 0, nil, fmt.Errorf("read %q: %w", line, err)
		}
		if !(0 < r.least && r.least <= r.median && r.median <= r.longest) {
			return 0, nil, fmt.Errorf("%q: expected 0 < least ≤ median ≤ longest", line)
		}
		r.program = strings.Join(strings.Fields(line)[4:], " ")
		all = append(all, r)
	}
	return rounds, all, nil
}

// The axis has powers of ten, from left to right.
const (
	axisFirst, axisLast = 5.0, 20000.0 // milliseconds
	axisLeft, axisRight = 14.0, 352.0
)

// axisAt is where on the axis a time is.
func axisAt(ms float64) float64 {
	ms = min(max(ms, axisFirst), axisLast)
	return axisLeft + (axisRight-axisLeft)*math.Log(ms/axisFirst)/math.Log(axisLast/axisFirst)
}

// marksStyle is what only this picture has.
const marksStyle = `
  .line.thin { stroke-opacity: 0.4 }
  text.bold { paint-order: stroke; stroke: #ffffff; stroke-width: 5 }
  .span { stroke-width: 3 }
  .mark, .span { fill: #006fae; stroke: #006fae }
  .mark.candidate, .span.candidate { fill: #c04a00; stroke: #c04a00 }
  @media (prefers-color-scheme: dark) {
    text.bold { stroke: #0d1117 }
    .mark, .span { fill: #56b4e9; stroke: #56b4e9 }
    .mark.candidate, .span.candidate { fill: #ff9447; stroke: #ff9447 }
  }
`

func failover() *drawing {
	const top, nameHigh, raceHigh, gap = 86.0, 22.0, 19.0, 12.0
	rounds, all, err := races(besideTimes)
	if err != nil {
		panic(err) // the file is the repository's
	}
	programs := 0
	for i, r := range all {
		if i == 0 || r.program != all[i-1].program {
			programs++
		}
	}
	bottom := top + float64(programs)*(nameHigh+gap) + float64(len(all))*raceHigh + gap
	d := &drawing{title: "Time until another host leads, least, median and longest, by program and fault", style: marksStyle, height: int(bottom) + 30}
	d.axis(top, bottom)
	var says []string
	y := top
	for i, r := range all {
		if i == 0 || r.program != all[i-1].program {
			y += nameHigh + gap
			d.bold(axisLeft, y-8, start, r.program)
			says = append(says, r.program+":")
		}
		d.race(r, y+raceHigh/2)
		y += raceHigh
		says = append(says, fmt.Sprintf("%s %s,", r.fault, inWords(r.median)))
	}
	d.bold(axisLeft, 24, start, "Time until another host leads")
	d.text(axisLeft, 46, start, quiet, fmt.Sprintf("five hosts, %d rounds: least, median, longest", rounds))
	x := axisLeft
	for _, f := range faults {
		d.mark(f.name, f.looks, x+5, 68)
		d.text(x+16, 73, start, plain, f.says)
		x += 210
	}
	d.about = "Medians. " + strings.TrimSuffix(strings.Join(says, " "), ",") + "."
	return d
}

// race draws the times of one program and fault at a height.
func (d *drawing) race(r race, y float64) {
	for _, f := range faults {
		if f.name == r.fault {
			d.add(`<line class="span %s" x1="%.1f" y1="%g" x2="%.1f" y2="%[3]g"/>`, f.looks, axisAt(r.least), y, axisAt(r.longest))
			d.mark(f.name, f.looks, axisAt(r.median), y)
		}
	}
	d.text(width-10, y+5, end, plain, inWords(r.median))
}

// mark draws a median.
func (d *drawing) mark(fault string, c class, x, y float64) {
	if fault == "kill" {
		d.add(`<circle class="mark %s" cx="%.1f" cy="%g" r="5"/>`, c, x, y)
		return
	}
	d.add(`<rect class="mark %s" x="%.1f" y="%g" width="9" height="9"/>`, c, x-4.5, y-4.5)
}

// axis draws the powers of ten.
func (d *drawing) axis(top, bottom float64) {
	for ms := 10.0; ms <= axisLast; ms *= 10 {
		d.path(thin, point{axisAt(ms), top}, point{axisAt(ms), bottom})
		d.text(axisAt(ms), bottom+18, middle, quiet, strings.Replace(inWords(ms), ".0", "", 1))
	}
}

// inWords is a time as the table in docs/figures.md has it.
func inWords(ms float64) string {
	if ms < 1000 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", ms/1000)
}
