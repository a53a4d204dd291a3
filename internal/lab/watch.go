package lab

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// calm is what a watch saw.
type calm struct {
	from, to time.Duration
	begun    int // leaderships that began
	ended    int // leaderships that ended
}

// watch does nothing to the agents but the weather and the busy processes, and counts how often the leader changes.
func (l *lab) watch(ctx context.Context) error {
	// Who knows whom may change all the time in bad weather; who leads must not.
	if _, err := l.settle(ctx, demand{best: l.Preempt != "never", lowest: l.Algorithm == "smallest"}); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return l.report(findings{failed: err})
	}
	idle, err := l.spawner.startBusy(l.Busy)
	defer idle()
	if err != nil {
		return err
	}
	l.progress("watching for %v\n", l.Watch)
	c := calm{from: time.Since(l.journal.begun)}
	if err := sleep(ctx, l.Watch); err != nil {
		return err
	}
	c.to = time.Since(l.journal.begun)
	c.count(l.journal.all())
	idle()
	failed := l.crashed()
	if failed == nil {
		_, failed = l.settle(ctx, demand{})
	}
	return l.report(findings{failed: failed, calm: &c})
}

// count counts the hooks within the watch.
func (c *calm) count(records []verdict.Record) {
	for _, r := range records {
		switch {
		case r.At < c.from || r.At > c.to:
		case r.What == verdict.Became:
			c.begun++
		case r.What == verdict.Losing:
			c.ended++
		}
	}
}

// changes is how often the leader changed. A leadership that ended without a successor is a change too.
func (c *calm) changes() int { return max(c.begun, c.ended) }

func (c *calm) String() string {
	return fmt.Sprintf("leader changes in %v: %d (%d leaderships began, %d ended)",
		(c.to - c.from).Round(100*time.Millisecond), c.changes(), c.begun, c.ended)
}

// startBusy starts n processes that spin. The function that it returns ends them, and may be called twice.
func (s *spawner) startBusy(n int) (idle func(), err error) {
	var spinning []*exec.Cmd
	idle = func() {
		for _, cmd := range spinning {
			_ = cmd.Process.Signal(syscall.SIGKILL)
			_ = cmd.Wait() // killed, as it should be
		}
		spinning = nil
	}
	for range n {
		cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
		if err = s.start(cmd, nil); err != nil {
			return idle, fmt.Errorf("start busy process: %w", err)
		}
		spinning = append(spinning, cmd)
	}
	return idle, nil
}
