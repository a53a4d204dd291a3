package unit

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// host is a directory with the unit that the packages install, and drop-ins.
func host(t *testing.T, dropIns ...string) string {
	t.Helper()
	root := t.TempDir()
	install := func(from, to string) {
		text, err := os.ReadFile(filepath.Join("../../deploy/systemd", from))
		if err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	install("bully-agent.service", "usr/lib/systemd/system/bully-agent.service")
	install("bully-agent@.service", "usr/lib/systemd/system/bully-agent@.service")
	for _, name := range dropIns {
		install(name, "etc/systemd/system/bully-agent.service.d/"+name)
	}
	return root
}

// Packaged is what the installed unit says, so that import judges by it where none is installed.
func TestPackagedIsTheUnit(t *testing.T) {
	packaged := Packaged()
	for _, name := range []string{"bully-agent.service", "bully-agent@web.service"} {
		found := Find(host(t), name)
		for key := range packaged.set {
			if got, want := found.set[key], packaged.set[key]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is %q, and Packaged has %q", name, key, got, want)
			}
		}
	}
	if u := Find(t.TempDir(), "bully-agent.service"); u != nil || u.User() != "root" || u.Forbids("pgrep x") != nil {
		t.Error("a host without a unit forbids something")
	}
}

// What checks of public keepalived.conf files do, and which of it the unit forbids.
func TestWhatTheUnitForbids(t *testing.T) {
	plain, vip, root := Find(host(t), NameOf("")), Find(host(t, "vip.conf"), NameOf("")), Find(host(t, "root-hooks.conf"), NameOf(""))
	for _, c := range []struct {
		command string
		plain   string
		vip     string // with vip.conf
	}{
		{"/usr/bin/pgrep asterisk", "pgrep sees no process", "pgrep sees no process"},
		{"killall -0 haproxy", "killall may signal no process", "killall may signal no process"},
		{"/root/check_alive.sh --fast", "/root/check_alive.sh is not there", "/root/check_alive.sh is not there"},
		{"sh -c 'test -e /home/me/up'", "/home/me/up is not there", "/home/me/up is not there"},
		{"sudo systemctl start db", "sudo gives no rights", "sudo gives no rights"},
		{"true && exec sudo true", "sudo gives no rights", "sudo gives no rights"},
		{"timeout 3 pidof nginx", "pidof sees no process", "pidof sees no process"},
		{"bully-agent vip add 10.0.0.9/24 eth0 || exit", "bully-agent vip may not change addresses", ""},
		{"ip addr add 10.0.0.9/24 dev eth0", "ip may not change addresses", ""},
		{"ip -br addr show | grep -q 10.0.0.9", "", ""},
		{"curl -fs http://localhost/pgrep # not sudo", "", ""},
		{"echo sudo >>/tmp/x", "", ""},
	} {
		for _, one := range []struct {
			name, want string
			unit       *Unit
		}{{"plain", c.plain, plain}, {"vip.conf", c.vip, vip}, {"root-hooks.conf", "", root}} {
			var texts []string
			for _, f := range one.unit.Forbids(c.command) {
				texts = append(texts, f.Text)
				if f.Do == "" {
					t.Errorf("%s: %s: nothing to do about it", c.command, f.Text)
				}
			}
			got := strings.Join(texts, "; ")
			if got != one.want && (one.want == "" || !strings.HasPrefix(got, one.want)) {
				t.Errorf("%s under %s: %q, want %q", c.command, one.name, got, one.want)
			}
		}
	}
}

// A resource's address needs what vip.conf gives, or root-hooks.conf; the packages' unit alone does not give it.
func TestAddressesNeedADropIn(t *testing.T) {
	for dropIn, want := range map[string]bool{"": true, "vip.conf": false, "root-hooks.conf": false} {
		with := []string{dropIn}
		if dropIn == "" {
			with = nil
		}
		f, is := Find(host(t, with...), NameOf("")).ForbidsAddresses()
		if is != want || is && !strings.HasSuffix(f.Do, "/etc/systemd/system/bully-agent.service.d/vip.conf") {
			t.Errorf("with %q: forbidden is %t, %q", dropIn, is, f.Do)
		}
	}
	if _, is := (*Unit)(nil).ForbidsAddresses(); is {
		t.Error("where there is no unit, an address is forbidden")
	}
	narrow := &Unit{Name: NameOf(""), set: map[string][]string{"User": {"bully-agent"}, "AmbientCapabilities": {"CAP_NET_ADMIN"}}}
	if f, is := narrow.ForbidsAddresses(); !is || !strings.Contains(f.Text, "no CAP_NET_RAW") {
		t.Errorf("a unit that cannot announce an address forbids %q", f.Text)
	}
}

