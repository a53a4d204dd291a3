package e2e

import (
	"fmt"
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
	l := newLAN(t, 5, "--preempt", "never")
	l.needsKeys()
	l.hasRoomToLetGo()
	l.start()
	l.agreeOn(l.best())
	for _, h := range l.hosts {
		l.nft(h, "table inet bad { chain in { type filter hook input priority 0; iif lo accept; numgen random mod 100 < 20 drop; }; }")
	}
	const kills = 20
	steps, refused := 0, 0
	for kill := range kills {
		leader := l.agree()
		keeper := l.hosts[kill%len(l.hosts)]
		if keeper == leader {
			keeper = l.hosts[(kill+1)%len(l.hosts)]
		}
		leader.kill()
		if out, code := keeper.rotate(); code != 6 || !strings.Contains(out, leader.name) && !strings.Contains(keeper.lastWords(), leader.name) {
			t.Logf("rotate while %s is down: %d %s", leader, code, out)
		} else {
			refused++
		}
		l.agree()
		leader.start()
		l.agree()
		l.eventually("all have the keys", patience, func() error { return l.rotateOnce(keeper) })
		steps++
	}
	if becomes := l.journal.becomes(); len(becomes) != kills+1 {
		t.Errorf("%d kills, but %d leaderships: %v", kills, len(becomes), becomes)
	}
	t.Logf("%d steps of a rotation were taken, %d refused while a host was down; %d leaderships", steps, refused, len(l.journal.becomes()))
	if steps == 0 {
		t.Error("no step was taken")
	}
}

// rotate takes a step, on the host whose word it is. All hosts share one file, so that a host is behind
// until it has read it again.
func (h *host) rotate() (out string, code int) {
	h.lan.t.Helper()
	return h.cli("key", "rotate", "--key", filepath.Join(h.lan.dir, "key"), "--socket", h.socket())
}

// rotateOnce takes a step, and has the others read the file.
func (l *lan) rotateOnce(by *host) error {
	out, code := by.rotate()
	if code != 0 {
		return fmt.Errorf("key rotate on %s: %d: %s", by, code, out)
	}
	for _, h := range l.running() {
		h.signal(syscall.SIGHUP)
		time.Sleep(50 * time.Millisecond) // one after the other, as people do
	}
	return nil
}
