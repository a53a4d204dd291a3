package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Cgroup is a control group (v2) of a command's own. Whatever the command
// starts is born into it, whatever sessions and groups it makes, and
// cgroup.kill ends all of it at once. No controller is needed, so nothing has to
// be enabled in the groups above. The zero value is none.
type Cgroup struct {
	Dir string // empty: there is none

	fd *os.File // for clone3: a child that is born inside has no moment outside
}

// NewCgroup makes one below parent; below this process's own if that is empty. Where that does
// not go there is none.
func NewCgroup(parent, name string) (c Cgroup) {
	if parent == "" {
		if parent = ownCgroup(); parent == "" {
			return Cgroup{}
		}
	}
	c.Dir = filepath.Join(parent, name)
	if os.Mkdir(c.Dir, 0o755) != nil {
		return Cgroup{}
	}
	var err error
	if c.fd, err = os.Open(c.Dir); err == nil {
		_, err = os.Stat(filepath.Join(c.Dir, "cgroup.kill")) // since Linux 5.14
	}
	if err != nil {
		c.fd.Close()
		_ = c.Remove()
		return Cgroup{}
	}
	return c
}

// ownCgroup is the directory of this process's cgroup in the unified hierarchy; empty: none is
// mounted that shows this process.
func ownCgroup() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return locate(string(mounts), string(groups))
}

// locate joins proc_pid_mountinfo(5) and the line "0::/path" of
// proc_pid_cgroup(5).
func locate(mounts, groups string) string {
	own := ""
	for line := range strings.Lines(groups) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			own = strings.TrimSuffix(path, "\n")
		}
	}
	for line := range strings.Lines(mounts) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !strings.HasPrefix(after, "cgroup2 ") || len(fields) < 5 {
			continue
		}
		root, point := fields[3], unescape.Replace(fields[4])
		if below, ok := strings.CutPrefix(own, strings.TrimSuffix(root, "/")+"/"); ok && !strings.Contains(below, "..") {
			return filepath.Join(point, below)
		}
		if own == root {
			return point
		}
	}
	return ""
}

// unescape undoes what mountinfo does to a path.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Kill ends every process in the cgroup and below it, and those that are being forked.
func (c Cgroup) Kill() {
	if c.Dir != "" {
		_ = os.WriteFile(filepath.Join(c.Dir, "cgroup.kill"), []byte("1"), 0)
	}
}

// IsPopulated reports whether a process lives in the cgroup or below it; zombies
// do not. A cgroup that is gone has none.
func (c Cgroup) IsPopulated() bool {
	text, err := os.ReadFile(filepath.Join(c.Dir, "cgroup.events"))
	return c.Dir != "" && err == nil && !strings.Contains("\n"+string(text), "\npopulated 0")
}

// Members lists all in it, which may miss who is being forked.
func (c Cgroup) Members() (pids []int) {
	if c.Dir == "" {
		return nil
	}
	text, _ := os.ReadFile(filepath.Join(c.Dir, "cgroup.procs"))
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signal sends to one of its members. A process id that was given away meanwhile is
// not hit, since the membership is looked at again through a pidfd's holder.
func (c Cgroup) signal(pid int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err == nil && strings.Contains(string(text), "/"+filepath.Base(c.Dir)) {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// Remove takes away an empty cgroup, and those that the command made in it,
// deepest first. The kernel may need a moment after the last death.
func (c Cgroup) Remove() (err error) {
	for try := 0; c.Dir != "" && try < removeTries; try++ {
		if err = removeTree(c.Dir); err == nil || errors.Is(err, syscall.ENOENT) {
			return nil
		}
		time.Sleep(removePause)
	}
	return err
}

const (
	removeTries = 20
	removePause = 5 * time.Millisecond
)

func removeTree(dir string) error {
	below, _ := os.ReadDir(dir)
	for _, entry := range below {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	return unix.Rmdir(dir)
}
