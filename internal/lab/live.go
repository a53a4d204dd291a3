package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
	"github.com/bully-agent/bully-agent/internal/screen"
)

// live is the lab on a terminal: a table that is drawn again five times a second, and a key for each thing that can be
// done to the selected node. One goroutine owns it.
type live struct {
	*lab
	selected int
	message  string
	typed    time.Time // of the last digit, so that 1 2 selects n12
}

const (
	redrawEvery = 200 * time.Millisecond
	digitPause  = 800 * time.Millisecond // between the digits of one number

	help          = helpBegin + " · q quit"
	helpWithCable = helpBegin + " · c cut/plug · q quit"
	helpBegin     = "1-9 ↑ ↓ select · l leader · k kill -9 · s stop · p pause/continue · r restart"
)

var errQuit = errors.New("quit")

// live shows the cluster and obeys the keyboard until the user quits.
func (l *lab) live(ctx context.Context) error {
	err := screen.Take(l.In, l.Out, func(on *screen.Screen) error { return (&live{lab: l}).run(ctx, on) })
	if !errors.Is(err, errQuit) {
		return err
	}
	for _, r := range l.journal.all() {
		fmt.Fprintln(l.Out, r)
	}
	return l.report(findings{})
}

func (s *live) run(ctx context.Context, on *screen.Screen) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := screen.Feed(ctx, redrawEvery, func() []view { return s.askAll(ctx) })
	views := make([]view, len(s.nodes))
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		_ = on.Draw(s.picture(views)) // a terminal that has gone is told by its keyboard
		select {
		case k := <-on.Keys:
			if err := s.press(k); err != nil {
				return err
			}
		case answer := <-answers:
			views = answer()
		case <-tick.C:
		case <-on.Resized:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// askAll asks the running agents. A view of one that does not run is empty.
func (s *live) askAll(ctx context.Context) []view {
	views := make([]view, len(s.nodes))
	given := ask(ctx, s.awake())
	for i, n := range s.nodes {
		for _, v := range given {
			if v.node == n {
				views[i] = v
			}
		}
	}
	return views
}

func (s *live) picture(views []view) screen.Picture {
	records, now := s.journal.all(), time.Since(s.journal.begun)
	p := screen.Picture{Title: []string{s.title()}, Head: head, Selected: s.selected, Message: s.message, Help: help}
	if s.Netns {
		p.Help = helpWithCable
	}
	for _, r := range records {
		p.Recent = append(p.Recent, r.String())
	}
	answer, run := 0, 0
	for i, n := range s.nodes {
		p.Rows = append(p.Rows, n.row(views[i], records, now).line())
		if n.running() && !n.isAsleep() {
			run++
		}
		if views[i].node != nil && views[i].err == nil {
			answer++
		}
	}
	if p.Message == "" {
		p.Message = waitingFor(answer, run)
	}
	if p.Message == "" && s.web != nil {
		p.Message = "page: " + s.web.address()
	}
	return p
}

// waitingFor tells what an empty table waits for.
func waitingFor(answer, run int) string {
	if answer >= run {
		return ""
	}
	return fmt.Sprintf("%d of %d agents that run answer", answer, run)
}

// press does what a key says. Its error ends the lab.
func (s *live) press(k screen.Key) error {
	switch k {
	case 'q', screen.KeyEnd, screen.KeyCtrlC:
		return errQuit
	case screen.KeyUp:
		s.selected = max(s.selected-1, 0)
	case screen.KeyDown:
		s.selected = min(s.selected+1, len(s.nodes)-1)
	case 'l':
		s.selectLeader()
	default:
		if '0' <= k && k <= '9' {
			s.digit(int(k - '0'))
			return nil
		}
		s.act(k)
	}
	return nil
}

// digit selects a node by its number; a second digit soon after the first makes a number of two.
func (s *live) digit(d int) {
	number, now := d, time.Now()
	if longer := (s.selected+1)*10 + d; now.Sub(s.typed) < digitPause && longer <= len(s.nodes) {
		number = longer
	}
	if 1 <= number && number <= len(s.nodes) {
		s.selected, s.typed = number-1, now
	}
}

func (s *live) selectLeader() {
	leader, ok := s.leader()
	for i, n := range s.nodes {
		if ok && n.name == leader.Node {
			s.selected = i
		}
	}
}

// act does something to the selected node. What goes wrong is shown, and is no reason to end.
func (s *live) act(k screen.Key) {
	n := s.nodes[s.selected]
	s.hands.Lock()
	defer s.hands.Unlock()
	var err error
	switch k {
	case 'k':
		_, err = n.inflict(faultKill)
	case 's':
		_, err = n.inflict(faultStop)
	case 'p':
		if n.isAsleep() {
			err = n.wake()
		} else {
			_, err = n.inflict(faultPause)
		}
	case 'r':
		err = n.start()
	case 'c':
		to := verdict.Cut
		if n.isSevered() {
			to = verdict.Plugged
		}
		_, err = n.pull(to)
	default:
		return
	}
	s.message = ""
	if err != nil {
		s.message = err.Error()
	}
}
