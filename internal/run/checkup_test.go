package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
)

// Documented (docs/discovery.md): of a program that takes too long its group is dead then, and what has made a session of
// its own has left it and lives on. It has the answer's pipe open, and that holds up nobody.
func TestSetsidChildOfAQuestionEscapesAndHoldsUpNobody(t *testing.T) {
	dir := t.TempDir()
	escaped, stays := filepath.Join(dir, "escaped"), filepath.Join(dir, "stays")
	line := "setsid sh -c 'echo $$ >" + escaped + "; exec sleep 1000' & sh -c 'echo $$ >" + stays + "; exec sleep 1000' & echo alpha.lan; sleep 1000"
	runtime.LockOSThread() // see CheckUp
	defer runtime.UnlockOSThread()
	begun := time.Now()
	text, c := Ask(context.Background(), "join", hooks.Command{Shell: line}, time.Second, "/s", 1<<10)
	c.Await(context.Background())
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if !errors.Is(c.Err, ending.ErrTimedOut) || string(text) != "alpha.lan\n" {
		t.Errorf("text %q, %v", text, c.Err)
	}
	lives := func(file string) bool {
		number, err := os.ReadFile(file)
		pid, bad := strconv.Atoi(strings.TrimSpace(string(number)))
		if err != nil || bad != nil {
			t.Fatal(err, bad)
		}
		s, err := ReadStat(pid)
		if err == nil && s.Runs() && file == escaped {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		return err == nil && s.Runs()
	}
	if lives(stays) {
		t.Error("a child in its group has outlived it")
	}
	if !lives(escaped) {
		t.Error("a child in a session of its own was ended: say so in docs/discovery.md")
	}
}
