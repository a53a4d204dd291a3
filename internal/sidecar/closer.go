package sidecar

import (
	"sync"

	"golang.org/x/sys/unix"
)

// closer closes what came with messages, on a goroutine that there is for as long as something is to be
// closed: a socket that lingers (SO_LINGER) takes its closer as long as its sender likes.
type closer struct {
	wake func() // nil: nobody is to know

	mu      sync.Mutex
	waiting []int
	isOn    bool
	wasFull bool
}

// mostWaiting is how many descriptors wait at most before a socket is left unread, but for those of its
// last message. Arbitrary: far below what a process may have open.
const mostWaiting = 256

func (c *closer) add(fds []int) {
	if len(fds) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, fds...)
	if !c.isOn {
		c.isOn = true
		go c.closeAll()
	}
}

// isFull reports whether nothing more is to be read, and has wake called when it is.
func (c *closer) isFull() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	isFull := len(c.waiting) >= mostWaiting
	c.wasFull = c.wasFull || isFull
	return isFull
}

func (c *closer) closeAll() {
	for fd, ok := c.next(); ok; fd, ok = c.next() {
		unix.Close(fd)
	}
}

// next takes one, and wakes who was kept from reading.
func (c *closer) next() (fd int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wasFull && len(c.waiting) < mostWaiting {
		if c.wasFull = false; c.wake != nil {
			c.wake()
		}
	}
	if len(c.waiting) == 0 {
		c.waiting, c.isOn = nil, false
		return 0, false
	}
	fd, c.waiting = c.waiting[0], c.waiting[1:]
	return fd, true
}
