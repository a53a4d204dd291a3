package config

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"unicode/utf8"

	"github.com/bully-agent/bully-agent/internal/access"
)

// maxFile bounds the file. The reference file, with a comment on everything, has some 10 KiB.
const maxFile = 1 << 20

// readText reads a configuration file, and nothing that only looks like one: a directory, a pipe that would block for
// ever, an archive. Errors name what was found; the caller adds the path.
func readText(path string, root bool) ([]byte, *Error) {
	// O_NONBLOCK: opening a FIFO without a writer must not hang. It means nothing to a regular file.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, cannotOpen(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, cannotOpen(err)
	}
	if err := checkFile(info, root); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, cannotOpen(err)
	}
	return data, nil
}

// SetsNothing says whether a file is a configuration without a single setting: all of it is comments, or empty tables. One
// that cannot be read, or is none, may set something.
func SetsNothing(path string) bool {
	data, err := readText(path, false)
	if err == nil {
		data, err = checkText(data)
	}
	if err != nil {
		return false
	}
	doc, err := parseDocument(path, data)
	return err == nil && len(doc.entries) == 0 && !slices.ContainsFunc(doc.headers, func(h header) bool { return h.array })
}

// checkFile judges the opened file itself, so that nothing can be put in its place in between.
func checkFile(info fs.FileInfo, root bool) *Error {
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return wrong("it is %s: expected a TOML file", access.Kind(mode))
	case root && mode.Perm()&0o002 != 0:
		// What stands in [hooks] runs as root.
		return wrong("everyone may write it (mode %04o), and its hooks run as root", mode.Perm()).hint("chmod o-w")
	case info.Size() > maxFile:
		return tooLarge(info.Size())
	}
	return nil
}

func tooLarge(size int64) *Error {
	return wrong("it is %d bytes long: expected at most %d", size, maxFile)
}

func cannotOpen(err error) *Error {
	problem := wrong("cannot be read: %s", bare(err))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		problem.hint("all defaults work with no file at all")
	case errors.Is(err, fs.ErrPermission):
		problem.hint("it must be readable by uid %d", os.Geteuid())
	}
	return problem
}

// checkText accepts what may be TOML, without a byte order mark. Carriage returns are TOML's business.
func checkText(data []byte) ([]byte, *Error) {
	if len(data) > maxFile {
		return nil, tooLarge(int64(len(data)))
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, wrong("it is UTF-16: expected UTF-8").hint("save it as UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return nil, wrong("it is not text (a NUL at byte %d): expected TOML", i)
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			err := wrong("byte 0x%02x is not UTF-8: expected TOML", data[i]).hint("save the file as UTF-8")
			err.place.line, err.place.col = newLines(data).position(i)
			return nil, err
		}
		i += size
	}
	return data, nil
}
