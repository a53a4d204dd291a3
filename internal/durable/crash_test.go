package durable_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/test/crash"
)

// What Replace, Create and Swap leave at every moment is the content before or the new
// one, and the new one from their return on, if they promise that.
func TestCrashOfAReplacedFile(t *testing.T) {
	long := strings.Repeat("a line of the new content\n", 12)
	uid, gid := os.Geteuid(), os.Getegid()
	tests := []struct {
		name   string
		before bool
		write  func(path string) error
		lasts  bool // the new one is there from the return on
	}{
		{"replace", true, func(p string) error { return durable.Replace(p, []byte(long)) }, true},
		{"replace nothing", false, func(p string) error { return durable.Replace(p, []byte(long)) }, true},
		{"create", false, func(p string) error { return durable.Create(p, []byte(long), uid, gid) }, true},
		{"swap", true, func(p string) error { return durable.Swap(p, p+".new", []byte(long), true) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			if tt.before {
				if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			trace := crash.Record(t, dir)
			if err := tt.write(path); err != nil {
				t.Fatal(err)
			}
			trace.Mark(1)
			n := trace.Each(func(p crash.Point) {
				content, err := os.ReadFile(filepath.Join(p.Dir, "file"))
				isOld := tt.before && string(content) == "old" || !tt.before && errors.Is(err, os.ErrNotExist)
				isNew := string(content) == long
				if !isOld && !isNew || p.Mark == 1 && tt.lasts && !isNew {
					t.Fatalf("%v left %.40q, %v", p, content, err)
				}
			})
			t.Logf("%d points at %d operations", n.Points, n.Ops)
			if n.Points < 2*len(long) || n.Ops < 4 {
				t.Errorf("tried %+v", n)
			}
		})
	}
}

// Each operation of a write fails in turn: the file is as before or new, nothing is left
// beside it, and the next write succeeds.
func TestAnErrorAtEachOperation(t *testing.T) {
	format := durable.Format{Magic: "TEST", Version: 1}
	writers := map[string]func(path, content string) error{
		"replace": func(p, c string) error { return durable.Replace(p, []byte(c)) },
		"slots": func(p, c string) error {
			s, _, err := durable.OpenSlots(p, format)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			defer s.Close()
			return s.Write([]byte(c))
		},
	}
	readers := map[string]func(path string) string{
		"replace": func(p string) string { b, _ := os.ReadFile(p); return string(b) },
		"slots": func(p string) string {
			s, slot, err := durable.OpenSlots(p, format)
			if err != nil {
				return fmt.Sprint(errors.Is(err, os.ErrNotExist))
			}
			s.Close()
			return string(slot.Content)
		},
	}
	for name, write := range writers {
		for _, before := range []bool{false, true} {
			failed := 0
			for number := 0; ; number++ {
				dir := t.TempDir()
				path := filepath.Join(dir, "file")
				if before {
					if err := write(path, "old"); err != nil {
						t.Fatal(err)
					}
				}
				was := readers[name](path)
				trace := crash.Record(t, dir)
				trace.Fail(number)
				err := write(path, "new")
				if !trace.HasFailed() {
					break
				}
				failed++
				if got := readers[name](path); !errors.Is(err, crash.ErrInjected) || got != was && got != "new" {
					t.Fatalf("%s, operation %d: %v, read %q", name, number, err, got)
				}
				if err := write(path, "next"); err != nil || readers[name](path) != "next" {
					t.Fatalf("%s, after an error at operation %d: %v, read %q", name, number, err, readers[name](path))
				}
				for left := range crash.Files(t, dir) {
					if left != "file" {
						t.Errorf("%s, operation %d: left %s", name, number, left)
					}
				}
			}
			if failed < 3 {
				t.Errorf("%s: %d operations failed", name, failed)
			}
		}
	}
}
