package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// conn is one end of the socket between agent and keeper. Any goroutine may send; one
// at a time receives.
type conn struct {
	file *os.File
	raw  syscall.RawConn
	buf  []byte
}

func newConn(file *os.File) (*conn, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("use socket: %w", err)
	}
	return &conn{file: file, raw: raw, buf: make([]byte, 1+maxInline)}, nil
}

// send waits for room until the deadline that was set on the file.
func (c *conn) send(form byte, text []byte) error {
	var rights []byte
	if form == asText && len(text) > maxInline {
		file, err := sidecar.MemoryFile("keeper-message", text)
		if err != nil {
			return err
		}
		defer file.Close()
		form, text, rights = asFile, nil, unix.UnixRights(int(file.Fd()))
	}
	datagram := append([]byte{form}, text...)
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		for {
			failed = unix.Sendmsg(int(fd), datagram, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if !errors.Is(failed, unix.EINTR) {
				return !errors.Is(failed, unix.EAGAIN)
			}
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("send message: %w", err)
	}
	return nil
}

// errClosed is the end of the socket.
var errClosed = errors.New("the socket is closed")

// drain hands out what is there and does not wait for more. It returns errClosed when
// nothing more can come.
func (c *conn) drain(take func(form byte, text []byte)) error {
	var end error
	err := c.raw.Control(func(fd uintptr) {
		for end == nil {
			var form byte
			var text []byte
			if form, text, end = c.receive(int(fd)); end == nil && form != 0 {
				take(form, text)
			}
		}
	})
	switch {
	case err != nil:
		return errClosed
	case errors.Is(end, unix.EAGAIN):
		return nil
	}
	return end
}

// receive takes one datagram; one that makes no sense has no form.
func (c *conn) receive(fd int) (form byte, text []byte, err error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(fd, c.buf, oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNRESET): // the latter: it ended with messages of ours unread
		return 0, nil, nil
	case errors.Is(err, unix.EAGAIN):
		return 0, nil, err
	case err != nil || n == 0:
		return 0, nil, errClosed
	}
	form, text = c.buf[0], c.buf[1:n]
	if file := fileIn(oob[:oobn]); file != nil { // with any form, or a descriptor would stay
		defer file.Close()
		if text, err = readMessage(file); err != nil {
			return 0, nil, nil
		}
		form = asText
	}
	return form, text, nil
}

// readMessage reads a message that is a file: of anything else, such as a pipe, the other
// end could have this one wait for ever.
func readMessage(file *os.File) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read message: it is no file: %v", info.Mode())
	}
	if info.Size() > maxMessage {
		return nil, fmt.Errorf("read message: %d bytes are more than any of ours has", info.Size())
	}
	return io.ReadAll(io.LimitReader(file, maxMessage))
}

// fileIn is the first file that came with a datagram; nil if none did. The kernel has opened
// here all that there was room for, and what is not closed stays open: it closes the others.
func fileIn(oob []byte) (first *os.File) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i]) // of another kind: none
		for _, fd := range fds {
			file := os.NewFile(uintptr(fd), "keeper-message")
			if first == nil {
				first = file
				continue
			}
			file.Close()
		}
	}
	return first
}

// wait blocks until there may be something to read, which look then does; until look
// says that it was enough.
func (c *conn) wait(look func() (enough bool)) {
	_ = c.raw.Read(func(uintptr) bool { return look() })
}

// patience bounds how long send waits for room, from now on.
func (c *conn) patience(d time.Duration) { _ = c.file.SetWriteDeadline(time.Now().Add(d)) }
