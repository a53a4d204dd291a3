package hooks

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

const (
	// tailSize is how much of a run's output is kept (docs/hooks.md).
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

// head keeps the first bytes of what is written to it, and forgets the rest. Safe for
// concurrent use.
type head struct {
	most int

	mu   sync.Mutex
	kept []byte // Invariant: at most most
}

// Write implements io.Writer; it never fails.
func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, p[:min(len(p), h.most-len(h.kept))]...)
	return len(p), nil
}

func (h *head) bytes() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.kept)
}

// lines cuts one stream into lines of at most maxLine bytes. Once admit has said no,
// what came with the line is counted, and costs hardly anything: a flood is of many
// short lines. It belongs to the goroutine that reads the stream.
type lines struct {
	admit   func() bool
	refuse  func(lines int) // those for which admit is not asked
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
		admitted := l.flush()
		p = p[end+1:]
		if last := bytes.LastIndexByte(p, '\n'); !admitted && last >= 0 {
			l.refuse(bytes.Count(p[:last+1], []byte{'\n'}))
			p = p[last+1:]
		}
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
// that had no newline. Empty lines are not worth a log entry. It reports false for a
// line that was not admitted.
func (l *lines) flush() (admitted bool) {
	text, isCut := bytes.TrimRight(l.partial, "\r "), l.cut
	l.partial, l.cut = l.partial[:0], false
	if len(text) == 0 {
		return true
	}
	if !l.admit() {
		return false
	}
	line := strings.ToValidUTF8(string(text), "\uFFFD")
	if isCut {
		line += "…"
	}
	l.emit(line)
	return true
}

const (
	// readRate bounds how many bytes a second are read of one stream once it has
	// printed readBurst at once: a command that prints for ever waits at its full pipe,
	// and leaves the election its time. A higher one has the agent's only core do more
	// of that; a lower one slows down whoever prints much and means it. Arbitrary.
	readRate  = 16 << 20
	readBurst = 16 << 20

	// pipeSize is what a pipe holds: what is in it when the command ends is read at
	// once, within drainGrace.
	pipeSize = 64 << 10
)

// pace tells the reader of one stream when to read on.
type pace struct {
	due time.Time // when what was read would have been, at readRate
}

// after is how long to wait after a read.
func (p *pace) after(n int, now time.Time) time.Duration {
	const burst = readBurst * time.Second / readRate
	if earliest := now.Add(-burst); p.due.Before(earliest) {
		p.due = earliest
	}
	p.due = p.due.Add(time.Duration(n) * time.Second / readRate)
	return max(p.due.Sub(now), 0)
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

// refuse counts lines that came with one that was refused.
func (a *allowance) refuse(lines int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused += int64(lines)
}

func (a *allowance) dropped() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}
