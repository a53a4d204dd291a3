package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/key"
)

// someKey is a line of a key's file.
func someKey(t *testing.T) string {
	t.Helper()
	var secret [key.Size]byte
	copy(secret[:], "a secret that no message may tell")
	text := string(key.Ring{{ID: key.IDOf(secret), Secret: secret}}.Format())
	return strings.TrimSpace(text[strings.Index(text, "\nbully")+1:])
}

// Case 58: the key itself is refused wherever it can be seen, whatever it was called, and not repeated.
func TestCase58KeyAsFlagOrVariable(t *testing.T) {
	line := someKey(t)
	secret := line[strings.LastIndexByte(line, ' ')+1:]
	const refused = "a key was found: expected the path of a file, since others can read command lines, environments and this file; " +
		"hint: name its file; others may have seen this key, so if it is in use: bully-agent key revoke ID\n"
	for name, tt := range map[string]struct {
		src  Source
		file string
		want string
	}{
		"flag, a line":        {Source{Flags: map[string][]string{"key": {line}}}, "", "--key: " + refused + "exit 2\n"},
		"flag, the secret":    {Source{Flags: map[string][]string{"key": {secret}}}, "", "--key: " + refused + "exit 2\n"},
		"variable":            {Source{Env: environment("BULLY_KEY", secret), Names: []string{"BULLY_KEY"}}, "", "BULLY_KEY: " + refused + "exit 7\n"},
		"variable, a line":    {Source{Env: environment("BULLY_KEY", line), Names: []string{"BULLY_KEY"}}, "", "BULLY_KEY: " + refused + "exit 7\n"},
		"another variable":    {Source{Env: environment("BULLY_SECRET", secret), Names: []string{"BULLY_SECRET"}}, "", "BULLY_SECRET: " + refused + "exit 7\n"},
		"anybody's variable":  {Source{Env: environment("CLUSTER", "x\n"+line), Names: []string{"CLUSTER"}}, "", "CLUSTER: " + refused + "exit 7\n"},
		"the file":            {Source{}, "[network]\nkey = \"" + line + "\"\n", "FILE:2:7: network.key: " + refused + "exit 7\n"},
		"hexadecimal":         {Source{Flags: map[string][]string{"key": {strings.Repeat("0a", 32)}}}, "", "--key: " + refused + "exit 2\n"},
		"a path that is none": {Source{}, "[network]\nkey = \"keys/ours\"\n", "FILE:2:7: network.key: \"keys/ours\" is relative: expected an absolute path\nexit 7\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.file != "" {
				tt.src.Path = writeFile(t, tt.file)
			}
			_, err := load(tt.src, alpha())
			if err == nil {
				t.Fatal("taken")
			}
			if got := strings.ReplaceAll(report(err), tt.src.Path+":", "FILE:"); got != tt.want && tt.src.Path != "" || tt.src.Path == "" && report(err) != tt.want {
				t.Errorf("got  %swant %s", got, tt.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Error("the message tells the secret")
			}
		})
	}
}

// Variables that others need are nobody's keys.
func TestVariablesThatAreNoKeys(t *testing.T) {
	env := environment("TOKEN", strings.Repeat("k", 43), "BULLY_JOB_RUN_ID", strings.Repeat("k", 43), "BULLY_ON_BECOME_LEADER", "cp /srv/bully-key-1 /tmp")
	if _, err := load(Source{Env: env, Names: []string{"TOKEN", "BULLY_JOB_RUN_ID", "BULLY_ON_BECOME_LEADER"}}, alpha()); err != nil {
		t.Error(err)
	}
}

