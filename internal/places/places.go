// Package places bounds how many connections are open at a time: in all, and of one source.
package places

import (
	"net"
	"sync"
)

// Places are what sources share. They are safe for concurrent use.
type Places[Source comparable] struct {
	all, ofOne int

	mu    sync.Mutex
	taken int
	of    map[Source]int // no entry is 0
}

// New makes so many places, of which one source has so many at most.
func New[Source comparable](all, ofOne int) *Places[Source] {
	return &Places[Source]{all: all, ofOne: ofOne, of: map[Source]int{}}
}

// Enter takes a place, unless none is left for this source. The place is free again once leave was
// called; a second call does nothing.
func (p *Places[Source]) Enter(source Source) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.all || p.of[source] >= p.ofOne {
		return nil, false
	}
	p.taken++
	p.of[source]++
	return sync.OnceFunc(func() { p.leave(source) }), true
}

func (p *Places[Source]) leave(source Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.of[source]--; p.of[source] == 0 {
		delete(p.of, source)
	}
}

// Conn is c, and calls leave when it is closed.
func Conn(c net.Conn, leave func()) net.Conn { return &conn{c, leave} }

type conn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
