// Package traces is for tests of what starts processes: a directory in which commands leave
// traces, waits for them, and what of it still lives when the test ends.
package traces

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Patience bounds every wait of these tests. It is far above what they need, so
// that a loaded machine fails none of them.
const Patience = 30 * time.Second

// Dir is a directory of one test, removed at its end.
type Dir struct {
	t    testing.TB
	Name string
	Mark string // in the environment of what its commands start; empty: they are known by their command lines alone
}

// New gives an empty one.
func New(t testing.TB) Dir { return Dir{t: t, Name: t.TempDir()} }

// Path of a file in it.
func (d Dir) Path(name string) string { return filepath.Join(d.Name, name) }

// Script is a shell's command line that runs in it.
func (d Dir) Script(text string) []string {
	return []string{"/bin/sh", "-c", "cd " + d.Name + "; " + text}
}

// Text of a file, without the space around it; "" if it is missing.
func (d Dir) Text(name string) string {
	d.t.Helper()
	text, err := os.ReadFile(d.Path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// PID waits for a file and gives the number with which it begins.
func (d Dir) PID(name string) int {
	d.t.Helper()
	d.UntilFile(name)
	pid, err := strconv.Atoi(strings.Fields(d.Text(name))[0])
	if err != nil {
		d.t.Fatal(err)
	}
	return pid
}

// UntilFile waits until a file holds something.
func (d Dir) UntilFile(name string) {
	d.t.Helper()
	d.Until(name, func() bool { return d.Text(name) != "" })
}

// Until waits for a condition on the world outside this process.
func (d Dir) Until(what string, holds func() bool) {
	d.t.Helper()
	Until(d.t, what, holds)
}

// Until waits for a condition on the world outside this process.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(Patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited for %s in vain", what)
		}
	}
}

// Living lists the processes whose command line names the directory, or whose environment
// has the mark. A zombie has neither.
func (d Dir) Living() (pids []int) {
	places, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, place := range places {
		pid, err := strconv.Atoi(filepath.Base(place))
		if err == nil && (has(place+"/cmdline", d.Name) || d.Mark != "" && has(place+"/environ", d.Mark+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func has(file, text string) bool {
	b, _ := os.ReadFile(file) // it may just have ended
	return bytes.Contains(b, []byte(text))
}

// dying is what a process has that was sent KILL: it ends at its next turn of a processor,
// and a busy machine lets it wait for that.
const dying = 2 * time.Second

// NoneLives fails the test for each process that lives on, and ends it.
func (d Dir) NoneLives() {
	d.t.Helper()
	for end := time.Now().Add(dying); len(d.Living()) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	for _, pid := range d.Living() {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		d.t.Errorf("process %d still runs: %q", pid, text)
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// Death tells, by the clock given, when a process dies that need not be a child. The
// function that it gives waits for that.
func Death(t testing.TB, pid int, now func() time.Time) func() time.Time {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	at := make(chan time.Time, 1)
	go func() {
		defer unix.Close(fd)
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if n, err := unix.Poll(fds, -1); n > 0 || !errors.Is(err, unix.EINTR) {
				break
			}
		}
		at <- now()
	}()
	return func() time.Time {
		t.Helper()
		select {
		case i := <-at:
			return i
		case <-time.After(Patience):
			t.Fatalf("process %d does not die", pid)
			panic("unreachable")
		}
	}
}

// Frozen gives a directory on a disk that can be made to stand still: who writes there then waits, and no signal ends it.
func (d Dir) Frozen() (dir string, freeze, thaw func()) {
	d.t.Helper()
	if os.Getuid() != 0 {
		d.t.Skip("skipped: only root can make a disk stand still")
	}
	dir, image := d.Path("mnt"), d.Path("image")
	for _, args := range [][]string{{"truncate", "-s", "16M", image}, {"mkfs.ext4", "-q", "-F", image}, {"mkdir", dir}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			d.t.Skipf("skipped: %v: %v: %s", args, err, out)
		}
	}
	disk, err := os.Open(dir)
	if err != nil {
		d.t.Fatal(err)
	}
	const fifreeze, fithaw = 0xC0045877, 0xC0045878
	thaw = func() { _ = unix.IoctlSetInt(int(disk.Fd()), fithaw, 0) }
	d.t.Cleanup(func() {
		thaw()
		disk.Close()
		d.Until("the disk to be free", func() bool { return unix.Unmount(dir, 0) == nil })
	})
	return dir, func() {
		if err := unix.IoctlSetInt(int(disk.Fd()), fifreeze, 0); err != nil {
			d.t.Skipf("skipped: freeze: %v", err)
		}
	}, thaw
}
