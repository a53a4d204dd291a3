package boot

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// patience bounds each boot, halt and command: far above what they need.
const patience = 3 * time.Minute

// Host is a system with a disk of its own, which is running or off. One goroutine uses it; Run and Must may be called by
// several.
type Host struct {
	*machine
	t *testing.T // whom it fails
}

// In gives the same host to a part of the test, which it fails then.
func (h *Host) In(part *testing.T) *Host { return &Host{h.machine, part} }

type machine struct {
	name string
	net  netlab.Namespace
	dir  string   // of the disk, mounted at root
	run  *running // nil while it is off
}

// Name is the host's name.
func (h *Host) Name() string { return h.name }

func (h *Host) root() string { return filepath.Join(h.dir, "root") }

// mount puts an empty disk over a root.
func (h *Host) mount(root string) error {
	for _, dir := range []string{h.root(), filepath.Join(h.dir, "upper"), filepath.Join(h.dir, "work")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", root, h.dir, h.dir)
	return unix.Mount("overlay", h.root(), "overlay", 0, options)
}

// Push writes a file, whether the host runs or not. /run and /tmp are not on the disk.
func (h *Host) Push(path string, content []byte, mode fs.FileMode) {
	h.t.Helper()
	disk, err := os.OpenRoot(h.root()) // a link in it leads nowhere else
	if err != nil {
		h.t.Fatal(err)
	}
	defer disk.Close()
	name := strings.TrimPrefix(path, "/")
	if strings.HasPrefix(name, "run/") || strings.HasPrefix(name, "tmp/") {
		h.t.Fatalf("BUG: %s is not on the disk of a host that runs", path)
	}
	err = disk.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		// Another file in its place: a program that runs cannot be written to.
		if err = disk.Remove(name); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = disk.WriteFile(name, content, mode)
	}
	if err == nil {
		err = disk.Chmod(name, mode) // whatever our umask is
	}
	if err != nil {
		h.t.Fatalf("push to %s: %v", h.name, err)
	}
}

// PushFile writes a copy of one of this machine's files.
func (h *Host) PushFile(path, from string, mode fs.FileMode) {
	h.t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		h.t.Fatal(err)
	}
	h.Push(path, content, mode)
}

// Seen gives the place at which this machine sees a path of the host while that runs: a socket in /run, which is not on the disk.
func (h *Host) Seen(path string) string {
	h.t.Helper()
	if h.run == nil {
		h.t.Fatalf("BUG: %s is off", h.name)
	}
	return fmt.Sprintf("/proc/%d/root%s", h.run.firstProcess(), path)
}

// Boot switches the host on, and returns when systemd says that all it was to start has started.
func (h *Host) Boot() {
	h.t.Helper()
	if h.run != nil {
		h.t.Fatalf("BUG: %s is on", h.name)
	}
	run, err := start(h)
	if err != nil {
		h.t.Fatalf("boot %s: %v", h.name, err)
	}
	h.run = run
	h.awaitBoot()
}

func (h *Host) awaitBoot() {
	h.t.Helper()
	if err := h.run.awaitBoot(); err != nil {
		h.t.Fatalf("boot %s: %v\n%s", h.name, err, h.Console())
	}
}

// Reboot restarts the system cleanly and returns when it is up again.
func (h *Host) Reboot() {
	h.t.Helper()
	h.Must("systemctl reboot")
	h.awaitBoot()
}

// Poweroff stops the system cleanly and returns when it is off.
func (h *Host) Poweroff() {
	h.t.Helper()
	h.Must("systemctl poweroff")
	h.awaitEnd()
}

// Kill ends all of the host's processes at once, as when the power fails.
func (h *Host) Kill() {
	h.t.Helper()
	if err := unix.Kill(h.run.firstProcess(), unix.SIGKILL); err != nil {
		h.t.Fatal(err)
	}
	h.awaitEnd()
}

func (h *Host) awaitEnd() {
	h.t.Helper()
	if err := h.run.awaitEnd(); err != nil {
		h.t.Fatalf("stop %s: %v\n%s", h.name, err, h.Console())
	}
	h.run = nil
}

// Run gives a shell of the host's root a script, and gives back what it printed on both outputs.
func (h *Host) Run(script string) (string, error) {
	h.t.Helper()
	if h.run == nil {
		h.t.Fatalf("BUG: %s is off", h.name)
	}
	ctx, stop := context.WithTimeout(context.Background(), patience) // t.Cleanup may look, too
	defer stop()
	cmd := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(h.run.firstProcess()), "--mount", "--uts", "--ipc", "--net", "--pid",
		"--root", "--wd", "/usr/bin/env", "-i", "HOME=/root", "LANG=C.UTF-8", "SYSTEMD_PAGER=", "DEBIAN_FRONTEND=noninteractive",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "/bin/sh", "-c", script)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Must is Run for what must not fail.
func (h *Host) Must(script string) string {
	h.t.Helper()
	out, err := h.Run(script)
	if err != nil {
		h.t.Fatalf("%s: %s: %v\n%s", h.name, script, err, out)
	}
	return out
}

// Until waits until a script ends with exit code 0.
func (h *Host) Until(script string) {
	h.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for {
		out, err := h.Run(script)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			h.t.Fatalf("%s: waited in vain for: %s: %v\n%s", h.name, script, err, out)
		}
	}
}

// Console is what the system has printed since it was switched on.
func (h *Host) Console() string {
	if h.run == nil {
		return ""
	}
	return h.run.console.String()
}

func (h *Host) remove() {
	if h.run != nil {
		_ = unix.Kill(h.run.firstProcess(), unix.SIGKILL) // it may have ended
		h.awaitEnd()
	}
	if err := unix.Unmount(h.root(), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // it may not be mounted
		h.t.Error(err)
	}
}

func machineID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
