package sealed

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/session"
)

// played is a net.Conn that reads what was given and forgets what is written.
type played struct {
	net.Conn
	in  io.Reader
	out []byte
}

func (p *played) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p *played) Write(b []byte) (int, error) { p.out = append(p.out, b...); return len(b), nil }
func (p *played) Close() error                { return nil }
func (p *played) RemoteAddr() net.Addr        { return net.TCPAddrFromAddrPort(at(9)) }

// FuzzStream is what anybody can say to the port: none of it is a proven stream.
func FuzzStream(f *testing.F) {
	l := newTestLAN(f)
	init, _, _ := newTestTable(9).CallStream(at(1), session.KindStream, session.Meant{})
	f.Add(init)
	f.Add(append(bytes.Clone(init), 0, 32))
	f.Add(append(bytes.Clone(init), make([]byte, 100)...))
	f.Add([]byte("plain push/pull"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if conn, _, err := l.Accept(&played{in: bytes.NewReader(b)}); err == nil {
			t.Fatalf("a stream was proved by %x: %v", b, conn)
		}
	})
}

// FuzzRecords is what comes after the proof: forged records end the stream, and nothing
// is read that was not written.
func FuzzRecords(f *testing.F) {
	keys := testPair(f)
	var out written
	_, _ = newStream(&out, keys).Write([]byte("the truth"))
	f.Add(out.b)
	f.Add([]byte{0, 0})
	f.Add([]byte{0xFF, 0xFF, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newStream(&played{in: bytes.NewReader(b)}, session.Pair{Send: keys.Recv, Recv: keys.Send})
		got, _ := io.ReadAll(s)
		if len(got) > 0 && string(got) != "the truth" {
			t.Fatalf("read %q", got)
		}
	})
}

// testPair is what the dialling end of a handshake gets.
func testPair(t testing.TB) session.Pair {
	t.Helper()
	init, c, err := newTestTable(1).CallStream(at(2), session.KindStream, session.Meant{})
	if err != nil {
		t.Fatal(err)
	}
	r, _, cause := newTestTable(2).Accept(time.Unix(1, 0), at(1), init)
	if cause != session.CauseNone {
		t.Fatal(cause)
	}
	resp, err := r.Answer()
	if err != nil {
		t.Fatal(err)
	}
	_, _, keys, cause := c.Answered(resp)
	if cause != session.CauseNone {
		t.Fatal(cause)
	}
	return keys
}
