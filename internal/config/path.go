package config

import (
	"errors"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// path reads an absolute path. On the command line and in the environment a relative one means the directory that the
// user is in; in a file it would mean another place for each way of starting the agent, and is refused.
func path(at func(*Config) *string) field {
	return field{
		parse: func(l *loader, v value) *Error {
			s, err := l.parsePath(v)
			if err == nil {
				*at(l.config) = s
			}
			return err
		},
		get: func(c *Config) any { return *at(c) },
	}
}

func (l *loader) parsePath(v value) (string, *Error) {
	const expected = "an absolute path"
	s, err := v.text(expected)
	switch {
	case err != nil:
		return "", err
	case s == "":
		return "", wrong("it is empty: expected %s", expected)
	case strings.ContainsRune(s, 0):
		return "", wrong("%s holds a NUL: expected %s", quote(s), expected)
	case filepath.IsAbs(s):
		return filepath.Clean(s), nil
	case v.place.origin == fromFile:
		err := wrong("%s is relative: expected %s", quote(s), expected)
		if strings.HasPrefix(s, "~") || strings.HasPrefix(s, "$") {
			err.hint("~ and variables are not expanded")
		}
		return "", err
	}
	dir, bad := l.host.workdir()
	if bad != nil {
		return "", wrong("%s is relative, and the working directory is unknown: %s", quote(s), bad)
	}
	return filepath.Join(dir, s), nil
}

// maxSocket is the length of a unix socket's name: sun_path is 108 bytes, the last of which is NUL.
const maxSocket = 107

var socketField = field{
	parse: func(l *loader, v value) *Error {
		s, err := l.parsePath(v)
		if err == nil {
			err = checkSocket(s)
		}
		if err == nil {
			l.config.Control.Socket = s
		}
		return err
	},
	get: func(c *Config) any { return c.Control.Socket },
}

func checkSocket(s string) *Error {
	if len(s) > maxSocket {
		return wrong("%s is %d bytes long: expected at most %d, the kernel's bound for a socket", quote(s), len(s), maxSocket)
	}
	return nil
}

// defaultStateDir is where the default id and epoch live, or "" when there is no home directory.
func (l *loader) defaultStateDir() string {
	if l.host.root {
		return filepath.Join("/var/lib", l.ownName())
	}
	// A relative XDG path is to be ignored (XDG base directory specification).
	if dir, _ := l.src.Env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, l.ownName())
	}
	if home := l.home(); home != "" {
		return filepath.Join(home, ".local/state", l.ownName())
	}
	return ""
}

// home is the user's home directory, or "". One that this user may not search is another's: who becomes another user by
// sudo, setpriv or su keeps HOME in places.
func (l *loader) home() string {
	home, _ := l.src.Env("HOME")
	if !filepath.IsAbs(home) || errors.Is(unix.Access(home, unix.X_OK), unix.EACCES) {
		return ""
	}
	return home
}

func (l *loader) ownName() string { return OwnName(l.src.Instance) }

func (l *loader) defaultSocket(stateDir string) string {
	if l.host.root {
		return systemSocket(l.src.Instance)
	}
	if dir, _ := l.src.Env("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, l.ownName(), "agent.sock")
	}
	if stateDir == "" {
		return ""
	}
	return filepath.Join(stateDir, "agent.sock")
}
