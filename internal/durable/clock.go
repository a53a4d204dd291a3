package durable

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BootTime reads CLOCK_BOOTTIME, which all processes of a machine share, which goes on
// while the machine is suspended, and which nobody can set.
func BootTime() time.Duration {
	var ts unix.Timespec
	// Raw, since it does not block: around a system call that might the runtime wakes a thread.
	if _, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("BUG: CLOCK_BOOTTIME: " + errno.Error()) // there since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}
