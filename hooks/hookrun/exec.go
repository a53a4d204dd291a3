package hookrun

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/trust"
)

// One run of one hook: what Prepare and Start ask for. A fork, a disk and a process that does not
// end hold up no more than their lane.

// prepare does what must be done before a hook starts. What the last become-leader hook has left
// running in groups of its own is ended before another hook of the leadership starts: what
// announces an address must not do so once that is being released. The hook's own group is gone
// already, or hangs.
func (h *Hands) prepare(e hooks.Prepare) {
	if e.Leaves.Hook != "" {
		left := slices.DeleteFunc(groupsOf(e.Leaves), func(g hooks.Entry) bool { return g.Group == e.Leaves.Group })
		for _, g := range left {
			h.log.Debug("the processes that the hook left are ended", "hook", string(g.Hook), "epoch", g.Epoch, "group", g.Group)
		}
		endAll(context.Background(), e.Within, left)
	}
	look := h.looks[e.Lane]
	look.Lock() // one that hangs was given up, and ties up a thread: those after it wait for it without one
	err := trust.Check(e.Command)
	look.Unlock()
	h.loop.Post(hooks.Prepared{Lane: e.Lane, Number: e.Number, Err: err})
}

// start runs a hook until nothing of its group is left. One that was ended before this came
// to it is not begun: by then the agent may be dead, or another leads.
func (h *Hands) start(e hooks.Start, leash *run.Leash, socket string) {
	runtime.LockOSThread() // see run.Start
	defer runtime.UnlockOSThread()
	if why := leash.Limit().Reason; why != nil {
		h.loop.Post(hooks.StartFailed{Lane: e.Lane, Seq: e.Seq, Err: why})
		return
	}
	ev := e.Event
	if ev.Time.IsZero() {
		ev.Time = time.Now()
	}
	about := hooks.Circumstances{Seq: e.Seq, Attempt: ev.Attempt + 1, Timeout: e.Timeout, Socket: socket}
	log := h.log.With("hook", string(ev.Kind), "epoch", ev.Epoch.Counter)
	log.Info("hook started", "cause", ev.Cause, "seq", e.Seq, "attempt", about.Attempt, "timeout", e.Timeout.Round(time.Millisecond))
	out := run.NewOutput(log, "hook printed")
	p, err := h.begin(e.Command.Words(), hooks.Environ(ev, about, os.Getenv), hooks.Payload(ev, about), out)
	if err != nil {
		h.loop.Post(hooks.StartFailed{Lane: e.Lane, Seq: e.Seq, Err: err})
		return
	}
	entry := newEntry(p.Group, e.Seq, ev)
	h.loop.Post(hooks.Started{Lane: e.Lane, At: h.loop.Clock().Add(time.Until(p.Begun)), Wall: p.Begun, Entry: entry})
	end := p.Conclude(leash)
	exited := hooks.Exited{Lane: e.Lane, Seq: e.Seq, End: end}
	if end.IsStuck {
		exited.Hangs = run.Stuck(run.Living(p.Group))
	}
	if len(p.Ended) > 0 {
		log.Warn("processes that the hook left in the background were ended with it", "processes", strings.Join(p.Ended, ", "))
	}
	h.collect(p, func() {
		h.ledger.keep(newRun(ev, e.Seq, p.Begun, end), out)
		if n := out.Dropped(); n > 0 {
			log.Warn("hook output dropped from the log", "lines", n)
		}
	})
	h.loop.Post(exited)
	if end.IsStuck {
		go h.awaitGone(entry)
	}
}

// drainFirst is how long the next hook waits for the end of the output. Arbitrary.
const drainFirst = 10 * time.Millisecond

// collect waits for the end of the output, which follows the end of the group at
// once unless an escaped child holds a pipe: that is waited for in the background,
// since the next hook may be in a hurry.
func (h *Hands) collect(p *run.Process, then func()) {
	filed := make(chan struct{})
	h.aftermath.Go(func() {
		defer close(filed)
		p.Drain()
		then()
	})
	run.Within(filed, drainFirst)
}
