package reader

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Door is what a reader needs to serve: the port, the boards, which it cannot write, and its end of the socket to the
// agent. It goes from the agent to its keeper, and from there to one reader after another.
type Door struct {
	port, boards, socket *os.File
}

// doorSize is how many files a Door has.
const doorSize = 3

// Files are those of the door, in the order in which Inherit takes them. They stay the door's.
func (d *Door) Files() []*os.File { return []*os.File{d.port, d.boards, d.socket} }

// Close gives the files up.
func (d *Door) Close() {
	for _, f := range d.Files() {
		if f != nil {
			f.Close()
		}
	}
}

// Inherit takes a door that has been passed on as the descriptors from that one on, for this process alone; nil: there is none.
func Inherit(first int) *Door {
	port, boards, socket := first, first+1, first+2
	var stat unix.Stat_t
	if is, err := unix.GetsockoptInt(port, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || is == 0 {
		return nil
	}
	if err := unix.Fstat(boards, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	if typ, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || typ != unix.SOCK_SEQPACKET {
		return nil
	}
	for fd := first; fd < first+doorSize; fd++ {
		unix.CloseOnExec(fd)
		_ = unix.SetNonblock(fd, false) // a reader before may have set it, and then this process would be woken by whoever connects
	}
	return &Door{port: os.NewFile(uintptr(port), "port"), boards: os.NewFile(uintptr(boards), "boards"), socket: os.NewFile(uintptr(socket), "agent")}
}

// listening makes a file of an open port that wakes nobody here when somebody connects.
func listening(port *net.TCPListener) (*os.File, error) {
	raw, err := port.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var failed error
	err = raw.Control(func(of uintptr) {
		if fd, failed = duplicate(int(of)); failed == nil {
			failed = unix.SetNonblock(fd, false)
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "port"), nil
}

func duplicate(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

// waiting makes another file of a socket, which can be waited for, and closes the first.
func waiting(socket *os.File) (*os.File, error) {
	defer socket.Close()
	fd, err := duplicate(int(socket.Fd()))
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, fmt.Errorf("use socket: %w", err)
	}
	return os.NewFile(uintptr(fd), socket.Name()), nil
}

// send gives a datagram to a socket that does not block; one that there is no room for is lost.
func send(to *os.File, datagram []byte) error {
	raw, err := to.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		failed = unix.Sendto(int(fd), datagram, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		return true
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}
