package durable

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/access"
)

// This program is also the writer that is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv("DURABLE_WRITE"); path != "" {
		for i := 0; ; i++ {
			_ = Replace(path, bytes.Repeat([]byte{byte('a' + i%26)}, 64<<10))
		}
	}
	os.Exit(m.Run())
}

// What somebody else could have written is not read, whatever kind of thing it is.
func TestCase63WhatOthersCouldHaveWritten(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"good", "wide", "foreign"} {
		if err := os.WriteFile(at(name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{os.Chmod(at("wide"), 0o666), os.Symlink(at("good"), at("link")), unix.Mkfifo(at("fifo"), 0o600), os.Mkdir(at("dir"), 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if text, err := ReadFile(at("good")); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
	bad := []string{"wide", "link", "fifo", "dir"}
	if os.Geteuid() == 0 {
		if err := os.Chown(at("foreign"), 12345, 0); err != nil {
			t.Fatal(err)
		}
		bad = append(bad, "foreign")
	}
	for _, name := range bad {
		if text, err := ReadFile(at(name)); err == nil {
			t.Errorf("%s was read: %q", name, text)
		}
		if f, err := Open(at(name), os.O_RDWR|os.O_CREATE); err == nil {
			f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	if _, err := ReadFile(at("none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestCase62DirectoryOfOthers(t *testing.T) {
	dir := t.TempDir()
	if err := CheckDir(dir); err != nil {
		t.Error(err)
	}
	refused := func(mend string) {
		t.Helper()
		var open *access.Error
		if err := CheckDir(dir); !errors.As(err, &open) || open.Part != dir || open.Mend != mend {
			t.Errorf("%v; want one that says %s", err, mend)
		}
	}
	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		refused("chmod o-w")
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := errors.Join(os.Chown(dir, 0, 12345), os.Chmod(dir, 0o770)); err != nil {
		t.Fatal(err)
	}
	refused("chmod g-w")
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, 12345, 0)); err != nil {
		t.Fatal(err)
	}
	refused("chown root")
}

// A process that is killed while it replaces a file leaves the whole of one version, and
// nothing anywhere else than beside it.
func TestCase68KilledWhileItWrites(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, tmp := t.TempDir(), t.TempDir()
	target := filepath.Join(dir, "history.json")
	for i := range 20 {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), "DURABLE_WRITE="+target, "TMPDIR="+tmp)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		late := time.Now().Add(30 * time.Second)
		for _, err := os.Stat(target); err != nil && time.Now().Before(late); _, err = os.Stat(target) {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(i) * 300 * time.Microsecond) // the kill falls somewhere else each time
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		text, err := os.ReadFile(target)
		if err != nil || len(text) != 64<<10 || len(bytes.Trim(text, string(text[:1]))) != 0 {
			t.Fatalf("kill %d: %d bytes, %v", i, len(text), err)
		}
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("%d files are left in the temporary directory: %v", len(left), left)
	}
	beside, _ := os.ReadDir(dir)
	for _, e := range beside {
		if e.Name() != "history.json" && !strings.HasPrefix(e.Name(), ".history.json") {
			t.Errorf("%s is left, which no start sweeps", e.Name())
		}
	}
}

// What leads to a directory counts as it does: whoever can exchange a part of that has one of his own in its place.
func TestDirectoriesOnTheWayAreLookedAt(t *testing.T) {
	base := t.TempDir()
	way, link := filepath.Join(base, "way"), filepath.Join(base, "link")
	dir := filepath.Join(way, "state")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link} {
		if err := errors.Join(os.Chmod(way, 0o700), CheckDir(path)); err != nil {
			t.Error(err)
		}
		if err := os.Chmod(way, 0o777); err != nil {
			t.Fatal(err)
		}
		var open *access.Error
		if err := CheckDir(path); !errors.As(err, &open) || open.Part != way || open.Mend != "chmod o-w" {
			t.Errorf("%s: %v; want one of %s", path, err, way)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := errors.Join(os.Chmod(way, 0o700), os.Lchown(link, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	var open *access.Error
	if err := CheckDir(link); !errors.As(err, &open) || open.Part != link || !open.Owner {
		t.Errorf("a link of another's: %v", err)
	}
	t.Chdir(way)
	if err := CheckDir("state"); err != nil {
		t.Errorf("a relative path: %v", err)
	}
}
