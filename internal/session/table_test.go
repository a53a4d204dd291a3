package session

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"
)

func TestWhatWaitsForASessionArrives(t *testing.T) {
	r := newRig(t, 2)
	r.say(1, 2, "one")
	r.say(1, 2, "two")
	r.run(time.Second)
	r.expect(2, "n1: one", "n1: two")
	r.say(2, 1, "back")
	r.run(time.Second)
	r.expect(1, "n2: back")
	if n := len(r.host(1).byIndex); n != 1 {
		t.Errorf("%d sessions, expected one", n)
	}
}

func TestBothBegin(t *testing.T) {
	r := newRig(t, 2)
	r.say(1, 2, "from one")
	r.say(2, 1, "from two")
	r.run(time.Second)
	r.expect(1, "n2: from two")
	r.expect(2, "n1: from one")
	for n := 1; n <= 2; n++ {
		for _, p := range r.host(n).peers {
			if p.cur.isOurs != (r.host(n).self.life.compare(p.Life) < 0) || len(p.losers) != 1 {
				t.Errorf("n%d: the smaller id's session is not used, or the other one gone: %d losers", n, len(p.losers))
			}
		}
	}
	r.run(2 * time.Minute)
	if n := len(r.host(1).byIndex); n > 1 {
		t.Errorf("%d sessions after two minutes, expected one", n)
	}
}

// A host that starts again is heard as soon as its last life was asked in vain, whichever of the two has the larger address:
// the others still have a session with that, and do not call.
func TestANewLifeCallsAtOnce(t *testing.T) {
	for restarted := 1; restarted <= 2; restarted++ {
		other := 3 - restarted
		t.Run(fmt.Sprintf("n%d", restarted), func(t *testing.T) {
			r := newRig(t, 2)
			r.meet()
			r.host(other).KeepWarm(r.now, []netip.AddrPort{at(restarted)})
			r.run(time.Second)
			r.add(restarted, testKey(1))
			r.host(restarted).KeepWarm(r.now, []netip.AddrPort{at(other)})
			r.say(restarted, other, "too soon")
			r.run(asked)
			r.say(restarted, other, "I claim")
			r.run(10 * time.Millisecond)
			r.expect(other, fmt.Sprintf("n%d: I claim", restarted))
		})
	}
}

// Who has nothing to say is not deaf for long either.
func TestANewLifeHearsSoon(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	r.host(1).KeepWarm(r.now, []netip.AddrPort{at(2)})
	r.run(time.Second)
	r.add(2, testKey(1))
	r.host(2).KeepWarm(r.now, []netip.AddrPort{at(1)})
	r.run(warmSecond + warmStagger + asked)
	r.say(1, 2, "I lead")
	r.run(10 * time.Millisecond)
	r.expect(2, "n1: I lead")
}

// The longest frame and the longest gossip fit into 1,232 bytes.
func TestLongestDatagramCase82(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	r.say(1, 2, string(bytes.Repeat([]byte("x"), MaxInner)))
	r.run(time.Second)
	if len(r.host(2).got) != 1 {
		t.Error("the longest did not arrive")
	}
	longest := 0
	for _, p := range r.tape {
		longest = max(longest, len(p.b))
	}
	if longest != 1232 {
		t.Errorf("the longest datagram has %d bytes, want 1,232", longest)
	}
}
