package control

import (
	"net"
	"net/http"
	"sync"
)

// places is a listener that knows its peers. Root and the socket's owner have places of their
// own, and wait in the kernel's queue for a free one. Others share theirs, of which one user has a
// few, and the connection that is one too many is closed at once: in the queue it would keep
// root waiting.
type places struct {
	net.Listener
	limits limits
	access access

	own  chan struct{} // holds a token for each connection of root and the owner
	done chan struct{} // closed by Close
	once sync.Once

	mu     sync.Mutex
	others int
	of     map[int]int // connections by uid; no entry is 0
}

func newPlaces(l net.Listener, lim limits, a access) *places {
	return &places{Listener: peerListener{l}, limits: lim, access: a, own: make(chan struct{}, lim.conns), done: make(chan struct{}), of: map[int]int{}}
}

// Accept implements net.Listener.
func (l *places) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, ok := l.enter(c.RemoteAddr().(peer))
		if ok {
			return &placedConn{Conn: c, leave: sync.OnceFunc(leave)}, nil
		}
		_ = c.Close()
	}
}

// Close implements net.Listener.
func (l *places) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

func (l *places) enter(p peer) (leave func(), ok bool) {
	if l.access.trusts(p) {
		select {
		case l.own <- struct{}{}:
			return func() { <-l.own }, true
		case <-l.done:
			return nil, false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.others >= l.limits.others || l.of[p.uid] >= l.limits.ofOne {
		return nil, false
	}
	l.others++
	l.of[p.uid]++
	return func() { l.left(p.uid) }, true
}

func (l *places) left(uid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.others--
	if l.of[uid]--; l.of[uid] == 0 {
		delete(l.of, uid)
	}
}

// placedConn gives its place back when it is closed.
type placedConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *placedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// most is how many of so many streams at a time there may be for this one to be the next: some
// are root's and the owner's.
func (s *server) most(all int, r *http.Request) int32 {
	asker, known := r.Context().Value(peerKey{}).(peer)
	if s.isPublic || known && s.access.trusts(asker) {
		return int32(all)
	}
	return int32(all - s.limits.reserved)
}
