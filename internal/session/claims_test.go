package session

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/wire"
)

// What a member says of its address takes nothing from others (S8). A member here is whoever has the cluster's key.

// claim has a host say in HELLO to another that it is reached at an address.
func (r *rig) claim(from, to int, addr netip.AddrPort) {
	h := r.host(from)
	own := h.addr
	h.addr = addr
	h.greet(r.now, h.routes[at(to)].peer, false)
	h.addr = own
}

// A member says an absent host's address to be its own, and goes on talking. It has that address once the host is forgotten.
// When that host starts, it is reached there.
func TestS8_ASaidAddressLocksNobodyOut(t *testing.T) {
	r := newRig(t, 3)
	r.meet()
	r.host(2).off = true
	talk := func(d time.Duration) {
		for range d / (200 * time.Millisecond) {
			r.claim(3, 1, at(2))
			r.run(200 * time.Millisecond)
		}
	}
	talk(10 * time.Second)
	if got := r.host(1).routes[at(2)].peer.ID; got != testID(2) {
		t.Errorf("the address is that of %v by mere word", got)
	}
	r.host(3).KeepWarm(r.now, []netip.AddrPort{at(1)})
	talk(forgottenIn)
	if got := r.host(1).routes[at(2)].peer.ID; got != testID(3) {
		t.Fatalf("the address is that of %v, expected the liar's", got)
	}
	r.add(2, testKey(1))
	r.say(2, 1, "I am back")
	talk(time.Second)
	r.expect(1, "n2: I am back")
	r.say(1, 2, "to two")
	talk(time.Second)
	r.expect(2, "n1: to two")
	for _, p := range r.host(1).peers {
		if p.ID == testID(3) && p.addr == at(2) {
			t.Error("the liar is still said to be reached there")
		}
	}
	calls := r.host(1).number
	talk(9 * time.Second)
	if n := r.host(1).number - calls; n > 1 {
		t.Errorf("claims of an address whose host has answered bring %d INITs", n)
	}
}

// A member that says one address after the other has one of them: no more places than one are used up.
func TestS8_AHostIsAtOneAddressThatItSays(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	places := len(r.host(1).routes)
	for i := range 100 {
		r.claim(2, 1, netip.AddrPortFrom(at(2).Addr(), uint16(i+1)))
		r.run(time.Millisecond)
	}
	h := r.host(1)
	if n := len(h.routes); n > places+1 {
		t.Errorf("%d addresses are kept, expected %d", n, places+1)
	}
	if r := h.routes[netip.AddrPortFrom(at(2).Addr(), 100)]; r == nil || r.peer == nil {
		t.Error("the last is not its")
	}
}

// A member makes up as many hosts as there is room for. One more is still met, and who a session is kept with stays.
func TestMadeUpHostsLeaveRoom(t *testing.T) {
	r := newRig(t, 3)
	r.meet()
	h := r.host(1)
	h.KeepWarm(r.now, []netip.AddrPort{at(3)})
	warm := h.routes[at(3)].peer
	r.run(time.Second)
	for i := range maxPeers {
		var id wire.ID
		binary.BigEndian.PutUint32(id[:], uint32(i+1))
		p, cause := h.peer(r.now, Life{ID: id})
		if cause != CauseNone {
			t.Fatalf("host %d: %v", i, cause)
		}
		p.hear(r.now)
		p.cur = &session{peer: p, diesAt: r.now.Add(time.Hour)}
	}
	if len(h.peers) != maxPeers {
		t.Fatalf("%d peers, expected %d", len(h.peers), maxPeers)
	}
	r.add(4, testKey(1))
	r.say(4, 1, "a newcomer")
	r.run(100 * time.Millisecond)
	r.expect(1, "n4: a newcomer")
	if h.peers[warm.Life] != warm {
		t.Error("a host with which a session is kept was pushed out")
	}
}

// Who answers each INIT with another cookie brings no INIT for each.
func TestS1_CookiesHurryNobody(t *testing.T) {
	r := newRig(t, 1)
	h := r.host(1)
	k := newSecret(testKey(1))
	r.say(1, 2, "hello")
	for i := range 100 {
		init := r.last(typeInit).b
		head, _ := parseHeader(init)
		b, err := appendCookie(nil, r.rand, k, head, init, cookie{byte(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		h.hear(r.now, at(2), b)
	}
	if h.number > 2 {
		t.Errorf("%d INITs in one instant, expected the first and one with a cookie", h.number)
	}
}

// Strangers whose addresses are many leave half of the streams to members.
func TestS1_StreamsOfMembersHaveRoom(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	h := r.host(1)
	open := func(n int, from netip.AddrPort) Cause {
		init, _, err := newCall(nil, r.rand, newSecret(testKey(1)), scope{cluster: "home"}, KindStream, uint64(n), testHosts[9], cookie{})
		if err != nil {
			t.Fatal(err)
		}
		_, _, cause := h.Accept(r.now, from, init)
		return cause
	}
	for i := range 2 * perSecond {
		open(i, netip.MustParseAddrPort(fmt.Sprintf("10.7.0.%d:1", i)))
	}
	if cause := open(1000, at(8)); cause != CauseBudget {
		t.Errorf("one more stranger: %v", cause)
	}
	member := netip.AddrPortFrom(at(2).Addr(), 1)
	if cause := open(1001, member); cause != CauseBudget {
		t.Errorf("a member that is new: %v", cause)
	}
	h.SetRoster([]wire.ID{testID(2)})
	if cause := open(1002, member); cause != CauseNone {
		t.Errorf("a member of the roster: %v", cause)
	}
	h.SetRoster(nil)
	for _, c := range []struct {
		known time.Duration
		want  Cause
	}{{knownAfter - 2*time.Second, CauseBudget}, {knownAfter, CauseNone}} {
		if got := h.door.streams.takeTrue(r.now, at(9).Addr(), h.isKnownAt); got {
			t.Error("there is room for strangers")
		}
		if got := h.IsKnown(r.now.Add(c.known), testID(2)); got != (c.want == CauseNone) {
			t.Errorf("a member that was met %v ago is known: %v", c.known, got)
		}
	}
}

// So does who dialled: it proves nothing to a stream whose key was removed meanwhile.
func TestS14_ACallOutlivesNoKey(t *testing.T) {
	r := newRig(t, 1)
	h := r.host(1)
	who := testHosts[2].life
	_, c, err := h.CallStream(at(2), KindTether, Meant{who.ID, who.Nonce(), at(2)})
	if err != nil {
		t.Fatal(err)
	}
	if cause := h.Met(c, who); cause != CauseNone {
		t.Fatalf("before: %v", cause)
	}
	h.SetKeys(r.now, key.Ring{testKey(2)})
	if cause := h.Met(c, who); cause != CauseKey {
		t.Errorf("after its key was removed: %v", cause)
	}
}
