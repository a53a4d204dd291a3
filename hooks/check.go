package hooks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Check reports whether a command may be run: it exists, is an executable file
// and, when this process is root, nobody but root can change it. It is asked when
// the configuration is read and again before every run, since what was safe at
// start need not be safe now (docs/security.md; keepalived asks only at start).
//
// The array form names its file. Of the shell form a first word that is an absolute
// path must exist; what else is found in either is checkWords's. Between the
// check and execve nobody but root can exchange the file, because every directory
// on the way was checked too.
func Check(cmd Command) error {
	return check(cmd, os.Geteuid() == 0)
}

func check(cmd Command, root bool) error {
	if err := checkFirst(cmd, root); err != nil || !root {
		return err
	}
	return checkWords(cmd)
}

// checkFirst looks at the file that the command begins with, which must exist.
func checkFirst(cmd Command, root bool) error {
	switch {
	case cmd.IsZero():
		return nil
	case cmd.Shell != "" && len(cmd.Argv) > 0:
		return errors.New("command has both a shell string and an argument array: keep one of them")
	case cmd.Shell != "":
		if path := firstWord(cmd.Shell); filepath.IsAbs(path) {
			return checkFile(path, root)
		}
		return nil
	case !filepath.IsAbs(cmd.Argv[0]):
		return fmt.Errorf("command %q: an argument array must begin with an absolute path, for example [\"/usr/local/bin/%s\"]",
			cmd.Argv[0], filepath.Base(cmd.Argv[0]))
	}
	return checkFile(cmd.Argv[0], root)
}

// firstWord is the path that a shell line begins with, or empty when the shell
// would have to expand something to know it.
func firstWord(line string) string {
	line = strings.TrimLeft(line, " \t\n")
	word := line
	if line != "" && (line[0] == '"' || line[0] == '\'') {
		inner, rest, closed := strings.Cut(line[1:], line[:1])
		if !closed || rest != "" && !strings.ContainsAny(rest[:1], wordEnd) {
			return ""
		}
		word = inner
	} else if end := strings.IndexAny(line, wordEnd); end >= 0 {
		word = line[:end]
	}
	if strings.ContainsAny(word, "$`\\*?[\"'") {
		return ""
	}
	return word
}

// wordEnd are the characters that end a word of a shell line.
const wordEnd = " \t\n;|&<>()"

func checkFile(path string, root bool) error {
	if root {
		if err := checkTrust(path); err != nil {
			return err
		}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such file on this host", path)
	case err != nil:
		return fmt.Errorf("check hook: %w", err)
	case info.IsDir():
		return fmt.Errorf("%s: is a directory, expected an executable file", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: is not a regular file (%v), expected an executable file", path, info.Mode())
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s: not executable (mode %04o): chmod +x it", path, info.Mode().Perm())
	}
	return nil
}

// maxLinks is the kernel's own bound on symbolic links in one path.
const maxLinks = 40

// checkTrust walks the path as the kernel does, from the root and through every
// symbolic link, and reports the first part that somebody else than root could
// change.
func checkTrust(path string) error {
	links := 0
	at, rest := "/", split(path)
	if err := checkPart(at); err != nil {
		return err
	}
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at) // already checked on the way in
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return missing(path, next, err)
		}
		if err := checkPart(next); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return fmt.Errorf("%s: more than %d symbolic links, a loop?", path, maxLinks)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return fmt.Errorf("check hook: %w", err)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(split(target), rest...)
	}
	return nil
}

func missing(path, part string, err error) error {
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("check hook: %w", err)
	case part == path:
		return absent(path + ": no such file on this host")
	}
	return absent(fmt.Sprintf("%s: no such file (%s does not exist)", path, part))
}

// absent is the error for a path that does not exist.
type absent string

func (a absent) Error() string { return string(a) }

// Is reports whether the error is fs.ErrNotExist, too.
func (a absent) Is(target error) bool { return target == fs.ErrNotExist }

// split keeps "..", unlike filepath.Clean: after a link it means the target's
// parent.
func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// checkPart reports whether anyone but root can write to one file or directory,
// or exchange what it names, by its mode or by a POSIX access control list; those of
// NFSv4 are not known here. An owner can always give himself the right. In a
// sticky directory others may create names but not replace root's, and each name
// on the way is checked as well.
func checkPart(part string) error {
	info, err := os.Lstat(part)
	if err != nil {
		return fmt.Errorf("check hook: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("check hook: %s: owner unknown", part)
	}
	if stat.Uid != 0 {
		return fmt.Errorf("%s: owned by uid %d (mode %v), and the agent runs as root: chown root it, or run the agent as that user",
			part, stat.Uid, info.Mode())
	}
	if info.Mode()&fs.ModeSymlink != 0 { // a link's own mode means nothing
		return nil
	}
	if info.IsDir() && info.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	entries, err := readACL(part)
	if err != nil {
		return err
	}
	switch perm := info.Mode().Perm(); {
	case perm&0o002 != 0:
		return fmt.Errorf("%s: writable by everyone (mode %v), and the agent runs as root: chmod o-w it", part, info.Mode())
	case len(entries) > 0:
		if e, ok := aclWriter(entries, stat.Gid); ok {
			return fmt.Errorf("%s: writable by another through the access control list (%v), and the agent runs as root: setfacl -b it", part, e)
		}
	case perm&0o020 != 0 && stat.Gid != 0:
		return fmt.Errorf("%s: writable by group %d (mode %v), and the agent runs as root: chmod g-w it", part, stat.Gid, info.Mode())
	}
	return nil
}
