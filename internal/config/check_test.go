package config

import (
	"strings"
	"testing"
	"time"
)

const okCheck = "[[check]]\nname = \"web\"\ncommand = [\"/bin/true\"]\n"

// What is left out of a check has the documented defaults.
func TestCheck(t *testing.T) {
	c := mustLoad(t, Source{Path: writeFile(t, okCheck+"[[check]]\nname = \"dns\"\ncommand = \"exit 0\"\ninterval = \"500ms\"\n"+
		"timeout = \"500ms\"\nrise = 1\nfall = 5\non-fail = \"priority -50\"\n[[job]]\nname = \"a\"\nschedule = \"@daily\"\ncommand = \"true\"\n")}, alpha())
	if len(c.Checks) != 2 || len(c.Jobs) != 1 {
		t.Fatalf("%d checks and %d jobs", len(c.Checks), len(c.Jobs))
	}
	web, dns := c.Checks[0], c.Checks[1]
	if web.Name != "web" || web.Interval != 2*time.Second || web.Timeout != time.Second || web.Rise != 2 || web.Fall != 3 || web.Penalty != 0 {
		t.Errorf("a check with defaults is %+v", web)
	}
	if dns.Command.Shell != "exit 0" || dns.Interval != 500*time.Millisecond || dns.Rise != 1 || dns.Fall != 5 || dns.Penalty != -50 {
		t.Errorf("a check with all keys is %+v", dns)
	}
}

// What is wrong with a check is said with its line, and with what to do.
func TestBadChecks(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a name twice":   {okCheck + okCheck, `FILE:5:8: check.name: "web" is the name of two checks: also on line 2; hint: give each its own`},
		"no command":     {"[[check]]\nname = \"a\"\n", `FILE:1:3: check: command is missing: expected a line such as command = ["/usr/bin/curl", "-fsS", "http://127.0.0.1/"]`},
		"empty command":  {"[[check]]\nname = \"a\"\ncommand = \"\"\n", `FILE:3:11: check.command: `},
		"short interval": {okCheck + "interval = \"1s\"\ntimeout = \"2s\"\n", `FILE:4:12: check.interval: interval 1s is shorter than timeout 2s: expected an interval of at least 2s`},
		"long timeout":   {okCheck + "timeout = \"3s\"\n", `FILE:4:11: check.timeout: interval 2s is shorter than timeout 3s`},
		"rise 0":         {okCheck + "rise = 0\n", `FILE:4:8: check.rise: 0 is out of range`},
		"unknown key":    {okCheck + "intervall = \"1s\"\n", `FILE:4:1: check.intervall: there is no such key; hint: did you mean interval?`},
		"on_fail":        {okCheck + "on_fail = \"stop\"\n", `FILE:4:11: check.on_fail: "stop" is neither: expected "ineligible" or "priority -50"`},
		"no change":      {okCheck + "on_fail = \"priority 0\"\n", `FILE:4:11: check.on_fail: "priority 0" is no change`},
		"priority":       {okCheck + "on_fail = \"priority -101\"\n", `FILE:4:11: check.on_fail: priority 100 would become -1 if all checks failed that change it: expected 0–65535`},
		"together": {okCheck + "on_fail = \"priority -60\"\n" + strings.Replace(okCheck, "web", "b", 1) + "on_fail = \"priority -60\"\n",
			`FILE:8:11: check.on_fail: priority 100 would become -20`},
		"one table":   {"[check]\nname = \"a\"\n", `FILE:1:2: check: it is one table: expected an array of tables; hint: write [[check]]`},
		"a table":     {okCheck + "[check.more]\na = 1\n", `FILE:4:2: check.more: a check has no tables of its own`},
		"no such":     {okCheck[:9] + "\nname = \"a b\"\ncommand = \"true\"\n", `FILE:2:8: check.name: "a b"`},
		"a near name": {"[[chek]]\nname = \"a\"\n", `FILE:1:3: chek: there is no such table; hint: did you mean [[check]]?`},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, c.text)
			_, err := load(Source{Path: path}, alpha())
			if err == nil {
				t.Fatal("taken")
			}
			if got, want := err.Error(), strings.ReplaceAll(c.want, "FILE", path); !strings.HasPrefix(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// A command that may not run is found before the agent starts.
func TestCheckCommandIsLookedAt(t *testing.T) {
	path := writeFile(t, strings.Replace(okCheck, "/bin/true", "/nowhere/check", 1))
	c := mustLoad(t, Source{Path: path}, alpha())
	err := c.checkHost(alpha())
	if want := path + `:3:11: check.command: "/nowhere/check" does not exist`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
