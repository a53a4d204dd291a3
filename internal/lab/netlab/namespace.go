package netlab

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is the name of a network namespace, as ip-netns(8) knows it: `ip netns exec` works on ours.
type Namespace string

const namespaceDir = "/run/netns" // where ip-netns(8) looks

// Path is that of a file by which others can enter the namespace: setns(2).
func (n Namespace) Path() string { return filepath.Join(namespaceDir, string(n)) }

// make makes the namespace.
func (n Namespace) make() error {
	err := onThreadOfItsOwn(func() error {
		space, err := netns.NewNamed(string(n)) // and the thread is in it
		if err != nil {
			return err
		}
		return space.Close()
	})
	if err != nil {
		return fmt.Errorf("add namespace %s: %w", n, err)
	}
	return nil
}

// Remove takes the name away, and the namespace goes when nothing is left that is in it.
func (n Namespace) Remove() {
	_ = unix.Unmount(n.Path(), unix.MNT_DETACH) // not mounted if its making failed half way
	_ = os.Remove(n.Path())
}

func (n Namespace) open() (netns.NsHandle, error) {
	space, err := netns.GetFromPath(n.Path())
	if err != nil {
		return space, fmt.Errorf("open namespace %s: %w", n, err)
	}
	return space, nil
}

func (n Namespace) links() (*netlink.Handle, error) {
	space, err := n.open()
	if err != nil {
		return nil, err
	}
	defer space.Close()
	return netlink.NewHandleAt(space)
}

// Within runs f in the namespace, on a thread of its own. Sockets that f opens stay there.
func (n Namespace) Within(f func() error) error {
	return onThreadOfItsOwn(func() error {
		space, err := n.open()
		if err != nil {
			return err
		}
		defer space.Close()
		if err := netns.Set(space); err != nil {
			return fmt.Errorf("enter namespace %s: %w", n, err)
		}
		return f()
	})
}

// Visit runs f in the namespace on the calling thread, which must be locked and never be unlocked.
func (n Namespace) Visit(f func() error) error {
	space, err := n.open()
	if err != nil {
		return err
	}
	defer space.Close()
	home, err := netns.Get()
	if err != nil {
		return fmt.Errorf("find own network namespace: %w", err)
	}
	defer home.Close()
	if err := netns.Set(space); err != nil {
		return fmt.Errorf("enter namespace %s: %w", n, err)
	}
	done := f()
	if err := netns.Set(home); err != nil {
		panic("BUG: leave network namespace: " + err.Error())
	}
	return done
}

// onThreadOfItsOwn runs f on a thread that is never used again, since it could not be trusted to be where it was.
func onThreadOfItsOwn(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		result <- f()
	}()
	return <-result
}

// Processes lists what runs in the namespace, this process excepted, whose first thread may have entered it.
func (n Namespace) Processes() (pids []int) {
	var space syscall.Stat_t
	if syscall.Stat(n.Path(), &space) != nil {
		return nil
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		var its syscall.Stat_t
		// It fails for one that has ended.
		if err := syscall.Stat(filepath.Join("/proc", e.Name(), "ns/net"), &its); err == nil && its.Dev == space.Dev && its.Ino == space.Ino {
			pids = append(pids, pid)
		}
	}
	return pids
}

// KillAll ends what runs in the namespace.
func (n Namespace) KillAll() {
	for _, pid := range n.Processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// Namespaces lists those of the machine whose names begin with prefix.
func Namespaces(prefix string) (found []Namespace) {
	entries, _ := os.ReadDir(namespaceDir) // missing: there are none
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			found = append(found, Namespace(e.Name()))
		}
	}
	return found
}

// Orphans lists the namespaces of a kind whose maker was killed before it could remove them.
func Orphans(kind string) (found []Namespace) {
	for _, n := range Namespaces(kind) {
		if IsOrphan(kind, string(n)) {
			found = append(found, n)
		}
	}
	return found
}

var makerOf = regexp.MustCompile(`^([0-9]+)(-|$)`)

// IsOrphan reports whether name is a kind, the number of a process that is gone, and no more or a dash and more. A number
// that another process has taken keeps the remains.
func IsOrphan(kind, name string) bool {
	rest, isOfKind := strings.CutPrefix(name, kind)
	m := makerOf.FindStringSubmatch(rest)
	if !isOfKind || m == nil {
		return false
	}
	pid, err := strconv.Atoi(m[1])
	return err == nil && pid > 0 && unix.Kill(pid, 0) == unix.ESRCH
}
