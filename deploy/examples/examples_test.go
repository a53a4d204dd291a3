// Package examples tests the examples: that their scripts are plain POSIX shell, and that they do what they are for.
// The virtual address is tested on real links too, in e2e.
package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// files gives the files of the examples whose paths match, at least one.
func files(t *testing.T, patterns ...string) []string {
	t.Helper()
	var all []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no file is %s (%v)", pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

// scripts gives the files that begin as shell scripts do.
func scripts(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, path := range files(t, "*/*") {
		if strings.HasPrefix(read(t, path), "#!") {
			all = append(all, path)
		}
	}
	if len(all) < 5 {
		t.Fatalf("only %v are scripts: expected more", all)
	}
	return all
}

// A script that fails half-way must not go on, and must run under any shell that a small system has.
func TestScriptsArePlainShell(t *testing.T) {
	for _, path := range scripts(t) {
		text := read(t, path)
		if !strings.HasPrefix(text, "#!/bin/sh\n") {
			t.Errorf("%s does not begin with #!/bin/sh", path)
		}
		if !strings.Contains(text, "\nset -eu\n") && !isWrapper(text) {
			t.Errorf("%s goes on after an error: expected set -eu", path)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode&0o111 != 0o111 || mode&0o022 != 0 {
			t.Errorf("%s has mode %v: expected one that all may run and only its owner may write", path, mode)
		}
		for _, shell := range shells(t) {
			if out, err := exec.Command(shell[0], append(shell[1:], "-n", path)...).CombinedOutput(); err != nil {
				t.Errorf("%v does not understand %s: %v\n%s", shell, path, err, out)
			}
		}
	}
}

// isWrapper reports whether a script is two lines of which the second becomes another program.
func isWrapper(script string) bool {
	lines := regexp.MustCompile(`(?m)^[^#\n].*$`).FindAllString(script, -1)
	return len(lines) == 2 && strings.HasPrefix(lines[1], "exec ")
}

// shells are those of this machine that read a script.
func shells(t *testing.T) [][]string {
	t.Helper()
	found := [][]string{{"/bin/sh"}}
	for _, shell := range [][]string{{"dash"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err == nil {
			found = append(found, shell)
		}
	}
	return found
}

// shellcheck knows more than the shells do.
func TestScriptsPassShellcheck(t *testing.T) {
	shellcheck := tool(t, "shellcheck")
	if out, err := exec.Command(shellcheck, append([]string{"--shell=sh"}, scripts(t)...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Every agent.toml is one, on any host: whether hooks and addresses are there is left out.
func TestConfigurationsAreAccepted(t *testing.T) {
	for _, path := range files(t, "*/agent.toml") {
		if out, code := bullyAgent(t, nil, "config", "check", "--no-host", path); code != 0 {
			t.Errorf("%s: exit code %d\n%s", path, code, out)
		}
	}
}

// The READMEs name every file of their example. What they show is tested with all pages, in internal/test/docs.
func TestReadmes(t *testing.T) {
	for _, path := range files(t, "*/README.md") {
		checkInventory(t, path)
	}
}

// checkInventory compares the files of an example with those that its README names.
func checkInventory(t *testing.T, readme string) {
	t.Helper()
	text := read(t, readme)
	for _, path := range files(t, filepath.Join(filepath.Dir(readme), "*")) {
		if name := filepath.Base(path); path != readme && !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s does not say what %s is", readme, name)
		}
	}
}

// The list of uses leads to every example.
func TestExamplesAreLinked(t *testing.T) {
	text := read(t, filepath.Join("..", "..", "docs", "README.md"))
	for _, path := range files(t, "*/README.md") {
		if link := "(../deploy/examples/" + filepath.ToSlash(path) + ")"; !strings.Contains(text, link) {
			t.Errorf("docs/README.md has no link %s", link)
		}
	}
}
