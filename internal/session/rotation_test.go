package session

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
)

func (h *host) inUse() (ids []key.ID) {
	for _, p := range h.peers {
		for _, s := range p.sessions() {
			if !slices.Contains(ids, s.key) {
				ids = append(ids, s.key)
			}
		}
	}
	return ids
}

// The three steps under load, one host after the other: no word is lost, and in the end
// nothing is left of the old key.
func TestRotationUnderLoadCase69(t *testing.T) {
	r := newRig(t, 3)
	r.meet()
	old, next := testKey(1), testKey(2)
	want := 0
	talk := func(d time.Duration) {
		for end := r.now.Add(d); r.now.Before(end); want++ {
			for i := 1; i <= 3; i++ {
				for j := 1; j <= 3; j++ {
					if i != j {
						r.say(i, j, fmt.Sprint(want))
					}
				}
			}
			r.run(50 * time.Millisecond)
		}
	}
	for _, ring := range []key.Ring{{old, next}, {next, old}, {next}} {
		for _, h := range r.hosts {
			h.SetKeys(r.now, ring)
			talk(3 * time.Second)
		}
		talk(70 * time.Second)
		if ring[0].ID == next.ID {
			for _, h := range r.hosts {
				if ids := h.inUse(); len(ids) != 1 || ids[0] != next.ID {
					t.Errorf("with the ring %v %s uses %v", ring, h.name, ids)
				}
			}
		}
	}
	r.run(time.Second)
	for _, h := range r.hosts {
		if len(h.got) != 2*want {
			t.Errorf("%s heard %d words of %d", h.name, len(h.got), 2*want)
		}
	}
}

// Two hosts that share no key do not hear each other, and people of both are told why.
func TestPhaseSkippedCase70(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	r.host(2).SetKeys(r.now, key.Ring{testKey(2)})
	r.run(2 * time.Second)
	for range 50 {
		r.say(1, 2, "lost")
		r.say(2, 1, "lost")
		r.run(100 * time.Millisecond)
	}
	r.expect(1)
	r.expect(2)
	for _, h := range r.hosts {
		if !slices.Contains(h.said, CauseKey) || !slices.Contains(h.said, CauseRefused) {
			t.Errorf("%s told people %v, expected both ends of it", h.name, h.said)
		}
	}
	for i, h := range r.hosts {
		other := 2 - i
		if want := []Stranger{{at(other), []key.ID{testKey(byte(other)).ID}}}; fmt.Sprint(h.odd.describe()) != fmt.Sprint(want) {
			t.Errorf("%s names as strangers %v, expected %v", h.name, h.odd.describe(), want)
		}
	}
	r.host(2).SetKeys(r.now, key.Ring{testKey(2), testKey(1)}) // mended: the second key will do
	r.say(2, 1, "found")
	r.run(200 * time.Millisecond)
	r.say(2, 1, "found")
	r.run(time.Second)
	if len(r.host(1).got) == 0 {
		t.Error("not heard with the key that both have")
	}
	for _, h := range r.hosts {
		if len(h.odd) != 0 {
			t.Errorf("%s still has strangers %v, though they share a key", h.name, h.odd)
		}
	}
}

// A key that is removed, for theft: within a second nothing opens under it.
func TestRemovedKeyCase72(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	h := r.host(2)
	h.SetKeys(r.now, key.Ring{testKey(2)})
	sent := 0
	for range 30 {
		r.say(1, 2, "by the thief")
		sent++
		r.run(100 * time.Millisecond)
	}
	if n := len(h.got); n > 10 || n == 0 {
		t.Errorf("%d words opened in three seconds, expected those of at most one", n)
	}
	if len(h.inUse()) != 0 || len(h.byIndex) > 1 { // an INIT of its own may be under way
		t.Errorf("sessions under %v are left, %d indices", h.inUse(), len(h.byIndex))
	}
}

