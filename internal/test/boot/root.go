package boot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const (
	suite = "bookworm"
	// packages are what a host has beside the minimal system: an init, its bus, and ip(8).
	packages = "systemd,systemd-sysv,dbus,iproute2"
)

// needs skips a test that cannot run here, or not by default.
func needs(t *testing.T) {
	t.Helper()
	if os.Getenv("BULLY_E2E") != "long" {
		t.Skip("skipped: it boots hosts, which takes minutes; BULLY_E2E=long runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: booting hosts needs root")
	}
	for command, pkg := range map[string]string{"systemd-nspawn": "systemd-container", "debootstrap": "debootstrap", "nsenter": "util-linux"} {
		if _, err := exec.LookPath(command); err != nil {
			t.Skipf("skipped: the command %s is not installed (package %s)", command, pkg)
		}
	}
}

// debianRoot gives the directory of a root that nobody may change, and makes it if it is not there.
func debianRoot() (string, error) {
	cache := os.Getenv("BULLY_E2E_ROOT")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a cache: %w; BULLY_E2E_ROOT names a directory", err)
		}
		cache = filepath.Join(user, "bully-agent")
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	root := filepath.Join(cache, suite)
	unlock, err := lock(root + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
		return root, err
	}
	return root, makeRoot(root)
}

// makeRoot makes it beside its place, so that what is in its place is whole.
func makeRoot(root string) error {
	half := root + ".half"
	if err := os.RemoveAll(half); err != nil { // of one that was killed
		return err
	}
	out, err := exec.Command("debootstrap", "--variant=minbase", "--include="+packages, suite, half).CombinedOutput()
	if err != nil {
		return fmt.Errorf("debootstrap: %w: %s", err, lastLine(out))
	}
	return os.Rename(half, root)
}

// lock keeps two test processes from making the same root.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
