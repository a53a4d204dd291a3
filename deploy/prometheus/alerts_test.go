// Package prometheus tries the alerts that ship.
package prometheus

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func promtool(t *testing.T) string {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("skipped: " + err.Error())
	}
	return tool
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// plays are what promtool plays to the alerts.
var plays = []string{"alerts_test.yml", "alerts_jobs_test.yml"}

// The alerts fire when they should, and not before, by what promtool plays to them.
func TestAlerts(t *testing.T) {
	if out, err := exec.Command(promtool(t), slices.Concat([]string{"test", "rules"}, plays)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.Command(promtool(t), "check", "rules", "alerts.yml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// What is missed by none of the tests above is missed: without an alert, or without its
// patience, promtool names it.
func TestEachAlertIsTried(t *testing.T) {
	tool, rules := promtool(t), read(t, "alerts.yml")
	names := regexp.MustCompile(`- alert: (\w+)\n`).FindAllStringSubmatch(rules, -1)
	if len(names) < 6 {
		t.Fatalf("only %d alerts were found", len(names))
	}
	for what, spoiled := range map[string]string{
		"that never fires":  regexp.MustCompile(`(for: )\w+\n`).ReplaceAllString(rules, "${1}99h\n"),
		"that has no delay": regexp.MustCompile(`(for: )\w+\n`).ReplaceAllString(rules, "${1}0s\n"),
	} {
		dir := t.TempDir()
		texts := map[string]string{"alerts.yml": spoiled}
		for _, file := range plays {
			texts[file] = read(t, file)
		}
		for file, text := range texts {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		test := exec.Command(tool, slices.Concat([]string{"test", "rules"}, plays)...)
		test.Dir = dir
		out, err := test.CombinedOutput()
		for _, name := range names {
			if err == nil || !strings.Contains(string(out), "alertname: "+name[1]+",") {
				t.Errorf("nothing notices %s %s:\n%s", name[1], what, out)
			}
		}
	}
}

// They ask for what the agent shows.
func TestAlertsAskForWhatIsThere(t *testing.T) {
	there := ""
	files, err := filepath.Glob("../../internal/metrics/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			there += read(t, file)
		}
	}
	for _, name := range regexp.MustCompile(`bully_\w+`).FindAllString(read(t, "alerts.yml"), -1) {
		isThere := strings.Contains(there, `desc("`+strings.TrimPrefix(name, "bully_")+`"`) || strings.Contains(there, `Name: "`+name+`"`)
		if !isThere {
			t.Errorf("the agent shows no %s", name)
		}
	}
}
