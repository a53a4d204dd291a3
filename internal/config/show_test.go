package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sameSettings compares by value; where they come from differs.
func sameSettings(t interface{ Errorf(string, ...any) }, got, want *Config) {
	values := func(c *Config) map[string]any {
		out := map[string]any{}
		for _, s := range c.Shown() {
			out[s.Key] = s.Value
		}
		return out
	}
	if diff := cmp.Diff(values(want), values(got)); diff != "" {
		t.Errorf("the settings that are shown give others (-want +got):\n%s", diff)
	}
	items := func(c *Config) (all []map[string]any) {
		for _, j := range slices.Concat(c.ShownJobs(), c.ShownChecks(), c.ShownResources()) {
			keys := map[string]any{}
			for _, s := range j.Keys {
				keys[s.Key] = s.Value
			}
			all = append(all, keys)
		}
		return all
	}
	if diff := cmp.Diff(items(want), items(got)); diff != "" {
		t.Errorf("the jobs, checks and resources that are shown give others (-want +got):\n%s", diff)
	}
}

// What is shown is a file that gives the same, whatever the values come from.
func TestShownLoadsTheSame(t *testing.T) {
	file := writeFile(t, strings.ReplaceAll(`
timezone = "Europe/Berlin"
[node]
role = "witness"
[network]
join = ["beta", "10.0.0.7:1234"]
[election]
expect = 3
[hooks]
on_become_leader = ["/bin/echo", "a \"b\" \\ $x", "two\nlines", "tab\t'"]
on_lose_leadership = '''if true; then
  echo "\x"; fi # { [ ü @RLO@ '''
[[check]]
name = "web"
command = ["/bin/true"]
on_fail = "ineligible"
[[resource]]
unit = "haproxy.service"
on_fail = "stay"
[[job]]
name = "backup"
schedule = "30 2 * * *"
command = "true"
[[job]]
name = "report"
schedule = "@hourly"
command = ["/bin/true", ""]
timeout = "90s"
overlap = "queue"
timezone = "UTC"
`, "@RLO@", "\u202e"))
	for name, src := range map[string]Source{
		"defaults": {},
		"file":     {Path: file},
		"profile":  {Flags: map[string][]string{"profile": {"fast"}}},
		"odd lease": {Env: environment("BULLY_LEASE", "410ms", "BULLY_VOTER", "false", "BULLY_CONTROL_GROUP_MAY", "read,lend",
			"BULLY_KEY", "/keys/it")},
		"all at once": {Path: file, Env: environment("BULLY_JOIN", "delta", "BULLY_TAKEOVER_DELAY", "50m"),
			Flags: map[string][]string{"insecure": {"true"}, "bind": {"10.0.0.1:8000"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustLoad(t, src, alpha())
			again := mustLoad(t, Source{Path: writeFile(t, c.TOML())}, alpha())
			sameSettings(t, again, c)
		})
	}
}

// No text breaks out of its line, or comes back as another.
func TestShownTextLoadsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != 0 && r != utf8.RuneError }))
		text := word.Draw(t, "text")
		doc, err := parseDocument("x", []byte("x = "+tomlString(text)+"  # y\n"))
		if err != nil || len(doc.entries) != 1 || doc.decoded["x"] != text {
			t.Fatalf("%q comes back as another: %v", text, err)
		}
	})
	for _, s := range []string{"", "\x1b[31m", "\u202e", "\U000e0041", "\x7f", `"""`, "a\r\nb"} {
		doc, err := parseDocument("x", []byte("x = "+tomlString(s)+"\n"))
		if err != nil || doc.decoded["x"] != s {
			t.Errorf("%q is shown as %s, which is %q (%v)", s, tomlString(s), doc.decoded["x"], err)
		}
	}
}

// Each value says what gave it, in the words that a person would look for.
func TestShownSaysWhereFrom(t *testing.T) {
	file := writeFile(t, "[node]\npriority = 7\n\n[[job]]\nname = \"a\"\nschedule = \"@daily\"\ncommand = \"true\"\n")
	c := mustLoad(t, Source{Path: file, Env: environment("BULLY_LEASE", "240ms"),
		Flags: map[string][]string{"join": {"beta"}}}, alpha())
	text := c.TOML()
	for _, line := range []string{
		"cluster = \"default\"  # default",
		"priority = 7  # " + file + ":2",
		"name = \"alpha\"  # the host's name",
		"# voter = true  # role",
		"lease = \"240ms\"  # BULLY_LEASE",
		"heartbeat = \"50ms\"  # profile lan",
		"stop_budget = \"60ms\"  # a quarter of lease",
		"join = [\"beta:7950\"]  # --join",
		"advertise = \"10.0.0.1:7950\"  # eth0",
		"# key = \"/etc/bully-agent/key\"  # default",
		"[[job]]  # " + file + ":4",
		"schedule = \"@daily\"  # " + file + ":6",
		"timezone = \"UTC\"  # timezone above",
	} {
		if !slices.Contains(strings.Split(text, "\n"), line) {
			t.Errorf("there is no line %s in\n%s", line, text)
		}
	}
	var back []Shown
	encoded, err := json.Marshal(c.Shown())
	if err != nil || json.Unmarshal(encoded, &back) != nil || len(back) != len(settings) {
		t.Errorf("JSON: %v, %d of %d settings", err, len(back), len(settings))
	}
}

// A command that is no text is said to be none, and not to be another.
func TestShownIsHonestAboutBytes(t *testing.T) {
	c := mustLoad(t, Source{Flags: map[string][]string{"on-become-leader": {"echo \xff"}}}, alpha())
	if !strings.Contains(c.TOML(), "\n# on_become_leader = ") || !strings.Contains(c.TOML(), "not UTF-8") {
		t.Errorf("shown as\n%s", c.TOML())
	}
	mustLoad(t, Source{Path: writeFile(t, c.TOML())}, alpha())
}
