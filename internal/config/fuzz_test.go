package config

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/cockroachdb/datadriven"

	"github.com/bully-agent/bully-agent/membership"
)

// FuzzLoad: no text makes Load panic, every mistake is one printable line, and what loads obeys the rules.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(ReferenceTOML()), "join", "beta,gamma:7950")
	f.Add([]byte("node = { priority = 5 }"), "bind", `{{ GetInterfaceIP "eth0" }}:7950`)
	addBadInputs(f)
	f.Fuzz(func(t *testing.T, text []byte, flag, v string) {
		l := newLoader(Source{Flags: map[string][]string{flag: {v}}}, alpha())
		l.src.Env = environment("BULLY_SETTLE", strings.ReplaceAll(v, "\x00", ""))
		l.readDefaults()
		l.src.Path = "agent.toml"
		l.readDocument(text)
		l.readEnv()
		l.readFlags()
		l.derive()
		l.checkRules()
		if len(l.problems) == 0 {
			checkInvariants(t, l.config)
		}
		for _, p := range l.problems {
			if line := p.Error(); line == "" || len(line) > 4096 || strings.ContainsFunc(line, unicode.IsControl) {
				t.Errorf("not one printable line: %q", line)
			}
		}
	})
}

func addBadInputs(f *testing.F) {
	files, err := filepath.Glob("testdata/bad/*")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		datadriven.RunTestAny(f, file, func(_ testing.TB, d *datadriven.TestData) string {
			if d.Cmd == "file" {
				f.Add([]byte(d.Input), "", "")
			} else {
				f.Add([]byte(nil), d.CmdArgs[0].Key, d.Input)
			}
			return d.Expected
		})
	}
}

// checkInvariants are those that Election and Network promise.
func checkInvariants(t *testing.T, c *Config) {
	t.Helper()
	e := c.Election
	if e.Lease < 4*e.Heartbeat || e.Lease <= 2*e.StopBudget || e.Settle < 2*e.Heartbeat || e.Heartbeat <= 0 {
		t.Errorf("timers: %+v", e)
	}
	if a := c.Network.Advertise; !a.IsValid() || a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().Zone() != "" {
		t.Errorf("advertise %s", a)
	}
	if membership.CheckName(c.Node.Name) != nil || membership.CheckName(c.Cluster) != nil {
		t.Errorf("names %q %q", c.Node.Name, c.Cluster)
	}
	if !filepath.IsAbs(c.Node.StateDir) || len(c.Control.Socket) > maxSocket {
		t.Errorf("paths %q %q", c.Node.StateDir, c.Control.Socket)
	}
}
