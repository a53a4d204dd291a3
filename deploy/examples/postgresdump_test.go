package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// shared is a directory that all hosts write their dumps to, and a pg_dump that does as the test wants.
type shared struct {
	t     *testing.T
	dir   string
	bin   string
	calls string // of pg_dump
}

// newShared makes the directory, whose fence an early leadership has begun. pg_dump writes its last argument, the name of
// the database, to its file, and then does body.
func newShared(t *testing.T, body string) *shared {
	t.Helper()
	s := &shared{t: t, dir: t.TempDir(), bin: t.TempDir()}
	s.calls = fake(t, s.bin, "pg_dump", `file=${2#--file=}; echo "$3" >"$file"; `+body)
	s.begun("1")
	return s
}

// begun has the directory see an epoch.
func (s *shared) begun(epoch string) {
	s.t.Helper()
	out, code := bullyAgent(s.t, nil, "fence", "check", "--file", s.fence(), "--epoch", epoch)
	if code != 0 {
		s.t.Fatalf("fence check: exit code %d\n%s", code, out)
	}
}

func (s *shared) fence() string { return filepath.Join(s.dir, ".fence") }

// script is one run of dump.sh in the leadership of this epoch, as `bully-agent exec` would run it.
func (s *shared) script(epoch int, args ...string) *exec.Cmd {
	cmd := exec.Command("./postgres-dump/dump.sh", append([]string{"shop", s.dir}, args...)...)
	cmd.Env = environ([]string{s.bin}, fmt.Sprintf("BULLY_EPOCH=%d", epoch), "BULLY_EPOCH_OWNER=0b6c7f52")
	return cmd
}

func (s *shared) dump(epoch int, args ...string) (output string, code int) {
	s.t.Helper()
	cmd := s.script(epoch, args...)
	return outcome(s.t, cmd, cmd.Env)
}

// holds gives the names of what is in the directory, the fence's file left out.
func (s *shared) holds() []string {
	s.t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Name() != ".fence" {
			names = append(names, entry.Name())
		}
	}
	return names
}

// isDump reports whether a name is that of a dump made now, in this epoch.
func isDump(name string, epoch int) bool {
	return strings.HasPrefix(name, "20") && strings.HasSuffix(name, fmt.Sprintf("Z-epoch%d.dump", epoch))
}

func TestDumpIsPublished(t *testing.T) {
	t.Parallel()
	s := newShared(t, "")
	if out, code := s.dump(7); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	names := s.holds()
	if len(names) != 1 || !isDump(names[0], 7) {
		t.Fatalf("the directory holds %q, expected one dump of epoch 7", names)
	}
	if text := read(t, filepath.Join(s.dir, names[0])); text != "shop\n" {
		t.Errorf("the dump is %q", text)
	}
}

// A leader that has ended writes nothing, be it told before it begins or only when it has dumped for hours.
func TestStaleLeaderPublishesNothing(t *testing.T) {
	t.Parallel()
	t.Run("before", func(t *testing.T) {
		s := newShared(t, "")
		s.begun("8")
		s.refuses(7)
		if calls := read(t, s.calls); calls != "" {
			t.Errorf("pg_dump ran: %s", calls)
		}
	})
	t.Run("meanwhile", func(t *testing.T) {
		s := newShared(t, `bully-agent fence check --file "${file%/*}/.fence" --epoch 8`)
		s.refuses(7)
		if calls := read(t, s.calls); calls == "" {
			t.Error("pg_dump did not run: this test tests nothing")
		}
	})
}

// refuses runs the script in a leadership that has ended.
func (s *shared) refuses(epoch int) {
	s.t.Helper()
	if out, code := s.dump(epoch); code != 6 {
		s.t.Errorf("exit code %d, expected 6: refused\n%s", code, out)
	}
	if names := s.holds(); len(names) > 0 {
		s.t.Errorf("the directory holds %q, expected nothing", names)
	}
}

// A mount point without its file system has no fence.
func TestDumpNeedsItsStorage(t *testing.T) {
	t.Parallel()
	s := newShared(t, "")
	if err := os.Remove(s.fence()); err != nil {
		t.Fatal(err)
	}
	if out, code := s.dump(7); code == 0 {
		t.Errorf("exit code 0\n%s", out)
	}
	if names := s.holds(); len(names) > 0 {
		t.Errorf("the directory holds %q, expected nothing", names)
	}
}

