package rights

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Nobody is the account that owns nothing, by the number that it has on every Linux.
var Nobody = User{Name: "nobody", UID: 65534, GID: 65534}

// Confine leaves this process nothing but what it has open: no capability, no file, no socket and no process that it could
// make, open or signal. Root becomes nobody; any other user stays who it is, and so does root where it may not become
// another, as in a container. lacks says what this host does not bear, each in a clause; what is left of it holds. After
// an error the process has some of its rights, and must end. It dies with its parent from then on.
func Confine() (lacks []string, err error) {
	runtime.LockOSThread() // what cannot reach all threads reaches this one, whose filter goes to all
	defer runtime.UnlockOSThread()
	may := func(what string, do func() error) func() error {
		return func() error {
			err := do()
			for _, none := range []error{unix.EPERM, unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, errNoFilter} {
				if errors.Is(err, none) {
					lacks = append(lacks, fmt.Sprintf("%s: %v", what, err))
					return nil
				}
			}
			return err
		}
	}
	if isCgo() {
		lacks = append(lacks, "no Landlock, and sets of capabilities that stay: this program was built with cgo")
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"allow no new privileges", func() error { return cmp.Or(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), noNewPrivileges()) }},
		{"empty the bounding set", boundAsFarAsItMay},
		{"empty the ambient set", clearAmbient},
		{"become user nobody", may("it stays root without rights", Nobody.become)},
		{"empty the other sets of capabilities", dropCapabilities},
		{"be nobody's to look into", Hide},
		{"die with the parent", func() error { return onAllThreads(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0) }},
		{"close all paths", may("no Landlock", closePaths)},
		{"filter system calls", may("no seccomp", func() error {
			return loadProgram(func(m machine) []unix.SockFilter { return m.confinement(os.Getpid()) })
		})},
	} {
		if err := step.do(); err != nil && !errors.Is(err, errCgo) {
			return lacks, fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return lacks, nil
}

// isCgo: system calls cannot be made on all threads.
func isCgo() bool {
	return errors.Is(onAllThreads(unix.PR_GET_NO_NEW_PRIVS, 0, 0), errCgo)
}

func noNewPrivileges() error { return onAllThreads(unix.PR_SET_NO_NEW_PRIVS, 1, 0) }

func clearAmbient() error {
	return onAllThreads(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0)
}

// boundAsFarAsItMay leaves the bounding set to a root that may not empty it, as in a container that was given no
// capability: no new privileges do as well.
func boundAsFarAsItMay() error {
	if err := dropBounding(); !errors.Is(err, unix.EPERM) {
		return err
	}
	return nil
}

// ruleset is landlock_ruleset_attr: what is refused unless a rule allows it, and there is none.
type ruleset struct {
	files, net uint64
}

// landlocked are the rights that each version of Landlock has added, from the first.
var landlocked = []ruleset{1: {files: 1<<13 - 1}, 2: {files: 1 << 13}, 3: {files: 1 << 14}, 4: {net: 3}, 5: {files: 1 << 15}}

// closePaths has Landlock refuse every path, and every port.
func closePaths() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return errno
	}
	var all ruleset
	size := unsafe.Sizeof(all.files)
	for _, added := range landlocked[:min(int(version)+1, len(landlocked))] {
		all.files |= added.files
		if all.net |= added.net; all.net != 0 {
			size = unsafe.Sizeof(all)
		}
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&all)), size, 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(fd))
	return reached(syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0))
}
