package membership

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/hashicorp/go-hclog"
)

const (
	linesQueued   = 256 // lines that wait for a slow logger; arbitrary
	linesASecond  = 10  // of one class, from memberlist
	maxLine       = 512 // characters of a line or a value
	maxThrottled  = 256 // keys that minutely remembers
	minuteBetween = time.Minute
)

// logSink carries this package's lines and memberlist's to the agent's logger,
// in a goroutine of its own: memberlist logs with its node lock held, and a log
// pipe that nobody reads must not stop it. What does not fit is dropped and
// counted.
//
// Much of what memberlist logs was written by others: their names, addresses and
// bytes. So control characters are escaped, a class of lines is limited to
// linesASecond, and nothing becomes an error.
type logSink struct {
	out   hclog.Logger
	lines chan logLine
	quit  chan struct{}
	once  sync.Once

	mu       sync.Mutex
	dropped  uint64 // lines that found the queue full since the last one that did not
	window   time.Time
	classes  map[string]uint64 // lines since window began
	lastSaid map[string]time.Time
}

type logLine struct {
	level hclog.Level
	msg   string
	args  []any
}

func newLogSink(out hclog.Logger) *logSink {
	if out == nil {
		out = hclog.NewNullLogger()
	}
	return &logSink{
		out:      out,
		lines:    make(chan logLine, linesQueued),
		quit:     make(chan struct{}),
		classes:  make(map[string]uint64),
		lastSaid: make(map[string]time.Time),
	}
}

// run writes until stop, and then what is queued.
func (s *logSink) run() {
	for {
		select {
		case l := <-s.lines:
			s.out.Log(l.level, l.msg, l.args...)
		case <-s.quit:
			for len(s.lines) > 0 {
				l := <-s.lines
				s.out.Log(l.level, l.msg, l.args...)
			}
			return
		}
	}
}

// stop ends run without waiting for it: the logger may hang.
func (s *logSink) stop() { s.once.Do(func() { close(s.quit) }) }

func (s *logSink) info(msg string, args ...any)  { s.put(hclog.Info, msg, args...) }
func (s *logSink) warn(msg string, args ...any)  { s.put(hclog.Warn, msg, args...) }
func (s *logSink) debug(msg string, args ...any) { s.put(hclog.Debug, msg, args...) }

// put queues a line and never waits. Values are turned into text here, since
// they may be live state of memberlist.
func (s *logSink) put(level hclog.Level, msg string, args ...any) {
	for i := 1; i < len(args); i += 2 {
		args[i] = escape(fmt.Sprint(args[i]))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped > 0 {
		select {
		case s.lines <- logLine{hclog.Warn, "log lines dropped", []any{"cause", "logger too slow", "count", s.dropped}}:
			s.dropped = 0
		default:
		}
	}
	select {
	case s.lines <- logLine{level, msg, args}:
	default:
		s.dropped++
	}
}

// minutely reports whether key was not asked for within the last minute. The
// keys come from others, so they are forgotten all when they are too many.
func (s *logSink) minutely(key string) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, said := s.lastSaid[key]; said && now.Sub(last) < minuteBetween {
		return false
	}
	if len(s.lastSaid) >= maxThrottled {
		clear(s.lastSaid)
	}
	s.lastSaid[key] = now
	return true
}

// Write takes one line of memberlist's log.
func (s *logSink) Write(p []byte) (int, error) {
	level, text := splitLevel(string(bytes.TrimRight(p, "\n")))
	class, _, _ := strings.Cut(text, " ")
	if level == hclog.Warn && !s.minutely("memberlist "+class) {
		level = hclog.Debug // a host that is cut off fails to send several times a second
	}
	if ok := s.allow(class, time.Now()); ok || level == hclog.Warn {
		s.put(level, escape(text))
	}
	return len(p), nil
}

// allow counts a line of a class and reports whether it may be written. At the
// first line after a second the ones that were not are told, to those who read
// the others: they were lines for debugging, all of them. memberlist's lines
// begin with a word of its own, never with somebody's name, so there are few
// classes.
func (s *logSink) allow(class string, now time.Time) bool {
	s.mu.Lock()
	var over map[string]uint64
	if now.Sub(s.window) >= time.Second {
		over, s.classes = s.classes, make(map[string]uint64)
		s.window = now
	}
	s.classes[class]++
	ok := s.classes[class] <= linesASecond
	s.mu.Unlock()
	for class, n := range over {
		if n > linesASecond {
			s.debug("memberlist's log lines dropped", "cause", class, "count", n-linesASecond)
		}
	}
	return ok
}

// splitLevel takes memberlist's "[WARN] memberlist: " off a line. What memberlist
// calls an error is mostly something that a stranger sent, with the address it
// came from: that is for debugging. Its other errors are failures to send, which
// an operator may want to see. Refusals we have told ourselves.
func splitLevel(line string) (hclog.Level, string) {
	mark, text, found := strings.Cut(line, "] ")
	if !found {
		return hclog.Debug, line
	}
	text = strings.TrimPrefix(text, "memberlist: ")
	switch mark {
	case "[ERR", "[ERROR", "[WARN":
		if strings.Contains(text, "from=") || strings.HasPrefix(text, "ignoring alive message") {
			return hclog.Debug, text
		}
		return hclog.Warn, text
	case "[INFO":
		return hclog.Debug, text // suspicions and deaths, which become events
	}
	return hclog.Trace, text
}

// escape makes a text safe to print and bounded.
func escape(s string) string {
	if len(s) > maxLine {
		s = s[:maxLine] + "…"
	}
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) < 0 {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
