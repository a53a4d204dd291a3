package keeper

import (
	"os"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// outbox is what a keeper has to tell its agent, which may be frozen: what must not be
// lost waits, log lines wait as far as there is room, and nobody who adds something does.
type outbox struct {
	mu      sync.Mutex
	more    *sync.Cond
	waiting []report
	lines   int // how many of these are of the log
	dropped int // further ones
	isEnd   bool
	stderr  bool // the agent is dead: lines go there, and nothing else anywhere
	wasFull bool
	wake    func() // called when it is not full any more
}

const (
	// maxLines is how many lines wait. Arbitrary: a hook may print a hundred a second
	// for a while.
	maxLines = 1000
)

func newOutbox() *outbox {
	o := &outbox{wake: func() {}}
	o.more = sync.NewCond(&o.mu)
	return o
}

func (o *outbox) add(r report) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case r.Say == sayAck && len(o.waiting) > 0 && o.waiting[len(o.waiting)-1].Say == sayAck:
		o.waiting[len(o.waiting)-1] = r
		return
	case r.Say == sayEnded && r.Outcome.Unasked:
		o.waiting = append([]report{r}, o.waiting...) // before anything else
	case (r.Say == sayCheck || r.Say == sayClients || r.Say == sayReader) && o.replaces(r):
		return
	case r.Say == sayLog && o.lines >= maxLines:
		o.dropped++
		return
	default:
		o.waiting = append(o.waiting, r)
	}
	if r.Say == sayLog {
		o.lines++
	}
	o.more.Signal()
}

// replaces puts a report of a check, of clients or of the reader in the place of an earlier one that nobody has read.
// The caller holds mu.
func (o *outbox) replaces(r report) bool {
	i := slices.IndexFunc(o.waiting, func(w report) bool {
		return w.Say == r.Say && (r.Say != sayCheck || w.Check.Name == r.Check.Name)
	})
	if i >= 0 {
		o.waiting[i] = r
	}
	return i >= 0
}

// isFull reports whether so much waits for the agent to read it that none of its orders is to be read, and has wake called
// when they are. Nothing waits for an agent that is dead.
func (o *outbox) isFull() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	isFull := !o.stderr && len(o.waiting)-o.lines >= maxUnread
	o.wasFull = o.wasFull || isFull
	return isFull
}

// end has write return when nothing waits any more.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isEnd = true
	o.more.Signal()
}

// toStderr is called when the agent is dead.
func (o *outbox) toStderr() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stderr = true
	o.more.Signal()
}

// next waits for a report; false at the end.
func (o *outbox) next() (r report, toStderr, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.waiting) == 0 {
		if o.isEnd {
			return report{}, false, false
		}
		o.more.Wait()
	}
	r, o.waiting = o.waiting[0], o.waiting[1:]
	if o.wasFull && len(o.waiting)-o.lines < maxUnread {
		o.wasFull = false
		o.wake()
	}
	if r.Say == sayLog {
		o.lines--
		if n := o.dropped; n > 0 && len(o.waiting) == 0 {
			o.dropped = 0
			o.waiting = append(o.waiting, report{Say: sayLog, Log: toLine("", hclog.Warn, "log lines of hooks dropped", []any{"lines", n})})
			o.lines++
		}
	}
	return r, o.stderr, true
}

// write sends what is added until end.
func (o *outbox) write(c *sidecar.Conn) {
	own := hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Info})
	for {
		r, toStderr, ok := o.next()
		switch {
		case !ok:
			return
		case toStderr || c.Send(sidecar.Encode(r)) != nil:
			if r.Say == sayLog {
				r.Log.write(own)
			}
		}
	}
}

// logger gives one whose lines go to the agent, which decides which of them are wanted.
func (o *outbox) logger() hclog.Logger {
	log := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off})
	log.RegisterSink(sink{o})
	return log
}

// named is logger for another of the agent's names.
func (o *outbox) named(name string) hclog.Logger { return o.logger().Named(name) }

// sink makes reports of log lines.
type sink struct{ out *outbox }

// Accept implements hclog.SinkAdapter.
func (s sink) Accept(name string, level hclog.Level, text string, args ...any) {
	if level < hclog.Debug {
		return
	}
	s.out.add(report{Say: sayLog, Log: toLine(name, level, text, args)})
}
