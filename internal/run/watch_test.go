package run

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/test/traces"
)

// A watch has no clock: TERM, KILL and the next look come by the times that it is told, however
// long those take here.
func TestAWatchGoesByTheTimesThatItIsTold(t *testing.T) {
	runtime.LockOSThread() // see run.Begin
	defer runtime.UnlockOSThread()
	d := traces.New(t)
	p, err := Begin(Command{Argv: d.Script("trap 'echo x >asked' TERM; echo x >up; while :; do sleep 0.01; done")})
	if err != nil {
		t.Fatal(err)
	}
	d.UntilFile("up")
	begun := time.Unix(1000, 0)
	w, l := p.Watch(begun), ending.Limit{Timeout: 10 * time.Second, Grace: 5 * time.Second}
	for _, tt := range []struct {
		at, next time.Duration
		stage    Stage
	}{
		{0, 10 * time.Second, Running},
		{9 * time.Second, 10 * time.Second, Running},
		{11 * time.Second, 16 * time.Second, Asked}, // whoever is late leaves the grace
		{15 * time.Second, 16 * time.Second, Asked},
	} {
		at := begun.Add(tt.at)
		if w.Step(at, l) || w.Stage != tt.stage || !w.Next(at, l).Equal(begun.Add(tt.next)) {
			t.Fatalf("after %v: stage %d, next at %v; want %d and %v", tt.at, w.Stage, w.Next(at, l).Sub(begun), tt.stage, tt.next)
		}
	}
	d.UntilFile("asked")
	at := begun.Add(16 * time.Second)
	d.Until("its end", func() bool { return w.Step(at, l) })
	if _, by := p.Status(); w.Stage != Killed || by != unix.SIGKILL {
		t.Errorf("stage %d, ended by signal %v", w.Stage, by)
	}
}
