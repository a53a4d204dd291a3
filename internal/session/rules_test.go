package session

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/wire"
)

// Rules of protocol 10.3 that could be broken without any other test noticing.

// HELLO takes no address where another host is, silent or not: what is said to it still arrives there. The address is that
// of the one that answers there.
func TestS8_AnAddressThatIsHeld(t *testing.T) {
	r := newRig(t, 3)
	r.meet()
	mover := r.host(3)
	mover.addr = at(2)
	claims := func() {
		mover.greet(r.now, mover.routes[at(1)].peer, false)
		r.run(5 * time.Second)
	}
	claims()
	if n := r.host(1).count[CauseAddress]; n != 1 {
		t.Errorf("%d claims of a held address counted, expected one", n)
	}
	r.say(1, 2, "for two")
	r.run(10 * time.Second)
	r.expect(2, "n1: for two")
	claims() // host 2 has said nothing for a while
	r.say(1, 2, "for two")
	r.run(time.Second)
	r.expect(2, "n1: for two")
	r.host(2).off = true
	r.run(10 * time.Second)
	claims()
	if got := r.host(1).routes[at(2)].peer; got != nil && got.ID == testID(3) {
		t.Error("the address is that of a host which does not answer there")
	}
	mover.at = at(2)
	r.run(helloEvery)
	claims()
	if got := r.host(1).routes[at(2)].peer.ID; got != testID(3) {
		t.Errorf("the address is that of %v, though another host answers there", got)
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

// caller makes an INIT as a holder of the key can, with a cookie or without.
func (r *rig) caller(n int, c cookie) []byte {
	r.t.Helper()
	b, _, err := newCall(nil, r.rand, newSecret(testKey(1)), scope{"home", at(2)}, kindDatagrams, 1, testHosts[n], c)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// What comes from one source is bounded, without a cookie and with one; others are answered meanwhile, and this one again
// a second later.
func TestS1_HandshakesOfOneSourceAreBounded(t *testing.T) {
	r := newRig(t, 2)
	h := r.host(2)
	c, _ := h.door.baker.bake(r.now, r.rand, at(20))
	for _, tt := range []struct {
		c    cookie
		more Cause
	}{{cookie{}, CauseCookie}, {c, CauseBudget}} {
		answered := 0
		for i := range 2 * perSource {
			if h.hear(r.now, at(20), r.caller(20+i, tt.c)) == CauseNone {
				answered++
			}
		}
		if answered != perSource || h.count[tt.more] != perSource {
			t.Errorf("%d handshakes answered, and %d not for %v, expected %d of each", answered, h.count[tt.more], tt.more, perSource)
		}
	}
	if cause := h.hear(r.now, at(9), r.caller(9, cookie{})); cause != CauseNone {
		t.Errorf("another source: %v", cause)
	}
	r.run(time.Second)
	if cause := h.hear(r.now, at(20), r.caller(20, cookie{})); cause != CauseNone {
		t.Errorf("a second later: %v", cause)
	}
}

// A holder of the key forges the sources of its INITs, as many as there are. Who shows that it is where it says, by a
// cookie, is still answered; and where such sources are many, a member is.
func TestS1_ForgedSourcesLeaveRoomForMembers(t *testing.T) {
	r := newRig(t, 3)
	r.meet()
	r.run(time.Second) // another second's budget
	h := r.host(2)
	flood := func(n int, cookies bool) {
		for i := range n {
			from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 7, byte(i >> 8), byte(i)}), 7950)
			var c cookie
			if cookies {
				c, _ = h.door.baker.bake(r.now, r.rand, from)
			}
			h.hear(r.now, from, r.caller(9, c))
		}
	}
	flood(perSecond+100, false)
	if n := h.count[CauseCookie]; n != 100 {
		t.Errorf("%d were asked for a cookie, expected 100", n)
	}
	r.tape = nil
	r.add(4, testKey(1))
	r.say(4, 2, "a newcomer")
	r.run(100 * time.Millisecond)
	r.expect(2, "n4: a newcomer")
	if r.last(typeCookie).to != at(4) {
		t.Error("the newcomer was asked for no cookie")
	}
	flood(perSecond, true)
	if n := h.count[CauseBudget]; n == 0 {
		t.Error("no stranger was beyond the budget")
	}
	h.SetRoster([]wire.ID{testID(3)})
	r.add(3, testKey(1)) // a member that starts again
	r.say(3, 2, "too soon")
	r.run(asked)
	r.say(3, 2, "it is me")
	r.run(100 * time.Millisecond)
	r.expect(2, "n3: it is me")
}

