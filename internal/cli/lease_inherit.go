package cli

import (
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// What exec and hold pass on of what they were started with, besides the environment.

// inherited lists the descriptors above 2 that this process was started with: its own
// are all closed on exec.
func inherited() (fds []int) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd < 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	slices.Sort(fds)
	return fds
}

// activated has a command that sockets were passed to find itself in LISTEN_PID, where
// whoever started us has put our number (sd_listen_fds(3)). Only the process itself
// knows its own in time.
func activated(argv []string) []string {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return argv
	}
	return append([]string{"/bin/sh", "-c", `export LISTEN_PID=$$; exec "$@"`, "sh"}, argv...)
}

// keyboard is what the command reads from. It is in a session of its own, so that the
// terminal does not stop it when it reads in the background, as it does others: it
// would take what is typed for the shell. So it gets nothing then.
func keyboard(in *os.File) *os.File {
	if in == nil {
		return nil
	}
	foreground, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCGPGRP) // fails unless it is our terminal
	if err == nil && foreground != unix.Getpgrp() {
		return nil
	}
	return in
}
