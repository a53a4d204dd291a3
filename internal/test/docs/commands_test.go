package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/cli"
	"github.com/bully-agent/bully-agent/internal/config"
)

// Every configuration that a page shows is one.
func TestConfigurations(t *testing.T) {
	seen := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks() {
			if b.language != "toml" {
				continue
			}
			seen++
			path := filepath.Join(t.TempDir(), "agent.toml")
			if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(config.Source{Path: path}); err != nil {
				t.Errorf("%s: %v in\n%s", p.path, err, b.text)
			}
		}
	}
	if seen < 2 {
		t.Errorf("only %d configurations were found", seen)
	}
}

// Every command of bully-agent that a page shows, or names in its text, exists and takes the flags that it has there. What
// the commands do is tested by testdata/script.
func TestCommands(t *testing.T) {
	seen := 0
	for _, p := range pages(t) {
		for _, line := range p.commands() {
			seen++
			if said, ok := understood(line); !ok {
				t.Errorf("%s: bully-agent %s: %s", p.path, line, said)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d commands were found", seen)
	}
}

var (
	invocation = regexp.MustCompile(`(?:^|[\s$(*&/])(?:bully-agent|go run \.)((?: +bully-agent)?) +([a-z][^&|#)>\n]*)`)
	inline     = regexp.MustCompile("`bully-agent ([a-z][^`>]*)[^`]*`")
	typing     = regexp.MustCompile(`^(?:\$|[a-z]+#) (.*)$`)
	systemd    = regexp.MustCompile(`systemctl .*|systemd-.*`) // there bully-agent is a unit
)

// commands gives the command lines of the program, without its name.
func (p page) commands() []string {
	var all []string
	for _, b := range p.blocks() {
		for line := range strings.SplitSeq(b.commandText(), "\n") {
			for _, m := range invocation.FindAllStringSubmatch(systemd.ReplaceAllString(line, ""), -1) {
				all = append(all, m[2]) // a container may have the program's name before it
				if _, inner, ok := strings.Cut(m[2], " -- bully-agent "); ok {
					all = append(all, inner)
				}
			}
		}
	}
	for _, m := range inline.FindAllStringSubmatch(strings.ReplaceAll(p.prose(), "\n", " "), -1) {
		if m[1] != "holder" { // a process's name in ps
			all = append(all, m[1])
		}
	}
	return all
}

// commandText is what of a block somebody types: of a console what follows the prompts.
func (b block) commandText() string {
	switch b.language {
	case "sh", "":
		return strings.ReplaceAll(b.text, "\\\n", " ")
	case "console":
		var typed strings.Builder
		for line := range strings.SplitSeq(b.text, "\n") {
			if m := typing.FindStringSubmatch(line); m != nil {
				typed.WriteString(m[1] + "\n")
			}
		}
		return typed.String()
	}
	return ""
}

// understood asks for the help of a command with the flags that it is shown with, which an unknown flag prevents.
func understood(line string) (said string, ok bool) {
	ours, _, _ := strings.Cut(line, " -- ") // what follows is for another program
	args := words(ours)
	said, ok = help(args)
	for last := len(args) - 1; !ok && last > 0 && !strings.HasPrefix(args[last], "-"); last-- {
		said, ok = help(args[:last]) // no flag is taken after an argument
		ok = ok && !strings.Contains(said, " COMMAND [flags]\n")
	}
	return said, ok
}

func help(args []string) (said string, ok bool) {
	var out strings.Builder
	args = append(append([]string{"bully-agent"}, args...), "--help")
	code := cli.Main(args, strings.NewReader(""), &out, &out)
	return out.String(), code == 0
}

// words splits a command line as a shell does, as far as the pages need it: quotes of both kinds, no escapes.
func words(line string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+`).FindAllString(line, -1) {
		all = append(all, strings.Trim(m, `'"`))
	}
	return all
}

// What the README has a reader run first is what a change must pass.
func TestCheckRunsTheReadmesCommands(t *testing.T) {
	check, err := os.ReadFile(filepath.Join(root, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"go run . lab", "go test ./..."} {
		if !strings.Contains(readme(t).text, command) {
			t.Errorf("README.md does not show %s", command)
		}
		if !strings.Contains(string(check), "\n"+command+"\n") {
			t.Errorf(".ci/run does not run %s", command)
		}
	}
}