// If both have another key, the same cut loses nothing.
func TestRemovedKeyLosesNothingCase72(t *testing.T) {
	r := newRig(t, 2)
	for _, h := range r.hosts {
		h.SetKeys(r.now, key.Ring{testKey(1), testKey(2)})
	}
	r.meet()
	for n := 1; n <= 2; n++ {
		r.host(n).SetKeys(r.now, key.Ring{testKey(2)})
	}
	for i := range 40 {
		r.say(1, 2, fmt.Sprint(i))
		r.say(2, 1, fmt.Sprint(i))
		r.run(50 * time.Millisecond)
	}
	for _, h := range r.hosts {
		if len(h.got) != 40 {
			t.Errorf("%s heard %d words of 40", h.name, len(h.got))
		}
	}
}

// A host that was down during the rotation begins with the old key, and is told.
func TestBackWithTheOldKeyCase74(t *testing.T) {
	r := newRig(t, 1)
	r.host(1).SetKeys(r.now, key.Ring{testKey(2)})
	r.add(2, testKey(1))
	r.say(2, 1, "it is me")
	r.run(time.Second)
	r.expect(1)
	if h := r.host(2); !slices.Contains(h.said, CauseRefused) {
		t.Errorf("told %v", h.said)
	}
}

// Days of restarts, silence and strangers leave nothing behind.
func TestALongRunLeaksNothingCase84(t *testing.T) {
	r := newRig(t, 3)
	for day := range 40 {
		r.meet()
		r.add(day%3+1, testKey(1))
		r.run(3 * time.Hour)
		r.tape = nil
	}
	r.run(24 * time.Hour)
	for _, h := range r.hosts {
		if len(h.peers)+len(h.byIndex)+len(h.routes) > 0 || len(h.door.again) > remembered {
			t.Errorf("%s has %d peers, %d indices, %d routes", h.name, len(h.peers), len(h.byIndex), len(h.routes))
		}
	}
}

// A group starts in one instant. Each host begins a few sessions at a time, so that no frame waits for the curves of all,
// and soon each has one with each.
func TestAGroupThatStartsAtOnce(t *testing.T) {
	const hosts = 40
	r := newRig(t, hosts)
	var all []netip.AddrPort
	for _, h := range r.hosts {
		all = append(all, h.at)
	}
	began := map[time.Time]map[netip.AddrPort]int{}
	r.lose = func(p parcel) bool {
		if p.typ() == typeInit {
			if began[r.now] == nil {
				began[r.now] = map[netip.AddrPort]int{}
			}
			began[r.now][p.from]++
		}
		return false
	}
	for _, h := range r.hosts {
		h.KeepWarm(r.now, all)
	}
	r.run(time.Second)
	for _, each := range began {
		for from, n := range each {
			if n > dialsAtOnce {
				t.Errorf("%v began %d sessions in one instant, expected %d at most", from, n, dialsAtOnce)
			}
		}
	}
	for _, h := range r.hosts {
		met := 0
		for _, p := range h.peers {
			if p.cur != nil {
				met++
			}
		}
		if met != hosts-1 {
			t.Errorf("%s has sessions with %d of %d others after a second", h.name, met, hosts-1)
		}
	}
}

// What must be quick finds a session, though nobody has ever sent: to a first claim
// nothing is added but the cipher.
func TestWarmSessionsWaitForNothing(t *testing.T) {
	r := newRig(t, 3)
	for _, h := range r.hosts {
		h.KeepWarm(r.now, []netip.AddrPort{at(1), at(2), at(3)})
	}
	r.run(2 * time.Second)
	for _, h := range r.hosts {
		if h.opened != 2 {
			t.Errorf("%s made %d sessions, expected one with each of two", h.name, h.opened)
		}
	}
	r.run(3 * time.Hour)
	inits := 0
	for _, p := range r.tape {
		if p.typ() == typeInit {
			inits++
		}
	}
	if inits > 3*5 {
		t.Errorf("%d INITs in three hours of three pairs, expected one an hour", inits)
	}
	r.say(1, 3, "claim")
	r.run(r.delay)
	r.expect(3, "n1: claim")
	r.add(3, testKey(1)).KeepWarm(r.now, []netip.AddrPort{at(1), at(2)})
	r.run(2 * time.Second)
	r.say(1, 3, "claim")
	r.run(r.delay)
	r.expect(3, "n1: claim")
}
