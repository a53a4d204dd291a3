package run

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// Streams are the pipes of a command's standard input, output and error.
type Streams struct {
	Theirs []*os.File // the command's ends, by their numbers there

	ours []*os.File
	work sync.WaitGroup
}

// OpenStreams makes them. Serve or Close follows.
func OpenStreams() (*Streams, error) {
	s := &Streams{}
	for fd := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("make pipes for a command: %w", err)
		}
		if fd == 0 {
			r, w = w, r
		}
		s.Theirs, s.ours = append(s.Theirs, w), append(s.ours, r)
	}
	return s, nil
}

// Close closes all ends.
func (s *Streams) Close() {
	for _, f := range append(s.Theirs, s.ours...) {
		f.Close()
	}
}

// Serve feeds and reads a command that has been started, in the background. One that does not
// read its input, or that hands its pipes to a child, can therefore block nobody.
func (s *Streams) Serve(input []byte, out *Output) {
	for _, f := range s.Theirs {
		f.Close()
	}
	s.work.Go(func() {
		defer s.ours[0].Close()
		_, _ = s.ours[0].Write(input) // a command that does not want it is no error
	})
	s.work.Go(func() { out.Read(s.ours[1], "stdout") })
	s.work.Go(func() { out.Read(s.ours[2], "stderr") })
}

// Drain ends the reading of output. What an escaped child writes after that is
// lost to it (EPIPE). A log that does not take lines holds up only the goroutine
// that writes to it.
func (s *Streams) Drain() {
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }()
	if Within(done, ending.DrainGrace) {
		return
	}
	for _, f := range s.ours {
		_ = f.SetDeadline(time.Now())
	}
	Within(done, ending.DrainGrace)
}

// Within waits for done, for d at most, and reports whether it is closed.
func Within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
