package session

import (
	"bytes"
	"reflect"
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
		r.t, r.tape, r.wire = t, nil, nil
		h := r.host(2)
		cause := h.hear(r.now, at(9), b)
		for _, p := range r.tape {
			if p.to != at(1) && len(p.b) > len(b) { // what goes to a host is no answer: after UNKNOWN it is called with another key
				t.Errorf("%d bytes to %v in answer to %d", len(p.b), p.to, len(b))
			}
		}
		r.tape, r.wire = nil, nil
		if len(h.got) > 0 || cause == CauseNone {
			t.Fatalf("opened %q, cause %v", h.got, cause)
		}
		r.now = r.now.Add(time.Microsecond)
		r.say(1, 2, "x")
		r.run(r.delay)
		if len(h.got) != 1 {
			t.Fatalf("the session has ended: %q", h.got)
		}
		h.got = nil
	})
}

// FuzzInner is what a holder of the key can say inside a session: HELLO, and what looks
// like it.
func FuzzInner(f *testing.F) {
	good := hello{true, at(1), []key.ID{1, 2}, 1, card{2, []byte("voter")}, testPrivate(1).Receipt(1), Receipt{Incarnation: 1, Text: testPrivate(2).Receipt(1)}, 7}
	f.Add(good.append(nil))
	f.Add(hello{addr: at(1), keys: []key.ID{1}}.append(nil))
	f.Add(good.append(nil)[:helloSize])
	f.Add([]byte{magic0, magic1, helloByte})
	r := newRig(f, 3)
	r.meet()
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 || len(b) > MaxInner || IsRefused(b) {
			return
		}
		if h, ok := parseHello(b); ok {
			if again, ok := parseHello(h.append(nil)); !ok || !reflect.DeepEqual(again, h) || len(h.card.text) > MaxCard {
				t.Fatalf("%+v comes back as %+v", h, again)
			}
		}
		r.t, r.tape, r.wire = t, nil, nil
		r.now = r.now.Add(time.Microsecond)
		_ = r.host(1).Send(r.now, at(2), b)
		r.run(r.delay)
		h := r.host(2)
		h.got = nil
		if p := h.routes[at(3)].peer; p == nil || p.ID != testID(3) && p.isThere(r.now) {
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

// FuzzRefused is what a holder of the key can say in the place of REFUSED. One that is well made is remembered and ends the
// session with its sender, or leaves it for the time that it names; nothing else comes of any.
func FuzzRefused(f *testing.F) {
	f.Add(refused{0, 7}.append(nil))
	f.Add(refused{500 * time.Millisecond, 7}.append(nil))
	f.Add(refused{0, 0}.append(nil))
	f.Add([]byte{magic0, magic1, refusedByte})
	var met *rig // as a message without a meaning has left it: a handshake takes a millisecond, and nobody calls in vain
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append([]byte{magic0, magic1, refusedByte}, b[min(3, len(b)):]...)
		if len(b) > MaxInner {
			return
		}
		said, ok := parseRefused(b)
		if ok && !bytes.Equal(said.append(nil), b) {
			t.Fatalf("%+v comes back as %x", said, said.append(nil))
		}
		if met == nil {
			met = newRig(t, 3)
			for _, h := range met.hosts {
				h.SetCard(met.now, []byte(h.name))
			}
			met.say(1, 2, "hello")
			met.say(3, 2, "hello")
			met.run(time.Second)
			met.expect(2, "n1: hello", "n3: hello")
		}
		r := met
		r.t, r.tape = t, nil
		_ = r.host(1).Send(r.now, at(2), b)
		r.run(r.delay)
		h := r.host(2)
		if isKnown := len(h.gate.by) == 1 && h.gate.by[0].ID == testID(1); ok != isKnown || h.gate.isShut {
			t.Errorf("%x: refused by %v, shut: %v", b, h.gate.by, h.gate.isShut)
		}
		if n := len(h.peers); n != 2 && !(ok && said.within == 0 && n == 1) {
			t.Errorf("%x: %d peers are left", b, n)
		}
		r.say(3, 2, "x")
		r.run(r.delay)
		r.expect(2, "n3: x")
		if ok {
			met = nil
		}
	})
}
