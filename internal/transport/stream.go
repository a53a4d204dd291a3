package transport

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
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

	// proofTimeout is how long a stream may take to prove itself and to be taken
	// by memberlist. An honest one does both within two round trips, or a few
	// if the network loses much; a stranger has less time for it.
	proofTimeout    = 3 * time.Second
	strangerTimeout = time.Second

	// acceptDelay and acceptDelayMax bound the pause after a failed accept,
	// doubling: out of file descriptors ends when somebody closes one.
	acceptDelay    = 5 * time.Millisecond
	acceptDelayMax = time.Second
)

// streams is the TCP listener: it admits connections, has them prove themselves, hands
// memberlist its own, has questions answered and holds tethers.
type streams struct {
	ctx      context.Context
	listener net.Listener
	log      hclog.Logger
	count    *counters
	gate     gate
	members  *members
	prove    Accept // set by Serve
	taken    chan net.Conn
	tethers  *tethers
	answer   atomic.Pointer[func(context.Context, net.Conn)] // to questions; nil: nobody answers
	running  sync.WaitGroup                                  // the accept loop and one goroutine per waiting or held stream
}

func newStreams(ctx context.Context, listener net.Listener, log hclog.Logger, count *counters) *streams {
	m := new(members)
	return &streams{ctx: ctx, listener: listener, log: log, count: count, members: m, taken: make(chan net.Conn),
		gate: gate{most: maxStreams, mostPerSource: maxStreamsPerSource, members: m}, tethers: newTethers(m)}
}

// Serve begins to accept streams, each of which proves itself before anything else. Until then they wait in the kernel.
func (t *Transport) Serve(accept Accept) <-chan net.Conn {
	t.streams.start(accept)
	return t.streams.taken
}

// start starts to accept.
func (s *streams) start(prove Accept) {
	s.prove = prove
	s.running.Go(s.accept)
}

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

// admit starts the wait for conn's proof, or closes it.
func (s *streams) admit(conn net.Conn) {
	source := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	if !s.gate.enter(source) {
		s.refuse(conn)
		return
	}
	admitted := &stream{Conn: conn, leave: sync.OnceFunc(func() { s.gate.leave(source) })}
	s.running.Go(func() {
		switch s.sort(admitted, source) {
		case Tether:
			s.tethers.hold(admitted, source)
		case Question:
			s.ask(admitted)
		}
	})
}

// sort has the other end of conn prove itself, and says what conn is for. It has given
// memberlist its own; what is of no use is closed.
func (s *streams) sort(conn *stream, source netip.Addr) Kind {
	ctx, cancel := context.WithTimeout(s.ctx, s.members.patience(source))
	defer cancel()
	kind, err := s.proven(ctx, conn)
	switch {
	case err != nil:
	case kind == Gossip && s.hand(ctx, conn), kind == Tether && s.tethers.admit(conn, source), kind == Question && s.answer.Load() != nil:
		return kind
	}
	s.refuse(conn)
	return 0
}

// proven has the other end of an accepted stream prove itself until ctx ends.
func (s *streams) proven(ctx context.Context, conn *stream) (Kind, error) {
	below := conn.Conn
	stop := context.AfterFunc(ctx, func() { _ = below.SetDeadline(time.Unix(1, 0)) })
	proven, kind, err := s.prove(below)
	if err == nil {
		conn.Conn = proven // closed with what keeps account of it
	}
	if !stop() {
		return 0, ctx.Err() // the deadline of the past is set or about to be
	}
	return kind, err
}

// hand gives memberlist a stream, if it takes it before ctx ends.
func (s *streams) hand(ctx context.Context, conn *stream) bool {
	select {
	case s.taken <- conn:
		return true
	case <-ctx.Done():
		return false
	}
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

// Dial opens a stream to a member. Shutdown cuts it short. The error is net's own, by
// whose type memberlist knows a failure of the other end.
func (t *Transport) Dial(to netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	return t.device.dialer(timeout).DialContext(t.ctx, "tcp", to.String())
}

// stream is an admitted connection. It holds its place at the gate until it is closed.
type stream struct {
	net.Conn
	leave func()
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
