package cli

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bully-agent/bully-agent/internal/config"
)

// every visits all commands with their paths.
func every(visit func(path string, cmd command)) {
	var walk func(path string, cmd command)
	walk = func(path string, cmd command) {
		visit(path, cmd)
		for _, sub := range cmd.subcommands {
			walk(path+" "+sub.name, sub)
		}
	}
	walk(program, root())
}

func TestHelpFitsATerminal(t *testing.T) {
	every(func(path string, cmd command) {
		for line := range strings.SplitSeq(cmd.help(path), "\n") {
			isExample := strings.HasPrefix(line, "  "+program+" ") // not broken, so that it can be copied
			if n := utf8.RuneCountInString(line); n > helpWidth && !isExample {
				t.Errorf("%s --help: %d columns: %s", path, n, line)
			}
			if line != strings.TrimRight(line, " ") {
				t.Errorf("%s --help: line ends in a space: %q", path, line)
			}
		}
	})
}

func TestHelpIsTheSameByAllWays(t *testing.T) {
	every(func(path string, _ command) {
		words := strings.Fields(path)[1:]
		_, byFlag, _ := commandLine(append(words, "--help")...)
		_, byShort, _ := commandLine(append(words, "-h")...)
		_, byCommand, errs := commandLine(append([]string{"help"}, words...)...)
		if byFlag == "" || byFlag != byShort || byFlag != byCommand {
			t.Errorf("%s: --help, -h and help differ:\n%s\n%s\n%s%s", path, byFlag, byShort, byCommand, errs)
		}
	})
}

func TestRunHasAFlagForEachSetting(t *testing.T) {
	_, help, _ := commandLine("run", "--help")
	for _, s := range config.Settings() {
		if s.Flag != "" && !strings.Contains(help, "\n  --"+s.Flag+" ") {
			t.Errorf("run --help does not show --%s", s.Flag)
		}
		if s.Flag != "" && !s.Switch && placeholders[s.Flag] == "" {
			t.Errorf("--%s has no placeholder for its value", s.Flag)
		}
	}
}

// Each example of the help is run by testdata/script/examples.txtar, but those
// of run and lab, which other scripts cover.
func TestExamplesAreRunByAScript(t *testing.T) {
	script, err := os.ReadFile("../../testdata/script/examples.txtar")
	if err != nil {
		t.Fatal(err)
	}
	every(func(path string, cmd command) {
		if path != program && path != program+" help" && len(cmd.examples) == 0 && len(cmd.subcommands) == 0 {
			t.Errorf("%s --help has no example", path)
		}
		for _, e := range cmd.examples {
			if words := strings.Fields(e); words[1] == "run" || words[1] == "lab" {
				checkOptions(t, e)
			} else if !strings.Contains(string(script), e) {
				t.Errorf("%s --help: examples.txtar does not run %q", path, e)
			}
		}
	})
}

// checkOptions parses an example as far as can be done without running it.
func checkOptions(t *testing.T, example string) {
	t.Helper()
	var args []string
	for i, part := range strings.Split(example, "'") {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	if code, _, errs := commandLine(append(args[1:], "--help")...); code != 0 {
		t.Errorf("%s: %s", example, errs)
	}
}

func TestNearest(t *testing.T) {
	words := []string{"status", "is-leader", "leader", "members", "top"}
	for word, want := range map[string]string{
		"stauts": "status", "STATUS": "status", "sta": "status", "isleader": "is-leader", "leder": "leader",
		"pizza": "", "foo": "", "x": "", "": "", strings.Repeat("status", 20): "",
	} {
		if got := nearest(word, words); got != want {
			t.Errorf("nearest to %q is %q, expected %q", word, got, want)
		}
	}
}
