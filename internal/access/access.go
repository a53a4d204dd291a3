// Package access says who can change, or read, what a path names: by owner, mode and
// POSIX access control list. Those of NFSv4 are not known here.
package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Trusted are the users who may change what is looked at; root always may.
type Trusted []uint32

// OfRoot trusts nobody else.
var OfRoot = Trusted{}

// OfThisProcess trusts the user that this process is, too.
func OfThisProcess() Trusted { return Trusted{uint32(os.Geteuid())} }

func (t Trusted) has(uid uint32) bool { return uid == 0 || slices.Contains(t, uid) }

// String is "root" or "root and uid 7950".
func (t Trusted) String() string {
	text := "root"
	for _, uid := range t {
		if uid != 0 {
			text += fmt.Sprintf(" and uid %d", uid)
		}
	}
	return text
}

// Error is a right that somebody has who is not trusted, in one line.
type Error struct {
	Part  string // file or directory: the path that was asked for, or one on the way
	Found string // "writable by group 50 (mode -rwxrwxr-x)"
	Mend  string // "chmod g-w", to be followed by Part
	Owner bool   // it is of another owner
}

func (e *Error) Error() string { return e.Part + ": " + e.text() }

func (e *Error) text() string { return e.Found + ": " + e.Mend + " it" }

// Beside gives what Walk, Own or Private found for a sentence that has named path already.
func Beside(path string, err error) error {
	switch found := err.(type) {
	case *Error:
		if found.Part == path {
			return unnamed{found.text(), err}
		}
	case absent:
		if found.path == path {
			return unnamed{found.what, err}
		}
	}
	return err
}

// unnamed is an error without the path that its text begins with.
type unnamed struct {
	text string
	err  error
}

func (u unnamed) Error() string { return u.text }

func (u unnamed) Unwrap() error { return u.err }

// maxLinks is the kernel's own bound on symbolic links in one path.
const maxLinks = 40

// Walk walks the path as the kernel does, from the root and through every symbolic
// link, and reports the first part that somebody who is not trusted could change, as an
// *Error. For a path that does not exist the error is fs.ErrNotExist. The path is not
// cleaned before: after a link ".." means the target's parent.
func (t Trusted) Walk(path string) error {
	links := 0
	at, rest := "/", split(path)
	if err := t.checkPart(at); err != nil {
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
		if err := t.checkPart(next); err != nil {
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
			return fmt.Errorf("check access: %w", err)
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
		return fmt.Errorf("check access: %w", err)
	case part == path:
		return absent{path, "no such file on this host"}
	}
	return absent{path, fmt.Sprintf("no such file (%s does not exist)", part)}
}

// absent is the error for a path that does not exist.
type absent struct{ path, what string }

func (a absent) Error() string { return a.path + ": " + a.what }

// Is reports whether the error is fs.ErrNotExist, too.
func (a absent) Is(target error) bool { return target == fs.ErrNotExist }

// split keeps "..", unlike filepath.Clean.
func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// checkPart reports whether anyone who is not trusted can write to one file or directory,
// or exchange what it names. An owner can always give himself the right. In a sticky
// directory others may create names but not replace those of the trusted, and each name
// on the way is checked as well.
func (t Trusted) checkPart(part string) error {
	info, err := os.Lstat(part)
	if err != nil {
		return fmt.Errorf("check access: %w", err)
	}
	if err := t.owner(part, info); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 { // a link's own mode means nothing
		return nil
	}
	if info.IsDir() && info.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	return t.may(part, info, write)
}

// Own reports whether anyone who is not trusted can write to a file or directory, which is
// no link, or owns it: the first right found, as an *Error. What leads to it is Walk's.
func (t Trusted) Own(path string, info fs.FileInfo) error {
	if err := t.owner(path, info); err != nil {
		return err
	}
	return t.may(path, info, write)
}

// Private is Own, and nobody else can read it.
func (t Trusted) Private(path string, info fs.FileInfo) error {
	if err := t.Own(path, info); err != nil {
		return err
	}
	return t.may(path, info, read)
}

func (t Trusted) owner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("check access: %s: owner unknown", path)
	}
	if !t.has(stat.Uid) {
		return &Error{Part: path, Found: fmt.Sprintf("owned by uid %d (mode %v)", stat.Uid, info.Mode()), Mend: "chown " + t.first(), Owner: true}
	}
	return nil
}

// first is whose it should be: the first that is trusted, else root's.
func (t Trusted) first() string {
	if len(t) == 0 || t[0] == 0 {
		return "root"
	}
	return strconv.FormatUint(uint64(t[0]), 10)
}

// right is what somebody can do to a file, by its bits for a group, by those of a list, and
// in words.
type right struct {
	group, everyone fs.FileMode
	list            uint16
	able, letter    string
}

var (
	write = right{group: 0o020, everyone: 0o002, list: aclWrite, able: "writable", letter: "w"}
	read  = right{group: 0o040, everyone: 0o004, list: aclRead, able: "readable", letter: "r"}
)

func (t Trusted) may(path string, info fs.FileInfo, r right) error {
	entries, err := readACL(path)
	if err != nil {
		return err
	}
	gid := info.Sys().(*syscall.Stat_t).Gid // owner has seen that it is one
	perm := info.Mode().Perm()
	switch {
	case perm&r.everyone != 0:
		return &Error{Part: path, Found: fmt.Sprintf("%s by everyone (mode %v)", r.able, info.Mode()), Mend: "chmod o-" + r.letter}
	case len(entries) > 0:
		if e, ok := t.another(entries, gid, r.list); ok {
			return &Error{Part: path, Found: fmt.Sprintf("%s by another through the access control list (%v)", r.able, e), Mend: "setfacl -b"}
		}
	case perm&r.group != 0 && (gid != 0 || r == read): // root's group changes what is root's anyway
		return &Error{Part: path, Found: fmt.Sprintf("%s by group %d (mode %v)", r.able, gid, info.Mode()), Mend: "chmod g-" + r.letter}
	}
	return nil
}
