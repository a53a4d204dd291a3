package session

import (
	"net/netip"
	"testing"
	"time"
)

// inits are when INITs went to an address.
func (r *rig) inits(to netip.AddrPort) (at []time.Time) {
	for _, p := range r.tape {
		if p.typ() == typeInit && p.to == to {
			at = append(at, p.at)
		}
	}
	return at
}

// An address that somebody has named, and where nobody proves to be, gets a few INITs, and then one now and then: whether a
// session with it is kept, or something is sent there again and again.
func TestS18_AToldAddressIsLeftAlone(t *testing.T) {
	for name, want := range map[string]func(r *rig){
		"kept": func(r *rig) { r.host(1).KeepWarm(r.now, []netip.AddrPort{at(9)}); r.run(time.Hour) },
		"sent to": func(r *rig) {
			for range 1200 {
				r.say(1, 9, "gossip")
				r.run(3 * time.Second) // longer than what was sent is worth an INIT
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			want(r)
			sent := r.inits(at(9))
			if n := len(sent); n < toldTries+10 || n > toldTries+20 {
				t.Fatalf("%d INITs in an hour", n)
			}
			for i := toldTries; i < len(sent); i++ {
				if gap, least := sent[i].Sub(sent[i-1]), min(toldPause<<min(i-toldTries, 10), toldMost); gap < least {
					t.Errorf("INIT %d comes %v after the one before, want %v at least", i+1, gap, least)
				}
			}
		})
	}
}

// One where somebody has proved to be is called each second, however long nobody answers.
func TestS18_AProvenAddressIsCalledOn(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	r.host(2).off = true
	r.host(1).KeepWarm(r.now, []netip.AddrPort{at(2)})
	r.run(time.Minute)
	r.tape = nil
	r.run(time.Minute)
	if n := len(r.inits(at(2))); n < 55 {
		t.Errorf("%d INITs in a minute", n)
	}
}

// Of many addresses that somebody has named few are tried at a time; each is in its turn, and one where a host is does not wait
// for all of them.
func TestS18_FewToldAddressesAtATime(t *testing.T) {
	r := newRig(t, 2)
	var all []netip.AddrPort
	for i := range 60 {
		all = append(all, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, 0, byte(i)}), 7950))
	}
	r.host(1).KeepWarm(r.now, append(all, at(2)))
	tried := func() (n int) {
		for _, to := range all {
			if len(r.inits(to)) > 0 {
				n++
			}
		}
		return n
	}
	r.run(toldFor)
	if n := tried(); n != toldAtOnce {
		t.Errorf("%d are tried in the first moment, want %d", n, toldAtOnce)
	}
	r.run(5 * time.Second)
	if n := tried(); n != len(all) {
		t.Errorf("%d of %d were tried", n, len(all))
	}
	if p := r.host(1).routes[at(2)].peer; p == nil {
		t.Error("the one that is there was not met")
	}
}

// Of a hundred addresses that are asked at once each has its first INIT before any has its second. The one where a host is does not wait
// until the others were tried six times.
func TestS18_EachAddressIsTriedOnceFirst(t *testing.T) {
	r := newRig(t, 2)
	const made = 100
	for i := range made {
		r.host(1).Ask(r.now, netip.AddrPortFrom(netip.AddrFrom4([4]byte{9, 9, 0, byte(i)}), 7950)) // all of them before at(2)
	}
	r.host(1).Ask(r.now, at(2))
	r.run(made * toldFor / toldAtOnce * 3 / 2)
	if p := r.host(1).routes[at(2)].peer; p == nil {
		t.Errorf("the one that is there was not met; it has got %d INITs", len(r.inits(at(2))))
	}
}

// A late INIT to an address that was tried often takes a place, too, and comes after the first to another address. Of many that are due
// at once none holds that up for longer than a place is taken.
func TestS18_LateTriesHoldNoFirstOneUp(t *testing.T) {
	r := newRig(t, 1)
	h := r.host(1)
	var old []netip.AddrPort
	for i := range 4 * toldAtOnce {
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, 1, byte(i)}), 7950)
		old = append(old, to)
		h.route(to).tries, h.route(to).wanted = toldTries, r.now.Add(wantedFor)
	}
	h.wake(r.now)
	r.run(2 * time.Millisecond)
	h.Ask(r.now, at(9))
	r.run(toldFor - 3*time.Millisecond)
	late := 0
	for _, to := range old {
		late += len(r.inits(to))
	}
	if late != toldAtOnce {
		t.Errorf("%d late INITs in the time of one, want %d", late, toldAtOnce)
	}
	r.run(2 * dialEvery)
	if len(r.inits(at(9))) == 0 {
		t.Error("the address that is new has no INIT")
	}
}

// Sessions that nobody waits for are begun in order, 100 a second.
func TestS10_TheFirstIsCalledFirst(t *testing.T) {
	r := newRig(t, 1)
	var all []netip.AddrPort
	for i := range 150 {
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 8, 1, byte(250 - i)}), 7950)
		all = append(all, to)
		r.host(1).KeepWarm(r.now, all)
		r.host(1).routes[to].isProven = true
	}
	r.run(time.Second)
	if n := len(r.tape); n < 100 || n > 100+dialsAtOnce+10 { // the first ones are called again meanwhile
		t.Errorf("%d INITs in a second", n)
	}
	if n := len(r.inits(all[0])); n == 0 {
		t.Error("the first was not called")
	}
	if n := len(r.inits(all[149])); n > 0 {
		t.Error("the last was called in the first second")
	}
}

// Told addresses that are asked for in one moment do not delay those that are kept warm, whose order is the owner's.
func TestS10_ToldAddressesComeLast(t *testing.T) {
	r := newRig(t, 1)
	h := r.host(1)
	for i := range 2 * dialsAtOnce {
		to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 8, 2, byte(i)}), 7950)
		h.route(to).isProven = true
		h.route(to).wanted = r.now.Add(wantedFor)
	}
	h.KeepWarm(r.now, []netip.AddrPort{at(250), at(251)})
	r.run(warmStagger + warmSecond)
	r.tape = nil
	h.paid = r.now // no more than one at a time
	for _, route := range h.routes {
		h.endCall(route)
		route.next = r.now
	}
	h.wake(r.now)
	r.run(2 * dialEvery)
	for i, p := range r.tape[:min(2, len(r.tape))] {
		if p.to != at(250+i) {
			t.Errorf("INIT %d goes to %v", i+1, p.to)
		}
	}
	if len(r.tape) == 0 {
		t.Error("nobody was called")
	}
}
