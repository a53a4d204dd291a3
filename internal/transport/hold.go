package transport

import (
	"net/netip"
	"sync"
)

const (
	// maxTethers and maxTethersPerSource bound the tethers that are held for
	// others, beside the other streams. A large group makes few of them
	// (protocol 6.4); a host has one, and more only after its end was missed.
	maxTethers          = 64
	maxTethersPerSource = 8
)

// tethers are the accepting ends: streams that are held in silence, so that
// their end says that this process has ended.
//
// Invariant: while the agent may lead, this end closes none that it has taken,
// unless the other end has ended or spoken.
type tethers struct {
	gate gate

	mu   sync.Mutex
	held map[*stream]struct{}
	shut bool // close was called: none is taken any more
}

func newTethers(m *members) *tethers {
	return &tethers{held: make(map[*stream]struct{}), gate: gate{most: maxTethers, mostPerSource: maxTethersPerSource, members: m}}
}

// admit takes a place for the stream, which gives back the one that it had while
// nobody knew what it was.
func (h *tethers) admit(conn *stream, source netip.Addr) bool {
	if !h.gate.enter(source) {
		return false
	}
	if !h.add(conn) {
		h.gate.leave(source)
		return false
	}
	conn.leave()
	keepAlive(conn.Conn)
	return true
}

// hold waits for the end of an admitted stream and frees its place.
func (h *tethers) hold(conn *stream, source netip.Addr) {
	defer h.gate.leave(source)
	_, _ = conn.Conn.Read(make([]byte, 1)) // whoever speaks now is not an agent
	_ = conn.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, conn)
}

func (h *tethers) add(conn *stream) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut {
		return false
	}
	h.held[conn] = struct{}{}
	return true
}

// open is how many are held.
func (h *tethers) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.held)
}

// close ends them all. The listener is closed before: those who dial again at
// once must be refused.
func (h *tethers) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shut = true
	for conn := range h.held {
		_ = conn.Close()
	}
}
