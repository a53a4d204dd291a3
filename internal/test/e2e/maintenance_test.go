package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// Five hosts of equal priority are restarted by the example's script: at most one change
// of leader for each restart of the leader, none otherwise, and at no moment is there no
// quorum.
func TestRollingRestartByTheScript(t *testing.T) {
	needsLAN(t)
	l := newLAN(t, 5, "--expect", "5")
	l.hasRoomToLetGo()
	for _, h := range l.hosts {
		h.priority = 100
	}
	l.start()
	first := l.agree()
	script, err := filepath.Abs(filepath.Join("..", "..", "..", "deploy", "examples", "rolling-restart", "rolling-restart.sh"))
	must(t, err)
	// on gives a host a command as ssh does. What restarts an agent asks the test to, by a file.
	on := filepath.Join(l.dir, "on")
	prefix := strings.TrimSuffix(string(l.hosts[0].net.Namespace), l.hosts[0].name)
	must(t, os.WriteFile(on, fmt.Appendf(nil, "#!/bin/sh\nhost=$1; shift\nexec ip netns exec %[1]s$host env HOST_DIR=%[2]s/$host "+
		"BULLY_SOCKET=%[2]s/$host/run/agent.sock sh -c \"$*\"\n", prefix, l.dir), 0o755))
	must(t, os.Symlink(binary, filepath.Join(l.dir, "bully-agent")))
	cmd := exec.Command(script)
	for _, h := range l.hosts {
		cmd.Args = append(cmd.Args, h.name)
	}
	cmd.Env = []string{"PATH=" + l.dir + ":" + os.Getenv("PATH"), "ON=" + on, "PATIENCE=60",
		`RESTART=touch "$HOST_DIR/restart"; while test -e "$HOST_DIR/restart"; do sleep 0.1; done`}
	done := make(chan error, 1)
	var out []byte
	go func() { b, err := cmd.CombinedOutput(); out = b; done <- err }()
	changes := restartOnDemand(l, done)
	t.Logf("the script said\n%s", out)
	last := l.agree()
	becomes := l.journal.becomes()
	t.Logf("%s led at first, %s at last; began to lead: %v", first, last, becomes)
	if len(becomes) != 1+changes {
		t.Errorf("%d changes of leader, and %d hosts were asked for while they led", len(becomes)-1, changes)
	}
}

// restartOnDemand restarts the hosts whose file asks for it until the script ends, and
// counts those that led when they were put into maintenance. No agent leads when it is
// stopped, and a majority always has a leader's ear.
func restartOnDemand(l *lan, done <-chan error) (changes int) {
	l.t.Helper()
	for {
		select {
		case err := <-done:
			must(l.t, err)
			return changes
		case <-time.After(20 * time.Millisecond):
		}
		for _, h := range l.hosts {
			request := filepath.Join(h.dir, "restart")
			if _, err := os.Stat(request); errors.Is(err, os.ErrNotExist) {
				continue
			}
			if led := l.journal.becomes(); slices.Contains(led, h.name) {
				changes++ // it led, and has handed over: nobody does twice
			}
			s, err := h.status()
			must(l.t, err)
			if s.LeaderIsSelf || s.Maintenance == nil || len(l.running()) != len(l.hosts) {
				l.t.Fatalf("%s is to be restarted: it leads: %t, maintenance %v, %d agents run", h, s.LeaderIsSelf, s.Maintenance, len(l.running()))
			}
			if code := h.stop(); code != 0 {
				l.t.Fatalf("%s stopped with exit code %d", h, code)
			}
			if q := quorumWithout(l); q < 3 {
				l.t.Fatalf("%d of 5 voters are left without %s", q, h)
			}
			h.start()
			l.eventually(h.name+" is back", patience, func() error { _, err := h.status(); return err })
			must(l.t, os.Remove(request))
		}
	}
}

// quorumWithout is how many voters the leader hears.
func quorumWithout(l *lan) (have int) {
	for _, h := range l.running() {
		if s, err := h.status(); err == nil && s.LeaderIsSelf && s.Quorum != nil {
			have = s.Quorum.Have
		}
	}
	return have
}

// Maintenance is shown on other hosts, outlives kill -9, and is refused to the last host.
func TestMaintenanceOnHosts(t *testing.T) {
	needsLAN(t)
	l := newLAN(t, 2)
	l.start()
	best, next := l.best(), l.next()
	l.agreeOn(best)
	if out, code := best.cli("maintenance", "on", "--reason", "kernel upgrade"); code != 0 || out != "in maintenance: "+next.name+" leads, epoch 2\n" {
		t.Fatalf("exit code %d: %s", code, out)
	}
	shown := func() error {
		members, err := next.client.Members(t.Context())
		i := slices.IndexFunc(members, func(m control.Member) bool { return m.Name == best.name })
		if err != nil || i < 0 || members[i].Maintenance == nil || *members[i].Maintenance != "kernel upgrade" {
			return fmt.Errorf("%+v (%v)", members, err)
		}
		return nil
	}
	l.eventually(next.name+" shows it", patience, shown)
	best.kill()
	best.start()
	l.agreeOn(next)
	l.steady(next, 3*time.Second)
	l.eventually(next.name+" shows it again", patience, shown)
	if out, code := next.cli("maintenance", "on"); code != 6 {
		t.Errorf("the last host: exit code %d: %s", code, out)
	}
	if out, code := next.cli("ok-to-stop"); code != 6 || out != "no: nobody else can lead\n" {
		t.Errorf("ok-to-stop of the last host: exit code %d: %s", code, out)
	}
	best.cli("maintenance", "off")
	l.agreeOn(best)
}
