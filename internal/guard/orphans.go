package guard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/run"
)

// What a guard that was killed leaves behind is found by the command's cgroup,
// and by the mark in the environment, which children inherit.

const (
	// orphanPause is between two rounds of killing, orphanPatience bounds them.
	// Arbitrary: a process that does not go hangs in the kernel.
	orphanPause    = 5 * time.Millisecond
	orphanPatience = 2 * time.Second
)

// endOrphans kills what is left of the record's command, and returns when it is
// gone. Nothing is asked politely: whose time it was has ended. The caller knows
// that the guard is dead.
func (r Record) endOrphans() error {
	if r.Boot != run.BootID() {
		return nil
	}
	for late := now().Add(orphanPatience); ; time.Sleep(orphanPause) {
		found := r.killOnce()
		if len(found) == 0 {
			break
		}
		if now() > late {
			return fmt.Errorf("%s did not end %v after KILL: %w", r.Name, orphanPatience, errStuck{found})
		}
	}
	if r.Report.Cgroup != "" {
		return removeCgroup(r.Report.Cgroup)
	}
	return nil
}

// errStuck is of processes that have had KILL and live.
type errStuck struct{ pids []int }

func (e errStuck) Error() string { return run.Stuck(e.pids) }

// outlast is endOrphans for what that has found stuck: it returns when nothing is left.
func (r Record) outlast() error {
	for len(r.killOnce()) > 0 {
		time.Sleep(pollStuck)
	}
	return r.endOrphans()
}

// killOnce kills what it finds.
func (r Record) killOnce() (found []int) {
	if dir := r.Report.Cgroup; dir != "" && populated(dir) {
		found = (&cgroup{dir: dir}).members()
		if len(found) == 0 {
			found = []int{0} // below it
		}
		_ = killCgroup(dir)
	}
	for _, pid := range run.Processes() {
		if killMarked(pid, r.Mark) {
			found = append(found, pid)
		}
	}
	return found
}

// killMarked kills a process that runs and has the mark. The pidfd holds the
// process, so that the number cannot be given away between the look and the kill.
func killMarked(pid int, mark string) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return run.HasEnv(pid, markVariable+"="+mark) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

func sortByTime(records []Record) {
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.path, b.path))
	})
}
