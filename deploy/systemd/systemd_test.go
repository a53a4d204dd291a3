// Package systemd tests the unit, its drop-ins and the user with systemd's own tools; no service is started.
package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/realtime"
)

// A misspelt directive is a warning that systemd logs and forgets, and the protection is not there.
func TestUnitIsUnderstood(t *testing.T) {
	analyze := tool(t, "systemd-analyze")
	for name, dropIns := range map[string][]string{
		"alone":           nil,
		"with vip":        {"vip.conf"},
		"with root-hooks": {"root-hooks.conf"},
	} {
		t.Run(name, func(t *testing.T) {
			unit := install(t, dropIns...)
			out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput()
			ours := regexp.MustCompile(`(?m)^.*(bully-agent|vip\.conf|root-hooks\.conf).*$`).FindAllString(string(out), -1)
			if len(ours) > 0 {
				t.Errorf("systemd-analyze verify: %v\n%s", err, strings.Join(ours, "\n"))
			}
		})
	}
}

// The test above must be able to fail.
func TestMisspeltDirectiveIsFound(t *testing.T) {
	analyze := tool(t, "systemd-analyze")
	unit := install(t)
	text := read(t, unit)
	if err := os.WriteFile(unit, []byte(strings.Replace(text, "ProtectHome=", "ProtectHomes=", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput(); !strings.Contains(string(out), "ProtectHomes") {
		t.Errorf("systemd-analyze verify says nothing of ProtectHomes=:\n%s", out)
	}
}

// A target that could be enabled would start what the leader has on each host, at boot.
func TestTargetIsUnderstoodAndStartsWithNothing(t *testing.T) {
	target := read(t, "bully-leader.target")
	if slices.Contains(directives(target), "[Install]") {
		t.Error("the target can be enabled")
	}
	analyze := tool(t, "systemd-analyze")
	path := filepath.Join(t.TempDir(), "bully-leader.target")
	if err := os.WriteFile(path, []byte(target), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", path).CombinedOutput()
	if strings.Contains(string(out), "bully-leader") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// What the unit gives away is on systemd's scale from 0 to 10; what can be used as it is stays well in the lower part.
func TestUnitGivesLittleAway(t *testing.T) {
	analyze := tool(t, "systemd-analyze")
	for name, c := range map[string]struct {
		dropIns   []string
		threshold string // tenths
	}{
		"alone":    {nil, "20"},
		"with vip": {[]string{"vip.conf"}, "25"},
	} {
		t.Run(name, func(t *testing.T) {
			unit := install(t, c.dropIns...)
			out, err := exec.Command(analyze, "security", "--offline=true", "--threshold="+c.threshold, unit).CombinedOutput()
			if strings.Contains(string(out), "unrecognized option") {
				t.Skip("this systemd-analyze judges no files: it needs 250 or later")
			}
			if err != nil {
				t.Errorf("exposure above %s tenths:\n%s", c.threshold, out)
			}
		})
	}
}

// A keeper that systemd kills with its agent cannot run the lose hook.
func TestUnitLetsTheKeeperLive(t *testing.T) {
	for _, name := range []string{"bully-agent.service", "vip.conf", "root-hooks.conf"} {
		for _, directive := range regexp.MustCompile(`(?m)^(KillMode|KillSignal|FinalKillSignal)=.*$`).FindAllString(read(t, name), -1) {
			if directive != "KillMode=control-group" {
				t.Errorf("%s has %s: a keeper outlives TERM alone", name, directive)
			}
		}
	}
}

// The limit is the only right to real time that the unit's user has, and a filter of system calls would take it away again.
func TestUnitGivesRealTime(t *testing.T) {
	unit := read(t, "bully-agent.service")
	for _, want := range []string{"LimitRTPRIO=" + strconv.Itoa(realtime.Priority), "LimitMEMLOCK=infinity"} {
		if !slices.Contains(strings.Split(unit, "\n"), want) {
			t.Errorf("the unit has no %s", want)
		}
	}
	for _, name := range []string{"bully-agent.service", "vip.conf", "root-hooks.conf"} {
		for _, line := range regexp.MustCompile(`(?m)^(RestrictRealtime=yes|LimitRTPRIO=0|SystemCallFilter=~.*(@resources|@memlock|sched_|mlockall).*)$`).FindAllString(read(t, name), -1) {
			t.Errorf("%s has %s", name, line)
		}
	}
	for _, call := range []string{"seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} {
		if !regexp.MustCompile(`(?m)^SystemCallFilter=.*\b` + call + `\b`).MatchString(unit) {
			t.Errorf("the unit keeps a process from taking rights from itself, by %s", call)
		}
	}
	analyze := tool(t, "systemd-analyze")
	for _, filter := range regexp.MustCompile(`(?m)^SystemCallFilter=(@.*)$`).FindAllStringSubmatch(unit, -1) {
		calls := systemCalls(t, analyze, filter[1])
		for _, call := range []string{"sched_setattr", "sched_getattr", "mlockall", "getpriority"} {
			if !slices.Contains(calls, call) {
				t.Errorf("%s does not let %s pass", filter[1], call)
			}
		}
	}
}

// systemCalls are those of a set, and of the sets in it.
func systemCalls(t *testing.T, analyze, set string) (calls []string) {
	t.Helper()
	out, err := exec.Command(analyze, "syscall-filter", set).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(out))[1:] {
		if strings.HasPrefix(word, "@") {
			calls = append(calls, systemCalls(t, analyze, word)...)
		}
		calls = append(calls, word)
	}
	return calls
}

// What systemd would end of its own accord, half done, belongs to the agent: a lose hook before a start is complete, and a
// leader one of whose hooks ran out of memory.
func TestUnitLeavesEndsToTheAgent(t *testing.T) {
	for _, want := range []string{"TimeoutStartSec=infinity", "OOMPolicy=continue"} {
		key, _, _ := strings.Cut(want, "=")
		var got []string
		for _, name := range []string{"bully-agent.service", "vip.conf", "root-hooks.conf"} {
			got = append(got, regexp.MustCompile(`(?m)^`+key+`=.*$`).FindAllString(read(t, name), -1)...)
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%q, want %s once", got, want)
		}
	}
}

// A minimal system has no kill, and a reload by signal cannot fail visibly.
func TestUnitNeedsNoOtherProgram(t *testing.T) {
	for _, name := range []string{"bully-agent.service", "vip.conf", "root-hooks.conf"} {
		for _, line := range regexp.MustCompile(`(?m)^Exec\w+=.*$`).FindAllString(read(t, name), -1) {
			if _, program, _ := strings.Cut(line, "="); !strings.HasPrefix(program, "/usr/bin/bully-agent ") {
				t.Errorf("%s has %s, which runs another program", name, line)
			}
		}
	}
}

func TestUserIsMade(t *testing.T) {
	sysusers := tool(t, "systemd-sysusers")
	if os.Geteuid() != 0 {
		t.Skip("not root: users cannot be made, not even under another root directory")
	}
	file, err := filepath.Abs("bully-agent.sysusers")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(sysusers, "--root="+root, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	passwd := read(t, filepath.Join(root, "etc/passwd"))
	if want := regexp.MustCompile(`(?m)^bully-agent:.*:/var/lib/bully-agent:/usr/sbin/nologin$`); !want.MatchString(passwd) {
		t.Errorf("no such user as %v:\n%s", want, passwd)
	}
}

// install puts the unit and drop-ins where systemd-analyze takes them for installed ones, with a program in place of the
// agent's, which must exist.
func install(t *testing.T, dropIns ...string) (unit string) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unit = filepath.Join(dir, "bully-agent.service")
	text := strings.ReplaceAll(read(t, "bully-agent.service"), "/usr/bin/bully-agent", self)
	if err := os.WriteFile(unit, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range dropIns {
		to := filepath.Join(unit+".d", name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, []byte(read(t, name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return unit
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}
