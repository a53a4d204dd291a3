package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// conn is one end of the socket between agent and keeper. Any goroutine may send; one
// at a time receives.
type conn struct {
	file  *os.File
	raw   syscall.RawConn
	buf   []byte
	parts []byte // of a message whose end has not come; at most maxMessage
}

func newConn(file *os.File) (*conn, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("use socket: %w", err)
	}
	return &conn{file: file, raw: raw, buf: make([]byte, 1+maxInline)}, nil
}

// send sends a message, in several datagrams if it is long. It waits for room until the deadline that
// was set on the file; after that the message can be sent once more, from its beginning.
func (c *conn) send(form byte, text []byte) error {
	for part := byte(asFirst); len(text) > maxInline; part = asMore {
		if err := c.sendOne(part, text[:maxInline]); err != nil {
			return err
		}
		text = text[maxInline:]
	}
	return c.sendOne(form, text)
}

func (c *conn) sendOne(form byte, text []byte) error {
	datagram := append([]byte{form}, text...)
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		for {
			failed = unix.Sendto(int(fd), datagram, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
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

// receive takes one datagram; one that makes no sense, or is a part of a message, has no form. Files
// that come with it are closed by the kernel, since there is no room for them.
func (c *conn) receive(fd int) (form byte, text []byte, err error) {
	n, _, err := unix.Recvfrom(fd, c.buf, unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNRESET): // the latter: it ended with messages of ours unread
		return 0, nil, nil
	case errors.Is(err, unix.EAGAIN):
		return 0, nil, err
	case err != nil || n == 0:
		return 0, nil, errClosed
	}
	form, text = c.buf[0], c.buf[1:n]
	switch form {
	case asFirst:
		c.parts = bytes.Clone(text)
		return 0, nil, nil
	case asMore: // what is too long is cut, and cannot be decoded
		c.parts = append(c.parts, text[:min(len(text), maxMessage-len(c.parts))]...)
		return 0, nil, nil
	case asText:
		text, c.parts = append(c.parts, text...), nil
	}
	return form, text, nil
}

// wait blocks until there may be something to read, which look then does; until look
// says that it was enough.
func (c *conn) wait(look func() (enough bool)) {
	_ = c.raw.Read(func(uintptr) bool { return look() })
}

// patience bounds how long send waits for room, from now on.
func (c *conn) patience(d time.Duration) { _ = c.file.SetWriteDeadline(time.Now().Add(d)) }
