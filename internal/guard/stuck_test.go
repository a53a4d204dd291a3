package guard

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/run"
)

// KILL that was sent is not yet a death: what waits for its disk is named, and is not over before it has ended, also if the
// guard is killed meanwhile.
func TestWhatWaitsForItsDiskIsNotOver(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*Guard)
	}{
		{"told to stop", func(g *Guard) { g.Stop("enough", 0) }},
		{"told to stop at once", func(g *Guard) { g.Kill("enough") }},
		{"its time has ended", func(g *Guard) { g.Renew(clock().Add(-time.Second)) }},
		{"its guard is killed", func(g *Guard) { _ = unix.Kill(g.Report().Guard, unix.SIGKILL) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reaches(t, func(t *testing.T, cgroup string) {
				r := newRig(t)
				disk, freeze, thaw := r.Frozen()
				s := r.settings(fmt.Sprintf("echo x >up; while :; do echo x >%s/f; done", disk))
				s.Cgroup = cgroup
				g := r.start(s.config())
				r.UntilFile("up")
				group := r.awaitStarted(g).Group
				freeze()
				r.Until("it to wait for its disk", func() bool { s, _ := run.ReadStat(group); return s.State == 'D' })
				tt.end(g)
				select {
				case <-g.Stuck():
				case <-g.Done():
					t.Errorf("taken for dead: %v", g.Report())
				case <-time.After(patience):
					t.Errorf("nothing is said: %v", g.Report())
				}
				want := fmt.Sprintf("process %d cannot be ended, it waits for its disk", group)
				if got := g.Report().Stuck; got != want {
					t.Errorf("said is %q, want %q", got, want)
				}
				g.Stop("again", time.Millisecond) // whoever is in a hurry hurries nothing
				time.Sleep(gonePatience + orphanPause)
				if isClosed(g.Done()) {
					s, err := run.ReadStat(group)
					t.Errorf("over while process %d is there: %+v (%v)", group, s, err)
				}
				thaw()
				if report := r.wait(g); report.Stage != Ended || report.Stuck != want {
					t.Errorf("report %+v", report)
				}
			})
		})
	}
}