func TestFailedDumpIsNotPublished(t *testing.T) {
	t.Parallel()
	s := newShared(t, "exit 3")
	if out, code := s.dump(7); code != 3 {
		t.Errorf("exit code %d, expected pg_dump's 3\n%s", code, out)
	}
	if names := s.holds(); len(names) > 0 {
		t.Errorf("the directory holds %q, expected nothing", names)
	}
}

// TERM is what a run gets when its leadership ends.
func TestTerminatedDumpLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newShared(t, "exec sleep 1000")
	script := s.script(7)
	script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pg_dump has written", func() bool { return len(s.holds()) == 1 })
	if err := syscall.Kill(-script.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := script.Wait(); script.ProcessState.ExitCode() != 143 {
		t.Errorf("it ended with %v, expected exit code 143", err)
	}
	if names := s.holds(); len(names) > 0 {
		t.Errorf("the directory holds %q, expected nothing", names)
	}
}

func TestOldDumpsGo(t *testing.T) {
	t.Parallel()
	s := newShared(t, "")
	for _, day := range []string{"01", "02", "03"} {
		write(t, filepath.Join(s.dir, "202501"+day+"T023000Z-epoch10.dump"), "", 0o600)
	}
	write(t, filepath.Join(s.dir, "notes"), "", 0o600)
	if out, code := s.dump(11, "2"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	names := s.holds()
	if len(names) != 3 || names[0] != "20250103T023000Z-epoch10.dump" || !isDump(names[1], 11) || names[2] != "notes" {
		t.Errorf("the directory holds %q, expected the dump of January 3rd, the new one, and what is no dump", names)
	}
}

// The crontab's line, on two hosts: the leader's cron dumps, the other's does not.
func TestCrontabLine(t *testing.T) {
	t.Parallel()
	s := newShared(t, "")
	agents := newAgents(t, empty(t), nil, "alpha", "beta")
	agents[0].start()
	agents[0].leads()
	s.beginAnew(agents[0])
	agents[1].start()
	if out, code := agents[1].cli("wait", "--for", "leader", "--timeout", patience.String()); code != 0 {
		t.Fatalf("beta knows no leader: exit code %d\n%s", code, out)
	}
	for _, a := range agents {
		if out, code := a.cron(crontabCommand(t, s.dir), s.bin); code != 0 {
			t.Errorf("%s: exit code %d, expected 0\n%s", a.name, code, out)
		}
	}
	if got := lines(t, s.calls, 1); len(got) != 1 || !strings.HasPrefix(got[0], "alpha ") {
		t.Errorf("pg_dump ran as %q, expected once, on alpha", got)
	}
	if names := s.holds(); len(names) != 1 {
		t.Errorf("the directory holds %q, expected one dump", names)
	}
}

// beginAnew has the leader make the directory's fence, as the README says.
func (s *shared) beginAnew(leader *agent) {
	s.t.Helper()
	if err := os.Remove(s.fence()); err != nil {
		s.t.Fatal(err)
	}
	if out, code := leader.cli("exec", "--", "bully-agent", "fence", "check", "--file", s.fence()); code != 0 {
		s.t.Fatalf("begin the fence: exit code %d\n%s", code, out)
	}
}

// crontabCommand is the command of the crontab, with the script and the directory of this test.
func crontabCommand(t *testing.T, dir string) string {
	t.Helper()
	for line := range strings.Lines(read(t, "postgres-dump/crontab")) {
		if _, command, ok := strings.Cut(line, "  root  "); ok {
			script := absolute(t, "postgres-dump", "dump.sh")
			return strings.NewReplacer("/usr/local/bin/dump.sh", script, "/srv/dumps/shop", dir).Replace(command)
		}
	}
	t.Fatal("the crontab has no line of root's")
	return ""
}

// cron runs a command as cron does on the agent's host.
func (a *agent) cron(command string, path ...string) (output string, code int) {
	a.t.Helper()
	return outcome(a.t, exec.Command("/bin/sh", "-c", command), environ(path, a.socket()))
}

// empty is a configuration in which nothing is set.
func empty(t *testing.T) (config string) {
	t.Helper()
	config = filepath.Join(t.TempDir(), "agent.toml")
	write(t, config, "", 0o600)
	return config
}
