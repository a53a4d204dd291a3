package cli

import (
	"io"
	"slices"
	"sync"
	"time"
)

// sinkSize bounds what waits for a reader, in bytes: some ten thousand lines,
// hours of a quiet agent. The number is arbitrary.
const sinkSize = 1 << 20

// logSink stands between the agent and its log, so that a reader that stands
// still (a stopped pager, a full disk behind a pipe) never makes the election
// loop or a hook wait. When it is full the oldest lines
// go, since the newest are the ones to explain what is wrong, and their number is
// said in their place.
type logSink struct {
	to     io.Writer
	notice func(lost uint64) []byte // the line that stands for those that are gone
	wake   chan struct{}            // capacity 1: there is a line, or it was closed
	done   chan struct{}            // closed: all is written

	mu     sync.Mutex
	lines  [][]byte // oldest first
	size   int      // Invariant: the sum of the lines' lengths, at most sinkSize once one line is no longer than that
	lost   uint64   // since the last notice
	closed bool
}

// newLogSink starts the goroutine that writes; close ends it.
func newLogSink(to io.Writer, notice func(lost uint64) []byte) *logSink {
	s := &logSink{to: to, notice: notice, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go s.run()
	return s
}

// Write takes one line and never waits. It keeps a copy.
func (s *logSink) Write(line []byte) (int, error) {
	s.mu.Lock()
	s.lines = append(s.lines, slices.Clone(line))
	s.size += len(line)
	for s.size > sinkSize && len(s.lines) > 1 {
		s.size -= len(s.lines[0])
		s.lines[0] = nil
		s.lines = s.lines[1:]
		s.lost++
	}
	s.mu.Unlock()
	wake(s.wake)
	return len(line), nil
}

// run writes until it is closed and empty.
func (s *logSink) run() {
	defer close(s.done)
	for range s.wake {
		for {
			line, lost, closed := s.next()
			if line == nil && closed {
				return
			}
			if line == nil {
				break
			}
			s.put(line, lost)
		}
	}
}

// put writes a line, after the notice of those that are missing before it. What
// cannot be written is lost too, and is not tried again: a full disk or a reader
// that is gone must not keep this goroutine busy.
func (s *logSink) put(line []byte, lost uint64) {
	if lost > 0 {
		if _, err := s.to.Write(s.notice(lost)); err != nil {
			s.lose(lost + 1)
			return
		}
	}
	if _, err := s.to.Write(line); err != nil {
		s.lose(1)
	}
}

// next takes out the line to be written now, nil when there is none, and the
// number of lines that were lost before it.
func (s *logSink) next() (line []byte, lost uint64, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) == 0 {
		return nil, 0, s.closed
	}
	line, s.lines = s.lines[0], s.lines[1:]
	s.size -= len(line)
	lost, s.lost = s.lost, 0
	return line, lost, s.closed
}

func (s *logSink) lose(n uint64) {
	s.mu.Lock()
	s.lost += n
	s.mu.Unlock()
}

// close waits until everything is written, but no longer than patience. Nothing
// may be written after it.
func (s *logSink) close(patience time.Duration) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	wake(s.wake)
	select {
	case <-s.done:
	case <-time.After(patience):
	}
}
