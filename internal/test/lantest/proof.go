package lantest

import (
	"net"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/internal/transport"
)

// proofTimeout is transport's: how long a stream may take to prove itself and to say
// what it is.
const proofTimeout = 3 * time.Second

// guard is what streams must pass, and where they come out.
type guard struct {
	proof transport.Proof // nil: none is asked for
	taken chan net.Conn
}

// Prove has all streams prove themselves from now on, as package transport does. Gossip
// in clear is dropped.
func (h *Host) Prove(p transport.Proof) {
	h.guard.Store(&guard{proof: p, taken: make(chan net.Conn, backlog)})
}

// prove gives a stream that has proved itself to its host.
func (g *guard) prove(c *conn) {
	_ = c.SetDeadline(time.Now().Add(proofTimeout))
	proven, err := g.proof.Accept(c)
	p := &peeked{Conn: proven}
	if err == nil {
		_, err = proven.Read(p.first[:])
	}
	if err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	if p.first[0] != frameByte {
		g.take(p)
	}
}

func (g *guard) take(c net.Conn) {
	select {
	case g.taken <- c:
	default:
		_ = c.Close()
	}
}

// proveTether proves both ends of a dialled tether.
func (g *guard) proveTether(c *conn, to netip.AddrPort) (net.Conn, error) {
	if g.proof == nil {
		return c, nil
	}
	_ = c.SetDeadline(time.Now().Add(tetherDialTimeout))
	proven, err := g.proof.Dial(c, to)
	_ = c.SetDeadline(time.Time{})
	return proven, err
}

// peeked gives back the byte that was read to see what a stream is.
type peeked struct {
	net.Conn
	first [1]byte
	read  bool // first was given back
}

func (p *peeked) Read(b []byte) (int, error) {
	if p.read || len(b) == 0 {
		return p.Conn.Read(b)
	}
	p.read = true
	return copy(b, p.first[:]), nil
}