// Case 85: without a key an agent starts where nobody else can reach it, and nowhere else; the line has the two commands
// that mend it. A file that somebody named must be there.
func TestCase85StartWithoutAKey(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bully-agent-key")
	if err := os.WriteFile(file, []byte(someKey(t)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	noHome := alpha()
	noHome.root = false
	user := environment("HOME", filepath.Join(dir, "home"))
	for name, tt := range map[string]struct {
		host  host
		env   func(string) (string, bool)
		flags map[string]string
		keys  int
		want  string
	}{
		"loopback": {host: noHome, env: user, flags: map[string]string{"bind": "127.0.0.1:7950"}},
		"IPv6's":   {host: noHome, env: user, flags: map[string]string{"bind": "[::1]:7950"}},
		"insecure": {host: noHome, env: user, flags: map[string]string{"insecure": "true"}},
		"the LAN": {host: noHome, env: user, want: "network.key: there is no key in DIR/home/.config/bully-agent/key, and other hosts can reach 0.0.0.0:7950; " +
			"hint: on the first host: bully-agent key generate --key DIR/home/.config/bully-agent/key; on the others: scp -p FIRST:DIR/home/.config/bully-agent/key DIR/home/.config/bully-agent/key; " +
			"or run without, --insecure"},
		"one address": {host: noHome, env: environment("XDG_CONFIG_HOME", dir), flags: map[string]string{"bind": "10.0.0.1:7950"},
			want: "network.key: there is no key in DIR/bully-agent/key, and other hosts can reach 10.0.0.1:7950; hint: on the first host: bully-agent key generate --key DIR/bully-agent/key; " +
				"on the others: scp -p FIRST:DIR/bully-agent/key DIR/bully-agent/key; or run without, --insecure"},
		"no home": {host: noHome, env: environment("XDG_STATE_HOME", dir), want: "network.key: there is no key, and no home directory to look for one, " +
			"and other hosts can reach 0.0.0.0:7950; hint: name its file with --key, or run without, --insecure"},
		"a key":                 {host: alpha(), flags: map[string]string{"key": file}, keys: 1},
		"a key, and loopback":   {host: alpha(), flags: map[string]string{"key": file, "bind": "127.0.0.1:7950"}, keys: 1},
		"insecure, and a key":   {host: alpha(), flags: map[string]string{"key": file, "insecure": "true"}},
		"systemd's credential":  {host: alpha(), env: environment("CREDENTIALS_DIRECTORY", dir), keys: 1},
		"systemd without it":    {host: noHome, env: environment("CREDENTIALS_DIRECTORY", dir+"/none", "HOME", dir+"/home"), flags: map[string]string{"bind": "127.0.0.1:7950"}},
		"a file that is not it": {host: alpha(), flags: map[string]string{"key": dir}, want: "DIR: a directory: expected a file; hint: rmdir DIR; on the first host: bully-agent key generate --key DIR; on the others: scp -p FIRST:DIR DIR"},
		"named and not there": {host: alpha(), flags: map[string]string{"key": dir + "/none", "bind": "127.0.0.1:7950"},
			want: "DIR/none: there is no such file: expected one with keys; hint: on the first host: bully-agent key generate --key DIR/none; on the others: scp -p FIRST:DIR/none DIR/none"},
	} {
		t.Run(name, func(t *testing.T) {
			flags := map[string][]string{"state-dir": {dir}, "socket": {dir + "/sock"}}
			for flag, text := range tt.flags {
				flags[flag] = []string{text}
			}
			c, err := load(Source{Env: tt.env, Flags: flags}, tt.host)
			if err != nil {
				t.Fatal(err)
			}
			ring, err := c.Ring()
			switch {
			case tt.want == "" && err != nil, tt.want != "" && (err == nil || strings.ReplaceAll(err.Error(), dir, "DIR") != tt.want):
				t.Errorf("got  %v\nwant %s", err, tt.want)
			case len(ring) != tt.keys:
				t.Errorf("%d keys, want %d", len(ring), tt.keys)
			}
			var coded interface{ ExitCode() int }
			if err != nil && (!errors.As(err, &coded) || coded.ExitCode() != 7) {
				t.Errorf("%v has not the exit code 7", err)
			}
		})
	}
}
