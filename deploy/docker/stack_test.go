package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	// patience bounds the wait for anything the agents do. The longest is the take-over after a cut: up to 5 s until
	// they look for each other again, up to 4 s of preempt delay, and a loaded machine.
	patience = 30 * time.Second
	// commandPatience bounds one command; building and composing are the slow ones.
	commandPatience = 2 * time.Minute
)

// stack is the compose file at work under a name of its own, from a copy of this directory: the engine keeps the owner and
// mode of what it mounts, and those of a checkout are anybody's.
type stack struct {
	name        string // of the project, and the start of every other name
	base, image string // images, both removed at the end
	dir         string // the copy: what the README calls deploy/docker
	compose     []string
	readme      string // without line continuations
	container   map[string]string
}

// newStack makes the images' ingredients, or skips the test with what is missing. Whatever the test makes in the engine is
// removed at its end, passed or not.
func newStack(t *testing.T) *stack {
	t.Helper()
	busybox := requirements(t)
	name := "bullytest" + strconv.Itoa(os.Getpid())
	s := &stack{name: name, base: "bully-base:test-" + strconv.Itoa(os.Getpid()), image: "bully-agent:test-" + strconv.Itoa(os.Getpid()),
		dir: t.TempDir(), container: map[string]string{}}
	compose, err := filepath.Abs("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.compose = append(composeCommand(), "-f", compose, "--project-directory", s.dir, "--project-name", s.name)
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	s.readme = strings.Join(strings.Fields(strings.ReplaceAll(string(readme), "\\\n", "")), " ")

	s.copyContext(t)
	s.buildBinary(t)
	t.Cleanup(func() { s.remove(t) })
	s.importBase(t, busybox)
	return s
}

// requirements skips the test unless everything is there, and gives the path of a static busybox.
func requirements(t *testing.T) (busybox string) {
	t.Helper()
	if os.Getenv("BULLY_E2E") != "long" {
		t.Skip("takes a minute: set BULLY_E2E=long to run containers")
	}
	if os.Geteuid() != 0 {
		t.Skip("not root: the hooks' log is read from the engine's volume")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		t.Skipf("no container engine: docker version: %v: %s", err, out)
	}
	if composeCommand() == nil {
		t.Skip("neither docker compose nor docker-compose is installed")
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("no busybox to make a base image of: apt-get install busybox-static")
	}
	if !isStatic(t, busybox) {
		t.Skipf("%s needs shared libraries: apt-get install busybox-static", busybox)
	}
	return busybox
}

// composeCommand is what the machine has: the plugin, the older program, or nil.
func composeCommand() []string {
	if exec.Command("docker", "compose", "version").Run() == nil {
		return []string{"docker", "compose"}
	}
	if _, err := exec.LookPath("docker-compose"); err == nil {
		return []string{"docker-compose"}
	}
	return nil
}

func isStatic(t *testing.T, path string) bool {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

func (s *stack) copyContext(t *testing.T) {
	t.Helper()
	for _, file := range []struct {
		name string
		mode fs.FileMode
	}{{"Dockerfile", 0o644}, {".dockerignore", 0o644}, {"hooks/become", 0o755}, {"hooks/lose", 0o755}} {
		text, err := os.ReadFile(file.name)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(s.dir, file.name)
		err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Chmod(filepath.Dir(to), 0o755),
			os.WriteFile(to, text, file.mode), os.Chmod(to, file.mode))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// buildBinary runs the README's command in the module's root, for another output.
func (s *stack) buildBinary(t *testing.T) {
	t.Helper()
	const command = `CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o deploy/docker/bully-agent .`
	s.inReadme(t, command)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(command, "deploy/docker", s.dir, 1))
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	if !isStatic(t, filepath.Join(s.dir, "bully-agent")) {
		t.Fatal("the binary needs shared libraries, which an image need not have")
	}
}

// importBase makes the base image of busybox alone. No registry is asked.
func (s *stack) importBase(t *testing.T, busybox string) {
	t.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	applets, err := exec.CommandContext(t.Context(), busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "docker", "import", "-", s.base)
	cmd.Stdin = rootFS(t, program, strings.Fields(string(applets)))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// rootFS is an archive of a system of one program under many names.
func rootFS(t *testing.T, program []byte, applets []string) *bytes.Buffer {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin", "etc", "proc", "sys", "dev", "usr/bin", "var/lib", "var/log", "run"} {
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, nil)
	}
	add(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil)
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/:/bin/sh\n"))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, program)
	for _, applet := range applets {
		if applet != "busybox" {
			add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox"}, nil)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &archive
}

// remove takes everything away that the test made in the engine, and says what it could not.
func (s *stack) remove(t *testing.T) {
	try := func(args ...string) string { // it may not be there, or be gone already: what is left over is looked for below
		out, _ := s.command(context.Background(), args...)
		return out
	}
	if t.Failed() {
		t.Logf("the agents' logs:\n%s", try(s.composed("logs", "--no-color", "--tail", "60")...))
	}
	try(s.composed("down", "--volumes", "--remove-orphans", "--timeout", "1")...)
	try("docker", "rm", "--force", s.name)
	try("docker", "volume", "rm", s.name+"-state", s.name+"-key")
	try("docker", "rmi", s.image)
	try("docker", "rmi", s.base)
	for _, list := range [][]string{
		{"docker", "ps", "--all", "--quiet", "--filter", "name=" + s.name},
		{"docker", "network", "ls", "--quiet", "--filter", "name=" + s.name},
		{"docker", "volume", "ls", "--quiet", "--filter", "name=" + s.name},
		{"docker", "images", "--quiet", s.image},
		{"docker", "images", "--quiet", s.base},
	} {
		if left := try(list...); left != "" {
			t.Errorf("left over: %v: %s", list, left)
		}
	}
}

// documented runs a command that the README must have, with this stack's names for the README's, and expects it to succeed
// and to print all of wants.
func (s *stack) documented(t *testing.T, command string, wants ...string) {
	t.Helper()
	s.inReadme(t, command)
	ours := strings.NewReplacer(
		"docker compose -f deploy/docker/compose.yaml exec", strings.Join(s.composed("exec", "-T"), " "),
		"docker compose -f deploy/docker/compose.yaml", strings.Join(s.compose, " "),
		"docker build", "docker build --build-arg BASE="+s.base,
		"deploy/docker", s.dir,
		"bully-agent:local", s.image,
		"bully-agent-state", s.name+"-state",
		"bully-agent-key", s.name+"-key",
		"--network host", "--network none",
		"--name bully-agent", "--name "+s.name,
		"docker exec bully-agent", "docker exec "+s.name,
		"docker stop bully-agent", "docker stop "+s.name,
	).Replace(command)
	out := s.must(t, strings.Fields(ours)...)
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("%s: no %q in\n%s", command, want, out)
		}
	}
}

func (s *stack) inReadme(t *testing.T, command string) {
	t.Helper()
	if !strings.Contains(s.readme, command) {
		t.Errorf("deploy/README.md does not have this command, which is tested as the user's:\n%s", command)
	}
}

func (s *stack) composed(args ...string) []string { return append(slices.Clone(s.compose), args...) }

// find remembers the containers, since some composers list only those that run.
func (s *stack) find(t *testing.T, services ...string) {
	t.Helper()
	for _, service := range services {
		s.container[service] = s.must(t, s.composed("ps", "-q", service)...)
	}
}

// engine runs a docker command that must succeed.
func (s *stack) engine(t *testing.T, args ...string) string {
	t.Helper()
	return s.must(t, append([]string{"docker"}, args...)...)
}

// in runs a command in a service's container.
func (s *stack) in(t *testing.T, service string, command ...string) string {
	t.Helper()
	return s.engine(t, append([]string{"exec", s.container[service]}, command...)...)
}

func (s *stack) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.command(t.Context(), args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (s *stack) command(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "BULLY_BASE="+s.base, "BULLY_IMAGE="+s.image)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (s *stack) network() string { return s.name + "_default" }

func (s *stack) address(t *testing.T, service string) string {
	t.Helper()
	return s.engine(t, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", s.container[service])
}

// hookLog is what all hooks have written so far.
func (s *stack) hookLog(t *testing.T) []hookLine {
	t.Helper()
	volume := s.engine(t, "volume", "inspect", "--format", "{{.Mountpoint}}", s.name+"_hook-log")
	log, err := os.ReadFile(filepath.Join(volume, "hooks.log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	lines, err := parseHookLog(string(log))
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// waitFor waits for the first such line after the mark.
func (s *stack) waitFor(t *testing.T, mark int, node, event string) (line hookLine) {
	t.Helper()
	eventually(t, event+" on "+node, func() bool {
		lines := s.hookLog(t)[mark:]
		i := slices.IndexFunc(lines, func(l hookLine) bool { return l.node == node && l.event == event })
		if i >= 0 {
			line = lines[i]
		}
		return i >= 0
	})
	return line
}

// waitLeading waits until by the hooks' account node leads and nobody else.
func (s *stack) waitLeading(t *testing.T, node string) {
	t.Helper()
	eventually(t, node+" to lead alone", func() bool { return slices.Equal(leading(s.hookLog(t)), []string{node}) })
}

// wrote checks every line after the mark.
func (s *stack) wrote(t *testing.T, mark int, wants ...string) {
	t.Helper()
	lines := s.hookLog(t)[mark:]
	got := make([]string, len(lines))
	for i, l := range lines {
		got[i] = l.String()
	}
	if !slices.Equal(got, wants) {
		t.Errorf("the hooks wrote\n%s\nexpected\n%s", text(lines), strings.Join(wants, "\n"))
	}
}

// agreeOn waits until the leader and the others all name it.
func (s *stack) agreeOn(t *testing.T, leader string, others ...string) {
	t.Helper()
	for _, service := range append(others, leader) {
		var said string
		eventually(t, service+" to name "+leader+" as leader", func() bool {
			said, _ = s.command(t.Context(), "docker", "exec", s.container[service], "bully-agent", "leader")
			return said == leader
		})
	}
}

// eventually asks until it is so.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}
