package cli

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/config"
)

// next is what completion next answers for words, without what it says of each.
func next(t *testing.T, words ...string) []string {
	t.Helper()
	t.Setenv("BULLY_SOCKET", t.TempDir()+"/none.sock")
	code, out, errs := commandLine(append([]string{"completion", "next", "--"}, words...)...)
	if code != 0 || errs != "" {
		t.Fatalf("completion next %q: exit %d, %s", words, code, errs)
	}
	var all []string
	for line := range strings.Lines(out) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		all = append(all, word)
	}
	return all
}

func TestCompletionOffersWhatMayComeNext(t *testing.T) {
	for line, want := range map[string]string{
		"sta|":                        "status",
		"ex|":                         "explain exec",
		"jobs |":                      "list next history run pause resume",
		"config ch|":                  "check",
		"help co|":                    "config completion",
		"help config |":               "check show",
		"help config check |":         "",
		"status --j|":                 "--json",
		"status --json |":             "--watch --socket --instance --help",
		"status -w --|":               "--json --socket --instance --help",
		"wait --for |":                "leader me members= quorum",
		"wait --for=m|":               "--for=me --for=members=",
		"wait --for members=|":        "members=",
		"wait --timeout |":            "",
		"hold --restart on|":          "on-failure",
		"run --profile |":             "lan fast wan",
		"run --preempt always --ins|": "--instance --insecure",
		"run --config |":              fileNames,
		"run --config=/e|":            fileNames,
		"run --state-dir |":           dirNames,
		"config check |":              fileNames,
		"hooks run |":                 "become-leader lose-leadership leader-change member-change",
		"hooks run become-leader |":   "",
		"exec |":                      "--",
		"exec --wa|":                  "--wait",
		"exec --wait 30s -- |":        aCommand,
		"exec -- sh -c |":             aCommand,
		"lab --pa|":                   "--page",
		"lab --page --mode |":         "available quorum",
		"step-down --to |":            "", // no agent answers
		"jobs run |":                  "",
		"nonsense |":                  strings.Join(names(root().subcommands), " "),
		"status --nonsense --js|":     "--json",
		"key rotate --without a --w|": "--without",
		"--ver|":                      "--version",
	} {
		words := strings.Split(strings.TrimSuffix(line, "|"), " ")
		if got := strings.Join(next(t, words...), " "); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
	if len(next(t)) != len(root().subcommands) {
		t.Error("nothing typed: not every command is offered")
	}
}

// The agent that is asked for names is the one that the command would ask: of the instance, wherever it is named.
func TestCompletionAsksTheAgentThatIsMeant(t *testing.T) {
	own := func(name string) string { return config.DefaultSocket(os.LookupEnv, name) }
	for _, tt := range []struct{ line, instance, socket, want string }{
		{"step-down --to ", "", "", own("")},
		{"-i web step-down --to ", "", "", own("web")},
		{"--instance=web step-down --to ", "", "", own("web")},
		{"step-down -i web --to ", "", "", own("web")},
		{"-i db step-down -i web --to ", "", "", own("web")},
		{"-i web jobs run ", "", "", own("web")},
		{"step-down --to ", "web", "", own("web")},
		{"-i db step-down --to ", "web", "", own("db")},
		{"step-down --to ", "web", "/run/its.sock", "/run/its.sock"},
		{"-i db step-down --to ", "", "/run/another.sock", own("db")},
		{"-i web step-down --socket /run/x.sock --to ", "", "/run/another.sock", "/run/x.sock"},
		{"-i ../x step-down --to ", "", "/run/another.sock", ""},
		{"step-down --to ", "../x", "/run/another.sock", ""},
	} {
		t.Setenv(instanceVariable, tt.instance)
		t.Setenv("BULLY_SOCKET", tt.socket)
		typed := understand(strings.Split(tt.line, " "))
		if got, err := typed.socket(); got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s with instance %q and socket %q: asks %q, %v, want %q", tt.line, tt.instance, tt.socket, got, err, tt.want)
		}
	}
}

// The instances of this host are offered by their names; a directory of another sort is none.
func TestCompletionOffersInstances(t *testing.T) {
	dir, err := os.MkdirTemp("/run", "bully-agent-test")
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	odd := dir + " odd"
	t.Cleanup(func() { _ = errors.Join(os.RemoveAll(dir), os.RemoveAll(odd)) })
	for _, d := range []string{dir, odd} {
		if err := errors.Join(os.MkdirAll(d, 0o700), os.WriteFile(d+"/agent.sock", nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	name := strings.TrimPrefix(dir, "/run/bully-agent-")
	for _, line := range []string{"-i |", "-i test|", "--instance |", "status -i |", "run --instance t|"} {
		got := next(t, strings.Split(strings.TrimSuffix(line, "|"), " ")...)
		if !slices.Contains(got, name) || slices.Contains(got, name+" odd") || slices.Contains(got, "") {
			t.Errorf("%s: %q, want %s", line, got, name)
		}
	}
}

// Each place of each command: what is offered for a flag is what it takes.
func TestCompletionKnowsEveryCommand(t *testing.T) {
	every(func(path string, cmd command) {
		words := append(strings.Fields(path)[1:], "--")
		if cmd.name == "next" {
			return // all that follows is a command line
		}
		got := next(t, words...)
		for _, o := range cmd.options {
			if !slices.Contains(got, "--"+o.name) {
				t.Errorf("%s: completion does not offer --%s", path, o.name)
			}
		}
	})
}

// A setting that is one of some words is offered these, and takes them.
func TestCompletionOffersWordsThatSettingsTake(t *testing.T) {
	tried := 0
	for _, s := range config.Settings() {
		if s.Flag == "" {
			continue
		}
		for _, word := range s.Words {
			tried++
			if got := next(t, "run", "--"+s.Flag, word); !slices.Contains(got, word) {
				t.Errorf("--%s: %s is not offered: %q", s.Flag, word, got)
			}
			src := config.Source{Flags: map[string][]string{s.Flag: {word}}, Env: func(string) (string, bool) { return "", false }}
			if _, err := config.Load(src); err != nil && strings.Contains(err.Error(), "--"+s.Flag) {
				t.Errorf("--%s=%s is offered and refused: %v", s.Flag, word, err)
			}
		}
	}
	if tried < 15 {
		t.Errorf("only %d words were tried", tried)
	}
}

// What others have named themselves must not become part of a command, nor a flag.
func TestCompletionOffersNothingThatAShellWouldRun(t *testing.T) {
	for word, ok := range map[string]bool{"alpha": true, "node-1.lan": true, "backup_db": true, "": false, "-rf": false,
		"$(reboot)": false, "`id`": false, "a;b": false, "a b": false, "a\nb": false, "a\x1b[2J": false, "a'b": false, "~root": false, "*": false} {
		if safeWord.MatchString(word) != ok {
			t.Errorf("%q: safe %t, want %t", word, !ok, ok)
		}
	}
}
