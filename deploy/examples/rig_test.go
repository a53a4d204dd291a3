package examples

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/lab/netlab"
	"github.com/bully-agent/bully-agent/internal/test/loopback"
	"github.com/bully-agent/bully-agent/internal/test/making"
	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

// patience is how long something may take on a machine that does other things too.
const patience = 30 * time.Second

// binDir holds the program under test and nothing else; it is the first directory of PATH.
var binDir string

func TestMain(m *testing.M) {
	waiting.Together(6) // what the examples start is waited for
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bully-examples")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a directory for the program:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binDir = dir
	if err := making.Program(filepath.Join(dir, "bully-agent")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// environ is what programs get from a test: PATH with the program and the given directories before the system's, and
// then more. Nothing else of this process's environment passes, BULLY_ variables least of all.
func environ(dirs []string, more ...string) []string {
	path := append(append([]string{}, dirs...), binDir, os.Getenv("PATH"))
	return append([]string{"PATH=" + strings.Join(path, ":"), "HOME=/", "LANG=C.UTF-8"}, more...)
}

// bullyAgent runs a command of the program to its end.
func bullyAgent(t *testing.T, env []string, args ...string) (output string, code int) {
	t.Helper()
	return outcome(t, exec.Command(filepath.Join(binDir, "bully-agent"), args...), environ(nil, env...))
}

// outcome runs a program to its end, with all that it prints.
func outcome(t *testing.T, cmd *exec.Cmd, env []string) (output string, code int) {
	t.Helper()
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %v: %v", cmd.Args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// fake puts a program of this name into a directory for PATH. Each run of it adds its name and arguments to the file
// that is given back, and then does body.
func fake(t *testing.T, dir, name, body string) (calls string) {
	t.Helper()
	calls = filepath.Join(dir, name+".calls")
	write(t, calls, "", 0o600)
	write(t, filepath.Join(dir, name), "#!/bin/sh\nset -eu\necho \"${BULLY_NODE:-} $*\" >>"+calls+"\n"+body+"\n", 0o755)
	return calls
}

// agent is one agent on loopback.
type agent struct {
	t      *testing.T
	name   string
	dir    string
	config string       // file
	path   []string     // directories before the system's in its PATH
	env    []string     // BULLY_ variables, which win over the file
	host   *netlab.Host // where it runs; nil: on this one
	lives  int
	cmd    *exec.Cmd
}

// newAgents makes agents that know each other; the first has the highest priority. None runs yet. What the file says of
// hosts and places is overridden.
func newAgents(t *testing.T, config string, path []string, names ...string) []*agent {
	t.Helper()
	var agents []*agent
	var addrs []string
	secret := newKey(t)
	for i, name := range names {
		a := &agent{t: t, name: name, dir: filepath.Join(t.TempDir(), name), config: config, path: path}
		addr := loopback.Addr().String()
		addrs = append(addrs, addr)
		a.env = []string{"BULLY_CONFIG=" + config, "BULLY_NAME=" + name, fmt.Sprintf("BULLY_PRIORITY=%d", 200-i),
			"BULLY_BIND=" + addr, "BULLY_STATE_DIR=" + filepath.Join(a.dir, "state"), a.socket(),
			"BULLY_KEY=" + secret, "BULLY_SETTLE=300ms", "BULLY_TAKEOVER_DELAY=0s",
			"BULLY_LEASE=3s", "BULLY_STOP_BUDGET=1s"} // a machine that does other things too may starve an agent for a while
		agents = append(agents, a)
	}
	for _, a := range agents {
		a.env = append(a.env, "BULLY_JOIN="+strings.Join(addrs, ","))
	}
	return agents
}

// newKey makes a key for the hosts of a cluster.
func newKey(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "key")
	write(t, file, string(key.Ring{key.Generate(time.Now(), nil)}.Format()), 0o600)
	return file
}

// socket is the variable that leads commands to the agent.
func (a *agent) socket() string { return "BULLY_SOCKET=" + filepath.Join(a.dir, "agent.sock") }

// start starts the agent; it is stopped with the test.
func (a *agent) start() {
	a.t.Helper()
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		a.t.Fatal(err)
	}
	log, err := os.OpenFile(filepath.Join(a.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.t.Fatal(err)
	}
	defer log.Close()
	a.cmd = exec.Command(filepath.Join(binDir, "bully-agent"), "run")
	a.cmd.Env, a.cmd.Stdout, a.cmd.Stderr = environ(a.path, a.env...), log, log
	begin := a.cmd.Start
	if a.host != nil {
		begin = func() error { return a.host.Within(a.cmd.Start) }
	}
	if err := begin(); err != nil {
		a.t.Fatal(err)
	}
	if a.lives++; a.lives > 1 {
		return
	}
	a.t.Cleanup(func() {
		a.stop()
		if a.t.Failed() {
			a.t.Logf("log of %s:\n%s", a.name, a.log())
		}
	})
}

// log is what the agent has said in all its lives.
func (a *agent) log() string { return read(a.t, filepath.Join(a.dir, "log")) }

// stop ends the agent cleanly. One that has ended stays so.
func (a *agent) stop() {
	a.t.Helper()
	if a.cmd == nil {
		return
	}
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	_ = a.cmd.Wait()
	a.cmd = nil
}

// leads waits until the agent leads and its become hook has succeeded.
func (a *agent) leads() {
	a.t.Helper()
	if out, code := a.cli("wait", "--for", "me", "--timeout", patience.String()); code != 0 {
		a.t.Fatalf("%s does not lead: exit code %d\n%s", a.name, code, out)
	}
}

// cli runs a command of the program on the agent's host.
func (a *agent) cli(args ...string) (output string, code int) {
	a.t.Helper()
	return bullyAgent(a.t, []string{a.socket()}, args...)
}

// eventually waits until holds is true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// lines waits until the file has n lines, and gives them.
func lines(t *testing.T, path string, n int) []string {
	t.Helper()
	var all []string
	eventually(t, fmt.Sprintf("%s has %d lines", path, n), func() bool {
		all = strings.Split(strings.TrimSuffix(read(t, path), "\n"), "\n")
		return strings.HasSuffix(read(t, path), "\n") && len(all) >= n
	})
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// installed puts an example's files into a new directory and gives its configuration there, in which that directory
// takes the place of those that the README installs them in.
func installed(t *testing.T, example string, places ...string) (config string) {
	t.Helper()
	dir := t.TempDir()
	for _, path := range files(t, filepath.Join(example, "*")) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		text := read(t, path)
		if filepath.Base(path) == "agent.toml" {
			for _, place := range places {
				text = strings.ReplaceAll(text, place, dir)
			}
		}
		write(t, filepath.Join(dir, filepath.Base(path)), text, info.Mode().Perm())
	}
	return filepath.Join(dir, "agent.toml")
}

// absolute is the path of an example's file as a hook needs it.
func absolute(t *testing.T, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("skipped: %s is not installed", name)
	}
	return path
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}
