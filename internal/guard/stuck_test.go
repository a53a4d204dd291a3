package guard

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// frozen gives a directory on a disk that can be made to stand still: who writes there then waits, and no signal ends it.
func (r *rig) frozen() (dir string, freeze, thaw func()) {
	r.t.Helper()
	if os.Getuid() != 0 {
		r.t.Skip("skipped: only root can make a disk stand still")
	}
	dir, image := r.Path("mnt"), r.Path("image")
	for _, args := range [][]string{{"truncate", "-s", "16M", image}, {"mkfs.ext4", "-q", "-F", image}, {"mkdir", dir}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			r.t.Skipf("skipped: %v: %v: %s", args, err, out)
		}
	}
	disk, err := os.Open(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	const fifreeze, fithaw = 0xC0045877, 0xC0045878
	thaw = func() { _ = unix.IoctlSetInt(int(disk.Fd()), fithaw, 0) }
	r.t.Cleanup(func() {
		thaw()
		disk.Close()
		r.Until("the disk to be free", func() bool { return unix.Unmount(dir, 0) == nil })
	})
	return dir, func() {
		if err := unix.IoctlSetInt(int(disk.Fd()), fifreeze, 0); err != nil {
			r.t.Skipf("skipped: freeze: %v", err)
		}
	}, thaw
}

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
				disk, freeze, thaw := r.frozen()
				s := r.settings(fmt.Sprintf("echo x >up; while :; do echo x >%s/f; done", disk))
				s.Cgroup = cgroup
				g := r.start(s.config())
				r.UntilFile("up")
				group := r.awaitStarted(g).Group
				freeze()
				r.Until("it to wait for its disk", func() bool { return stateOf(group) == 'D' })
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
					t.Errorf("over while process %d is in state %c", group, stateOf(group))
				}
				thaw()
				if report := r.wait(g); report.Stage != Ended || report.Stuck != want {
					t.Errorf("report %+v", report)
				}
			})
		})
	}
}
