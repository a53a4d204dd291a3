package holder

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// KILL that was sent is not yet a death: what waits for its disk is named, and is not over before it has ended, also if the
// holder is killed meanwhile.
func TestWhatWaitsForItsDiskIsNotOver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  func(*Holder)
	}{
		{"told to stop", func(h *Holder) { h.Stop("enough", 0) }},
		{"told to stop at once", func(h *Holder) { h.Kill("enough") }},
		{"its time has ended", func(h *Holder) { h.Renew(Terms{Deadline: clock().Add(-time.Second)}) }},
		{"its holder is killed", func(h *Holder) { _ = unix.Kill(h.Report().Holder, unix.SIGKILL) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			reaches(t, func(t *testing.T, cgroup string) {
				r := newRig(t)
				disk, freeze, thaw := r.Frozen()
				s := r.settings(fmt.Sprintf("echo x >up; while :; do echo x >%s/f; done", disk))
				s.Cgroup = cgroup
				h := r.start(s.config())
				r.UntilFile("up")
				group := r.awaitStarted(h).Group
				freeze()
				r.Until("it to wait for its disk", func() bool { s, _ := run.ReadStat(group); return s.State == 'D' })
				tt.end(h)
				select {
				case <-h.Stuck():
				case <-h.Done():
					t.Errorf("taken for dead: %v", h.Report())
				case <-time.After(patience):
					t.Errorf("nothing is said: %v", h.Report())
				}
				want := fmt.Sprintf("process %d cannot be ended, it waits for its disk", group)
				if got := h.Report().Stuck; got != want {
					t.Errorf("said is %q, want %q", got, want)
				}
				h.Stop("again", time.Millisecond) // whoever is in a hurry hurries nothing
				time.Sleep(sidecar.GonePatience + orphanPause)
				if isClosed(h.Done()) {
					s, err := run.ReadStat(group)
					t.Errorf("over while process %d is there: %+v (%v)", group, s, err)
				}
				thaw()
				if report := r.wait(h); report.Stage != Ended || report.Stuck != want {
					t.Errorf("report %+v", report)
				}
			})
		})
	}
}
