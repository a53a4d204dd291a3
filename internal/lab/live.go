package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
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
	err := l.onScreen(func() error { return (&live{lab: l}).run(ctx) })
	if !errors.Is(err, errQuit) {
		return err
	}
	for _, r := range l.journal.all() {
		fmt.Fprintln(l.Out, r)
	}
	return l.report(findings{})
}

// onScreen runs f with the terminal taken over: no echo, no line editing, and the other screen, so that what the user had
// there comes back. The terminal is restored in a panic too.
func (l *lab) onScreen(f func() error) error {
	fd := int(l.In.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return fmt.Errorf("open screen: standard input is no terminal: %w", err)
	}
	fmt.Fprint(l.Out, "\x1b[?1049h\x1b[?25l")
	defer func() {
		fmt.Fprint(l.Out, "\x1b[?25h\x1b[?1049l")
		_ = term.Restore(fd, before)
	}()
	return f()
}

func (s *live) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys, answers := readKeys(s.In, ctx.Done()), s.askAll(ctx)
	views := make([]view, len(s.nodes))
	tick := time.NewTicker(redrawEvery)
	defer tick.Stop()
	for {
		s.draw(views)
		select {
		case k := <-keys:
			if err := s.press(k); err != nil {
				return err
			}
		case views = <-answers:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// askAll asks the running agents again and again. A view of one that does not run is empty.
func (s *live) askAll(ctx context.Context) <-chan []view {
	answers := make(chan []view)
	go func() {
		for sleep(ctx, redrawEvery) == nil {
			views := make([]view, len(s.nodes))
			given := ask(ctx, s.awake())
			for i, n := range s.nodes {
				for _, v := range given {
					if v.node == n {
						views[i] = v
					}
				}
			}
			select {
			case answers <- views:
			case <-ctx.Done():
			}
		}
	}()
	return answers
}

func (s *live) draw(views []view) {
	width, height, err := term.GetSize(int(s.In.Fd()))
	if err != nil || width == 0 {
		width, height = 80, 24
	}
	records, now := s.journal.all(), time.Since(s.journal.begun)
	p := picture{title: s.title(), selected: s.selected, recent: records, message: s.message, help: help}
	if s.Netns {
		p.help = helpWithCable
	}
	answer, run := 0, 0
	for i, n := range s.nodes {
		p.rows = append(p.rows, n.row(views[i], records, now))
		if n.running() && !n.isAsleep() {
			run++
		}
		if views[i].node != nil && views[i].err == nil {
			answer++
		}
	}
	if p.message == "" {
		p.message = waitingFor(answer, run)
	}
	if p.message == "" && s.web != nil {
		p.message = "page: " + s.web.address()
	}
	// Overwrite in place and clear what is left over: clearing first would flicker.
	fmt.Fprint(s.Out, "\x1b[H"+strings.Join(p.lines(width, height), "\x1b[K\r\n")+"\x1b[K\x1b[J")
}

// waitingFor tells what an empty table waits for.
func waitingFor(answer, run int) string {
	if answer >= run {
		return ""
	}
	return fmt.Sprintf("%d of %d agents that run answer", answer, run)
}

// press does what a key says. Its error ends the lab.
func (s *live) press(k key) error {
	switch k {
	case 'q', keyEnd:
		return errQuit
	case keyCtrlC:
		return errInterrupted
	case keyUp:
		s.selected = max(s.selected-1, 0)
	case keyDown:
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
func (s *live) act(k key) {
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
