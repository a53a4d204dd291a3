package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// faulty is a host's state directory on a disk that can be broken, and mended.
type faulty struct {
	h    *host
	says string // what `status` is to say of it, by its system's words
	bear func() // mounts it
	hurt func()
	mend func()
}

func (h *host) stateDir() string { return filepath.Join(h.dir, "state") }

// mount puts a file system over the host's state directory, until the end of the test.
func (h *host) mount(words ...string) {
	t := h.lan.t
	t.Helper()
	must(t, os.MkdirAll(h.stateDir(), 0o700))
	cmd := exec.Command("mount", append(words, h.stateDir())...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("skipped: nothing can be mounted here: %v: %s", err, oneLine(out))
	}
	t.Cleanup(func() { _ = unix.Unmount(h.stateDir(), unix.MNT_DETACH) })
	must(t, os.Chmod(h.stateDir(), 0o700))
}

// full is 64 KiB of a tmpfs, of which nothing is left.
func full(h *host) faulty {
	rest := filepath.Join(h.stateDir(), "rest")
	return faulty{h: h, says: "no space left on device",
		bear: func() { h.mount("-t", "tmpfs", "-o", "size=64k", "e2e") },
		hurt: func() {
			f, err := os.Create(rest)
			must(h.lan.t, err)
			defer f.Close()
			for err == nil {
				_, err = f.Write(make([]byte, os.Getpagesize()))
			}
		},
		mend: func() { must(h.lan.t, os.Remove(rest)) }}
}

// readOnly is an ext4 that its kernel makes read-only as it does after an error; it takes
// no `remount,ro`, since the agent has files open. Such a file system can only be mounted
// anew, which is done below the agent.
func readOnly(h *host) faulty {
	t, image := h.lan.t, filepath.Join(h.dir, "disk")
	mustRun := func(words ...string) {
		t.Helper()
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", words, err, oneLine(out))
		}
	}
	return faulty{h: h, says: "read-only file system",
		bear: func() {
			if _, err := exec.LookPath("mkfs.ext4"); err != nil {
				t.Skip("skipped: the command mkfs.ext4 is not installed (package e2fsprogs)")
			}
			must(t, os.WriteFile(image, nil, 0o600))
			must(t, os.Truncate(image, 8<<20))
			mustRun("mkfs.ext4", "-q", image)
			h.mount("-o", "loop", image)
		},
		hurt: func() { mustRun("mount", "-o", "remount,abort", h.stateDir()) },
		mend: func() {
			within := []string{"nsenter", "--mount=/proc/" + strconv.Itoa(h.agent.cmd.Process.Pid) + "/ns/mnt"}
			mustRun(append(within, "umount", "-l", h.stateDir())...)
			mustRun("cp", image, image+".copy")                    // the old one stays in use while a file of it is open
			_ = exec.Command("e2fsck", "-fy", image+".copy").Run() // 1: it has mended something
			mustRun(append(within, "mount", "-o", "loop", image+".copy", h.stateDir())...)
		}}
}

// failing has each of these calls of agent and keeper end with EIO.
func failing(h *host, calls string) faulty {
	t := h.lan.t
	var tracer *exec.Cmd
	mend := func() {
		if tracer != nil {
			_ = tracer.Process.Signal(unix.SIGINT) // it detaches
			_ = tracer.Wait()
			tracer = nil
		}
	}
	return faulty{h: h, says: "input/output error", bear: func() { needsStrace(t) }, mend: mend,
		hurt: func() {
			words := []string{"-f", "-qq", "-o", "/dev/null", "-e", "inject=" + calls + ":error=EIO"}
			for _, pid := range h.own() {
				words = append(words, "-p", strconv.Itoa(pid))
			}
			tracer = exec.Command("strace", words...)
			must(t, tracer.Start())
			t.Cleanup(mend)
			h.lan.eventually("all are traced", patience, func() error {
				for _, pid := range h.own() {
					status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
					if err != nil || strings.Contains(string(status), "TracerPid:\t0\n") {
						return fmt.Errorf("%d is not: %v", pid, err)
					}
				}
				return nil
			})
		}}
}

// needsStrace skips a test where strace is not installed, or may not trace.
func needsStrace(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("strace", "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		t.Skipf("skipped: strace may not trace here, or is not installed: %v %s", err, oneLine(out))
	}
}

