package run

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
)

// Output takes what one run of a command prints: the last 64 KiB are kept, and lines are
// logged within bounds. Safe for concurrent use.
type Output struct {
	// Copy is told by stream what is printed, as it is; nil: nobody is. It is set before
	// anything is read.
	Copy map[string]io.Writer

	tail    Tail
	log     hclog.Logger
	said    string // the message of its lines in the log
	allowed *rate.Limiter
	refused atomic.Int64 // lines that did not go to the log
}

// NewOutput logs lines with said as the message.
func NewOutput(log hclog.Logger, said string) *Output {
	return &Output{log: log, said: said, allowed: rate.NewLimiter(lineRate, lineBurst)}
}

// Silent is an Output of which no log hears.
func Silent() *Output { return NewOutput(hclog.NewNullLogger(), "") }

// Read takes one stream to its end, or until its deadline, and closes it.
func (o *Output) Read(f *os.File, stream string) {
	defer f.Close()
	now := time.Now() // asked once a read: a flood is of many short lines
	split := lines{
		admit:  func() bool { return o.admit(now) },
		refuse: o.refused.Add,
		emit:   func(line string) { o.log.Info(o.said, "stream", stream, "line", line) },
	}
	pace := newPace()
	read := struct{ io.Reader }{f} // with this buffer, and not as the file likes
	_, _ = io.CopyBuffer(WriterFunc(func(p []byte) (int, error) {
		now = time.Now()
		if to := o.Copy[stream]; to != nil {
			_, _ = to.Write(p) // a reader that went away does not concern the command
		}
		_, _ = o.tail.Write(p)
		split.write(p)
		time.Sleep(pace.ReserveN(time.Now(), len(p)).Delay())
		return len(p), nil
	}), read, make([]byte, pipeSize))
	split.flush()
}

// admit reports whether one more line goes to the log.
func (o *Output) admit(now time.Time) bool {
	ok := o.allowed.AllowN(now, 1)
	if !ok {
		o.refused.Add(1)
	}
	return ok
}

// Tail gives what is kept, and how many bytes were ever printed.
func (o *Output) Tail() (kept []byte, printed int64) { return o.tail.Bytes() }

// Dropped is how many lines did not go to the log.
func (o *Output) Dropped() int64 { return o.refused.Load() }

// WriterFunc is a function that is an io.Writer.
type WriterFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f WriterFunc) Write(p []byte) (int, error) { return f(p) }

// LastLine gives the last line of text that is more than blanks, without what would end a
// line or drive a terminal.
func LastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	line := string(text[bytes.LastIndexByte(text, '\n')+1:])
	line = strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, line)
	if len(line) > maxSaid {
		line = strings.ToValidUTF8(line[:maxSaid], "") + "…"
	}
	return strings.TrimSpace(line)
}

// maxSaid is what is told of a command's last line.
const maxSaid = 160

const (
	// TailSize is how much of a run's output is kept (docs/hooks.md).
	TailSize = 64 << 10

	// maxLine is where a line in the log is cut. Arbitrary: longer than what
	// people read, shorter than journald's limit of 48 KiB.
	maxLine = 1 << 10

	// lineBurst and lineRate bound what one run may write into the log: a hook
	// under "set -x" passes whole, and one that prints for ever costs at most
	// lineBurst + timeout·lineRate lines. The numbers are arbitrary.
	lineBurst = 200
	lineRate  = 20 // lines a second
)

// Tail keeps the last TailSize bytes of what is written to it, and knows how much
// came before. Both streams of a hook share one, so that its lines stay in the
// order in which they came. Safe for concurrent use.
type Tail struct {
	mu    sync.Mutex
	ring  []byte // grows to TailSize, then wraps
	at    int    // where the next byte goes, once the ring is full
	total int64
}

// Write implements io.Writer; it never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	written := len(p)
	t.total += int64(written)
	p = p[max(0, len(p)-TailSize):]
	grow := min(len(p), TailSize-len(t.ring))
	t.ring = append(t.ring, p[:grow]...)
	for p = p[grow:]; len(p) > 0; {
		n := copy(t.ring[t.at:], p)
		t.at = (t.at + n) % TailSize
		p = p[n:]
	}
	return written, nil
}

// Bytes gives a copy of what is kept, oldest first, and the number of bytes ever
// written.
func (t *Tail) Bytes() (kept []byte, total int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept = append(kept, t.ring[t.at:]...)
	kept = append(kept, t.ring[:t.at]...)
	return kept, t.total
}

// Head keeps the first Most bytes of what is written to it, and forgets the rest. Safe for
// concurrent use.
type Head struct {
	Most int

	mu   sync.Mutex
	kept []byte // Invariant: at most Most
}

// Write implements io.Writer; it never fails.
func (h *Head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, p[:min(len(p), h.Most-len(h.kept))]...)
	return len(p), nil
}

// Bytes gives a copy of what is kept.
func (h *Head) Bytes() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return bytes.Clone(h.kept)
}

// lines cuts one stream into lines of at most maxLine bytes. Once admit has said no,
// what came with the line is counted, and costs hardly anything: a flood is of many
// short lines. It belongs to the goroutine that reads the stream.
type lines struct {
	admit   func() bool
	refuse  func(lines int64) int64 // those for which admit is not asked
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
			l.refuse(int64(bytes.Count(p[:last+1], []byte{'\n'})))
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
	// once, within DrainGrace.
	pipeSize = 64 << 10
)

// newPace tells the reader of one stream when to read on.
func newPace() *rate.Limiter { return rate.NewLimiter(readRate, readBurst) }
