package session

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
)

// Rules of protocol 10.3 that could be broken without any other test noticing.

// HELLO takes no address where another host is: what is said to it still arrives there.
// Once that host is silent, the address is that of the one that says so.
func TestS8_AnAddressThatIsHeld(t *testing.T) {
	r := newRig(t, 3)
	r.meet()
	mover := r.host(3)
	mover.addr = at(2)
	claims := func() {
		mover.greet(r.now, mover.routes[at(1)].peer, false)
		r.run(time.Second)
	}
	claims()
	if n := r.host(1).count[CauseAddress]; n != 1 {
		t.Errorf("%d claims of a held address counted, expected one", n)
	}
	r.say(1, 2, "for two")
	r.run(time.Second)
	r.expect(2, "n1: for two")
	r.host(2).off = true
	r.run(10 * time.Second)
	claims()
	if got := r.host(1).routes[at(2)].peer.ID; got != testID(3) {
		t.Errorf("the address is that of %v, though its host has been silent", got)
	}
}

// A session under a key that was removed opens nothing once its time has passed, also
// where the timer that sweeps it is late.
func TestS12_ARemovedKeyOpensNothingLate(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	r.lose = func(parcel) bool { return true }
	var said [2]parcel
	for i := range said {
		r.say(1, 2, "late")
		said[i] = r.last(typeData)
	}
	h := r.host(2)
	h.SetKeys(r.now, key.Ring{testKey(2)})
	if cause := h.hear(r.now.Add(revokedIn-1), at(1), said[0].b); cause != CauseNone {
		t.Errorf("within its time: %v", cause)
	}
	if cause := h.hear(r.now.Add(revokedIn), at(1), said[1].b); cause != CauseIndex {
		t.Errorf("after its time: %v", cause)
	}
}

// caller makes INITs of one host as a holder of the key can: as many as it likes.
func (r *rig) caller(n int, number *uint64) []byte {
	r.t.Helper()
	*number++
	self := Life{ID: testID(n), Random: [8]byte{byte(n)}}
	b, _, err := newCall(nil, r.rand, newSecret(testKey(1)), scope{"home", at(2)}, kindDatagrams, *number, self)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// What one host costs in handshakes is bounded, and what comes from one source in
// whatever names; others are answered meanwhile, and these again a second later.
func TestS1_HandshakesOfOneHostAreBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		from func(i int) netip.AddrPort
		host func(i int) int
		most int
	}{
		"one host":   {func(i int) netip.AddrPort { return at(20 + i) }, func(int) int { return 1 }, perHost},
		"one source": {func(int) netip.AddrPort { return at(20) }, func(i int) int { return 20 + i }, perSource},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2)
			h := r.host(2)
			number := uint64(r.now.UnixNano())
			answered := 0
			for i := range 2 * tt.most {
				if h.hear(r.now, tt.from(i), r.caller(tt.host(i), &number)) == CauseNone {
					answered++
				}
			}
			if answered != tt.most || h.count[CauseBudget] != uint64(tt.most) {
				t.Errorf("%d handshakes answered, %d refused, expected %d of each", answered, h.count[CauseBudget], tt.most)
			}
			if cause := h.hear(r.now, at(9), r.caller(9, &number)); cause != CauseNone {
				t.Errorf("another host: %v", cause)
			}
			r.run(time.Second)
			if cause := h.hear(r.now, tt.from(0), r.caller(tt.host(0), &number)); cause != CauseNone {
				t.Errorf("a second later: %v", cause)
			}
		})
	}
}

// Two hosts that begin with different keys of one ring use a session of either, and do not
// replace it by turns.
func TestS12_KeysInAnotherOrder(t *testing.T) {
	r := newRig(t, 0)
	r.add(1, testKey(1), testKey(2))
	r.add(2, testKey(2), testKey(1))
	r.meet()
	for n := 1; n <= 2; n++ {
		r.host(n).KeepWarm(r.now, []netip.AddrPort{at(3 - n)})
	}
	r.run(time.Minute)
	if n := r.host(1).opened; n > 4 {
		t.Errorf("%d sessions in a minute", n)
	}
}

// An INIT that was held back is not taken after a later one of the same life, though it
// was never there before.
func TestS3_AnInitThatWasHeldBack(t *testing.T) {
	r := newRig(t, 2)
	var held *parcel
	r.lose = func(p parcel) bool {
		if held != nil || p.typ() != typeInit {
			return false
		}
		held = &p
		return true
	}
	r.say(1, 2, "one")
	r.run(time.Second)
	r.expect(2, "n1: one")
	if cause := r.host(2).hear(r.now, held.from, held.b); cause != CauseRepeated {
		t.Errorf("it is taken: %v", cause)
	}
}

