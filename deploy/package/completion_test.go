// Package packaging tests what the packages hold and do.
package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/test/glass"
	"github.com/bully-agent/bully-agent/internal/test/loopback"
	"github.com/bully-agent/bully-agent/internal/test/making"
)

// patience is how long something may take on a machine that does other things too.
const patience = 30 * time.Second

// typing is what a person types, the tabulator included, and the arguments that the program gets then.
type typing struct{ keys, want string }

// withAgents needs two agents, of which alpha answers; withoutAgents none.
var (
	withAgents = []typing{
		{"is-l\t -q", "<is-leader><-q>"},
		{"step-down --to be\t", "<step-down><--to><beta-host>"},
		{"step-down --to=be\t", "<step-down><--to=beta-host>"},
		{"jobs run ba\t", "<jobs><run><backup>"},
		{"jobs history --out\t ba\t", "<jobs><history><--output><backup>"},
		{"hooks run lo\t", "<hooks><run><lose-leadership>"},
		{"run --profile f\t --sched\t n\t", "<run><--profile><fast><--scheduling><normal>"},
		{"wait --for mem\t3", "<wait><--for><members=3>"}, // no space after =
		{"wait --for=mem\t3", "<wait><--for=members=3>"},
		{"config check zz-f\t", "<config><check><zz-file.toml>"},
		{"run --config=zz-f\t", "<run><--config=zz-file.toml>"},
		{"exec --wait 1s -- zz-c\t now", "<exec><--wait><1s><--><zz-command><now>"},
	}
	withoutAgents = []typing{
		{"step-down --to be\t", "<step-down><--to><be>"},
		{"jobs run ba\t", "<jobs><run><ba>"},
		{"maintenance of\t", "<maintenance><off>"},
	}
)

// The scripts do in real shells, on a terminal, what they are for: each line is typed, and what the program is started with is
// held against what a person would want. Commands and jobs come from an agent that runs.
func TestCompletionInShells(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "real")
	if err := making.Program(program); err != nil {
		t.Fatal(err)
	}
	socket, stop := agents(t, program, dir)
	t.Run("with an agent", func(t *testing.T) { inShells(t, program, socket, withAgents) })
	t.Run("with an instance", func(t *testing.T) {
		name := instanceAt(t, filepath.Join(dir, "beta-host.sock"))
		inShells(t, program, socket, []typing{ // socket is alpha's, which would not offer itself
			{"-i " + name[:len(name)-1] + "\t step-down --to al\t", "<-i><" + name + "><step-down><--to><alpha>"},
			{"step-down --instance=" + name + " --to al\t", "<step-down><--instance=" + name + "><--to><alpha>"},
		})
	})
	stop()
	t.Run("without an agent", func(t *testing.T) { inShells(t, program, socket, withoutAgents) })
}

func inShells(t *testing.T, program, socket string, lines []typing) {
	for _, shell := range []string{"bash", "bash alone", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			s := startShell(t, shell, program, socket)
			for _, line := range lines {
				if shell == "bash alone" && strings.Contains(line.keys, "exec ") {
					continue // what follows -- is bash-completion's
				}
				if got := s.run(line.keys); got != line.want {
					t.Errorf("%q: the program gets %s, want %s", line.keys, got, line.want)
				}
			}
		})
	}
}

// A shell runs a program in place of ours that notes its arguments, except for those of completion.
type shell struct {
	*glass.Session
	calls, prompts string // files
	n              int    // lines typed
}

const stand = `#!/bin/sh
[ "$1" = completion ] && exec %s "$@"
{ printf '<%%s>' "$@"; echo; } >>%s
`

