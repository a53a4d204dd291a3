package control

import (
	"net"
	"net/http"
	"sync"

	"github.com/bully-agent/bully-agent/internal/places"
)

// doorway is a listener that knows its peers. Root and the socket's owner have places of their
// own, and wait in the kernel's queue for a free one. Others share theirs, of which one user has a
// few, and the connection that is one too many is closed at once: in the queue it would keep
// root waiting.
type doorway struct {
	net.Listener
	access access

	own    chan struct{} // holds a token for each connection of root and the owner
	done   chan struct{} // closed by Close
	once   sync.Once
	others *places.Places[int] // by uid
}

func newDoorway(l net.Listener, lim limits, a access) *doorway {
	return &doorway{
		Listener: peerListener{l}, access: a,
		own: make(chan struct{}, lim.conns), done: make(chan struct{}), others: places.New[int](lim.others, lim.ofOne),
	}
}

// Accept implements net.Listener.
func (l *doorway) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, ok := l.enter(c.RemoteAddr().(peer))
		if ok {
			return places.Conn(c, leave), nil
		}
		_ = c.Close()
	}
}

// Close implements net.Listener.
func (l *doorway) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

func (l *doorway) enter(p peer) (leave func(), ok bool) {
	if !l.access.trusts(p) {
		return l.others.Enter(p.uid)
	}
	select {
	case l.own <- struct{}{}:
		return sync.OnceFunc(func() { <-l.own }), true
	case <-l.done:
		return nil, false
	}
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
