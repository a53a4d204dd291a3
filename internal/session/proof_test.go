package session

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

// awaitProof has n1 say something to n2 and loses its PROOF, which it gives.
func (r *rig) awaitProof(text string) parcel {
	r.t.Helper()
	r.lose = func(p parcel) bool { return p.typ() == typeProof || p.typ() == typeData }
	r.say(1, 2, text)
	r.run(5 * time.Millisecond)
	p := r.last(typeProof)
	r.lose, r.wire = nil, nil
	return p
}

// A stranger who stands in the way changes PROOF: each bit of it costs a hash, no curve, and the true one is still taken.
func TestS5_EveryBitOfProof(t *testing.T) {
	r := newRig(t, 2)
	p := r.awaitProof("hello")
	h := r.host(2)
	for bit := range len(p.b) * 8 {
		b := bytes.Clone(p.b)
		b[bit/8] ^= 1 << (bit % 8)
		if cause := h.hear(r.now, at(1), b); cause == CauseNone {
			t.Fatalf("bit %d flipped: taken", bit)
		}
	}
	if len(h.halves) != 1 || h.halves[0].failed != 0 || len(h.peers) != 0 {
		t.Fatalf("%d halves, %d peers, expected the half as it was", len(h.halves), len(h.peers))
	}
	h.hear(r.now, at(1), p.b)
	r.expect(2, "n1: hello")
}

// So is each length of it.
func TestS5_EveryLengthOfProof(t *testing.T) {
	r := newRig(t, 2)
	p := r.awaitProof("hello")
	h := r.host(2)
	long := append(bytes.Clone(p.b), make([]byte, MaxDatagram)...)
	for n := range long {
		if cause := h.hear(r.now, at(1), long[:n]); n != len(p.b) && cause == CauseNone {
			t.Fatalf("%d bytes: taken", n)
		}
	}
	r.expect(2, "n1: hello")
}

// A holder of the key makes up PROOFs with a true MAC: the fourth that proves nothing ends the half.
func TestS5_AHolderProvesNothingFourTimes(t *testing.T) {
	r := newRig(t, 2)
	p := r.awaitProof("hello")
	h := r.host(2)
	half := h.halves[0]
	for i := range maxFailed {
		b := bytes.Clone(p.b)
		b[headerSize+i] ^= 1
		mac := half.secret.sum(half.resp[:], b[:len(b)-tagSize])
		copy(b[len(b)-tagSize:], mac[:])
		if cause := h.hear(r.now, at(1), b); cause != CauseIdentity {
			t.Errorf("PROOF %d: %v, want %v", i+1, cause, CauseIdentity)
		}
	}
	if len(h.halves) != 0 || len(h.byIndex) != 0 {
		t.Errorf("%d halves and %d indices are left", len(h.halves), len(h.byIndex))
	}
}

// The initiator says PROOF again, byte for byte, before what it sends and after a time, until the other is heard.
func TestS5_ProofIsSaidAgain(t *testing.T) {
	r := newRig(t, 2)
	lost := 0
	r.lose = func(p parcel) bool {
		if p.typ() != typeProof || lost == 3 {
			return false
		}
		lost++
		return true
	}
	r.say(1, 2, "in PROOF")
	r.say(1, 2, "behind it")
	r.run(200 * time.Millisecond)
	var proofs [][]byte
	for _, p := range r.tape {
		if p.typ() == typeProof {
			proofs = append(proofs, p.b)
		}
	}
	for _, b := range proofs {
		if !bytes.Equal(b, proofs[0]) {
			t.Error("PROOF was made a second time: two texts under one key and nonce")
		}
	}
	if len(proofs) < 4 || len(proofs) > 5 {
		t.Errorf("PROOF was said %d times, expected the four that the loss took and the one that came", len(proofs))
	}
	if got := r.host(2).got; len(got) != 1 || got[0] != "n1: in PROOF" {
		t.Errorf("opened %q: what PROOF carries is to come with it", got)
	}
	r.host(2).got, r.tape = nil, nil
	r.say(1, 2, "later")
	r.run(time.Second)
	r.expect(2, "n1: later")
	for _, p := range r.tape {
		if p.typ() == typeProof {
			t.Error("PROOF is said again, though the other was heard")
		}
	}
}

