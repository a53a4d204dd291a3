package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// apart is an agent alone on loopback, with root's rights given up, and the files that it
// works with.
type apart struct {
	t    *testing.T
	dir  string
	port int
	cmd  *exec.Cmd
	user string
	uid  int

	program string              // the binary, or a copy of it that the user may execute
	as      *syscall.Credential // who the agent is from its start on; nil: root
}

// newApart needs root and a user, and no network namespaces.
func newApart(t *testing.T, port int) *apart {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: only root has something to give up")
	}
	needsLAN(t) // it builds the binary
	if uid, gid := lookUp("nobody"); uid > 0 && gid > 0 {
		dir, err := os.MkdirTemp("", "be-apart") // not below the tests' own, which only root may enter
		must(t, err)
		must(t, os.Chmod(dir, 0o755))
		a := &apart{t: t, dir: dir, port: port, user: "nobody", uid: uid, program: binary}
		must(t, os.Mkdir(a.path("run"), 0o755))
		t.Cleanup(func() { a.end(); _ = os.RemoveAll(dir) })
		return a
	}
	t.Skip("skipped: this host has no user nobody")
	return nil
}

func lookUp(name string) (uid, gid int) {
	text, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) > 3 && f[0] == name {
			uid, _ = strconv.Atoi(f[2])
			gid, _ = strconv.Atoi(f[3])
		}
	}
	return uid, gid
}

func (a *apart) path(name string) string { return filepath.Join(a.dir, name) }

func (a *apart) text(name string) string {
	text, _ := os.ReadFile(a.path(name))
	return string(text)
}

// configure writes the file that the agent reads. Hooks say who they are.
func (a *apart) configure(user string) {
	a.t.Helper()
	text := fmt.Sprintf(`[node]
state_dir = %q
%s
[network]
bind = "127.0.0.1:%d"
[control]
socket = %q
[hooks]
on_become_leader = "echo become $(id -u) >>%s; echo said"
on_lose_leadership = "echo lose $(id -u) $BULLY_CAUSE >>%s"
`, a.path("state"), user, a.port, a.path("run/agent.sock"), a.path("hooks"), a.path("hooks"))
	must(a.t, os.WriteFile(a.path("agent.toml"), []byte(text), 0o644))
}

func (a *apart) start() {
	a.t.Helper()
	log, err := os.OpenFile(a.path("log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	must(a.t, err)
	defer log.Close()
	a.cmd = exec.Command(a.program, "run", "--config", a.path("agent.toml"))
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.as}
	a.cmd.Stdout, a.cmd.Stderr = log, log
	must(a.t, a.cmd.Start())
}

// end stops the agent cleanly.
func (a *apart) end() {
	if a.cmd == nil {
		return
	}
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	_ = a.cmd.Wait()
	a.cmd = nil
}

func (a *apart) tells(args ...string) (string, error) {
	args = append(args, "--socket", a.path("run/agent.sock"))
	out, err := exec.Command(binary, args...).CombinedOutput()
	return string(out), err
}

func (a *apart) until(what string, holds func() bool) {
	a.t.Helper()
	late := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(late) {
			a.t.Fatalf("waited for %s in vain:\n%s", what, a.text("log"))
		}
		time.Sleep(pollInterval)
	}
}

func (a *apart) leads(times int) {
	a.t.Helper()
	a.until("the hook", func() bool { return strings.Count(a.text("hooks"), "become 0") == times })
	a.until("a leader that is ready", func() bool {
		out, err := a.tells("status")
		return err == nil && strings.Contains(out, "ready       yes")
	})
}

// keeper is its process.
func (a *apart) keeper() int {
	a.t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", a.cmd.Process.Pid, a.cmd.Process.Pid))
	must(a.t, err)
	for _, word := range strings.Fields(string(children)) {
		if comm, _ := os.ReadFile("/proc/" + word + "/comm"); string(comm) == "bully-keeper\n" {
			pid, err := strconv.Atoi(word)
			must(a.t, err)
			return pid
		}
	}
	// Of a thread that is not the first one.
	for _, pid := range processesNamed("bully-keeper") {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if strings.Contains(string(status), fmt.Sprintf("PPid:\t%d\n", a.cmd.Process.Pid)) {
			return pid
		}
	}
	a.t.Fatal("there is no keeper")
	return 0
}

func processesNamed(name string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, file := range files {
		if comm, _ := os.ReadFile(file); string(comm) == name+"\n" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// asUser runs a shell line as the user that the agent became: a hostile network process
// without the filter of system calls.
func (a *apart) asUser(line string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.uid)}}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", err, oneLine(out))
}

