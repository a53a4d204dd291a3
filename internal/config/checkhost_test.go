package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// onDisk is a configuration whose directories exist.
func onDisk(t *testing.T, flags map[string]string) (*Config, string) {
	t.Helper()
	dir := t.TempDir()
	given := map[string][]string{"state-dir": {dir}, "socket": {filepath.Join(dir, "agent.sock")}, "insecure": {"true"}}
	for name, v := range flags {
		given[name] = []string{strings.ReplaceAll(v, "DIR", dir)}
	}
	for name, mode := range map[string]os.FileMode{"become": 0o755, "plain": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	return mustLoad(t, Source{Flags: given}, alpha()), dir
}

func TestCheckHost(t *testing.T) {
	for name, tt := range map[string]struct {
		flags map[string]string
		want  string // "" for nothing wrong
	}{
		"defaults":           {},
		"hook exists":        {flags: map[string]string{"on-become-leader": "DIR/become --fast && logger done"}},
		"hook of the shell":  {flags: map[string]string{"on-leader-change": "[ -e DIR/nothing ] || true"}},
		"hook by variable":   {flags: map[string]string{"on-leader-change": "$HOOKS/leader"}},
		"directory to come":  {flags: map[string]string{"state-dir": "DIR/a/b/c"}},
		"loopback elsewhere": {flags: map[string]string{"bind": "127.0.0.77:7950"}},
		"hook missing": {
			flags: map[string]string{"on-become-leader": "DIR/missing --fast"},
			want:  `--on-become-leader: "DIR/missing" does not exist: expected a program`,
		},
		"hook not executable": {
			flags: map[string]string{"on-lose-leadership": "DIR/plain"},
			want:  `--on-lose-leadership: "DIR/plain" is not executable (mode 0644): expected a program; hint: chmod +x DIR/plain`,
		},
		"hook is a directory": {
			flags: map[string]string{"on-lose-leadership": "DIR"},
			want:  `--on-lose-leadership: "DIR" is not a file: expected a program`,
		},
		"source exists": {flags: map[string]string{"join": "exec:DIR/become"}},
		"source missing": {
			flags: map[string]string{"join": "alpha,exec:DIR/missing"},
			want:  `--join: "DIR/missing" does not exist: expected a program`,
		},
		"source not executable": {
			flags: map[string]string{"join": "exec:DIR/plain"},
			want:  `--join: "DIR/plain" is not executable (mode 0644): expected a program; hint: chmod +x DIR/plain`,
		},
		"state below a file": {
			flags: map[string]string{"state-dir": "DIR/plain/state"},
			want:  `--state-dir: "DIR/plain/state" cannot be used: not a directory`,
		},
		"state is a file": {
			flags: map[string]string{"state-dir": "DIR/plain"},
			want:  `--state-dir: "DIR/plain" is not a directory: expected one that can be written`,
		},
		"socket in the state directory to come": {flags: map[string]string{"state-dir": "DIR/a/b", "socket": "DIR/a/b/agent.sock"}},
		"socket in no directory": {
			flags: map[string]string{"socket": "DIR/rnu/agent.sock"},
			want:  `--socket: there is no directory "DIR/rnu": expected one that exists; hint: make it, or leave the socket's path out`,
		},
		"socket is a file": {
			flags: map[string]string{"socket": "DIR/plain"},
			want:  `--socket: "DIR/plain" exists and is not a socket: expected a free name`,
		},
		"address of another host": {
			flags: map[string]string{"bind": "10.9.9.9:7950"},
			want:  `--bind: 10.9.9.9 is not an address of this host: expected one of 172.17.0.1, 10.0.0.1, fd00::1, 0.0.0.0, ::`,
		},
		"a device": {flags: map[string]string{"device": "eth0"}},
		"no such device": {
			flags: map[string]string{"device": "blue"},
			want:  `--device: "blue" is no interface of this host: expected one of lo, docker0, eth0`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, dir := onDisk(t, tt.flags)
			err := c.checkHost(alpha())
			if got := strings.ReplaceAll(report(errOrNone(err)), dir, "DIR"); got != wantReport(tt.want) {
				t.Errorf("got  %swant %s", got, wantReport(tt.want))
			}
		})
	}
}

var errNone = &Error{Message: "nothing", place: place{origin: fromFlag, name: "none"}, Where: "--none"}

func errOrNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

func wantReport(line string) string {
	if line == "" {
		line = errNone.Error()
	}
	return line + "\nexit 2\n"
}

func TestStateDirectoryThatCannotBeWritten(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	c, dir := onDisk(t, nil)
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := c.checkHost(alpha()); err == nil || !strings.Contains(err.Error(), "cannot be written: permission denied") {
		t.Errorf("got %v", err)
	}
}

func TestArgvIsCheckedAsAProgram(t *testing.T) {
	c, dir := onDisk(t, nil)
	for program, ok := range map[string]bool{
		dir + "/become": true, "sh": true, dir + "/plain": false, "no-such-program-here": false,
	} {
		c.Hooks.OnMemberChange = Command{Argv: []string{program}}
		if err := c.checkHost(alpha()); (err == nil) != ok {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// A certificate and its key are two settings: the line that is named is the one to look at.
func TestBadPairIsNamedAtItsSetting(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := os.WriteFile(cert, []byte("no PEM"), 0o644); err != nil {
		t.Fatal(err)
	}
	path := writeFile(t, "[http]\nlisten = \"0.0.0.0:7951\"\ncert_file = \""+cert+"\"\nkey_file = \""+key+"\"\n")
	c := mustLoad(t, Source{Path: path}, alpha())
	want := path + ":4:12: http.key_file: key of the certificate " + key + ": "
	if err := c.checkHost(alpha()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := os.WriteFile(key, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	want = path + ":3:13: http.cert_file: certificate " + cert + " and key " + key + ": expected a pair in PEM"
	if err := c.checkHost(alpha()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The package that runs hooks knows better what it would refuse.
func TestCallerChecksHooks(t *testing.T) {
	c, _ := onDisk(t, map[string]string{"on-become-leader": "DIR/missing"})
	var asked []string
	c.Look.Hook = func(cmd Command) error {
		asked = append(asked, cmd.Shell)
		return errors.New("/etc is writable by group (mode 0775)")
	}
	err := c.checkHost(alpha())
	if want := "--on-become-leader: /etc is writable by group (mode 0775)"; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if len(asked) != 1 {
		t.Errorf("asked about %q, want only the command that is set", asked)
	}
}
