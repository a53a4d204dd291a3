package transport

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// Kind is what a stream is for. Its proof says so.
type Kind uint8

const (
	Gossip   Kind = iota + 1 // memberlist's
	Tether                   // held in silence
	Question                 // one question and its answer
)

// Prove has the dialling end of a stream prove itself and the other end. What it gives stands
// in the place of the stream, which the caller closes if there is an error.
type Prove func(conn net.Conn) (net.Conn, error)

// Accept is the same for the accepting end, which learns what the stream is for.
type Accept func(conn net.Conn) (net.Conn, Kind, error)

// unproven is how a stream ended whose other end had not proved itself: that says
// nothing about the process which is believed to be there.
type unproven struct{ error }

func (u unproven) Unwrap() error { return u.error }

// dialProven opens a stream, within wait, and both ends prove themselves. The kernel keeps it alive.
func (t *Transport) dialProven(ctx context.Context, to netip.AddrPort, wait time.Duration, prove Prove) (net.Conn, error) {
	conn, err := t.device.dialTether(ctx, t.source(), to, wait)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(tetherDialTimeout))
	proven, err := prove(conn)
	if err != nil {
		_ = conn.Close()
		return nil, unproven{err}
	}
	_ = conn.SetDeadline(time.Time{})
	return proven, nil
}
