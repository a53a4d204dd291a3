package transport

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Proof has the two ends of a stream prove to each other that they belong to one
// cluster, before anything else is said. What it gives stands in the place of the
// stream, which the caller closes if there is an error.
type Proof interface {
	// Dial is for the dialling end of a tether to an address.
	Dial(conn net.Conn, to netip.AddrPort) (net.Conn, error)
	// Accept is for the accepting end of any stream.
	Accept(conn net.Conn) (net.Conn, error)
}

// guard is what streams must pass, and where they come out. A stream keeps the guard
// that it found when it was accepted, so that none which proved nothing comes out
// behind a proof that was asked for later.
type guard struct {
	proof Proof // nil: none is asked for
	taken chan net.Conn
}

// Prove has all streams prove themselves from now on: those that are accepted, and this
// end's tethers; those to members are the caller's to prove. Streams that were accepted
// before, and not taken by then, are closed. Gossip in clear is not for memberlist any
// more.
func (t *Transport) Prove(p Proof) {
	t.datagrams.isGuarded.Store(true)
	t.streams.guard.Store(&guard{proof: p, taken: make(chan net.Conn)})
}

// prove has the other end of an accepted stream prove itself until ctx ends.
func (g *guard) prove(ctx context.Context, conn *stream) error {
	if g.proof == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	proven, err := g.proof.Accept(conn.Conn)
	if !stop() {
		return ctx.Err() // the deadline of the past is set or about to be
	}
	if err != nil {
		return err
	}
	conn.Conn = proven
	return nil
}

// unproven is how a stream ended whose other end had not proved itself: that says
// nothing about the process which is believed to be there.
type unproven struct{ error }

func (u unproven) Unwrap() error { return u.error }

// proveTether has both ends of a dialled tether prove themselves.
func (g *guard) proveTether(ctx context.Context, conn net.Conn, to netip.AddrPort) (net.Conn, error) {
	if g.proof == nil {
		return conn, nil
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(tetherDialTimeout))
	proven, err := g.proof.Dial(conn, to)
	if err != nil {
		_ = conn.Close()
		return nil, unproven{err}
	}
	_ = conn.SetDeadline(time.Time{})
	return proven, nil
}