func startShell(t *testing.T, name, program, socket string) *shell {
	t.Helper()
	kind, _, _ := strings.Cut(name, " ")
	path, err := exec.LookPath(kind)
	if err != nil {
		t.Skipf("skipped: %s is not installed", kind)
	}
	const extra = "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(extra); name == "bash" && err != nil {
		t.Skip("skipped: bash-completion is not installed")
	}
	dir := t.TempDir()
	s := &shell{calls: filepath.Join(dir, "calls"), prompts: filepath.Join(dir, "prompts")}
	write(t, filepath.Join(dir, "bin/bully-agent"), fmt.Sprintf(stand, program, s.calls), 0o755)
	write(t, filepath.Join(dir, "bin/zz-command"), "#!/bin/sh\n", 0o755)
	write(t, filepath.Join(dir, "zz-file.toml"), "", 0o600)
	script, err := exec.Command(program, "completion", kind).Output()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "script"), string(script), 0o600)
	args := map[string][]string{
		"bash": {"--rcfile", "rc", "-i"}, "bash alone": {"--rcfile", "rc", "-i"}, "zsh": {"-i"}, "fish": {"-i"},
	}[name]
	rc := map[string]string{
		"bash":       "source " + extra + "; source ./script; PROMPT_COMMAND='echo >>prompts'\n",
		"bash alone": "source ./script; PROMPT_COMMAND='echo >>prompts'\n",
		"zsh":        "fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -u -D; precmd() { echo >>prompts }\n",
		"fish":       "source ./script; function fish_prompt; echo >>prompts; end\n",
	}[name]
	for _, file := range []string{"rc", ".zshrc", "fish/config.fish"} {
		write(t, filepath.Join(dir, file), rc, 0o600)
	}
	write(t, filepath.Join(dir, "functions/_bully-agent"), string(script), 0o600)
	// Where this is missing, fish reads every manual page of the host behind our back, and still writes when dir is removed.
	if err := os.MkdirAll(filepath.Join(dir, "fish/generated_completions"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "ZDOTDIR=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir, "TERM=vt100", "LANG=C.UTF-8",
		"BULLY_SOCKET=" + socket, "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")}
	s.Session = glass.Run(t, cmd, 100, 30)
	return s
}

// run types a line at the next prompt and gives what the program was started with.
func (s *shell) run(keys string) string {
	s.Helper()
	s.n++
	s.await(s.prompts)
	s.Type("bully-agent " + keys + "\r")
	lines := s.await(s.calls)
	return lines[s.n-1]
}

// await waits until a file has as many lines as were typed.
func (s *shell) await(file string) []string {
	s.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		content, _ := os.ReadFile(file)
		if lines := strings.Split(string(content), "\n"); len(lines) > s.n {
			return lines
		}
	}
	s.Until("an end of the line", func(string) bool { return false })
	return nil
}

// agents runs two on loopback that lead and follow; alpha's socket answers until stop.
func agents(t *testing.T, program, dir string) (socket string, stop func()) {
	t.Helper()
	write(t, filepath.Join(dir, "key"), string(key.Ring{key.Generate(time.Now(), nil)}.Format()), 0o600)
	write(t, filepath.Join(dir, "agent.toml"), "[[job]]\nname = \"backup\"\nschedule = \"@yearly\"\ncommand = [\"/bin/true\"]\n", 0o600)
	first, second := loopback.Addr().String(), loopback.Addr().String()
	var running []*exec.Cmd
	for name, at := range map[string]string{"alpha": first, "beta-host": second} {
		cmd := exec.Command(program, "run", "--config", filepath.Join(dir, "agent.toml"))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "BULLY_NAME=" + name, "BULLY_BIND=" + at, "BULLY_JOIN=" + first + "," + second,
			"BULLY_KEY=" + filepath.Join(dir, "key"), "BULLY_STATE_DIR=" + filepath.Join(dir, name), "BULLY_SOCKET=" + filepath.Join(dir, name+".sock"),
			"BULLY_SETTLE=300ms", "BULLY_LEASE=3s", "BULLY_STOP_BUDGET=1s"}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	stop = func() {
		for _, cmd := range running {
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait()
		}
		running = nil
	}
	t.Cleanup(stop)
	socket = filepath.Join(dir, "alpha.sock")
	if out, err := exec.Command(program, "wait", "--socket", socket, "--for", "members=2", "--timeout", patience.String()).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return socket, stop
}

// instanceAt has the agent of a socket pass for one of the host's instances.
func instanceAt(t *testing.T, socket string) (name string) {
	t.Helper()
	dir, err := os.MkdirTemp("/run", "bully-agent-zz")
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Symlink(socket, filepath.Join(dir, "agent.sock")); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: the sockets of another user than root are elsewhere")
	}
	return strings.TrimPrefix(dir, "/run/bully-agent-")
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}
