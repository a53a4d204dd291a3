package pictures

import (
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
)

// rings are what a host's file has in turn, as `key rotate` makes it.
func rings() ([]key.Ring, error) {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	all := []key.Ring{{key.Generate(day, nil)}}
	for range key.Steps {
		_, next, err := all[len(all)-1].Next(day.AddDate(1, 0, 0))
		if err != nil {
			return nil, fmt.Errorf("rotate: %w", err)
		}
		all = append(all, next)
	}
	return all, nil
}

// A turn is what the hosts have at a time of a rotation: alpha took the first step of them.
type turn struct {
	says  string
	steps [3]int // taken by alpha, beta, gamma
}

var turns = []turn{
	{"before", [3]int{0, 0, 0}},
	{"1: add new", [3]int{1, 0, 0}},
	{"copied", [3]int{1, 1, 1}},
	{"2: new first", [3]int{2, 1, 1}},
	{"copied", [3]int{2, 2, 2}},
	{"3: remove old", [3]int{3, 2, 2}},
	{"copied", [3]int{3, 3, 3}},
}

func rotation() *drawing {
	const rowHigh, chipWide, cellWide, firstCell = 40, 46, 108, 118
	d := &drawing{title: "The rotation of a key", height: 40 + rowHigh*len(turns) + 4,
		about: "Three hosts have the old key. Each step is made on alpha and then copied to the others: a new key is added, then it begins, then the old one is removed. " +
			"At each time the key that a host begins with is in the files of all others."}
	all, err := rings()
	if err != nil {
		panic(err) // Next has no more steps than Steps says
	}
	for i, name := range []string{"alpha", "beta", "gamma"} {
		d.bold(firstCell+float64(i*cellWide), 26, start, name)
	}
	for i, t := range turns {
		y := float64(36 + i*rowHigh)
		d.text(10, y+25, start, plain, t.says)
		for host, step := range t.steps {
			for k, one := range all[step] {
				x := firstCell + float64(host*cellWide+k*(chipWide+4))
				chip(d, area{x, y + 6, x + chipWide, y + 34}, one == all[0][0], k == 0)
			}
		}
	}
	return d
}

// chip is one key of a file.
func chip(d *drawing, a area, isOld, begins bool) {
	name, looks := "new", leader
	if isOld {
		name, looks = "old", candidate
	}
	if !begins {
		looks = quiet
	}
	d.box(a, looks, name)
}
