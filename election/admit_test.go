package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A frame about jobs is admitted once, from whoever the election would hear.
func TestAdmitFramesAboutJobs(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	s.follows(3, 5)
	frame := func(number int, seq uint32) *wire.Frame {
		f := s.actor(number).says(wire.Frame{Kind: wire.JobRecord})
		f.Seq = seq
		return &f
	}
	admit := func(f *wire.Frame, want string) {
		t.Helper()
		if got := s.node.Admit(s.now, (&host{number: 3}).addr(), f); got != want {
			t.Errorf("number %d: %q, want %q", f.Seq, got, want)
		}
	}
	seq := JobNumber(7, s.now)
	admit(frame(3, seq), "")
	admit(frame(3, seq), "duplicate")
	admit(frame(3, seq+2), "")
	admit(frame(3, seq+1), "") // overtaken
	admit(frame(3, seq+1), "duplicate")
	admit(frame(3, seq-64), "duplicate") // older than the window
	admit(frame(3, seq+1<<30), "duplicate")
	admit(frame(3, seq+3), "") // the window has not moved

	unmet := frame(3, seq+9)
	unmet.Nonce, unmet.Incarnation = unmet.Nonce+1, unmet.Incarnation+1
	if got := s.node.Admit(s.now, (&host{number: 3}).addr(), unmet); got != "unmet-life" {
		t.Errorf("a life that nobody has met: %q", got)
	}
	stranger := frame(3, seq+9)
	stranger.Sender = hostID(9)
	admit(stranger, "unknown-sender")

	// What a forger can push it by, the true sender has passed in seconds.
	admit(frame(3, seq+laneAhead), "")
	admit(frame(3, seq+laneAhead+1), "duplicate")
	admit(frame(3, JobNumber(seq+3, s.now)), "duplicate")
	s.now = s.now.Add((laneAhead + 1) * time.Millisecond)
	admit(frame(3, JobNumber(seq+4, s.now)), "")
	// A machine that was paused finds all others ahead of its clock, and hears them again.
	ahead := JobNumber(seq, s.now.Add(5*time.Second))
	admit(frame(3, ahead), "duplicate")
	s.now = s.now.Add(laneIdle + time.Millisecond)
	admit(frame(3, ahead+uint32(laneIdle.Milliseconds())), "")
	// Numbers come round in 49 days, and jobs may be a year apart.
	s.now = s.now.Add(25 * 24 * time.Hour)
	admit(frame(3, JobNumber(seq+5, s.now)), "")
	s.forgets()
}

// Numbers of jobs rise, however fast they are used and whatever the clock shows.
func TestJobNumbers(t *testing.T) {
	now := time.Unix(1<<31, 0)
	last := JobNumber(0, now)
	for range 1000 {
		next := JobNumber(last, now)
		if int32(next-last) != 1 {
			t.Fatalf("%d after %d", next, last)
		}
		last = next
	}
	if next := JobNumber(last, now.Add(2*time.Second)); next != uint32(now.UnixMilli())+2000 {
		t.Errorf("%d after %d", next, last)
	}
	if next := JobNumber(1<<32-1, time.UnixMilli(0)); next != 0 {
		t.Errorf("%d after the last number", next)
	}
}
