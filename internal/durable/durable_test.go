package durable

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

var testFormat = Format{Magic: "TEST", Version: 2}

func mustOpen(t *testing.T, path string) (*Slots, Slot) {
	t.Helper()
	s, slot, err := OpenSlots(path, testFormat)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return s, slot
}

func mustWrite(t *testing.T, s *Slots, content string) {
	t.Helper()
	if err := s.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
}

// The last content that was written is read again, write after write.
func TestSlotsKeepTheLastContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots")
	for i, content := range []string{"one", "", "three", "four"} {
		s, _ := mustOpen(t, path)
		mustWrite(t, s, content)
		s.Close()
		s, slot := mustOpen(t, path)
		s.Close()
		if string(slot.Content) != content || slot.Number != uint64(i+1) || slot.Version != testFormat.Version {
			t.Errorf("after %q: %+v", content, slot)
		}
	}
}

// Whatever of the last write did not reach the disk, the one before is found.
func TestATornWriteLeavesTheContentBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots")
	s, _ := mustOpen(t, path)
	mustWrite(t, s, "before")
	mustWrite(t, s, "after")
	s.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(testFormat.Append(2, []byte("after"))) {
		torn := bytes.Clone(whole)
		torn[i] ^= 1 // the second write is in the first slot
		if slot, err := testFormat.newest(torn); err != nil || string(slot.Content) != "before" {
			t.Fatalf("byte %d: %q, %v", i, slot.Content, err)
		}
	}
	clear(whole)
	if _, err := testFormat.newest(whole); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a file of zeros: %v", err)
	}
}

// A whole slot of a later version is never passed over.
func TestALaterVersionIsRefused(t *testing.T) {
	newer := Format{Magic: testFormat.Magic, Version: testFormat.Version + 1}.Append(1, nil)
	file := make([]byte, 2*SlotSize)
	copy(file, testFormat.Append(2, nil))
	copy(file[SlotSize:], newer)
	if _, err := testFormat.newest(file); !errors.Is(err, ErrNewer) {
		t.Errorf("got %v", err)
	}
}

// A write that failed is tried again on a fresh descriptor, and numbers go on.
func TestAFailedWriteIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots")
	s, _ := mustOpen(t, path)
	mustWrite(t, s, "one")
	s.file.Close()
	if err := s.Write([]byte("lost")); err == nil {
		t.Fatal("a write to a closed file succeeded")
	}
	mustWrite(t, s, "two")
	s.Close()
	s, slot := mustOpen(t, path)
	s.Close()
	if string(slot.Content) != "two" || slot.Number != 2 {
		t.Errorf("read %+v", slot)
	}
}

// A file that was there and is gone is not made anew: nobody knows what it held.
func TestAFileThatIsGoneIsNotMadeAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slots")
	s, _ := mustOpen(t, path)
	mustWrite(t, s, "one")
	s.file.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_ = s.Write(nil) // finds its descriptor closed
	if err := s.Write(nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"one", "two"} {
		if err := Replace(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%q, %v", got, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := Replace(filepath.Join(path, "below"), nil); err == nil {
		t.Error("wrote below a file")
	}
}

func TestCreateAndReplaceOf(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = 7950, 7951
	}
	if err := Create(path, []byte("one"), uid, gid); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, []byte("two"), uid, gid); !errors.Is(err, os.ErrExist) {
		t.Errorf("made where there is one: %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "one" {
		t.Errorf("%q, %v", got, err)
	}
	if err := ReplaceOf(path, []byte("three"), uid, gid); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if stat := info.Sys().(*syscall.Stat_t); info.Mode().Perm() != 0o600 || int(stat.Uid) != uid || int(stat.Gid) != gid {
		t.Errorf("mode %v, owner %d:%d, want %d:%d", info.Mode(), stat.Uid, stat.Gid, uid, gid)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "three" {
		t.Errorf("%q, %v", got, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}
