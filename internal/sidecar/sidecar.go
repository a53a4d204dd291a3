// Package sidecar has what the processes beside an agent, its keeper and the guards, have
// in common: they are this program again, started with a socket, they outlive whoever
// started them, and all tell deadlines by one clock.
package sidecar

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/realtime"
)

// SocketPair gives the starter's end of a SEQPACKET socket, which does not block, and the
// sidecar's, which does.
func SocketPair(name string) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket: %w", err)
	}
	err = unix.SetNonblock(fds[0], true) // before there is a file of it, which asks
	ours, theirs = os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), "agent")
	if err != nil {
		ours.Close()
		theirs.Close()
		return nil, nil, fmt.Errorf("make socket: %w", err)
	}
	return ours, theirs, nil
}

// ErrByHand is the answer to people who start a sidecar.
var ErrByHand = errors.New("this is a part of the agent, which starts it itself")

// CheckSocket says whether such a socket was inherited as that descriptor.
func CheckSocket(fd int) error {
	if typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || typ != unix.SOCK_SEQPACKET {
		return ErrByHand
	}
	return nil
}

// Environ is a sidecar's environment: what hooks inherit from an agent, what keeps a Go
// program small, and real time if the agent has it.
func Environ() []string {
	env := append(realtime.Environ(), "GOMAXPROCS=1", "GOGC=50")
	for _, name := range []string{"PATH", "HOME", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// MemoryFile holds a text that may be longer than a message or a pipe.
func MemoryFile(name string, text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	return f, nil
}
