package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// made is what build makes for this machine.
type made struct{ dir, deb, rpm, tar string }

// build makes the packages of this checkout under another version. It takes a minute, so tests that need it are long ones.
func build(t *testing.T, version string) made {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("./build", runtime.GOARCH)
	cmd.Env = append(os.Environ(), "VERSION="+version, "OUT="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cpu := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	return made{dir: dir,
		deb: filepath.Join(dir, fmt.Sprintf("bully-agent_%s-1_%s.deb", version, runtime.GOARCH)),
		rpm: filepath.Join(dir, fmt.Sprintf("bully-agent-%s-1.%s.rpm", version, cpu)),
		tar: filepath.Join(dir, fmt.Sprintf("bully-agent-%s-linux-%s.tar.gz", version, runtime.GOARCH))}
}

func long(t *testing.T, programs ...string) {
	t.Helper()
	if os.Getenv("BULLY_E2E") != "long" {
		t.Skip("skipped: it makes packages, which takes minutes; BULLY_E2E=long runs it")
	}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skipf("skipped: there are no packages for %s", runtime.GOARCH)
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: %s is not installed", program)
		}
	}
}

func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// Debian's own judge has neither errors nor warnings, except for those that the package explains.
func TestDebIsGood(t *testing.T) {
	long(t, "lintian", "dpkg-deb")
	p := build(t, "0.1.0")
	if out, err := exec.Command("lintian", "--allow-root", "--tag-display-limit=0", "--fail-on=error,warning", p.deb).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("lintian: %v\n%s", err, out)
	}
	explained, _ := exec.Command("lintian", "--allow-root", "--show-overrides", p.deb).CombinedOutput() // exits 2 for these
	overridden := string(explained)
	if n := strings.Count(overridden, "O: "); n != 3 || !strings.Contains(overridden, "statically-linked-binary") {
		t.Errorf("%d findings are overridden, 3 expected:\n%s", n, overridden)
	}
	holds(t, p)
	for _, sum := range strings.Split(strings.TrimSpace(must(t, "sh", "-c", "cd "+p.dir+" && sha256sum -c SHA256SUMS")), "\n") {
		if !strings.HasSuffix(sum, ": OK") {
			t.Error(sum)
		}
	}
}

// What lintian warns of in Debian's scripts and takes no package to see: an order to systemd that goes past policy-rc.d.
func TestDebScriptsOrderBySystemdInvoke(t *testing.T) {
	scripts, err := filepath.Glob("deb-*.sh")
	if err != nil || len(scripts) != 3 {
		t.Fatalf("%q, %v", scripts, err)
	}
	orders := regexp.MustCompile(`^(?:.+;)?\s*systemctl\b`)
	for _, script := range append(scripts, "common.sh") {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if orders.MatchString(line) && !strings.HasPrefix(line, "#") && !strings.Contains(line, "daemon-reload") {
				t.Errorf("%s:%d: %s", script, i+1, line)
			}
		}
	}
}

// holds: the package has what people look for, and its program says what it was made from.
func holds(t *testing.T, p made) {
	t.Helper()
	root := t.TempDir()
	must(t, "dpkg-deb", "--extract", p.deb, root)
	for _, path := range []string{"usr/lib/systemd/system/bully-agent.service", "usr/lib/systemd/system/bully-leader.target", "usr/lib/sysusers.d/bully-agent.conf", "etc/bully-agent/agent.toml",
		"usr/share/man/man1/bully-agent.1.gz", "usr/share/man/man1/bully-agent-status.1.gz", "usr/share/man/man5/agent.toml.5.gz",
		"usr/share/bash-completion/completions/bully-agent", "usr/share/zsh/vendor-completions/_bully-agent",
		"usr/share/fish/vendor_completions.d/bully-agent.fish", "usr/share/doc/bully-agent/systemd/vip.conf",
		"usr/share/doc/bully-agent/troubleshooting.md", "usr/share/doc/bully-agent/examples/virtual-ip/agent.toml", "usr/share/doc/bully-agent/tutorial/hosts", "usr/share/doc/bully-agent/copyright"} {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
	program := filepath.Join(root, "usr/bin/bully-agent")
	if out := must(t, program, "version"); !regexp.MustCompile(`^bully-agent 0\.1\.0 \(commit [0-9a-f]{12} of \d{4}-\d\d-\d\d \d\d:\d\d UTC, `).MatchString(out) {
		t.Errorf("the program says %s", out)
	}
	settings := filepath.Join(root, "etc/bully-agent/agent.toml")
	if info, err := os.Stat(settings); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the settings are %v (%v), want 0640", info.Mode(), err)
	}
	if out := must(t, program, "config", "check", "--no-host", settings); out != "ok\n" {
		t.Errorf("the settings: %s", out)
	}
	notices := must(t, "zcat", filepath.Join(root, "usr/share/doc/bully-agent/NOTICES.gz"))
	for line := range strings.Lines(must(t, "go", "version", "-m", program)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "dep" && !strings.Contains(notices, "==== "+fields[1]+" "+fields[2]+"\n") {
			t.Errorf("%s %s is linked, and has no notice", fields[1], fields[2])
		}
	}
}

// What is commented out in the packages' settings are settings: with every mark of a comment before a key or table taken away,
// it is a configuration.
func TestCommentedSettingsAreSettings(t *testing.T) {
	text, err := os.ReadFile("agent.toml")
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?m)^[^#\n]`).Match(text) {
		t.Error("something is set")
	}
	file := filepath.Join(t.TempDir(), "agent.toml")
	live := regexp.MustCompile(`(?m)^#([a-z_]+ = |\[)`).ReplaceAll(text, []byte("$1"))
	if n := strings.Count(string(live), " = "); n < 6 {
		t.Fatalf("only %d settings", n)
	}
	write(t, file, string(live), 0o600)
	must(t, "go", "run", "-buildvcs=false", "github.com/bully-agent/bully-agent", "config", "check", "--no-host", file)
}

// rpm's own checks: digests, an installation into a root of its own with nothing changed afterwards, and scripts that are shell.
func TestRPMIsGood(t *testing.T) {
	long(t, "rpm")
	p := build(t, "0.1.0")
	if out := must(t, "rpm", "-K", p.rpm); !strings.HasSuffix(out, ": digests OK\n") {
		t.Error(out)
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: what follows installs it")
	}
	root := t.TempDir()
	must(t, "rpm", "--root", root, "--initdb")
	must(t, "rpm", "--root", root, "--nodeps", "--noscripts", "-i", p.rpm)
	if out := must(t, "rpm", "--root", root, "--nodeps", "-V", "bully-agent"); out != "" {
		t.Errorf("differs from the package: %s", out)
	}
	if out := must(t, "rpm", "--root", root, "-qc", "bully-agent"); out != "/etc/bully-agent/agent.toml\n" {
		t.Errorf("settings of the package: %s", out)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/share/zsh/site-functions/_bully-agent")); err != nil {
		t.Error(err)
	}
	for _, tag := range []string{"PREIN", "POSTIN", "PREUN", "POSTUN"} {
		script := filepath.Join(t.TempDir(), tag)
		write(t, script, must(t, "rpm", "--root", root, "-q", "--qf", "%{"+tag+"}", "bully-agent"), 0o600)
		must(t, "sh", "-n", script)
	}
	must(t, "rpm", "--root", root, "--nodeps", "--noscripts", "-e", "bully-agent")
	if left := must(t, "find", root, "-iname", "*bully*"); left != "" {
		t.Errorf("after the removal there is\n%s", left)
	}
}
