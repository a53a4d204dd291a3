package key

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/access"
	"github.com/bully-agent/bully-agent/internal/durable"
)

// Read reads the keys of a file that nobody can read but root, the user of this process and
// those also named, and that nobody else can put another in the place of. The error joins an *Error for each
// thing wrong: of the file's place, of its rights, or of its lines. It changes nothing. If
// there is no such file, the error is fs.ErrNotExist, too.
func Read(path string, also ...uint32) (Ring, error) {
	if err := checkKind(path); err != nil {
		return nil, err
	}
	trusted := append(access.OfThisProcess(), also...)
	problems := []error{checkParents(trusted, path)}
	// O_NOFOLLOW and O_NONBLOCK: whoever exchanges it now for a link or a pipe must not have us read or hang.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.Join(append(problems, cannotRead(path, err))...)
	}
	defer f.Close()
	info, err := f.Stat() // of what was opened
	if err != nil {
		return nil, cannotRead(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, ofKind(path, info.Mode())
	}
	problems = append(problems, checkRights(trusted, path, info))
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, cannotRead(path, err)
	}
	ring, err := Parse(path, text)
	clear(text)
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	return ring, nil
}

// ReadableBy asks, as root, whether a user could read the keys of a file, too. The error is an *Error with the command that
// lets him.
func ReadableBy(path, name string, uid, gid int) error {
	err := access.Readable(path, uid, gid)
	var denied *access.Denied
	if !errors.As(err, &denied) {
		return err
	}
	bad := &Error{File: path, Found: "user " + name + " cannot read it", Expected: "a file of this user", Mend: "chown " + Quoted(name) + " " + Quoted(path), cause: err}
	switch info, gone := os.Lstat(path); {
	case denied.IsOn:
		bad.Found += ", since " + shown(denied.Part) + " cannot be searched"
		bad.Expected, bad.Mend = "a directory that everyone can search", "chmod a+x "+Quoted(denied.Part)
	case gone == nil && info.Sys().(*syscall.Stat_t).Uid == uint32(uid):
		bad.Found += fmt.Sprintf(" (mode %v)", info.Mode())
		bad.Expected, bad.Mend = "a file that only its owner can read", "chmod 600 "+Quoted(path)
	}
	return bad
}

// checkKind finds what is no file, before it is opened.
func checkKind(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Error{File: path, Found: "there is no such file", Expected: "one with keys", Mend: HowToGet(path), cause: fs.ErrNotExist}
	case err != nil:
		return cannotRead(path, err)
	case !info.Mode().IsRegular():
		return ofKind(path, info.Mode())
	}
	return nil
}

func ofKind(path string, mode fs.FileMode) error {
	err := &Error{File: path, Found: access.Kind(mode), Expected: "a file", Mend: "rm " + Quoted(path) + "; " + HowToGet(path)}
	switch mode.Type() {
	case fs.ModeSymlink:
		err.Expected = "the file itself"
		if target, bad := filepath.EvalSymlinks(path); bad == nil {
			err.Mend = fmt.Sprintf("rm %s && cp -p %s %s", Quoted(path), Quoted(target), Quoted(path))
		}
	case fs.ModeDir:
		err.Mend = "rmdir " + Quoted(path) + "; " + HowToGet(path)
	case fs.ModeNamedPipe:
	default:
		err.Mend = anotherFile
	}
	return err
}

// anotherFile is for what a person meant something else by, and nobody should remove for a key.
const anotherFile = "name another file: --key FILE"

// Make makes a file with these keys for a user, and the directories that lead to it. It
// never takes the place of anything: then the error is fs.ErrExist, too, and nothing has
// changed, as after any other error but that of the disk.
func Make(path string, ring Ring, uid, gid int) error {
	if _, err := os.Lstat(path); err == nil {
		return exists(path)
	}
	trusted := append(access.OfThisProcess(), uint32(uid))
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) { // the first that is there, below which all is made
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			continue
		}
		if err := checkParents(trusted, filepath.Join(dir, "x")); err != nil {
			return inPlaceOf(path, err)
		}
		break
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return cannotWrite(path, err)
	}
	switch err := durable.Create(path, ring.Format(), uid, gid); {
	case errors.Is(err, fs.ErrExist):
		return exists(path)
	case err != nil:
		return cannotWrite(path, err)
	}
	return nil
}

