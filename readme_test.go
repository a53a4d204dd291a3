package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/cli"
	"github.com/bully-agent/bully-agent/internal/config"
)

// block is one fenced block of a document.
type block struct{ language, text string }

var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

func blocks(t *testing.T, path string) []block {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []block
	for _, m := range fence.FindAllStringSubmatch(string(content), -1) {
		out = append(out, block{m[1], m[2]})
	}
	if len(out) == 0 {
		t.Fatalf("%s shows nothing", path)
	}
	return out
}

// Every configuration that the README shows is one.
func TestReadmeConfigurations(t *testing.T) {
	seen := 0
	for _, b := range blocks(t, "README.md") {
		if b.language != "toml" {
			continue
		}
		seen++
		path := filepath.Join(t.TempDir(), "agent.toml")
		if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(config.Source{Path: path}); err != nil {
			t.Errorf("%v in\n%s", err, b.text)
		}
	}
	if seen == 0 {
		t.Error("no configuration in the README")
	}
}

// The become hook of the README works where there is no arping, and does not hide it.
func TestReadmeHookSaysThatNobodyWasTold(t *testing.T) {
	for _, b := range blocks(t, "README.md") {
		if !strings.Contains(b.text, "ip address replace") {
			continue
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "ip"), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		hook := exec.Command("/bin/sh", "-c", b.text)
		hook.Env = []string{"PATH=" + dir}
		said, err := hook.CombinedOutput()
		if err != nil || !strings.Contains(string(said), "neighbours not told") {
			t.Errorf("%v, and it says %q", err, said)
		}
		return
	}
	t.Error("no hook of a virtual address in the README")
}

// Every bully-agent command that the documents show exists and takes the flags
// that it is shown with. What the commands do is tested by testdata/script, and
// the two commands of "Try it" are run by .ci/run as they stand.
func TestReadmeCommands(t *testing.T) {
	for _, path := range []string{"README.md", filepath.Join("deploy", "README.md")} {
		for _, b := range blocks(t, path) {
			for _, line := range commandLines(b) {
				var out, errs strings.Builder
				ours, _, _ := strings.Cut(line, " -- ") // what follows is for another program
				args := append(words(ours), "--help")
				if code := cli.Main(args, strings.NewReader(""), &out, &errs); code != 0 {
					t.Errorf("%s: %s: exit %d: %s", path, line, code, errs.String())
				}
			}
		}
	}
}

var invocation = regexp.MustCompile(`(?:^|[\s$*&])(?:bully-agent|go run \.)( [a-z][^&|#\n]*)`)

// commandLines gives the invocations of the program in a shell block.
func commandLines(b block) []string {
	if b.language != "sh" && b.language != "" {
		return nil
	}
	var out []string
	for line := range strings.SplitSeq(strings.ReplaceAll(b.text, "\\\n", " "), "\n") {
		if m := invocation.FindStringSubmatch(line); m != nil {
			// a container may have the program's name
			out = append(out, "bully-agent"+strings.TrimPrefix(m[1], " bully-agent"))
		}
	}
	return out
}

// words splits a command line as a shell does, single quotes included.
func words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}
