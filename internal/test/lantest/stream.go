package lantest

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is one end of a stream. What is written waits in the other end's pipe, as
// in a kernel's buffer without bounds, so a write never blocks. (net.Pipe's do:
// there two ends that both write stand still until their deadlines.)
//
// It models a cut simply: the first write over a cut cable is lost, and with it
// everything after, the end of the stream included; the reader waits until its
// deadline.
type conn struct {
	host *Host
	peer *conn
	in   *pipe // what we read

	gone atomic.Bool // the peer's end of the direction we write has been lost
}

// connect makes a stream between two hosts and returns the dialler's end.
func connect(from, to *Host) (*conn, error) {
	near := &conn{host: from, in: newPipe()}
	far := &conn{host: to, in: newPipe(), peer: near}
	near.peer = far
	if !from.adopt(near) {
		return nil, net.ErrClosed
	}
	if !to.adopt(far) {
		from.disown(near)
		return nil, syscall.ECONNREFUSED
	}
	go to.arrive(far)
	return near, nil
}

// Read returns what the other end wrote.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

// Write passes b to the other end, or loses it on a cut cable.
func (c *conn) Write(b []byte) (int, error) {
	if c.in.isClosed() {
		return 0, c.opError("write", net.ErrClosed)
	}
	if len(b) == 0 || !c.passes() {
		return len(b), nil
	}
	c.host.lan.overhear(c.host.Addr(), c.peer.host.Addr(), b, true)
	if !c.peer.in.write(b) {
		return 0, c.opError("write", syscall.ECONNRESET)
	}
	return len(b), nil
}

// passes reports whether what we write still reaches the other end.
func (c *conn) passes() bool {
	if !c.host.lan.streamsPass(c.host.Addr(), c.peer.host.Addr()) {
		c.gone.Store(true)
	}
	return !c.gone.Load()
}

// Close ends both directions: the other end reads the rest and then io.EOF,
// unless the cable is cut.
func (c *conn) Close() error {
	c.host.disown(c)
	c.in.close()
	if c.passes() {
		c.peer.in.finish()
	}
	return nil
}

// LocalAddr is the host's address; no ephemeral port is made up.
func (c *conn) LocalAddr() net.Addr { return tcpAddr(c.host.Addr()) }

// RemoteAddr is the other host's address.
func (c *conn) RemoteAddr() net.Addr { return tcpAddr(c.peer.host.Addr()) }

// SetDeadline sets the reader's deadline; a write needs none.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline sets the time after which Read fails; zero means never.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(t)
	return nil
}

// SetWriteDeadline does nothing: a write never waits.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

func (c *conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

func tcpAddr(a netip.AddrPort) net.Addr { return net.TCPAddrFromAddrPort(a) }

// pipe is one direction of a stream.
type pipe struct {
	mu       sync.Mutex
	data     bytes.Buffer
	finished bool          // the writer's end: io.EOF after data
	closed   bool          // the reader's end
	deadline time.Time     // the reader's
	changed  chan struct{} // closed and replaced whenever any of these changes
}

func newPipe() *pipe { return &pipe{changed: make(chan struct{})} }

// update changes the pipe under its lock and wakes the reader.
func (p *pipe) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pipe) finish()                 { p.update(func() { p.finished = true }) }
func (p *pipe) close()                  { p.update(func() { p.closed = true }) }
func (p *pipe) setDeadline(t time.Time) { p.update(func() { p.deadline = t }) }

// write reports false if nobody reads any more.
func (p *pipe) write(b []byte) (ok bool) {
	p.update(func() {
		if ok = !p.closed; ok {
			p.data.Write(b)
		}
	})
	return ok
}

func (p *pipe) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func (p *pipe) read(b []byte) (int, error) {
	for {
		n, later, err := p.take(b)
		if later == nil {
			return n, err
		}
		later.wait()
	}
}

// take reads without waiting. If there is nothing to say yet it returns what to
// wait for.
func (p *pipe) take(b []byte) (int, *later, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return 0, nil, net.ErrClosed
	case !p.deadline.IsZero() && !time.Now().Before(p.deadline):
		return 0, nil, os.ErrDeadlineExceeded
	case p.data.Len() > 0:
		n, _ := p.data.Read(b)
		return n, nil, nil
	case p.finished:
		return 0, nil, io.EOF
	}
	return 0, &later{p.changed, p.deadline}, nil
}

// later is what a reader waits for: a change or its deadline, zero for none.
type later struct {
	changed  <-chan struct{}
	deadline time.Time
}

func (w *later) wait() {
	if w.deadline.IsZero() {
		<-w.changed
		return
	}
	timer := time.NewTimer(time.Until(w.deadline))
	defer timer.Stop()
	select {
	case <-w.changed:
	case <-timer.C:
	}
}
