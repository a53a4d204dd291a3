package control

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// leaveStale makes the socket of an agent that was killed.
func leaveStale(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
}

func mustListen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := Listen(path, Access{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func refusedListen(t *testing.T, path string, says ...string) {
	t.Helper()
	l, err := Listen(path, Access{})
	if err == nil {
		l.Close()
		t.Fatalf("Listen(%s, Access{}) took the path", path)
	}
	for _, text := range append(says, "listen on control socket") {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error lacks %q: %v", text, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error is not one line: %q", err)
	}
}

func checkMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != want {
		t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
	}
}

func TestSocketIsPrivateWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077, 0o177} {
		t.Run(fmt.Sprintf("%03o", umask), func(t *testing.T) {
			path := socketPath(t)
			old := syscall.Umask(umask)
			defer syscall.Umask(old)
			mustListen(t, path)
			checkMode(t, path, fs.ModeSocket|0o600)
			checkMode(t, path+".lock", 0o600)
		})
	}
}

func TestMissingDirectoryIsMadePrivate(t *testing.T) {
	dir := filepath.Join(filepath.Dir(socketPath(t)), "run", "bully")
	mustListen(t, filepath.Join(dir, "agent.sock"))
	checkMode(t, dir, fs.ModeDir|0o700)
}

func TestCloseFreesThePath(t *testing.T) {
	path := socketPath(t)
	for range 2 {
		l := mustListen(t, path)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Fatalf("socket is still there after Close: %v", err)
		}
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := socketPath(t)
	leaveStale(t, path)
	l := mustListen(t, path)
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}()
	connect(t, path)
}

func TestLiveSocketIsLeftAlone(t *testing.T) {
	me := fmt.Sprintf("in use by pid %d", os.Getpid())
	t.Run("of another agent", func(t *testing.T) {
		path := socketPath(t)
		mustListen(t, path)
		refusedListen(t, path, me, "--socket")
		connect(t, path)
	})
	t.Run("of a program that takes no lock", func(t *testing.T) {
		path := socketPath(t)
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		refusedListen(t, path, me)
		connect(t, path)
	})
	t.Run("whose file was removed by hand", func(t *testing.T) {
		path := socketPath(t)
		mustListen(t, path)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		refusedListen(t, path, "in use by an agent that is just starting or stopping")
	})
	t.Run("whose queue is full", func(t *testing.T) {
		path := socketPath(t)
		fillQueue(t, path)
		refusedListen(t, path, "in use by a process that does not answer")
		checkMode(t, path, fs.ModeSocket|0o755)
	})
}

// fillQueue makes a listener that accepts nobody and has no room for more.
func fillQueue(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	connect(t, path)
}

// Agents that start at once on one stale path are the case in which "dial,
// remove, bind" without a lock removes a socket that was just made.
func TestOfManyThatStartAtOnceOneListens(t *testing.T) {
	path := socketPath(t)
	leaveStale(t, path)
	const starters = 16
	won := make(chan net.Listener, starters)
	start := make(chan struct{})
	var all sync.WaitGroup
	for range starters {
		all.Go(func() {
			<-start
			if l, err := Listen(path, Access{}); err == nil {
				won <- l
			}
		})
	}
	close(start)
	all.Wait()
	if len(won) != 1 {
		t.Errorf("%d listen on one path", len(won))
	}
	connect(t, path)
	for range len(won) {
		(<-won).Close()
	}
}

func TestWhatIsNoSocketIsNotDeleted(t *testing.T) {
	tests := map[string]func(path string) error{
		"a regular file":  func(path string) error { return os.WriteFile(path, []byte("notes"), 0o600) },
		"a directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"a symbolic link": func(path string) error { return os.Symlink("elsewhere", path) },
		"a special file":  func(path string) error { return unix.Mkfifo(path, 0o600) },
	}
	for kind, put := range tests {
		t.Run(kind, func(t *testing.T) {
			path := socketPath(t)
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			refusedListen(t, path, kind+" is in the way")
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) {
				t.Errorf("it was replaced: %v", err)
			}
		})
	}
}

func TestBadPathsAreRefused(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(dir, "linked.sock")
	if err := os.Symlink(file, lock+".lock"); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ path, says string }{
		"empty":               {"", "path is empty"},
		"abstract":            {"@agent", "no permissions"},
		"NUL":                 {dir + "/a\x00b", "NUL"},
		"108 bytes":           {dir + "/" + strings.Repeat("x", maxPath-len(dir)), "path has 108 bytes, a unix socket may have 107"},
		"in a file":           {file + "/agent.sock", "make directory"},
		"everybody may write": {open + "/agent.sock", "use a directory of its own, such as " + open + "/bully-agent"},
		"lock is somebody's":  {lock, "open lock file"},
		"a directory":         {dir + "/", "a directory is in the way"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { refusedListen(t, tt.path, tt.says) })
	}
}

// Whoever could exchange a directory on the way would have clients of root ask him.
func TestDirectoriesOnTheWayAreLookedAt(t *testing.T) {
	way := filepath.Join(t.TempDir(), "way")
	if err := os.MkdirAll(filepath.Join(way, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(way, 0o777); err != nil {
		t.Fatal(err)
	}
	refusedListen(t, filepath.Join(way, "run", "agent.sock"), "others could pose as the agent", way+": writable by everyone", "chmod o-w it")
	if err := os.Chmod(way, 0o755); err != nil {
		t.Fatal(err)
	}
	mustListen(t, filepath.Join(way, "run", "agent.sock"))
}

func TestPathOf107BytesIsTaken(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	path := dir + "/" + strings.Repeat("x", maxPath-len(dir)-1)
	mustListen(t, path)
	connect(t, path)
}

func TestPeerIsWhoTheKernelSays(t *testing.T) {
	path := socketPath(t)
	l := peerListener{mustListen(t, path)}
	connect(t, path)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := fmt.Sprintf("pid %d uid %d", os.Getpid(), os.Getuid())
	if got := c.RemoteAddr().String(); got != want {
		t.Errorf("peer is %q, want %q", got, want)
	}
	if a, b := net.Pipe(); (access{owner: os.Geteuid()}).grants(peerOf(a), Act) {
		b.Close()
		t.Error("a connection without credentials may change things")
	}
}

// dialAs connects to path as another user. The kernel keeps credentials per
// thread, so one thread takes them, connects, and is thrown away.
func dialAs(t *testing.T, uid int, path string) net.Conn {
	t.Helper()
	type result struct {
		conn net.Conn
		err  error
	}
	dialled := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		keep := ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep); errno != 0 {
			dialled <- result{err: errno}
			return
		}
		c, err := net.Dial("unix", path)
		dialled <- result{c, err}
	}()
	r := receive(t, dialled, "dial as another user")
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { r.conn.Close() })
	return r.conn
}
