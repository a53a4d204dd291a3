package hooks

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

const (
	// tailSize is how much of a run's output is kept (README, Hooks).
	tailSize = 64 << 10

	// maxLine is where a line in the log is cut. Arbitrary: longer than what
	// people read, shorter than journald's limit of 48 KiB.
	maxLine = 1 << 10

	// lineBurst and lineRate bound what one run may write into the log: a hook
	// under "set -x" passes whole, and one that prints for ever costs at most
	// lineBurst + timeout·lineRate lines. The numbers are arbitrary.
	lineBurst = 200
	lineRate  = 20 // lines a second
)

// tail keeps the last tailSize bytes of what is written to it, and knows how much
// came before. Both streams of a hook share one, so that its lines stay in the
// order in which they came. Safe for concurrent use.
type tail struct {
	mu    sync.Mutex
	ring  []byte // grows to tailSize, then wraps
	at    int    // where the next byte goes, once the ring is full
	total int64
}

func (t *tail) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(p))
	p = p[max(0, len(p)-tailSize):]
	grow := min(len(p), tailSize-len(t.ring))
	t.ring = append(t.ring, p[:grow]...)
	for p = p[grow:]; len(p) > 0; {
		n := copy(t.ring[t.at:], p)
		t.at = (t.at + n) % tailSize
		p = p[n:]
	}
}

// bytes gives a copy of what is kept, oldest first, and the number of bytes ever
// written.
func (t *tail) bytes() (kept []byte, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept = append(kept, t.ring[t.at:]...)
	kept = append(kept, t.ring[:t.at]...)
	return kept, t.total
}

// lines cuts one stream into lines of at most maxLine bytes. A line for which
// admit says no costs no more than finding its end. It belongs to the goroutine
// that reads the stream.
type lines struct {
	admit   func() bool
	emit    func(line string)
	partial []byte // Invariant: at most maxLine bytes, no newline
	cut     bool   // the rest of the current line is skipped
}

func (l *lines) write(p []byte) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			l.collect(p)
			return
		}
		l.collect(p[:end])
		l.flush()
		p = p[end+1:]
	}
}

func (l *lines) collect(p []byte) {
	room := maxLine - len(l.partial)
	if len(p) > room {
		p, l.cut = p[:room], true
	}
	l.partial = append(l.partial, p...)
}

// flush ends the current line; at the end of the stream it gives out a last line
// that had no newline. Empty lines are not worth a log entry.
func (l *lines) flush() {
	if text := bytes.TrimRight(l.partial, "\r "); len(text) > 0 && l.admit() {
		line := strings.ToValidUTF8(string(text), "\uFFFD")
		if l.cut {
			line += "…"
		}
		l.emit(line)
	}
	l.partial, l.cut = l.partial[:0], false
}

// allowance is a token bucket for the log lines of one run, counting what it
// refuses. Safe for concurrent use.
type allowance struct {
	mu      sync.Mutex
	tokens  float64
	at      time.Time
	refused int64
}

func newAllowance(now time.Time) *allowance {
	return &allowance{tokens: lineBurst, at: now}
}

func (a *allowance) take(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if passed := now.Sub(a.at); passed > 0 { // the streams' clocks are not in step
		a.tokens = min(lineBurst, a.tokens+passed.Seconds()*lineRate)
		a.at = now
	}
	if a.tokens < 1 {
		a.refused++
		return false
	}
	a.tokens--
	return true
}

func (a *allowance) dropped() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}
