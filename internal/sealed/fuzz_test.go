package sealed

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
)

// FuzzReceive gives a host whatever anybody can send. Nothing is opened but what was
// sealed, no answer is longer than its question, and the session goes on.
func FuzzReceive(f *testing.F) {
	seed := newRig(f, 2)
	seed.meet()
	for _, p := range seed.tape {
		f.Add(p.b)
	}
	f.Add([]byte{})
	f.Add([]byte{magic0, magic1})
	f.Add(appendUnknown(nil, 1, 2, []key.ID{3}))
	r := newRig(f, 2)
	r.meet()
	f.Fuzz(func(t *testing.T, b []byte) {
		r.t = t
		h := r.host(2)
		r.tape, r.wire = nil, nil
		cause := h.hear(r.now, at(9), b)
		for _, p := range r.tape {
			if len(p.b) > len(b) {
				t.Errorf("%d bytes in answer to %d", len(p.b), len(b))
			}
		}
		r.tape, r.wire = nil, nil
		if len(h.got) > 0 || cause == causeNone {
			t.Fatalf("opened %q, cause %v", h.got, cause)
		}
		r.now = r.now.Add(time.Microsecond)
		r.say(1, 2, "x")
		r.run(r.delay)
		if len(h.got) != 1 {
			t.Fatalf("the session has ended: %q", h.got)
		}
		h.got, r.tape = nil, nil
	})
}

// FuzzInner is what a holder of the key can say inside a session: HELLO, and what looks
// like it.
func FuzzInner(f *testing.F) {
	good := hello{true, at(1), []key.ID{1, 2}}
	f.Add(good.append(nil))
	f.Add(good.append(nil)[:helloSize])
	f.Add([]byte{magic0, magic1, helloByte})
	r := newRig(f, 3)
	r.meet()
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 || len(b) > MaxInner {
			return
		}
		if h, ok := parseHello(b); ok {
			if again, ok := parseHello(h.append(nil)); !ok || again.addr != h.addr || len(again.keys) != len(h.keys) {
				t.Fatalf("%+v comes back as %+v", h, again)
			}
		}
		r.t, r.tape, r.wire = t, nil, nil
		r.now = r.now.Add(time.Microsecond)
		_ = r.host(1).send(r.now, at(2), b)
		r.run(r.delay)
		h := r.host(2)
		h.got = nil
		if p := h.routes[at(3)].peer; p == nil || p.id != testID(3) && p.isThere(r.now) {
			t.Fatal("a member has taken the address of another, which is there")
		}
		r.wire = nil
		r.say(3, 2, "x") // so that it is there
		r.run(r.delay)
		if len(h.got) != 1 || len(h.peers) > 2 {
			t.Fatalf("opened %q, %d peers", h.got, len(h.peers))
		}
		h.got = nil
	})
}

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
	var init []byte
	l.locked(func(t *table, _ time.Time) {
		init, _, _ = newCall(nil, t.rand, newSecret(testKey(1)), scope{cluster: "home"}, kindStream, 1<<61, identity{id: testID(9)})
	})
	f.Add(init)
	f.Add(append(bytes.Clone(init), 0, 32))
	f.Add(append(bytes.Clone(init), make([]byte, 100)...))
	f.Add([]byte("plain push/pull"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if conn, err := l.Accept(&played{in: bytes.NewReader(b)}); err == nil {
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
		s := newStream(&played{in: bytes.NewReader(b)}, pair{send: keys.recv, recv: keys.send})
		got, _ := io.ReadAll(s)
		if len(got) > 0 && string(got) != "the truth" {
			t.Fatalf("read %q", got)
		}
	})
}

// testPair is what the dialling end of a handshake gets.
func testPair(t testing.TB) pair {
	t.Helper()
	r := newRig(t, 1)
	s, k := scope{cluster: "home"}, newSecret(testKey(1))
	init, c, _ := newCall(nil, r.rand, k, s, kindStream, 1, identity{id: testID(1)})
	h, _ := parseHeader(init)
	req, cause := readInit(init, r.rand, h, k, s)
	if cause != causeNone {
		t.Fatal(cause)
	}
	resp, _, _, err := req.answer(nil, identity{id: testID(2)})
	if err != nil {
		t.Fatal(err)
	}
	_, _, keys, cause := c.answered(resp)
	if cause != causeNone {
		t.Fatal(cause)
	}
	return keys
}
