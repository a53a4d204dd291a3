// Package trust says whether a command may be run: it exists, and nobody but root can change what
// root runs.
package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/access"
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
func Check(cmd hooks.Command) error {
	return check(cmd, os.Geteuid() == 0)
}

func check(cmd hooks.Command, root bool) error {
	if err := checkFirst(cmd, root); err != nil || !root {
		return err
	}
	return checkWords(cmd)
}

// checkFirst looks at the file that the command begins with, which must exist.
func checkFirst(cmd hooks.Command, root bool) error {
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
		if err := CheckPath(path); err != nil {
			return err
		}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such file on this host", path)
	case err != nil:
		return fmt.Errorf("check command: %w", err)
	case info.IsDir():
		return fmt.Errorf("%s: is a directory, expected an executable file", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: is not a regular file (%v), expected an executable file", path, info.Mode())
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s: not executable (mode %04o): chmod +x it", path, info.Mode().Perm())
	}
	return nil
}

// CheckPath reports the first part of an absolute path, links included, that somebody else
// than root could change. For one that does not exist the error is fs.ErrNotExist.
func CheckPath(path string) error {
	err := access.OfRoot.Walk(path)
	if open := (*access.Error)(nil); errors.As(err, &open) {
		advice := fmt.Sprintf("%s, and the agent runs as root: %s it", open.Found, open.Mend)
		if open.Owner {
			advice += ", or run the agent as that user"
		}
		return fmt.Errorf("%s: %s", open.Part, advice)
	}
	return err
}