// A host starts again with its clock set back: its numbers are lower than those before. It is
// let in all the same.
func TestS3_AClockThatWasSetBack(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	number := r.host(1).number - uint64(time.Hour)
	r.host(1).off = true
	if cause := r.host(2).hear(r.now, at(1), r.caller(1, &number)); cause != CauseNone {
		t.Error(cause)
	}
}

// Three machines have one state directory, and so one id. Each meets each of the others,
// whichever of them began first: what is refused is taken for silence, and two of one id
// that take each other for gone lead both.
func TestS3_HostsOfOneIdMeet(t *testing.T) {
	r := newRig(t, 3)
	for i, h := range r.hosts {
		h.self.ID = testID(1)
		h.number += uint64(i) * uint64(time.Second)
	}
	for _, from := range []int{3, 2, 1} { // the later ones first: an earlier one's number is below theirs then
		for to := range 3 {
			if to+1 != from {
				r.say(from, to+1, fmt.Sprint("from ", from))
			}
		}
		r.run(100 * time.Millisecond)
	}
	r.run(time.Second)
	for n, want := range map[int][]string{1: {"from 2", "from 3"}, 2: {"from 1", "from 3"}, 3: {"from 1", "from 2"}} {
		got := r.host(n).got
		slices.Sort(got)
		for i, text := range want {
			if len(got) != len(want) || got[i] != "n1: "+text {
				t.Errorf("%d of the id opened %q, expected %q", n, got, want)
				break
			}
		}
	}
}

// A host that begins a session and does not use it may begin another: the first is forgotten then,
// and the last when its time has passed. None leaves an index behind.
func TestS5_ASessionThatWasNeverUsed(t *testing.T) {
	r := newRig(t, 2)
	h := r.host(2)
	number := uint64(r.now.UnixNano())
	for range 2 {
		if cause := h.hear(r.now, at(1), r.caller(1, &number)); cause != CauseNone {
			t.Fatal(cause)
		}
		if n := len(h.byIndex); n != 1 {
			t.Errorf("%d indices, expected that of the last session", n)
		}
	}
	r.run(provenIn)
	if n := len(h.byIndex); n != 0 {
		t.Errorf("%d indices are left", n)
	}
}

// What has waited for a session for longer than 200 ms is lost, and counted: an old
// heartbeat would be no sign of life.
func TestS9_WhatHasWaitedTooLongIsLost(t *testing.T) {
	r := newRig(t, 2)
	cut := r.now.Add(waitFor + 50*time.Millisecond)
	r.lose = func(parcel) bool { return r.now.Before(cut) }
	r.say(1, 2, "old")
	r.run(cut.Sub(r.now))
	r.say(1, 2, "new")
	r.run(time.Second)
	r.expect(2, "n1: new")
	if n := r.host(1).count[CauseUnanswered]; n != 1 {
		t.Errorf("%d datagrams counted that waited in vain, expected one", n)
	}
}

// An INIT that came before its key was removed makes no session after that.
func TestS12_ARemovedKeyProvesNothing(t *testing.T) {
	r := newRig(t, 2)
	r.lose = func(p parcel) bool { return p.typ() == typeData }
	r.say(1, 2, "in time")
	r.run(10 * time.Millisecond) // INIT and RESP, and no word in the session
	p := r.last(typeData)
	h := r.host(2)
	h.SetKeys(r.now, key.Ring{testKey(2)})
	if cause := h.hear(r.now, p.from, p.b); cause != CauseIndex {
		t.Errorf("a session under a removed key is proven: %v", cause)
	}
	r.expect(2)
}

// Who sends INITs under a key that is not in the ring is answered ten times a second, or
// anybody could have this host answer without end.
func TestS15_AnswersToUnknownKeysAreBounded(t *testing.T) {
	r := newRig(t, 1)
	stranger := newSecret(testKey(7))
	for i := range 3 * perSource {
		b, _, err := newCall(nil, r.rand, stranger, scope{"home", at(1)}, kindDatagrams, uint64(i+1), Life{ID: testID(8)})
		if err != nil {
			t.Fatal(err)
		}
		r.host(1).hear(r.now, at(8), b)
	}
	answers := 0
	for _, p := range r.tape {
		if p.typ() == typeUnknown {
			answers++
		}
	}
	if answers != perSource {
		t.Errorf("%d answers in one second, expected %d", answers, perSource)
	}
}