// A leader's disk breaks: it fills up, becomes read-only, or fails. Nobody notices before it
// has to be written, which it has when two halves of a network meet. From then on the host
// does not lead, its lose hook has run, and its status says why; it leads again within ten
// seconds of the disk's being well.
func TestLeadersDiskBreaks(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	for name, disk := range map[string]func(h *host) faulty{
		"full":             full,
		"read-only":        readOnly,
		"fails to sync":    func(h *host) faulty { return failing(h, "fsync,fdatasync") },
		"fails to write":   func(h *host) faulty { return failing(h, "pwrite64") },
		"fails in any way": func(h *host) faulty { return failing(h, "fsync,fdatasync,pwrite64,renameat") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 4)
			l.mayOverlap("available mode: each half has a leader")
			l.hasRoomToLetGo()
			best, next, second := l.best(), l.next(), l.hosts[1]
			d := disk(best)
			d.bear()
			l.start()
			l.agreeOn(best)
			l.split(l.hosts[:2]...)
			l.agreeOn(second, l.hosts[:2]...)
			l.agreeOn(best, best, next)
			l.led(best, second)

			d.hurt()
			l.plug(l.hosts[0])
			l.plug(second)
			l.eventually("the status says why", patience, func() error { return d.isKnown(true) })
			l.agreeOn(next)                                                  // a disk that is full is noticed by who has to write: next may have led before, too
			l.steady(next, 3*time.Second, l.except(best)...)                 // which may be traced, and slow to answer
			l.eventually("its lose hook has ended", patience, func() error { // traced, on a busy machine, all of it takes long
				if l.journal.last(best, loseEnd).Node == "" {
					return errors.New("it has not")
				}
				return nil
			})
			l.journal.order(on(best, becomeBegin), on(second, becomeBegin), on(best, loseBegin), on(best, loseEnd))
			if leads := l.journal.becomes(); strings.Count(strings.Join(leads, " "), best.name) != 1 {
				t.Errorf("%s led on a broken disk: %v", best, leads)
			}

			d.mend()
			l.eventually("it leads again", 10*time.Second, func() error {
				leader, err := leaderOf(l.hosts)
				if err == nil && leader != best {
					err = fmt.Errorf("%s leads", leader)
				}
				return err
			})
			must(t, d.isKnown(false))
			l.steady(best, time.Second)
		})
	}
}

// isKnown is nil if the status says that the disk takes no writes, and why, or says nothing.
func (d faulty) isKnown(want bool) error {
	s, err := d.h.status()
	if err != nil {
		return err
	}
	notes := strings.Join(s.Notes, "\n")
	if is := strings.Contains(notes, "the state directory takes no writes") && strings.Contains(notes, d.says); is != want {
		return fmt.Errorf("%s, cause %s, has the notes %q", s.State, s.Cause, s.Notes)
	}
	return nil
}

// A host gets an older copy of its state directory back. The others know later lives of
// it and do not hear this one, whose promises and epochs may be forgotten: its agent ends,
// its last line says why, and without the copy it is a member again.
func TestStateRestoredFromAnOlderCopy(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	best, next := l.best(), l.next()
	l.start()
	l.agreeOn(best)
	best.stop()
	older := filepath.Join(best.dir, "older")
	mustCopy(t, best.stateDir(), older)
	for range 3 { // each a life of its own
		best.start()
		l.agreeOn(best)
		best.kill()
		l.agreeOn(next)
	}
	l.eventually("its keeper has ended", patience, func() error {
		if left := best.net.Processes(); len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})

	must(t, os.RemoveAll(best.stateDir()))
	mustCopy(t, older, best.stateDir())
	best.start()
	if code := best.exits(patience); code != 7 {
		t.Errorf("it exits with %d, want 7", code)
	}
	text, err := os.ReadFile(best.logPath())
	must(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "error: the state directory is an older copy") || !strings.Contains(last, "; hint: bully-agent id new ") {
		t.Errorf("its last line is %q", last)
	}
	l.steady(next, 3*time.Second, l.hosts[0], next)

	must(t, os.RemoveAll(best.stateDir()))
	best.start()
	l.agreeOn(best)
	l.steady(best, time.Second)
}

func mustCopy(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v: %s", from, err, out)
	}
}
