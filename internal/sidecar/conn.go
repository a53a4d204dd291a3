package sidecar

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is one end of a socket of messages. Any goroutine may send; one at a time reads.
type Conn struct {
	file   *os.File
	raw    syscall.RawConn
	text   []byte // one byte longer than a message may be
	rights []byte
	closer *closer
}

// mostRights is how many descriptors the kernel takes with a message (SCM_MAX_FD).
const mostRights = 253

// NewConn makes one of a file, which does not block. Drain may leave messages in the socket while a peer
// has sent descriptors faster than they can be closed: wake is called when it is worth calling again, by
// any goroutine. Nil is for a peer that is trusted not to.
func NewConn(file *os.File, wake func()) (*Conn, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("use socket: %w", err)
	}
	return &Conn{file: file, raw: raw, text: make([]byte, MaxMessage+1), rights: make([]byte, unix.CmsgSpace(4*mostRights)), closer: &closer{wake: wake}}, nil
}

// SyscallConn implements syscall.Conn.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// Close closes the file.
func (c *Conn) Close() error { return c.file.Close() }

// Send sends a message, and a file with it unless that is nil. It waits for room until the deadline of
// Patience.
func (c *Conn) Send(text, file []byte) error {
	switch {
	case len(text) == 0 || len(text) > MaxMessage:
		return fmt.Errorf("send message: it has %d bytes, of 1 to %d", len(text), MaxMessage)
	case len(file) > MaxFile:
		return fmt.Errorf("send message: its file has %d bytes, of at most %d", len(file), MaxFile)
	}
	var rights []byte
	if file != nil {
		sealed, err := SealedFile("message", file)
		if err != nil {
			return fmt.Errorf("send message: %w", err)
		}
		defer sealed.Close()
		rights = unix.UnixRights(int(sealed.Fd()))
	}
	if err := c.send(text, rights); err != nil {
		return fmt.Errorf("send message: %w", err)
	}
	return nil
}

func (c *Conn) send(text, rights []byte) error {
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		for {
			failed = unix.Sendmsg(int(fd), text, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if !errors.Is(failed, unix.EINTR) {
				return !errors.Is(failed, unix.EAGAIN)
			}
		}
	})
	if err == nil {
		err = failed
	}
	return err
}

// ErrClosed is the end of the socket.
var ErrClosed = errors.New("the socket is closed")

// Drain hands out the messages that are there, until take says that it was enough, and does not wait for
// more. One that is refused is nothing but its error. Drain returns ErrClosed when nothing more can come.
func (c *Conn) Drain(take func(Message, error) (enough bool)) error {
	var end error
	err := c.raw.Control(func(fd uintptr) {
		for enough := false; end == nil && !enough && !c.closer.isFull(); {
			end = c.receive(int(fd), func(m Message, err error) { enough = take(m, err) })
		}
	})
	switch {
	case err != nil:
		return ErrClosed
	case errors.Is(end, unix.EAGAIN):
		return nil
	}
	return end
}

// receive takes one datagram.
func (c *Conn) receive(fd int, take func(Message, error)) error {
	n, size, flags, _, err := unix.Recvmsg(fd, c.text, c.rights, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNRESET): // the latter: it ended with messages of ours unread
		return nil
	case errors.Is(err, unix.EAGAIN):
		return err
	case err != nil, n == 0 && size == 0:
		return ErrClosed
	}
	fds := descriptors(c.rights[:size])
	defer c.closer.add(fds)
	m, err := c.open(n, flags, fds)
	take(m, err)
	Unmap(m.File)
	return nil
}

var (
	errCut  = errors.New("it came with more descriptors than there is room for")
	errMany = errors.New("it came with several descriptors")
)

// open judges what has come, before anything of it is decoded.
func (c *Conn) open(n, flags int, fds []int) (m Message, err error) {
	switch {
	case n > MaxMessage:
		return m, fmt.Errorf("it has more than %d bytes", MaxMessage)
	case flags&unix.MSG_CTRUNC != 0:
		return m, errCut
	case len(fds) > 1:
		return m, errMany
	case len(fds) == 1:
		if m.File, err = MapSealed(fds[0]); err != nil {
			return Message{}, err
		}
	}
	m.Text = c.text[:n]
	return m, nil
}

// descriptors are all that came.
func descriptors(rights []byte) (fds []int) {
	messages, _ := unix.ParseSocketControlMessage(rights) // of the kernel's, which are well formed
	for _, m := range messages {
		some, _ := unix.ParseUnixRights(&m) // none, if they are no descriptors
		fds = append(fds, some...)
	}
	return fds
}

// Wait blocks until there may be something to read, which look then does; until look says that it was
// enough.
func (c *Conn) Wait(look func() (enough bool)) {
	_ = c.raw.Read(func(uintptr) bool { return look() })
}

// Patience bounds how long Send waits for room, from now on.
func (c *Conn) Patience(d time.Duration) { _ = c.file.SetWriteDeadline(time.Now().Add(d)) }