// HELLO that answers PROOF is lost: copies of PROOF have it said again, and no more often than one needs.
func TestS5_ACopyOfProofIsAnswered(t *testing.T) {
	r := newRig(t, 2)
	lost := 0
	r.lose = func(p parcel) bool {
		if p.typ() == typeData && p.from == at(2) && lost < 2 {
			lost++
			return true
		}
		return false
	}
	r.say(1, 2, "hello")
	r.run(time.Second)
	r.expect(2, "n1: hello")
	if s := r.host(1).only(t).cur; s.proof != nil || lost != 2 {
		t.Errorf("after %d lost answers PROOF is still said", lost)
	}
	copyOf := r.last(typeProof)
	r.tape = nil
	for range 100 {
		r.host(2).hear(r.now, at(66), copyOf.b)
		r.run(time.Millisecond)
	}
	if n := len(r.tape); n == 0 || n > 11 {
		t.Errorf("%d datagrams for a hundred copies in 100 ms, expected ten", n)
	}
	for _, p := range r.tape {
		if p.to != at(1) {
			t.Errorf("it was answered to %v", p.to)
		}
	}
}

// With loss a session comes up as soon as its datagrams do.
func TestS5_ALossyNetworkStillMeets(t *testing.T) {
	for _, percent := range []int{1, 20} {
		slow := 0
		const trials = 300
		for trial := range trials {
			r := newRig(t, 2)
			r.lose = func(parcel) bool {
				var b [1]byte
				_, _ = r.rand.Read(b[:])
				return int(b[0])*100 < percent*256
			}
			r.rand.Seed([32]byte{byte(trial), byte(trial >> 8), byte(percent)})
			for i := 0; len(r.host(2).got) == 0 && i < 100; i++ {
				r.say(1, 2, fmt.Sprint(i))
				r.run(20 * time.Millisecond)
			}
			if len(r.host(2).got) == 0 {
				t.Fatalf("%d %% loss, trial %d: nothing came in two seconds", percent, trial)
			}
			if r.host(2).got[0] != "n1: 0" {
				slow++
			}
		}
		if most := trials * percent * 3 / 100; slow > most {
			t.Errorf("%d %% loss: the first word was lost in %d of %d trials, expected at most %d", percent, slow, trials, most)
		}
	}
}

// A public key in another form than its own is refused at both ends: its holder would have one more id.
func TestAKeyHasOneForm(t *testing.T) {
	odd := func(h *host) {
		public := bytes.Clone(h.self.public)
		public[identity.Size-1] |= 0x80 // X25519 does not look at this bit
		h.self.public = public
	}
	r := newRig(t, 2)
	odd(r.host(1))
	r.say(1, 2, "as another")
	r.run(50 * time.Millisecond)
	r.expect(2)
	if h := r.host(2); h.count[CauseIdentity] == 0 || len(h.peers) != 0 {
		t.Errorf("who called: %d refused, %d peers", h.count[CauseIdentity], len(h.peers))
	}
	r = newRig(t, 2)
	odd(r.host(2))
	r.say(1, 2, "to another")
	r.run(50 * time.Millisecond)
	if h := r.host(1); h.count[CauseIdentity] == 0 || len(h.peers) != 0 {
		t.Errorf("who was called: %d refused, %d peers", h.count[CauseIdentity], len(h.peers))
	}
}

// An insider has the cluster's key, and an id of its own. It begins handshakes in any number and from any source, while
// the host that it aims at starts again: that one's sessions come up as without it, and nobody is entered for an INIT.
func TestAnInsiderLocksNobodyOut(t *testing.T) {
	for _, rate := range []int{10, 1000} {
		for name, source := range map[string]func(i int) int{"its own": func(int) int { return 66 }, "the victim's": func(int) int { return 1 },
			"many": func(i int) int { return 70 + i%100 }} {
			t.Run(fmt.Sprintf("%d a second from %s", rate, name), func(t *testing.T) {
				r := newRig(t, 2)
				r.meet()
				r.host(1).off = true
				r.run(300 * time.Millisecond) // so that no second's budget ends with the flood
				flood := func(from, n int) {
					for i := range n {
						r.host(2).hear(r.now, at(source(from+i)), r.caller(9, cookie{}))
					}
				}
				flood(0, rate/2)
				r.add(1, testKey(1))
				r.say(1, 2, "too soon")
				for i := range 10 {
					flood(i*rate/20, rate/20)
					r.run(50 * time.Millisecond)
				}
				r.say(1, 2, "I am back")
				r.run(time.Millisecond)
				r.expect(2, "n1: I am back")
				if n := len(r.host(2).peers); n != 1 {
					t.Errorf("%d peers", n)
				}
			})
		}
	}
}

// A session is of the id that its key has. Whoever is proven cannot be taken for another.
func TestAProvenIdIsThatOfItsKey(t *testing.T) {
	r := newRig(t, 3)
	r.meet()
	for _, h := range r.hosts {
		for _, p := range h.peers {
			if want := testID(int(names[p.ID][1] - '0')); p.ID != want || p.ID == (wire.ID{}) {
				t.Errorf("%s has a session with %v", h.name, p.ID)
			}
		}
	}
}