// Replace puts these keys in the place of those in a file, whose owner stays.
func Replace(path string, ring Ring) error {
	info, err := os.Lstat(path)
	if err != nil {
		return cannotWrite(path, err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	if err := durable.ReplaceOf(path, ring.Format(), int(stat.Uid), int(stat.Gid)); err != nil {
		return cannotWrite(path, err)
	}
	return nil
}

func exists(path string) error {
	return &Error{File: path, Found: "it is there already", Expected: "no file, since a key is never overwritten",
		Mend: "bully-agent key status shows what is in it; bully-agent key rotate replaces it on all hosts", cause: fs.ErrExist}
}

// inPlaceOf says of what was found on the way to a file that it is the file's problem.
func inPlaceOf(path string, err error) error {
	var bad *Error
	if errors.As(err, &bad) {
		bad.File = path
	}
	return err
}

func cannotWrite(path string, err error) error {
	bad := &Error{File: path, Found: "it cannot be written: " + bare(err).Error(), Expected: fmt.Sprintf("a place where uid %d can write", os.Geteuid()),
		Mend: anotherFile, cause: err}
	if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
		bad.Found, bad.Expected, bad.Mend = fmt.Sprintf("uid %d cannot make a file of another user's", os.Geteuid()), "root", "sudo bully-agent key generate"
	}
	return bad
}

func checkParents(trusted access.Trusted, path string) error {
	err := trusted.Walk(filepath.Dir(path))
	var open *access.Error
	if !errors.As(err, &open) {
		return err
	}
	return &Error{File: path, Found: fmt.Sprintf("%s is %s", shown(open.Part), open.Found), Expected: "a directory that only " + trusted.String() + " can change",
		Mend: mendCommand(open), cause: err}
}

func checkRights(trusted access.Trusted, path string, info fs.FileInfo) error {
	err := trusted.Private(path, info)
	var open *access.Error
	if !errors.As(err, &open) {
		return err
	}
	bad := &Error{File: path, Found: open.Found, Expected: "a file that only " + trusted.String() + " can read", Mend: mendCommand(open), cause: err}
	if !open.Owner && open.Mend != "setfacl -b" {
		bad.Mend = "chmod 600 " + Quoted(path)
	}
	return bad
}

func mendCommand(open *access.Error) string { return open.Mend + " " + Quoted(open.Part) }

func cannotRead(path string, err error) error {
	bad := &Error{File: path, Found: "it cannot be read: " + bare(err).Error(), Expected: fmt.Sprintf("a file that uid %d can read", os.Geteuid()),
		Mend: anotherFile, cause: err}
	switch {
	case errors.Is(err, unix.ELOOP):
		return ofKind(path, fs.ModeSymlink)
	case errors.Is(err, fs.ErrPermission):
		bad.Mend = fmt.Sprintf("chown %d %s", os.Geteuid(), Quoted(path))
		if dir := closed(path); dir != "" {
			bad.Found = "it cannot be read, since " + shown(dir) + " cannot be searched"
			bad.Expected, bad.Mend = "a directory that everyone can search", "chmod a+x "+Quoted(dir)
		}
	}
	return bad
}

// closed is the first directory on the way that this process itself cannot search; "" if there is none.
func closed(path string) (dir string) {
	for at := filepath.Dir(path); ; at = filepath.Dir(at) {
		if unix.Access(at, unix.X_OK) != nil {
			dir = at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// bare drops the operation and the path, which the message has already.
func bare(err error) error {
	var bad *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &bad):
		return bad.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
