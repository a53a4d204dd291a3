package rights

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// User is an account of this host, and none of root's.
type User struct {
	Name     string
	UID, GID int
}

// Lookup finds an account by its name, or by its number, in /etc/passwd.
func Lookup(name string) (User, error) {
	found, err := user.Lookup(name)
	if _, bad := strconv.Atoi(name); err != nil && bad == nil {
		found, err = user.LookupId(name)
	}
	if err != nil {
		return User{}, fmt.Errorf("there is no user %s on this host", strconv.Quote(name))
	}
	u := User{Name: found.Username}
	if u.UID, err = strconv.Atoi(found.Uid); err == nil {
		u.GID, err = strconv.Atoi(found.Gid)
	}
	switch {
	case err != nil:
		return User{}, fmt.Errorf("user %s has no number: %w", strconv.Quote(name), err)
	case u.UID == 0 || u.GID == 0:
		return User{}, fmt.Errorf("user %s is root, or of root's group, which gives up nothing", strconv.Quote(name))
	}
	return u, nil
}

// errCgo is returned where threads cannot be reached that C code may have made.
var errCgo = errors.New("this program was built with cgo, which keeps it from giving up rights: build it with CGO_ENABLED=0")

// GiveUp makes this process u's, without any capability and with a filter of its system
// calls; only root, or u itself, can. After an error the process has some of its rights,
// and must end.
func GiveUp(u User) error {
	if uid := os.Geteuid(); uid != 0 && uid != u.UID {
		return fmt.Errorf("become user %s: only root can, and this process is uid %d", u.Name, uid)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"allow no new privileges", noNewPrivileges},
		{"empty the bounding set", dropBounding},
		{"empty the ambient set", clearAmbient},
		{"become user " + u.Name, u.become},
		{"empty the other sets of capabilities", dropCapabilities},
		{"be nobody's to look into", Hide},
		{"filter system calls", loadFilter},
		{"check", u.check},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// Hide keeps this process's memory out of core dumps, and from others of the same user.
func Hide() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// onAllThreads is prctl on each.
func onAllThreads(option, first, second uintptr) error {
	return reached(syscall.AllThreadsSyscall6(unix.SYS_PRCTL, option, first, second, 0, 0, 0))
}

func reached(_, _ uintptr, errno syscall.Errno) error {
	switch errno {
	case 0:
		return nil
	case syscall.ENOTSUP:
		return errCgo
	}
	return errno
}

// dropBounding empties the set that bounds what programs give by their files. It takes
// CAP_SETPCAP: without that, no new privileges must do.
func dropBounding() error {
	for c := range uintptr(64) {
		switch err := onAllThreads(unix.PR_CAPBSET_DROP, c, 0); {
		case errors.Is(err, unix.EINVAL): // the last that this kernel knows was the one before
			return nil
		case errors.Is(err, unix.EPERM) && os.Geteuid() != 0:
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// Become makes this process u's and leaves it the rest: no filter, and what u may do. Only root, or u itself, can.
func Become(u User) error { return u.become() }

// become changes all users and groups of all threads.
func (u User) become() error {
	if os.Geteuid() != 0 {
		return nil // it is u already
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setresgid(u.GID, u.GID, u.GID); err != nil {
		return err
	}
	return syscall.Setresuid(u.UID, u.UID, u.UID)
}

// dropCapabilities empties what is in force, permitted and inheritable.
func dropCapabilities() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return reached(syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none[0])), 0))
}

// check tries what must not be possible any more.
func (u User) check() error {
	real, effective, saved := unix.Getresuid()
	if real != u.UID || effective != u.UID || saved != u.UID {
		return fmt.Errorf("users are %d, %d and %d, and not %d", real, effective, saved, u.UID)
	}
	if unix.Setuid(0) == nil {
		return errors.New("this process can become root again")
	}
	return nil
}
