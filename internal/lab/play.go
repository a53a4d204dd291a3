package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// play runs a script from its first command to its last, and judges.
func (l *lab) play(ctx context.Context, script []command) error {
	var failed error
	for _, c := range script {
		if err := l.do(ctx, c); err != nil {
			if failed = fmt.Errorf("%s: %s: %w", c.place, c, err); ctx.Err() != nil {
				return failed
			}
			break
		}
	}
	return l.report(findings{failed: failed})
}

// do carries out one command and returns when it has had its effect.
func (l *lab) do(ctx context.Context, c command) error {
	switch c.verb {
	case "elect":
		_, err := l.settle(ctx, demand{best: l.Preempt != "never", lowest: l.Algorithm == "smallest"})
		return err
	case "expect":
		_, err := l.settle(ctx, demand{leader: c.target})
		return err
	case "wait":
		return sleep(ctx, c.length)
	}
	n, err := l.node(c.target)
	if err != nil {
		return err
	}
	mark := l.journal.mark()
	switch c.verb {
	case faultKill, faultStop:
		if _, err := n.inflict(c.verb); err != nil {
			return err
		}
		return l.gone(ctx, n, mark)
	case faultPause:
		return l.doze(ctx, n, c.length)
	case "continue":
		err = n.wake()
	case "restart":
		err = n.start()
	case faultCut, faultCarrier, faultHandOver:
		_, err = n.inflict(c.verb)
	case "plug":
		_, err = n.pull(verdict.Plugged)
	default:
		panic("BUG: unknown verb " + c.verb)
	}
	return err
}

// doze pauses n for d; for zero, until a continue.
func (l *lab) doze(ctx context.Context, n *node, d time.Duration) error {
	if _, err := n.inflict(faultPause); err != nil || d == 0 {
		return err
	}
	if err := sleep(ctx, d); err != nil {
		return err
	}
	return n.wake()
}

// String is the command as it could stand in a script.
func (c command) String() string {
	text := c.verb
	if c.verb == "expect" {
		text += " leader"
	}
	if c.target != "" {
		text += " " + c.target
	}
	if c.length != 0 {
		text += " " + c.length.String()
	}
	return text
}

// title says what runs.
func (l *lab) title() string {
	where := "on 127.0.0.1"
	if l.Netns {
		where = "in network namespaces"
	}
	agents := fmt.Sprintf("%d agents", l.Nodes)
	if l.Nodes == 1 {
		agents = "1 agent"
	}
	title := fmt.Sprintf("%s %s, %s mode, algorithm %s, profile %s (lease %s), scheduling %s, preempt %s", agents, where, l.Mode, l.Algorithm,
		l.Profile, verdict.Span(leases[l.Profile]), l.Scheduling, l.Preempt)
	if sky := l.weather(); !sky.IsFine() {
		title += ", " + sky.String()
	}
	return title
}