// systemd takes orders of root: vip.conf does not make the agent's keeper that.
func TestUnitsNeedRoot(t *testing.T) {
	for dropIn, want := range map[string]bool{"vip.conf": true, "root-hooks.conf": false} {
		f, is := Find(host(t, dropIn), NameOf("")).ForbidsUnits()
		if is != want || is && (!strings.Contains(f.Text, "no order of user bully-agent") || !strings.HasSuffix(f.Do, "/etc/systemd/system/bully-agent.service.d/root-hooks.conf")) {
			t.Errorf("with %s: forbidden is %t, %+v", dropIn, is, f)
		}
	}
	if _, is := (*Unit)(nil).ForbidsUnits(); is {
		t.Error("where there is no unit, other units are forbidden")
	}
}

func TestWhoseTheUnitIs(t *testing.T) {
	if user := Find(host(t), NameOf("web")).User(); user != "bully-agent" {
		t.Errorf("an instance runs as %s", user)
	}
	if u := Find(host(t, "root-hooks.conf"), NameOf("")); u.User() != "root" || u.KeyUser() != "bully-agent" {
		t.Errorf("with root-hooks.conf it runs as %s, and the key is %s's", u.User(), u.KeyUser())
	}
}

// A unit that is masked is none, whatever the package has installed: by a link to /dev/null or an empty file, of the instance or
// of its template.
func TestMaskedUnitIsNone(t *testing.T) {
	for _, c := range []struct{ file, name string }{
		{"bully-agent.service", NameOf("")}, {"bully-agent@.service", NameOf("web")}, {"bully-agent@web.service", NameOf("web")},
	} {
		for how, mask := range map[string]func(path string) error{
			"an empty file":       func(path string) error { return os.WriteFile(path, nil, 0o600) },
			"a link to /dev/null": func(path string) error { return os.Symlink(os.DevNull, path) },
		} {
			root := host(t, "vip.conf")
			dir := filepath.Join(root, "etc/systemd/system")
			if err := mask(filepath.Join(dir, c.file)); err != nil {
				t.Fatal(err)
			}
			if Find(root, c.name) != nil {
				t.Errorf("%s is found, and %s is %s", c.name, c.file, how)
			}
		}
	}
}

// Lines of capabilities, and whether NET_ADMIN is left, as systemd.exec(5) has it.
func TestLinesOfCapabilities(t *testing.T) {
	for _, c := range []struct {
		lines             []string
		bounding, ambient bool
	}{
		{nil, true, false},
		{[]string{""}, false, false},
		{[]string{"~"}, true, true},
		{[]string{"CAP_NET_ADMIN CAP_KILL"}, true, true},
		{[]string{"CAP_KILL"}, false, false},
		{[]string{"~CAP_NET_ADMIN CAP_KILL"}, false, false},
		{[]string{"~CAP_KILL"}, true, true},
		{[]string{"~CAP_KILL CAP_NET_ADMIN"}, false, false},
		{[]string{"~CAP_KILL", "~CAP_NET_ADMIN"}, false, false},
		{[]string{"CAP_KILL", "CAP_NET_ADMIN"}, true, true},
		{[]string{"CAP_NET_ADMIN", "CAP_KILL"}, true, true},
		{[]string{"CAP_NET_ADMIN", "", "CAP_KILL"}, false, false},
		{[]string{"~CAP_NET_ADMIN", "~"}, true, true},
		{[]string{"", "~CAP_KILL"}, false, true}, // from nothing there is nothing to take away; nothing is where ambient ones begin
	} {
		u := &Unit{set: map[string][]string{"CapabilityBoundingSet": c.lines}}
		if got := u.grants("CAP_NET_ADMIN"); got != c.bounding {
			t.Errorf("CapabilityBoundingSet=%q: %t", c.lines, got)
		}
		u.set = map[string][]string{"User": {"me"}, "AmbientCapabilities": c.lines}
		if got := u.grants("CAP_NET_ADMIN"); got != c.ambient {
			t.Errorf("AmbientCapabilities=%q: %t", c.lines, got)
		}
	}
}