// After its start the network process is not root, on none of its threads, and cannot
// become it; hooks run with the rights that the agent was started with.
func TestCase86And88NetworkProcessHasNoRights(t *testing.T) {
	a := newApart(t, 17961)
	a.configure(`user = "` + a.user + `"`)
	a.start()
	a.leads(1)
	id := strconv.Itoa(a.uid)
	want := map[string]string{"Uid": strings.Join(slices.Repeat([]string{id}, 4), " "), "Groups": "", "CapInh": "0000000000000000", "CapPrm": "0000000000000000",
		"CapEff": "0000000000000000", "CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", a.cmd.Process.Pid))
	must(t, err)
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			if w, ok := want[name]; ok && strings.Join(strings.Fields(value), " ") != w {
				t.Errorf("%s: %s, want %q", file, strings.TrimSpace(line), w)
			}
		}
	}
	if len(threads) < 3 {
		t.Errorf("%d threads", len(threads))
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.keeper()))
	must(t, err)
	if !strings.Contains(string(status), "Uid:\t0\t0\t0\t0\n") {
		t.Errorf("the keeper is not what it was started as:\n%s", status)
	}
	if out, err := a.tells("hooks", "log"); err != nil || !strings.Contains(out, "become-leader") {
		t.Errorf("the agent does not show what hooks printed: %v\n%s", err, out)
	}
	a.end()
	if got := a.text("hooks"); got != "become 0\nlose 0 stopped\n" {
		t.Errorf("hooks said %q", got)
	}
}

// The network process can write neither configuration, nor what the keeper goes by.
func TestCase87NetworkProcessWritesNothingOfTheKeepers(t *testing.T) {
	a := newApart(t, 17962)
	a.configure(`user = "` + a.user + `"`)
	a.start()
	a.leads(1)
	keeper := a.keeper()
	for what, line := range map[string]string{
		"the configuration":         "echo x >>" + a.path("agent.toml"),
		"its directory":             "touch " + a.path("new"),
		"the socket":                "rm " + a.path("run/agent.sock"),
		"the hook journal":          "echo x >" + a.path("state/hook-journal.json"),
		"a new hook journal":        "touch " + a.path("state/hook-journal.json.1.new"),
		"the state directory":       "mv " + a.path("state/hook-output") + " " + a.path("state/x"),
		"the agent's own directory": "mv " + a.path("state/agent") + " " + a.path("state/x"),
		"what hooks printed":        "for f in " + a.path("state/hook-output/*") + "; do echo x >>$f; done",
		"a record of jobs":          "touch " + a.path("state/job-holders/x"),
		"the keeper's lock":         "echo x >" + a.path("state/keeper.json"),
		"a signal to the keeper":    fmt.Sprintf("kill -9 %d", keeper),
		"the keeper's memory":       fmt.Sprintf("cat /proc/%d/mem", keeper),
		"its own memory":            fmt.Sprintf("cat /proc/%d/environ", a.cmd.Process.Pid),
	} {
		if err := a.asUser(line); err == nil {
			t.Errorf("%s: %s succeeded", what, line)
		}
	}
	if err := a.asUser("test -r " + a.path("agent.toml") + " && touch " + a.path("state/agent/own")); err == nil {
		return
	}
	t.Error("it cannot write what is its own")
}

// becomes has the whole agent be the user's, from its start on.
func (a *apart) becomes() {
	a.t.Helper()
	text, err := os.ReadFile(binary)
	must(a.t, err)
	a.program = a.path("bully-agent")
	must(a.t, os.WriteFile(a.program, text, 0o755))
	a.as = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.uid)}
	must(a.t, os.Chown(a.dir, a.uid, a.uid))
	must(a.t, os.Chown(a.path("run"), a.uid, a.uid))
}

// named gives the user's process with such a name.
func (a *apart) named(name string) (pid int) {
	a.t.Helper()
	a.until("a process "+name, func() bool {
		for _, found := range processesNamed(name) {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", found))
			if strings.Contains(string(status), fmt.Sprintf("Uid:\t%d\t", a.uid)) {
				pid = found
			}
		}
		return pid != 0
	})
	return pid
}

// Of agent, keeper and holder other processes of the same user read neither memory nor environment, and
// take no descriptor. What a hook runs is such a process.
func TestProcessesAreHiddenFromTheirUser(t *testing.T) {
	a := newApart(t, 17968)
	a.becomes()
	a.configure("")
	a.start()
	a.until("the hook", func() bool { return strings.Contains(a.text("hooks"), fmt.Sprint("become ", a.uid)) })
	held := exec.Command(a.program, "exec", "--socket", a.path("run/agent.sock"), "--", "/bin/sleep", "1000")
	held.SysProcAttr = &syscall.SysProcAttr{Credential: a.as}
	must(t, held.Start())
	defer func() { _ = held.Process.Signal(syscall.SIGTERM); _ = held.Wait() }()
	hidden := map[string]int{"the agent": a.cmd.Process.Pid, "its keeper": a.keeper(), "a holder": a.named("bully-holder")}
	if err := a.asUser(fmt.Sprintf("cat /proc/%d/environ", a.named("sleep"))); err != nil {
		t.Errorf("a command is hidden: %v", err)
	}
	for who, pid := range hidden {
		for _, file := range []string{"environ", "mem", "maps", "fd/3"} {
			if err := a.asUser(fmt.Sprintf("cat /proc/%d/%s", pid, file)); err == nil {
				t.Errorf("%s: its user reads %s", who, file)
			}
		}
		if info, err := os.Stat(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("%s: /proc shows it as its user's (%v)", who, err)
		}
	}
}

