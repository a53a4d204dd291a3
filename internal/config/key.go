package config

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/bully-agent/bully-agent/internal/key"
)

// keyField is a path that refuses to be the key itself, and does not repeat it.
var keyField = field{
	parse: func(l *loader, v value) *Error {
		if s, isText := v.data.(string); isText && key.LooksLikeSecret(s) {
			return exposed()
		}
		s, err := l.parsePath(v)
		if err == nil {
			l.config.Network.Key = s
		}
		return err
	},
	get: func(c *Config) any { return c.Network.Key },
}

// exposed is the error for a key where it does not belong. Others may have seen it: it is of no use any more.
func exposed() *Error {
	return wrong("a key was found: expected the path of a file, since others can read command lines, environments and this file").
		hint("name its file; others may have seen this key, so if it is in use: bully-agent key revoke ID")
}

// refuseSecrets refuses keys in the environment, which hooks and jobs inherit, whatever the variable is called.
func (l *loader) refuseSecrets() {
	for _, name := range slices.Sorted(slices.Values(l.src.Names)) {
		text, _ := l.src.Env(name)
		isMeant := name != "BULLY_KEY" && secretName.MatchString(name) && key.LooksLikeSecret(text)
		if isMeant || name != "BULLY_KEY" && key.HoldsSecret(text) {
			l.report(exposed().at(place{origin: fromEnv, name: Printable(cut(name))}, ""))
		}
	}
}

// secretName is what somebody would call a variable who expects it to be read. BULLY_KEY is a setting.
var secretName = regexp.MustCompile(`^BULLY_.*(KEY|SECRET|PSK|PASS|TOKEN)`)

// Credential is the name under which systemd hands the keys to the agent (LoadCredential=).
const Credential = "bully-agent-key"

// defaultKey is systemd's credential, if there is one; else root's file or the user's, or "" when there is no home directory.
func (l *loader) defaultKey() string {
	if dir, _ := l.src.Env("CREDENTIALS_DIRECTORY"); filepath.IsAbs(dir) {
		path := filepath.Join(dir, Credential)
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	if l.host.root {
		return key.DefaultPath
	}
	if dir, _ := l.src.Env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "bully-agent/key")
	}
	if home := l.home(); home != "" {
		return filepath.Join(home, ".config/bully-agent/key")
	}
	return ""
}

// agentUser is whom the process that reads the network becomes: the key may be that user's.
func (c *Config) agentUser() []uint32 {
	u, err := user.Lookup(c.Node.User)
	if c.Node.User == "" || err != nil {
		return nil // who does not exist is told by the setting's own check
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil
	}
	return []uint32{uint32(uid)}
}

// Ring reads the keys. It is empty, without an error, under Insecure, and where no key is named or found and only this host
// can reach the agent. The error joins a line for each thing wrong, with an ExitCode; it tells nothing of a key.
func (c *Config) Ring() (key.Ring, error) {
	n := c.Network
	if n.Insecure {
		return nil, nil
	}
	isNamed := c.places["network.key"].origin != fromDefault
	if n.Key != "" {
		ring, err := key.Read(n.Key, append(c.agentUser(), c.Look.KeyOwners...)...)
		if err == nil || isNamed || !errors.Is(err, fs.ErrNotExist) {
			return ring, err
		}
	}
	if n.Bind.Addr().IsLoopback() {
		return nil, nil
	}
	if n.Key == "" {
		return nil, wrong("there is no key, and no home directory to look for one, and other hosts can reach %s", n.Bind).
			hint("name its file with --key, or run without, --insecure").at(place{}, "network.key")
	}
	return nil, wrong("there is no key in %s, and other hosts can reach %s", n.Key, n.Bind).
		hint("%s; or run without, --insecure", key.HowToGet(n.Key)).
		at(place{}, "network.key")
}
