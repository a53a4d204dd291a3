package cli

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/doctor"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/unit"
)

// withUnit has the host have a unit that runs as a user.
func withUnit(t *testing.T, name string) {
	t.Helper()
	was := hostRoot
	hostRoot = t.TempDir()
	t.Cleanup(func() { hostRoot = was })
	dir := filepath.Join(hostRoot, "usr/lib/systemd/system")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "[Service]\nUser=" + name + "\nProtectProc=invisible\nProtectHome=yes\nNoNewPrivileges=yes\n"
	if err := os.WriteFile(filepath.Join(dir, "bully-agent.service"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Root who makes or checks the key of a host on which the service is installed does so for the service's user, and for
// another file, or on another host, for itself.
func TestKeyIsTheServicesUsers(t *testing.T) {
	nobody, err := user.Lookup("nobody")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs root, and a user nobody")
	}
	withUnit(t, "nobody")
	u := service("")
	for _, c := range []struct {
		unit *unit.Unit
		path string
		want string
	}{{u, key.DefaultPath, nobody.Username}, {u, "/tmp/key", ""}, {nil, key.DefaultPath, ""}} {
		if o, is := serviceOwner(c.unit, c.path); o.name != c.want || is != (c.want != "") {
			t.Errorf("the owner of %s is %q, want %q", c.path, o.name, c.want)
		}
	}
}

// The file of an instance is checked as that one's: with the agent that has no name it shares no state directory.
func TestImportSaysHowToCheckAnInstance(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keepalived.conf")
	const one = "vrrp_instance %s {\n interface eth0\n virtual_router_id %d\n virtual_ipaddress {\n 10.0.0.%d\n }\n}\n"
	if err := os.WriteFile(file, fmt.Appendf(nil, one+one, "web", 51, 51, "db", 52, 52), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := commandLine("import", "keepalived", "--out", dir, file)
	if want := "web.toml written: check it with bully-agent -i web config check " + dir + "/web.toml\n"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit code %d, expected %q in\n%s%s", code, want, out, errs)
	}
}

// someInterface is one of this host that others could be behind. It skips the test where there is none.
func someInterface(t *testing.T) string {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return i.Name
		}
	}
	t.Skip("skipped: no interface is up but the loopback one")
	return ""
}

// config check and doctor as root name what the service may not do.
func TestJudgedAsTheService(t *testing.T) {
	nobody, err := user.Lookup("nobody")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs root, and a user nobody")
	}
	withUnit(t, "nobody")
	file := filepath.Join(t.TempDir(), "agent.toml")
	script := filepath.Join(t.TempDir(), "become.sh")
	t.Setenv("BULLY_CONFIG", file)
	t.Setenv("BULLY_INSECURE", "true")
	t.Setenv("BULLY_STATE_DIR", t.TempDir())
	t.Setenv("BULLY_SOCKET", filepath.Join(t.TempDir(), "sock"))
	text := "[hooks]\non_become_leader = \"" + script + " now\"\n[[check]]\nname = \"db\"\ncommand = \"pgrep postgres\"\ninterval = \"2s\"\ntimeout = \"1s\"\n" +
		"[[resource]]\naddress = \"192.0.2.9/32\"\ninterface = \"" + someInterface(t) + "\"\n"
	for path, text := range map[string]string{file: text, script: "#!/bin/sh\n# pgrep is not run\nbully-agent vip add 10.0.0.9/24 eth0\n"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	wants := []string{"resource address-192.0.2.9: under bully-agent.service the agent may put no address on an interface (no CAP_NET_ADMIN)",
		"on_become_leader: under bully-agent.service bully-agent vip may not change addresses (no CAP_NET_ADMIN)",
		"check db: under bully-agent.service pgrep sees no process of other users (ProtectProc=invisible)"}
	var stdout, stderr bytes.Buffer
	if err := newApp(newConsole(nil, &stdout, &stderr)).Run([]string{program, "config", "check"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range wants {
		if !strings.Contains(stdout.String(), "\nnote: "+want+": ") {
			t.Errorf("config check does not say %q:\n%s", want, &stdout)
		}
	}

	p := operated(t)
	uid, _ := userAsOwner(nobody)
	p.more["/v1/keys"] = control.Keys{Insecure: true, UID: uid.uid}
	p.serve(t)
	if err := os.Chmod(p.socket, 0o600); err != nil {
		t.Fatal(err)
	}
	stdout.Reset()
	_ = newApp(newConsole(nil, &stdout, &stderr)).Run([]string{program, "doctor", "--socket", p.socket})
	for _, want := range wants {
		if !strings.Contains(stdout.String(), "warn  sandbox     "+want+"\n") {
			t.Errorf("doctor does not say %q:\n%s", want, &stdout)
		}
	}
}

// A unit that the leader has needs a keeper of root's, and its command what any command needs.
func TestResourcesJudgedAsTheService(t *testing.T) {
	withUnit(t, "nobody")
	cfg := &config.Config{Resources: []config.Resource{
		{Resource: hooks.Resource{Name: "web.service", Unit: "web.service"}},
		{Resource: hooks.Resource{Name: "worker"}, Command: config.Command{Argv: []string{"/usr/bin/sudo", "true"}}},
	}}
	var got []string
	for _, f := range forbidden(unit.Find(hostRoot, unit.NameOf("")), cfg) {
		got = append(got, f.Text)
	}
	want := []string{"resource web.service: under bully-agent.service systemd takes no order of user nobody to start or stop a unit, unless a rule of polkit lets it",
		"resource worker: under bully-agent.service sudo gives no rights (NoNewPrivileges=yes)"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A resource's interface that is missing shows before this host leads.
func TestMissingInterfaceOfAResource(t *testing.T) {
	lines := deviceLines([]string{"lo", "nosuch0"})
	if len(lines) != 1 || lines[0].Level != doctor.Fail || !strings.HasPrefix(lines[0].Text, `there is no interface "nosuch0": `) || !strings.Contains(lines[0].Do, "this host has") {
		t.Errorf("doctor says %+v", lines)
	}
}

// A hook that root tries may succeed where the service's fails: hooks test says who ran it, and what the unit forbids.
func TestHookIsTriedAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	try := func(args ...string) string {
		_, _, errs := commandLine(append([]string{"hooks", "test", "--on-become-leader", "true; pgrep nosuchthing || true", "become-leader"}, args...)...)
		return errs
	}
	empty := filepath.Join(t.TempDir(), "agent.toml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BULLY_CONFIG", empty)
	if errs := try(); errs != "" {
		t.Errorf("without a unit it notes %q", errs)
	}
	withUnit(t, "nobody")
	want := "note: root ran this; bully-agent.service runs it as user nobody, with its limits\n" +
		"note: under bully-agent.service pgrep sees no process of other users (ProtectProc=invisible): "
	if errs := try(); !strings.HasPrefix(errs, want) {
		t.Errorf("it notes %q, want %q", errs, want)
	}
}
