package election

import (
	"testing"

	"github.com/bully-agent/bully-agent/wire"
)

// A frame about jobs is admitted from whoever the election would hear, if that has met its life.
func TestAdmitFramesAboutJobs(t *testing.T) {
	s := storyOf(t, 1, Config{}, 2, 3)
	s.follows(3, 5)
	for want, change := range map[string]func(*wire.Frame){
		"":               func(*wire.Frame) {},
		"unmet-life":     func(f *wire.Frame) { f.Nonce, f.Incarnation = f.Nonce+1, f.Incarnation+1 },
		"unknown-sender": func(f *wire.Frame) { f.Sender = hostID(9) },
	} {
		f := s.actor(3).says(wire.Frame{Kind: wire.JobRecord})
		change(&f)
		if got := s.node.Admit(&f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s.forgets()
}
