package session

import (
	"net/netip"
	"testing"
	"time"
)

// Rules that a reader took out one at a time, without having read the tests, and that
// nothing noticed.

// Of the lives of one host few are kept: whoever has its id and the key makes up no more.
func TestLivesOfOneHostAreBounded(t *testing.T) {
	r := newRig(t, 1)
	h := r.host(1)
	for i := range 5 * maxLives {
		if _, cause := h.peer(r.now, Life{ID: testID(2), Random: [8]byte{byte(i)}}); cause != CauseNone {
			t.Fatalf("life %d: %v", i, cause)
		}
	}
	if n := len(h.peers); n != maxLives {
		t.Errorf("%d lives of one host are kept, want %d", n, maxLives)
	}
}

// Who has not said which keys it has is called with each of the ring in turn.
func TestS12_KeysAreTriedInTurn(t *testing.T) {
	r := newRig(t, 0)
	r.add(1, testKey(3))
	r.add(2, testKey(1), testKey(2), testKey(3))
	r.say(2, 1, "it is me")
	r.run(time.Second)
	r.host(1).got = nil // it may have waited for too long
	r.say(2, 1, "with the third")
	r.run(time.Second)
	r.expect(1, "n2: with the third")
}

// Of the sessions that were replaced few still receive, however often a peer begins anew.
func TestS6_ReplacedSessionsAreBounded(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	caller := r.host(1)
	begun := caller.opened
	const times = 5 * maxLosers
	for range times {
		caller.only(t).cur.renewAt = r.now
		r.say(1, 2, "anew")
		caller.wake(r.now)
		r.run(time.Second)
	}
	if n := caller.opened - begun; n != times {
		t.Fatalf("%d sessions were begun, want %d", n, times)
	}
	for _, h := range r.hosts {
		if p := h.only(t); len(p.losers) != maxLosers || len(h.byIndex) != maxLosers+1 {
			t.Errorf("%s keeps %d that were replaced, of %d in all; want %d, and one more", h.name, len(p.losers), len(h.byIndex), maxLosers)
		}
	}
}

// The INIT of one kind opens nothing of another: at the port for datagrams none of a stream or
// a tether is answered, and one for datagrams that is played to a stream is still taken at its own.
func TestS2_AnInitOpensItsOwnKind(t *testing.T) {
	r := newRig(t, 1)
	k, who := newSecret(testKey(1)), testHosts[9]
	number := uint64(r.now.UnixNano())
	init := func(kd Kind, to netip.AddrPort) []byte {
		number++
		b, _, err := newCall(nil, r.rand, k, scope{"home", to}, kd, number, who, cookie{})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	stream, tether, datagrams := init(KindStream, netip.AddrPort{}), init(KindTether, at(1)), init(kindDatagrams, at(1))
	r.quietly(1, func(h *host) {
		for _, b := range [][]byte{stream, tether} {
			if cause := h.hear(r.now, at(9), b); cause != CauseType {
				t.Errorf("kind %d at the port for datagrams: %v", b[3], cause)
			}
		}
	})
	own := r.host(1)
	if _, _, cause := own.Accept(r.now, at(9), datagrams); cause != CauseType {
		t.Errorf("one for datagrams on a stream: %v", cause)
	}
	if cause := own.hear(r.now, at(9), datagrams); cause != CauseNone {
		t.Errorf("the same at its own port: %v", cause)
	}
}

// A life that is met at the address of an earlier one has taken its place: nothing of that is kept.
func TestS8_ALaterLifeEndsTheOneBefore(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	later := r.add(1, testKey(1))
	r.say(1, 2, "too soon")
	r.run(asked)
	r.say(1, 2, "again")
	r.run(time.Second)
	r.expect(2, "n1: again")
	if p := r.host(2).only(t); p.Random != later.self.life.Random {
		t.Errorf("the life that is kept is %x, want %x", p.Random, later.self.life.Random)
	}
}

// INITs that were there are known again, the newest of them: a holder of the key has the door keep no more.
func TestS4_TheDoorForgets(t *testing.T) {
	d := newDoor()
	mac := func(i int) [tagSize]byte { return [tagSize]byte{byte(i), byte(i >> 8), 1} }
	const all = 3 * remembered
	for i := range all {
		d.isRepeated(mac(i))
	}
	if n := len(d.again); n != remembered {
		t.Errorf("%d are kept, expected %d", n, remembered)
	}
	if !d.isRepeated(mac(all - remembered)) {
		t.Error("the oldest of those that are kept is not known again")
	}
}

// A copy of PROOF is answered, and nothing else that comes under its session's index.
func TestS5_AnotherProofIsNotAnswered(t *testing.T) {
	r := newRig(t, 2)
	p := r.awaitProof("hello")
	h := r.host(2)
	h.hear(r.now, at(1), p.b)
	r.run(time.Second)
	p.b[len(p.b)-1] ^= 1
	r.quietly(2, func(h *host) {
		if cause := h.hear(r.now, at(1), p.b); cause != CauseMAC {
			t.Errorf("a changed copy: %v", cause)
		}
	})
}

// This very life proves no stream to itself, whatever its copy answers.
func TestAStreamToItselfProvesNothing(t *testing.T) {
	r := newRig(t, 1)
	h := r.host(1)
	init, c, err := newCall(nil, r.rand, newSecret(testKey(1)), scope{cluster: "home"}, KindStream, 1, h.self, cookie{})
	if err != nil {
		t.Fatal(err)
	}
	asked, _, cause := h.Accept(r.now, at(9), init)
	if cause != CauseNone {
		t.Fatal(cause)
	}
	resp, _ := asked.Answer()
	if _, _, cause := c.answered(resp); cause != CauseSelf {
		t.Fatalf("who dialled: %v", cause)
	}
	c.resp = asked.resp // as who does not look
	proof, _, _ := c.prove(nil, indexOf(resp), nil)
	if _, _, cause := asked.Proven(proof); cause != CauseSelf {
		t.Errorf("who was called: %v", cause)
	}
}
