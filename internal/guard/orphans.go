package guard

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
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
	if r.Boot != hooks.BootID() {
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

func (e errStuck) Error() string { return stuck(e.pids) }

// stuck says for people which of these processes cannot be ended. 0 is one whose number
// is not known.
func stuck(pids []int) string {
	for _, pid := range pids {
		if stateOf(pid) == 'D' {
			return fmt.Sprintf("process %d cannot be ended, it waits for its disk", pid)
		}
	}
	for _, pid := range pids {
		if s := stateOf(pid); s != 0 && s != 'Z' {
			return fmt.Sprintf("process %d does not end, though it has had KILL", pid)
		}
	}
	return "a process does not end, though it has had KILL"
}

// stateOf is field 3 of proc(5)'s stat; 0: there is no such process.
func stateOf(pid int) byte {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]); len(fields) > 0 {
		return fields[0][0]
	}
	return 0
}

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
	for _, pid := range hooks.Processes() {
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
	return hooks.HasEnv(pid, markVariable+"="+mark) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// children lists the direct children of this process, zombies too; false where
// the kernel does not tell. Orphans that were adopted belong to any of our
// threads.
func children() (pids []int, ok bool) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, false
	}
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if errors.Is(err, unix.ENOENT) && task.Name() == strconv.Itoa(os.Getpid()) {
			return nil, false // a kernel without CONFIG_PROC_CHILDREN
		}
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, true
}

// startOf is when a process was started, in clock ticks since boot; 0: unknown
// (proc(5), field 22 of stat, counted from the last bracket of field 2).
func startOf(pid int) uint64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0
	}
	start, _ := strconv.ParseUint(string(fields[19]), 10, 64)
	return start
}

func sortByTime(records []Record) {
	slices.SortFunc(records, func(a, b Record) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.path, b.path))
	})
}