// A cookie is of its source, and for two minutes.
func TestS1_ACookieIsOfItsSource(t *testing.T) {
	r := newRig(t, 2)
	h := r.host(2)
	c, _ := h.door.baker.bake(r.now, r.rand, at(9))
	for name, tt := range map[string]struct {
		init  []byte
		from  netip.AddrPort
		after time.Duration
		want  bool
	}{
		"its own":       {r.caller(9, c), at(9), 0, true},
		"none":          {r.caller(9, cookie{}), at(9), 0, false},
		"another's":     {r.caller(9, c), at(8), 0, false},
		"another port":  {r.caller(9, c), netip.AddrPortFrom(at(9).Addr(), 1), 0, false},
		"an old one":    {r.caller(9, c), at(9), cookieFor, false},
		"one made up":   {r.caller(9, cookie{1}), at(9), 0, false},
		"just in time ": {r.caller(9, c), at(9), cookieFor - 1, true},
	} {
		if got := h.door.baker.isSigned(r.now.Add(tt.after), tt.from, tt.init); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A COOKIE that answers another INIT, or was made without the key, is not taken; a copy brings no second INIT.
func TestS1_OnlyACookieOfOursIsTaken(t *testing.T) {
	r := newRig(t, 1)
	h := r.host(1)
	r.say(1, 2, "hello")
	init := r.last(typeInit).b
	k := newSecret(testKey(1))
	head, _ := parseHeader(init)
	cookieOf := func(k *secret, init []byte) []byte {
		b, err := appendCookie(nil, r.rand, k, head, init, cookie{1})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	other := bytes.Clone(init)
	other[handshakeSize-tagSize-cookieSize]++
	for name, b := range map[string][]byte{"a stranger's": cookieOf(newSecret(testKey(2)), init), "another INIT's": cookieOf(k, other)} {
		if cause := h.hear(r.now, at(2), b); cause != CauseForged {
			t.Errorf("%s cookie: %v", name, cause)
		}
	}
	sent := len(r.tape)
	good := cookieOf(k, init)
	if cause := h.hear(r.now, at(2), good); cause != CauseNone || len(r.tape) != sent+1 {
		t.Errorf("a true cookie: %v, and %d datagrams are sent for it", cause, len(r.tape)-sent)
	}
	if again := r.last(typeInit).b; bytes.Equal(again[handshakeSize-cookieSize:], make([]byte, cookieSize)) {
		t.Error("the next INIT has no cookie")
	}
	if h.hear(r.now, at(2), good); len(r.tape) != sent+1 {
		t.Error("a copy brings another INIT")
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

// Three machines have one state directory, and so one id. Each meets each of the others,
// whichever of them began first: what is refused is taken for silence, and two of one id
// that take each other for gone lead both.
func TestS8_HostsOfOneIdMeet(t *testing.T) {
	r := newRig(t, 3)
	for _, h := range r.hosts {
		random := h.self.life.Random
		h.self = testHosts[1]
		h.self.life.Random = random
	}
	for _, from := range []int{3, 2, 1} {
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

// An INIT whose sender never proves itself is forgotten when its time has passed, and leaves no index behind. It stands
// under no id.
func TestS5_AnInitThatWasNeverProven(t *testing.T) {
	r := newRig(t, 2)
	h := r.host(2)
	for range 2 {
		if cause := h.hear(r.now, at(1), r.caller(1, cookie{})); cause != CauseNone {
			t.Fatal(cause)
		}
	}
	if len(h.byIndex) != 2 || len(h.peers) != 0 || len(h.routes) != 0 {
		t.Errorf("%d indices, %d peers, %d routes, expected two indices alone", len(h.byIndex), len(h.peers), len(h.routes))
	}
	r.run(halfFor)
	if n := len(h.byIndex); n != 0 {
		t.Errorf("%d indices are left", n)
	}
}

// What one source has waiting is bounded, and what all have: a new one pushes out one of the source that has most.
func TestS5_HalvesAreBounded(t *testing.T) {
	var hs halves
	source := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	for range perHalves - 2 {
		hs.add(&half{from: source(2)})
	}
	for range 2 * perHalves {
		hs.add(&half{from: source(1)})
	}
	if n := hs.count(source(1)); n != perHalves {
		t.Errorf("%d of one source wait, expected %d", n, perHalves)
	}
	for i := len(hs); i <= maxHalves; i++ {
		hs.add(&half{from: source(i)})
	}
	if len(hs) != maxHalves {
		t.Errorf("%d wait, expected %d", len(hs), maxHalves)
	}
	if most, other := hs.count(source(1)), hs.count(source(2)); most != perHalves-1 || other != perHalves-2 {
		t.Errorf("%d of the source that had most are left, and %d of another, which came first", most, other)
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
	r.lose = func(p parcel) bool { return p.typ() == typeProof }
	r.say(1, 2, "in time")
	r.run(5 * time.Millisecond) // INIT and RESP, and no PROOF
	p := r.last(typeProof)
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
		b, _, err := newCall(nil, r.rand, stranger, scope{"home", at(1)}, kindDatagrams, uint64(i+1), testHosts[8], cookie{})
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
