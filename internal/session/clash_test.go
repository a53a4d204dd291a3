package session

import (
	"slices"
	"testing"
	"time"
)

// copyOf starts a life of host n at the address of another, beside the one that is there.
func (r *rig) copyOf(n, where int, incarnation uint32) *host {
	r.t.Helper()
	r.lives[n] = incarnation - 1
	was := slices.Clone(r.hosts)
	h := r.add(n, testKey(1))
	h.name, h.at, h.addr = "copy", at(where), at(where)
	for i, other := range r.hosts {
		if other == h {
			was[i].off = false
		}
	}
	r.hosts = append(was, h)
	return h
}

// copied has hosts 1 and 2 meet, and begins a life of host 1 at the address of host 3.
func copied(t *testing.T, incarnation uint32) (r *rig, first, second *host) {
	r = newRig(t, 2)
	r.meet()
	return r, r.host(1), r.copyOf(1, 3, incarnation)
}

func (r *rig) saysTo(h *host, to int, text string) {
	r.t.Helper()
	if err := h.Send(r.now, at(to), []byte(text)); err != nil {
		r.t.Fatal(err)
	}
}

// A later life of a host that is there takes neither its address nor its place, and is heard by nobody, for as long as the
// one that was there before answers; people are told. Once that is silent it gives way, whole.
func TestS17_ALifeThatIsThereStays(t *testing.T) {
	r, first, second := copied(t, 2)
	h := r.host(2)
	for i := range 10 {
		r.saysTo(first, 2, "the first")
		r.saysTo(second, 2, "the second")
		r.run(300 * time.Millisecond)
		r.expect(2, "n1: the first")
		r.say(2, 1, "to the first")
		r.run(10 * time.Millisecond)
		if got := first.got; len(got) != i+1 || len(second.got) > 0 {
			t.Fatalf("the first has heard %q, and the second %q", got, second.got)
		}
	}
	if n := len(h.said); n == 0 || n > 5 || h.said[0] != CauseClash {
		t.Errorf("people were told %v in three seconds", h.said)
	}
	first.off = true
	r.saysTo(second, 2, "too soon")
	r.run(time.Second + asked) // it was asked a moment ago, and answered
	r.saysTo(second, 2, "the second")
	r.run(10 * time.Millisecond)
	r.expect(2, "n1: the second")
	if p := h.only(t); p.Life != second.self.life || p.addr != at(3) {
		t.Errorf("it has %v at %v", p.Life, p.addr)
	}
}

// One answer of many is enough: a life that is there does not lose its place to another by losses.
func TestS17_OneAnswerOfThree(t *testing.T) {
	r, first, second := copied(t, 2)
	n := 0
	r.lose = func(p parcel) bool {
		if p.from != first.at {
			return false
		}
		n++
		return n < clashAsks
	}
	r.saysTo(second, 2, "the second")
	r.run(time.Second)
	r.expect(2)
	if n < clashAsks {
		t.Fatalf("it has answered %d times: this test sees too little", n)
	}
	if p := r.host(2).routes[at(1)].peer; p == nil || p.Life != first.self.life {
		t.Errorf("at the first one's address is %v", p)
	}
}

// A life that is held takes its place too where the one before it is forgotten for another reason than its silence.
func TestS17_ALifeIsFreeOnceNobodyElseIs(t *testing.T) {
	r, first, second := copied(t, 2)
	r.saysTo(second, 2, "too soon")
	r.run(time.Second)
	r.expect(2)
	h := r.host(2)
	h.forget(h.peers[first.self.life])
	first.off = true
	r.run(2 * time.Second)
	r.saysTo(second, 2, "the second")
	r.run(10 * time.Millisecond)
	r.expect(2, "n1: the second")
	if p := h.routes[at(3)].peer; p == nil || p.Life != second.self.life || p.addr != at(3) {
		t.Errorf("at its address is %v", p)
	}
}

// A stream of a life that is held is for gossip alone, and one of a life of the past for nothing, whoever has begun it.
func TestS17_StreamsOfLivesThatAreHeld(t *testing.T) {
	r, first, second := copied(t, 9)
	r.saysTo(second, 2, "hello")
	r.run(time.Second)
	h, past := r.host(2), first.self.life
	past.Incarnation = 0
	for _, c := range []struct {
		who             Life
		gossip, another Cause
	}{
		{first.self.life, CauseNone, CauseNone},
		{second.self.life, CauseNone, CauseClash},
		{past, CausePast, CausePast},
		{Life{ID: testID(9)}, CauseNone, CauseNone},
	} {
		for kind, want := range map[Kind]Cause{KindStream: c.gossip, KindTether: c.another, KindQuestion: c.another} {
			asked := &Request{&request{secret: h.ring[0], self: h.self, head: header{kind: kind}}}
			if _, got := h.Admit(r.now, asked, c.who, at(1)); got != want {
				t.Errorf("a stream of kind %d of life %d of %s: %v, expected %v", kind, c.who.Incarnation, names[c.who.ID], got, want)
			}
		}
		call := &Call{&call{secret: h.ring[0], self: h.self}, at(1), Meant{}}
		if got := h.Met(call, c.who); got != c.gossip {
			t.Errorf("a stream to life %d of %s: %v, expected %v", c.who.Incarnation, names[c.who.ID], got, c.gossip)
		}
	}
}
