package guard

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

// cgroup is a control group (v2) of the command's own. Whatever the command
// starts is born into it, whatever sessions and groups it makes, and
// cgroup.kill ends all of it at once. No controller is needed, so nothing has to
// be enabled in the groups above.
type cgroup struct {
	dir string
	fd  *os.File // for clone3: a child that is born inside has no moment outside
}

// newCgroup makes a cgroup below parent; below this process's own if that is
// empty.
func newCgroup(parent, name string) (*cgroup, error) {
	if parent == "" {
		var err error
		if parent, err = ownCgroup(); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	fd, err := os.Open(dir)
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "cgroup.kill")) // since Linux 5.14
	}
	if err != nil {
		fd.Close()
		_ = os.Remove(dir)
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	return &cgroup{dir: dir, fd: fd}, nil
}

// ownCgroup is the directory of this process's cgroup in the unified hierarchy.
func ownCgroup() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("find cgroup: %w", err)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find cgroup: %w", err)
	}
	return locate(string(mounts), string(groups))
}

var errNoUnified = errors.New("find cgroup: no cgroup v2 is mounted that shows this process")

// locate joins proc_pid_mountinfo(5) and the line "0::/path" of
// proc_pid_cgroup(5).
func locate(mounts, groups string) (string, error) {
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
			return filepath.Join(point, below), nil
		}
		if own == root {
			return point, nil
		}
	}
	return "", errNoUnified
}

// unescape undoes what mountinfo does to a path.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// killCgroup ends every process in the cgroup and below it, and those that are being
// forked.
func killCgroup(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
}

// populated reports whether a process lives in the cgroup or below it; zombies
// do not. A cgroup that is gone has none.
func populated(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	return err == nil && !strings.Contains("\n"+string(text), "\npopulated 0")
}

// signal sends sig to each member, which may miss who is being forked: it is for
// the polite part. A process id that was given away meanwhile is not hit, since
// the membership is looked at again through a pidfd's holder.
func (c *cgroup) signal(sig unix.Signal) {
	for _, pid := range c.members() {
		c.signalMember(pid, sig)
	}
}

func (c *cgroup) members() (pids []int) {
	text, _ := os.ReadFile(filepath.Join(c.dir, "cgroup.procs"))
	for word := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (c *cgroup) signalMember(pid int, sig unix.Signal) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err == nil && strings.Contains(string(text), "/"+filepath.Base(c.dir)) {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// removeCgroup takes away an empty cgroup, and those that the command made in it,
// deepest first. The kernel may need a moment after the last death.
func removeCgroup(dir string) error {
	var err error
	for range removeTries {
		if err = removeTree(dir); err == nil || errors.Is(err, syscall.ENOENT) {
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
