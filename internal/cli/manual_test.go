package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/manual"
)

// writeManual puts all manual pages into a directory.
func writeManual(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, p := range Manual(manual.Edition{Version: "1.2.3", Day: "2026-01-31"}) {
		if err := os.WriteFile(filepath.Join(dir, p.File()), []byte(p.Text()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// rendered is a page as a terminal has it, without backspaces, each run of blanks one.
func rendered(t *testing.T, page string) string {
	t.Helper()
	out, err := exec.Command("mandoc", "-Tutf8", page).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.Join(strings.Fields(regexp.MustCompile("(?s).\x08").ReplaceAllString(string(out), "")), " ")
}

func needMandoc(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("mandoc"); err != nil {
		t.Skip("skipped: mandoc is not installed")
	}
}

// Neither errors nor warnings nor questions of style.
func TestManualIsGoodRoff(t *testing.T) {
	needMandoc(t)
	pages, err := filepath.Glob(filepath.Join(writeManual(t), "*"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	if out, err := exec.Command("mandoc", append([]string{"-Tlint", "-Wall"}, pages...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("mandoc -Tlint: %v\n%s", err, out)
	}
}

// What a person reads has all commands, flags and exit codes, as they are typed: with plain hyphens.
func TestManualSaysWhatTheHelpSays(t *testing.T) {
	needMandoc(t)
	dir := writeManual(t)
	top := rendered(t, filepath.Join(dir, "bully-agent.1"))
	for _, cmd := range root().subcommands {
		if !strings.Contains(top, " "+cmd.name+" "+strings.Join(strings.Fields(cmd.usage), " ")) {
			t.Errorf("bully-agent(1) does not list %s", cmd.name)
		}
		if cmd.name == "help" {
			continue
		}
		page := rendered(t, filepath.Join(dir, program+"-"+cmd.name+".1"))
		for _, sub := range append(slices.Clone(cmd.subcommands), cmd) {
			for _, o := range sub.options {
				if !strings.Contains(page, o.label()) {
					t.Errorf("%s-%s(1) has no %s", program, cmd.name, o.label())
				}
			}
			for _, e := range sub.examples {
				if e = strings.Join(strings.Fields(e), " "); !strings.Contains(page, e) {
					t.Errorf("%s-%s(1) has no example %s", program, cmd.name, e)
				}
			}
		}
	}
}

// agent.toml(5) has each setting once, with its default, flag and variable.
func TestManualHasEachSetting(t *testing.T) {
	needMandoc(t)
	page := rendered(t, filepath.Join(writeManual(t), "agent.toml.5"))
	for _, s := range config.Settings() {
		want := otherWays(s)
		if n := strings.Count(page, want); n != 1 {
			t.Errorf("%s: agent.toml(5) has %q %d times", s.Key, want, n)
		}
	}
	keys := regexp.MustCompile(`(?m)^(?:# )?([a-z_]+) = `).FindAllStringSubmatch(config.ReferenceTOML(), -1)
	if len(keys) < 50 {
		t.Fatalf("only %d keys in the reference", len(keys))
	}
	for _, k := range keys {
		if !strings.Contains(page, " "+k[1]+" = ") {
			t.Errorf("agent.toml(5) has no %s", k[1])
		}
	}
}

// The table of exit codes is the one of the documents.
func TestManualsExitCodesAreTheDocuments(t *testing.T) {
	text, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| exit code | means |\n| --- | --- |\n")
	table, after, _ := strings.Cut(table, "\n\n")
	if after, _, _ = strings.Cut(after, "\n\n"); strings.Join(strings.Fields(after), " ") != otherCodes {
		t.Errorf("the manual has\n%s\ndocs/operating.md has\n%s", otherCodes, after)
	}
	var want []string
	for _, m := range exitMeanings {
		want = append(want, "| "+m.code+" | "+m.means+" |")
	}
	if got := strings.Join(want, "\n"); got != table {
		t.Errorf("the manual has\n%s\ndocs/operating.md has\n%s", got, table)
	}
}

// What an instance has of its own is what the manual says.
func TestManualKnowsInstances(t *testing.T) {
	named := map[string]string{}
	for _, p := range places {
		named[p.path] = p.what
	}
	if _, ok := named[config.InstanceFile("NAME")]; !ok {
		t.Errorf("the manual's files lack %s", config.InstanceFile("NAME"))
	}
	for path, of := range map[string]string{"/run/bully-agent-NAME/agent.sock": "/run/bully-agent/agent.sock", "/var/lib/bully-agent-NAME/": "/var/lib/bully-agent/"} {
		if !strings.Contains(named[of], path) {
			t.Errorf("%s: the manual lacks an instance's, %s", of, path)
		}
	}
	unit, err := os.ReadFile("../../deploy/systemd/bully-agent@.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^EnvironmentFile=-(.*)$`).FindAllStringSubmatch(string(unit), -1) {
		if path := strings.ReplaceAll(m[1], "%i", "NAME"); named[path] == "" {
			t.Errorf("the manual's files lack %s, which the unit reads", path)
		}
	}
}

// What the manual tells people to type is understood.
func TestManualsCommandsAreUnderstood(t *testing.T) {
	tried := 0
	for _, task := range tasks {
		for _, line := range task.commands {
			rest, ok := strings.CutPrefix(line, program+" ")
			if m := regexp.MustCompile(`/usr/share/doc/bully-agent/(systemd/\S+)`).FindStringSubmatch(line); m != nil {
				if _, err := os.Stat("../../deploy/" + m[1]); err != nil {
					t.Errorf("%s: the packages have no such file: %v", line, err)
				}
			}
			if !ok {
				continue
			}
			tried++
			rest, _, _ = strings.Cut(rest, " && ")
			rest, _, _ = strings.Cut(rest, " -- ")
			words := strings.Fields(rest)
			flags := words[:len(words)-len(understand(append(words, "")).args)] // --help comes before arguments
			checkOptions(t, program+" "+strings.Join(flags, " "))
			checkEnds(t, words)
		}
	}
	if tried < 10 {
		t.Errorf("only %d commands were tried", tried)
	}
}

// checkEnds: the words lead to a command that does something, with flags that it has.
func checkEnds(t *testing.T, words []string) {
	t.Helper()
	typed := understand(append(words, ""))
	if isSlip := len(typed.command.subcommands) > 0 && len(typed.args) > 0; isSlip || typed.command.action == nil {
		t.Errorf("%q is no command", words)
	}
}

// The configuration that the manual shows is one.
func TestManualsExampleIsAConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.toml")
	if err := os.WriteFile(file, []byte(strings.Join(exampleSettings, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := commandLine("config", "check", "--no-host", file); code != 0 || !strings.Contains(out, "job backup: next ") {
		t.Errorf("config check: exit %d: %s%s", code, out, errs)
	}
}

// No sentence of the tables is lost on its way, whatever roff means by its letters.
func TestManualShowsWhatRoffWouldTake(t *testing.T) {
	needMandoc(t)
	p := manual.New("tricky", 1, `a \ and a "quote" -x`, manual.Edition{Version: "1", Day: "2026-01-31"})
	p.Heading(`WITH "QUOTES" \n`)
	p.Paragraphs(".start 'quote `bold -flag`, then\n.TH and … – \\fBnot bold\\fR ^ ~ end")
	p.Item("text", `--flag="a b"`, ".dot")
	p.Verbatim(".SH no macro", "'no macro either", "$ echo \\$HOME `id`")
	file := filepath.Join(t.TempDir(), "tricky.1")
	if err := os.WriteFile(file, []byte(p.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	got := rendered(t, file)
	for _, want := range []string{`a \ and a "quote" -x`, `WITH "QUOTES" \n`, ".start 'quote bold -flag, then .TH and … – \\fBnot bold\\fR ^ ~ end",
		`--flag="a b" .dot text`, ".SH no macro 'no macro either $ echo \\$HOME `id`"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not on the page:\n%s", want, got)
		}
	}
}
