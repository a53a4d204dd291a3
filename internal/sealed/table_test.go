package sealed

import (
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
			if p.cur.isOurs != (n == 1) || len(p.losers) != 1 {
				t.Errorf("n%d: the smaller id's session is not used, or the other one gone: %d losers", n, len(p.losers))
			}
		}
	}
	r.run(2 * time.Minute)
	if n := len(r.host(1).byIndex); n > 1 {
		t.Errorf("%d sessions after two minutes, expected one", n)
	}
}
