package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The key is replaced, step by step, again and again, while every fifth datagram is lost and leaders are
// killed: the leadership moves when the leader is killed, and at no other time; nobody is shut out; and a
// step that somebody is not ready for is refused, with that one's name (cases 69 to 72).
func TestCase69RotationUnderLoad(t *testing.T) {
	isLong(t)
	needsNft(t)
	l := newLAN(t, 5, "--preempt", "never", "--expect", "5")
	l.hasRoomToLetGo()
	l.start()
	l.agreeOn(l.best())
	for _, h := range l.hosts {
		l.nft(h, "table inet bad { chain in { type filter hook input priority 0; iif lo accept; numgen random mod 100 < 20 drop; }; }")
	}
	const kills = 20
	steps, refused := 0, 0
	note := func(out string, code int) {
		switch {
		case code == 0:
			steps++
		case code == 6 && strings.Contains(out, " is not ready: "): // behind the name of a host
			refused++
		default:
			t.Errorf("key rotate: %d: %s", code, out)
		}
	}
	for kill := range kills {
		leader := l.agree()
		by := l.hosts[kill%len(l.hosts)]
		if by == leader {
			by = l.hosts[(kill+1)%len(l.hosts)]
		}
		leader.kill()
		l.agree()
		out, code := by.rotate()
		note(out, code)
		leader.start()
		l.agree()
		l.reloadAll()
		out, code = by.rotate()
		note(out, code)
		l.reloadAll()
	}
	if becomes := l.journal.becomes(); len(becomes) != kills+1 {
		t.Errorf("%d kills, but %d leaderships: %v", kills, len(becomes), becomes)
	}
	t.Logf("%d steps of a rotation were taken, %d refused; %d leaderships", steps, refused, len(l.journal.becomes()))
	const aRotation = 3 // steps
	if steps < aRotation || refused == 0 {
		t.Error("no key was replaced, or no step refused: this test tests nothing")
	}
}

// rotate tries a step on a host. All hosts share one file, so that a host is behind
// until it has read it again.
func (h *host) rotate() (out string, code int) {
	h.lan.t.Helper()
	cmd := h.command(binary, "key", "rotate", "--key", filepath.Join(h.lan.dir, "key"), "--socket", h.socket())
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.lan.t.Fatalf("run key rotate on %s: %v", h, err)
	}
	return oneLine(text), cmd.ProcessState.ExitCode()
}

// reloadAll has all agents read the file again, one after the other, as people do, and leaves them a
// moment to tell each other.
func (l *lan) reloadAll() {
	l.t.Helper()
	for _, h := range l.running() {
		h.signal(syscall.SIGHUP)
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Second)
}
