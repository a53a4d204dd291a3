package realtime

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// lockMemory keeps the kernel from taking pages away that it must then read back from
// a busy disk, and says in words what came of it. What was never touched stays
// out (MCL_ONFAULT), so it costs nothing but that.
//
// Future mappings are locked only where no limit is: beyond one mmap fails, and Go's
// runtime takes that for the end of memory. Root is above the limit, and may stop
// being root.
func lockMemory() string {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return "not locked: " + err.Error()
	}
	flags, said := unix.MCL_CURRENT|unix.MCL_ONFAULT, "locked, except what was added since the start"
	if limit.Cur == unix.RLIM_INFINITY {
		flags, said = flags|unix.MCL_FUTURE, "locked"
	}
	err := unix.Mlockall(flags)
	switch {
	case err == nil:
		return said
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EPERM):
		return fmt.Sprintf("not locked: RLIMIT_MEMLOCK is %d KiB", limit.Cur>>10)
	}
	return "not locked: " + err.Error()
}
