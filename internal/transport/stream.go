package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
)

const (
	// maxStreams and maxStreamsPerSource bound the accepted streams that are
	// open at one time, so that idle connections from anybody cannot take the
	// file descriptors that hooks need. Memberlist's own
	// streams live for milliseconds.
	maxStreams          = 64
	maxStreamsPerSource = 8

	// maxStrangers of these places, and as many of those for tethers, are for addresses
	// that are no member's (Know), together: whoever has many addresses leaves the others
	// to the members. More lets more hosts join in one instant.
	maxStrangers = 16

	// firstByteTimeout is how long a stream may take to say what it is and to
	// be taken by memberlist. An honest one does both within a round trip, or a few
	// if the network loses much; a stranger has less time for it.
	firstByteTimeout = 3 * time.Second
	strangerTimeout  = time.Second

	// acceptDelay and acceptDelayMax bound the pause after a failed accept,
	// doubling: out of file descriptors ends when somebody closes one.
	acceptDelay    = 5 * time.Millisecond
	acceptDelayMax = time.Second
)

// streams is the TCP listener: it admits connections, waits for their first
// byte, hands memberlist its own and holds tethers.
type streams struct {
	ctx       context.Context
	listener  net.Listener
	log       hclog.Logger
	count     *counters
	gate      gate
	members   *members
	guard     atomic.Pointer[guard]
	tethers   *tethers
	questions questions
	running   sync.WaitGroup // the accept loop and one goroutine per waiting or held stream
}

func newStreams(ctx context.Context, listener net.Listener, log hclog.Logger, count *counters, cluster uint32) *streams {
	m := new(members)
	s := &streams{ctx: ctx, listener: listener, log: log, count: count, members: m,
		gate: gate{most: maxStreams, mostPerSource: maxStreamsPerSource, members: m}, tethers: newTethers(cluster, m)}
	s.guard.Store(&guard{taken: make(chan net.Conn)})
	return s
}

// start starts to accept.
func (s *streams) start() { s.running.Go(s.accept) }

// accept runs until the listener is closed.
func (s *streams) accept() {
	delay := time.Duration(0)
	for {
		conn, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			if delay == 0 {
				s.log.Warn("streams not accepted", "addr", s.listener.Addr(), "err", err)
			}
			delay = min(max(2*delay, acceptDelay), acceptDelayMax)
			if !pause(s.ctx.Done(), delay) {
				return
			}
		default:
			delay = 0
			s.admit(conn)
		}
	}
}

// admit starts the wait for conn's first byte, or closes it.
func (s *streams) admit(conn net.Conn) {
	source := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	if !s.gate.enter(source) {
		s.refuse(conn)
		return
	}
	admitted := &stream{Conn: conn, leave: sync.OnceFunc(func() { s.gate.leave(source) })}
	s.running.Go(func() {
		switch s.sort(admitted, source) {
		case aTether:
			s.tethers.hold(admitted, source)
		case aQuestion:
			s.ask(admitted)
		}
	})
}

// sort gives conn to memberlist if it is memberlist's, says what it is if it is
// ours, and closes it otherwise.
func (s *streams) sort(conn *stream, source netip.Addr) kind {
	ctx, cancel := context.WithTimeout(s.ctx, s.members.patience(source))
	defer cancel()
	guard := s.guard.Load()
	if err := guard.prove(ctx, conn); err != nil {
		s.refuse(conn)
		return noneOfOurs
	}
	if err := conn.peek(ctx); err != nil {
		s.refuse(conn)
		return noneOfOurs
	}
	if conn.first[0] == frameByte {
		return s.sortOurs(ctx, conn, source)
	}
	select {
	case guard.taken <- conn:
	case <-ctx.Done():
		s.refuse(conn)
	}
	return noneOfOurs
}

func (s *streams) refuse(conn net.Conn) {
	s.count.streamsRefused.Add(1)
	_ = conn.Close()
}

// close ends the accept loop, every stream that still waits, and then the
// tethers. s.ctx has ended before.
func (s *streams) close() {
	_ = s.listener.Close()
	s.tethers.close()
	s.running.Wait()
}

// StreamCh gives memberlist its streams.
func (t *Transport) StreamCh() <-chan net.Conn { return t.streams.guard.Load().taken }

// DialTimeout is DialAddressTimeout for those who do not know the member's name.
func (t *Transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream to a member. Shutdown cuts it short. The
// error is net's own, by whose type memberlist knows a failure of the other
// end.
func (t *Transport) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.device.dialer(timeout).DialContext(t.ctx, "tcp", addr.Addr)
}

// stream is an admitted connection. It holds its place at the gate until it is
// closed, and gives back the byte that was read to see what it is.
type stream struct {
	net.Conn
	leave  func()
	first  [1]byte
	unread bool // first has not been read yet by whoever took the stream
}

// peek waits for the first byte until ctx ends.
func (c *stream) peek(ctx context.Context) error {
	err := c.readWithin(ctx, c.first[:])
	c.unread = err == nil
	return err
}

// readWithin fills b, unless ctx ends before.
func (c *stream) readWithin(ctx context.Context, b []byte) error {
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	_, err := io.ReadFull(c.Conn, b)
	if !stop() {
		return ctx.Err() // the deadline of the past is set or about to be
	}
	return err
}

// Read returns the peeked byte, then the rest. Like any net.Conn's it is called
// by one reader at a time.
func (c *stream) Read(b []byte) (int, error) {
	if !c.unread || len(b) == 0 {
		return c.Conn.Read(b)
	}
	c.unread = false
	return copy(b, c.first[:]), nil
}

// Close closes the connection and frees its place.
func (c *stream) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// gate counts the accepted streams of one kind that are open.
//
// Invariant: total is the sum of bySource, which has no zero entries, so it
// cannot grow beyond most.
type gate struct {
	most          int // places in all
	mostPerSource int
	members       *members // for others there are maxStrangers places

	mu       sync.Mutex
	total    int
	bySource map[netip.Addr]int
}

// enter takes a place, or reports that there is none.
func (g *gate) enter(source netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.total >= g.most || g.bySource[source] >= g.mostPerSource ||
		!g.members.has(source) && g.strangers() >= maxStrangers {
		return false
	}
	if g.bySource == nil {
		g.bySource = make(map[netip.Addr]int)
	}
	g.total++
	g.bySource[source]++
	return true
}

// strangers is how many places have those who are no members now.
func (g *gate) strangers() (n int) {
	for source, places := range g.bySource {
		if !g.members.has(source) {
			n += places
		}
	}
	return n
}

// leave gives back a place that enter took.
func (g *gate) leave(source netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total--
	g.bySource[source]--
	if g.bySource[source] == 0 {
		delete(g.bySource, source)
	}
}
