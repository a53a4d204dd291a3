package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/durable"
)

// maxPath is the longest path of a unix socket: sun_path has 108 bytes, and
// the last is a NUL (unix(7)).
const maxPath = 107

// probeTimeout bounds the question whether somebody still listens on a socket
// found in the way. A live kernel answers at once; the number is arbitrary.
const probeTimeout = time.Second

// socket is a listening unix socket together with the lock that makes its path
// ours.
//
//  1. Nobody but the agent's user, root and the group of Access can connect, at no instant.
//  2. Of several agents that start at once on one path, one gets it.
//  3. Only a socket that nobody listens on is ever removed.
type socket struct {
	*net.UnixListener
	// lock is PATH.lock, flocked for as long as we listen; the kernel drops the
	// lock with the process. The file stays: removing it would let two agents
	// hold locks on two files of one name.
	lock   *os.File
	access access
}

// Close removes the socket, then gives the path up.
func (s *socket) Close() error {
	err := s.UnixListener.Close()
	s.lock.Close()
	return err
}

// Listen makes the agent's socket at path, mode 0600, and its directory, mode
// 0700, where that is missing; both for the group of a, too, if it names one. A socket that
// a dead agent left is replaced. It
// fails when path is longer than 107 bytes, when its directory is another user's or
// writable by others, or something on the way to it is, when something that is not a socket is in the way, and when a live
// process has the path, which it names. Close removes the socket.
func Listen(path string, a Access) (net.Listener, error) {
	l, err := listen(path, a)
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w: run as root, or choose a path of your own with --socket", err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on control socket %s: %w", path, err)
	}
	return l, nil
}

func listen(path string, a Access) (*socket, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	isNew, err := makeDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	lock, err := lockPath(path)
	if err != nil {
		return nil, err
	}
	l, err := bind(path)
	if err != nil {
		lock.Close()
		return nil, err
	}
	s := &socket{UnixListener: l, lock: lock, access: access{a, os.Geteuid()}}
	if err := a.open(path, isNew); err != nil {
		s.Close()
		return nil, fmt.Errorf("let the group in: %w", err)
	}
	return s, nil
}

// checkPath refuses what bind and connect would refuse with "invalid argument",
// and abstract names, which have no mode: any user of the host could connect.
func checkPath(path string) error {
	switch {
	case path == "":
		return errors.New("path is empty: give one with --socket or socket in [control]")
	case strings.HasPrefix(path, "@"):
		return errors.New("abstract socket names have no permissions: give the path of a file")
	case strings.ContainsRune(path, 0):
		return errors.New("path contains a NUL byte")
	case len(path) > maxPath:
		return fmt.Errorf("path has %d bytes, a unix socket may have %d: choose a shorter one", len(path), maxPath)
	}
	return nil
}

// makeDir makes dir if it is missing, and refuses one in which somebody else could
// put a socket of his own in place of ours.
func makeDir(dir string) (isNew bool, err error) {
	_, err = os.Stat(dir)
	isNew = errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("make directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return false, fmt.Errorf("check directory: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if uid := os.Geteuid(); ok && int(stat.Uid) != uid && stat.Uid != 0 {
		return false, fmt.Errorf("%s belongs to uid %d, who could pose as the agent: expected uid %d", dir, stat.Uid, uid)
	}
	if info.Mode().Perm()&0o020 != 0 && ok && stat.Gid != 0 {
		return false, fmt.Errorf("group %d may write to %s and so pose as the agent: chmod g-w it", stat.Gid, dir)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return false, fmt.Errorf("everybody may write to %s and so pose as the agent: use a directory of its own, such as %s",
			dir, filepath.Join(dir, ownDir))
	}
	if err := durable.CheckWay(dir); err != nil {
		return false, fmt.Errorf("others could pose as the agent: %w", err)
	}
	return isNew, nil
}

// lockPath takes the lock that goes with path.
func lockPath(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("lock %s.lock: %w", path, err)
	}
	if owner, alive, _ := probe(path); alive {
		return nil, inUse(owner.describe())
	}
	return nil, inUse("an agent that is just starting or stopping")
}

// bind puts a new socket at path. The caller holds the lock.
func bind(path string) (*net.UnixListener, error) {
	if err := clearPath(path); err != nil {
		return nil, err
	}
	// Linux makes the file with the mode of the socket's own inode, less the
	// umask. Setting that before bind leaves no moment in which others could
	// connect, and leaves the umask alone, which belongs to the whole process.
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var chmodErr error
		if err := c.Control(func(fd uintptr) { chmodErr = unix.Fchmod(int(fd), 0o600) }); err != nil {
			return err
		}
		return chmodErr
	}}
	l, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// clearPath removes the socket that a dead process left at path. Whatever may
// still be somebody's stays, and is an error.
func clearPath(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at what is there: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is in the way, expected a socket or nothing: move it or choose another path", kind(info.Mode()))
	}
	owner, alive, err := probe(path)
	if err != nil {
		return fmt.Errorf("ask who listens: %w", err)
	}
	if alive {
		return inUse(owner.describe())
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale socket: %w", err)
	}
	return nil
}

// probe connects to path and asks who listens. Only a refused connection, or no
// socket at all, proves that nobody does; with any other failure, such as a full
// queue, the listener counts as alive. The error is that this process could not ask.
func probe(path string) (owner peer, alive bool, err error) {
	c, err := net.DialTimeout("unix", path, probeTimeout)
	switch {
	case err == nil:
		defer c.Close()
		return peerOf(c), true, nil
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return peer{uid: -1}, false, nil
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOBUFS):
		return peer{uid: -1}, true, err
	}
	return peer{uid: -1}, true, nil
}

// Listener gives the pid of the process that listens on the socket at path; 0: none does, or nobody says which.
func Listener(path string) (pid int) {
	owner, _, _ := probe(path)
	return owner.pid
}

func inUse(by string) error {
	return fmt.Errorf("in use by %s: stop it or choose another path with --socket", by)
}

func kind(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "a regular file"
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSymlink:
		return "a symbolic link"
	}
	return "a special file"
}