// What the keeper owes when it dies, the next start does: an agent without rights starts no
// other, and ends.
func TestKeeperOfAnAgentWithoutRightsDies(t *testing.T) {
	a := newApart(t, 17963)
	a.configure(`user = "` + a.user + `"`)
	a.start()
	a.leads(1)
	must(t, syscall.Kill(a.keeper(), syscall.SIGKILL))
	err := a.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the agent ended with %v, want exit code 1", err)
	}
	a.start()
	a.leads(2)
	a.end()
	if got := a.text("hooks"); got != "become 0\nlose 0 unclean-restart\nbecome 0\nlose 0 stopped\n" {
		t.Errorf("hooks said %q", got)
	}
}

// An agent keeps who it is, and its epochs, when it begins to give up its rights, and when
// it ceases to. A reload without rights works.
func TestRightsAreGivenUpFromOneStartToTheNext(t *testing.T) {
	a := newApart(t, 17964)
	var ids []string
	for i, user := range []string{"", `user = "` + a.user + `"`, `user = "` + a.user + `"`, ""} {
		a.configure(user)
		a.start()
		a.leads(i + 1)
		out, err := a.tells("status")
		must(t, err)
		_, id, _ := strings.Cut(out, ", id ")
		ids = append(ids, strings.TrimSpace(id))
		if !strings.Contains(out, fmt.Sprintf("epoch       %d,", i+1)) {
			t.Errorf("start %d:\n%s", i+1, out)
		}
		if out, err := a.tells("reload"); err != nil || strings.Contains(out, "not applied") {
			t.Errorf("reload: %v %s", err, out)
		}
		a.end()
	}
	if len(slices.Compact(ids)) != 1 {
		t.Errorf("ids %q", ids)
	}
}

// The memory of an agent, where a key is, is nobody's to look into, though both are the same
// user's, and goes into no core dump: with or without rights to give up.
func TestCase59MemoryIsNobodysToLookInto(t *testing.T) {
	a := newApart(t, 17966)
	a.configure("")
	for _, dir := range []string{"state", "run"} {
		must(t, os.MkdirAll(a.path(dir), 0o700))
		must(t, os.Chown(a.path(dir), a.uid, a.uid))
	}
	must(t, os.WriteFile(a.path("hooks"), nil, 0o666))
	must(t, os.Chmod(a.path("hooks"), 0o666))
	must(t, os.Chmod(filepath.Dir(binary), 0o711))
	log, err := os.Create(a.path("log"))
	must(t, err)
	defer log.Close()
	a.cmd = exec.Command(a.program, "run", "--config", a.path("agent.toml"))
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.as}
	a.cmd.Stdout, a.cmd.Stderr = log, log
	a.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/"} // not this one's, which may be nobody else's to search
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.uid)}}
	must(t, a.cmd.Start())
	a.until("the hook", func() bool { return strings.Contains(a.text("hooks"), "become "+strconv.Itoa(a.uid)) })
	for _, file := range []string{"mem", "environ", "maps", "auxv", "fd/"} {
		if err := a.asUser(fmt.Sprintf("ls /proc/%d/%s && cat /proc/%d/%s", a.cmd.Process.Pid, file, a.cmd.Process.Pid, file)); err == nil {
			t.Errorf("/proc/PID/%s can be read", file)
		}
	}
	if err := a.asUser(fmt.Sprintf("cat /proc/%d/status", a.cmd.Process.Pid)); err != nil {
		t.Errorf("what everybody may read: %v", err)
	}
}

// Whoever cannot give up is told so, and nothing is written.
func TestUserThatCannotBe(t *testing.T) {
	a := newApart(t, 17965)
	for _, user := range []string{"root", "no-such-user-here"} {
		a.configure(`user = "` + user + `"`)
		a.start()
		err := a.cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 7 || !strings.Contains(a.text("log"), strconv.Quote(user)) {
			t.Errorf("%v: %s", err, a.text("log"))
		}
		if _, err := os.Stat(a.path("state")); err == nil {
			t.Error("something was written")
		}
	}
	a.cmd = nil
}

// A state directory below one that the user cannot pass through: that one is named.
func TestUserThatCannotPass(t *testing.T) {
	a := newApart(t, 17967)
	closed := a.path("closed")
	must(t, os.Mkdir(closed, 0o700))
	a.configure(`user = "` + a.user + `"`)
	text := strings.Replace(a.text("agent.toml"), a.path("state"), filepath.Join(closed, "state"), 1)
	must(t, os.WriteFile(a.path("agent.toml"), []byte(text), 0o644))
	a.start()
	err := a.cmd.Wait()
	a.cmd = nil
	var exit *exec.ExitError
	if want := fmt.Sprintf("uid %d cannot pass through %s: chmod o+x it", a.uid, closed); !errors.As(err, &exit) || exit.ExitCode() != 7 || !strings.Contains(a.text("log"), want) {
		t.Errorf("%v: want %q in %s", err, want, a.text("log"))
	}
}
