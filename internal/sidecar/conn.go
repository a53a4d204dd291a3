package sidecar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is one end of the line between an agent and its keeper: a pipe each way. Nothing but bytes comes through a pipe. So nobody
// passes on a descriptor, which its receiver would have to judge, and to close for as long as that takes. A message has its length
// before it, in four bytes, big endian. One goroutine at a time sends, and one reads.
type Conn struct {
	In, Out *os.File // which do not block

	raw    syscall.RawConn // of In
	chunk  []byte          // room for what is read at once
	heard  []byte          // of the messages that were not handed out yet
	unsent []byte          // of the message that was sent last
}

const (
	lengthSize = 4
	chunkSize  = 64 << 10

	// pipeSize is what a pipe holds. Smaller, a long message takes more turns of its reader. Arbitrary.
	pipeSize = 256 << 10
)

// newConn makes one of two pipes, whose files are its from now on.
func newConn(in, out *os.File) (*Conn, error) {
	raw, err := in.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("use pipe: %w", err)
	}
	return &Conn{In: in, Out: out, raw: raw, chunk: make([]byte, chunkSize)}, nil
}

// Pair gives both ends of a line.
func Pair() (ours, theirs *Conn, err error) {
	var files [4]*os.File
	for i := 0; i < len(files) && err == nil; i += 2 {
		if files[i], files[i+1], err = os.Pipe(); err == nil {
			enlarge(files[i])
		}
	}
	if err == nil {
		ours, err = newConn(files[0], files[3])
	}
	if err == nil {
		theirs, err = newConn(files[2], files[1])
	}
	if err != nil {
		for _, f := range files {
			f.Close() // of none, too
		}
		return nil, nil, fmt.Errorf("make pipes: %w", err)
	}
	return ours, theirs, nil
}

// enlarge gives a pipe its size, which the kernel may refuse a user that has many: then it is slower.
func enlarge(pipe *os.File) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
}

// Close closes both pipes.
func (c *Conn) Close() error { return errors.Join(c.In.Close(), c.Out.Close()) }

// Send sends a message. It waits for room until the deadline of Patience; what has not gone by then Resend sends.
func (c *Conn) Send(text []byte) error {
	if len(text) == 0 || len(text) > MaxMessage {
		return fmt.Errorf("send message: it has %d bytes, of 1 to %d", len(text), MaxMessage)
	}
	c.unsent = append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	return c.Resend()
}

// Resend goes on with a message for which there was no room in time.
func (c *Conn) Resend() error {
	n, err := c.Out.Write(c.unsent)
	if c.unsent = c.unsent[n:]; err != nil {
		return fmt.Errorf("send message: %w", err)
	}
	return nil
}

// ErrClosed is the end of the line.
var ErrClosed = errors.New("the line is closed")

// Drain hands out the messages that are there, until take says that it was enough, and does not wait for
// more. A message's text is take's until it returns. Drain returns an error when nothing more can come: ErrClosed, or
// why what has come is no message.
func (c *Conn) Drain(take func(text []byte) (enough bool)) error {
	var end error
	if err := c.raw.Control(func(fd uintptr) { end = c.drain(int(fd), take) }); err != nil {
		return ErrClosed
	}
	return end
}

func (c *Conn) drain(fd int, take func(text []byte) (enough bool)) error {
	for {
		text, err := c.next()
		switch {
		case err != nil:
			return err
		case text != nil && take(text):
			return nil
		case text != nil:
			continue
		}
		n, err := unix.Read(fd, c.chunk)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil || n == 0:
			return ErrClosed
		default:
			c.heard = append(c.heard, c.chunk[:n]...)
		}
	}
}

// next takes a message out of what was heard; nil: there is no whole one. Its length is judged before it is waited for.
func (c *Conn) next() ([]byte, error) {
	if len(c.heard) < lengthSize {
		return nil, nil
	}
	n := binary.BigEndian.Uint32(c.heard)
	if n == 0 || n > MaxMessage {
		return nil, fmt.Errorf("a message of %d bytes, of 1 to %d", n, MaxMessage)
	}
	end := lengthSize + int(n)
	if len(c.heard) < end {
		c.heard = slices.Grow(c.heard, end-len(c.heard))
		return nil, nil
	}
	text := c.heard[lengthSize:end]
	if c.heard = c.heard[end:]; len(c.heard) == 0 {
		c.heard = nil // with the room that a long one took
	}
	return text, nil
}

// Wait blocks until there may be something to read, which look then does; until look says that it was
// enough.
func (c *Conn) Wait(look func() (enough bool)) {
	_ = c.raw.Read(func(uintptr) bool { return look() })
}

// Patience bounds how long Send waits for room, from now on.
func (c *Conn) Patience(d time.Duration) { _ = c.Out.SetWriteDeadline(time.Now().Add(d)) }
