package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/wire"
)

// showing makes n hosts that each say "host #1" of themselves.
func showing(t *testing.T, n int) *rig {
	r := newRig(t, n)
	for _, h := range r.hosts {
		h.SetCard(r.now, []byte(h.name+" #1"))
	}
	return r
}

// shows checks which hosts have shown themselves to a host since the last time, in any order.
func (r *rig) shows(n int, want ...string) {
	r.t.Helper()
	h := r.host(n)
	slices.Sort(h.here)
	if !slices.Equal(h.here, want) {
		r.t.Errorf("%s was shown %q, expected %q", h.name, h.here, want)
	}
	h.here = nil
}

// saidCards counts the HELLOs with a card that a host has sent, which are known by their length.
func (r *rig) saidCards(n int) (cards int) {
	for _, p := range r.tape {
		if p.from == at(n) && p.typ() == typeData && len(p.b) > overhead+helloSize+keyIDSize {
			cards++
		}
	}
	return cards
}

// Both ends of a new session show their cards, before a frame is opened. What has been acknowledged is said no more.
func TestS16_BothShowTheirCards(t *testing.T) {
	r := showing(t, 2)
	r.say(1, 2, "hello")
	r.run(time.Second)
	r.shows(1, "n2 at 10.0.0.2:7950: n2 #1")
	r.shows(2, "n1 at 10.0.0.1:7950: n1 #1")
	r.tape = nil
	r.say(1, 2, "again")
	r.run(time.Minute)
	if r.saidCards(1)+r.saidCards(2) > 0 {
		t.Error("a card is said that the other end has")
	}
	r.shows(1)
	r.shows(2)
}

// A host that may not speak yet has no card, and so is not here for anybody, whatever it sends.
func TestS16_NobodyIsHereWithoutACard(t *testing.T) {
	r := newRig(t, 2)
	r.host(2).SetCard(r.now, []byte("n2 #1"))
	r.say(1, 2, "hello")
	r.run(time.Second)
	r.expect(2, "n1: hello")
	r.shows(2)
	r.host(1).SetCard(r.now, []byte("n1 #1"))
	r.run(time.Second)
	r.shows(2, "n1 at 10.0.0.1:7950: n1 #1")
}

// A card that changes is said anew at once, and the last one counts. The same one again is no news.
func TestS16_ACardThatChangesIsSaidAnew(t *testing.T) {
	r := showing(t, 3)
	r.meet()
	for _, h := range r.hosts {
		h.here = nil
	}
	r.host(1).SetCard(r.now, []byte("n1 #1"))
	r.run(time.Second)
	r.shows(2)
	r.host(1).SetCard(r.now, []byte("n1 #2"))
	r.host(1).SetCard(r.now, []byte("n1 #3"))
	r.run(20 * time.Millisecond)
	r.shows(2, "n1 at 10.0.0.1:7950: n1 #3")
	r.shows(3, "n1 at 10.0.0.1:7950: n1 #3")
	if !r.host(1).HasSaid(r.now) {
		t.Error("the card is not acknowledged at once")
	}
	r.host(1).SetCard(r.now, []byte(strings.Repeat("x", MaxCard+1)))
	r.run(time.Second)
	r.shows(2)
}

// Half of all datagrams are lost: each card arrives within seconds, and is told once.
func TestS16_ACardIsSaidUntilItHasArrived(t *testing.T) {
	r := showing(t, 2)
	r.lose = func(parcel) bool { return r.rand.Uint64()%2 == 0 }
	for round := 2; round <= 20; round++ {
		r.say(1, 2, "x")
		r.host(1).SetCard(r.now, fmt.Appendf(nil, "n1 #%d", round))
		r.host(2).SetCard(r.now, fmt.Appendf(nil, "n2 #%d", round))
		r.run(30 * time.Second)
		if !r.host(1).HasSaid(r.now) && r.host(1).peers[r.host(2).self.life].isThere(r.now) {
			t.Errorf("round %d: the card is not acknowledged", round)
		}
		for n := 1; n <= 2; n++ {
			want := fmt.Sprintf("n%d at 10.0.0.%d:7950: n%d #%d", 3-n, 3-n, 3-n, round)
			if got := r.host(n).here; len(got) == 0 || got[len(got)-1] != want || len(slices.Compact(slices.Clone(got))) != len(got) {
				t.Errorf("round %d: n%d was shown %q, expected %q", round, n, got, want)
			}
			r.host(n).here = nil
		}
	}
}

// HasSaid waits for those that were heard a moment ago, and for nobody who has gone silent.
func TestS16_WhoIsSilentNeedNotHaveTheCard(t *testing.T) {
	r := showing(t, 3)
	r.meet()
	r.host(3).off = true
	r.host(1).SetCard(r.now, []byte("n1 #2"))
	if r.host(1).HasSaid(r.now) {
		t.Error("a card that was not sent yet has been said")
	}
	r.run(time.Second)
	if r.host(1).HasSaid(r.now) {
		t.Error("a card has been said to one who spoke a second ago and has not acknowledged it")
	}
	r.run(10 * time.Second)
	r.say(2, 1, "x")
	r.run(time.Second)
	if !r.host(1).HasSaid(r.now) {
		t.Error("one who is silent for ten seconds is waited for")
	}
}

// A restarted host shows its card anew, and is shown those of the others, also if it gets no word of theirs but in sessions.
func TestS16_ARestartIsShown(t *testing.T) {
	r := showing(t, 2)
	r.meet()
	r.host(1).here = nil
	again := r.add(2, testKey(1))
	again.SetCard(r.now, []byte("n2 #1 of life 2"))
	r.say(2, 1, "x")
	r.run(time.Second)
	r.shows(1, "n2 at 10.0.0.2:7950: n2 #1 of life 2")
	r.shows(2, "n1 at 10.0.0.1:7950: n1 #1")
}

// Whom the owner has given up is shown anew once it is heard, and not before.
func TestS16_WhoWasGivenUpIsShownAgain(t *testing.T) {
	r := showing(t, 3)
	r.meet()
	h := r.host(1)
	h.here = nil
	h.ShowAgain(func(id wire.ID) bool { return id == testID(2) })
	r.say(3, 1, "x")
	r.run(time.Second)
	r.shows(1)
	r.say(2, 1, "x")
	r.run(time.Second)
	r.shows(1, "n2 at 10.0.0.2:7950: n2 #1")
}

// A question is answered in a session, which it begins where there is none.
func TestS16_AQuestionIsAnswered(t *testing.T) {
	r := showing(t, 2)
	r.host(1).Ask(r.now, at(2))
	r.run(time.Second)
	r.shows(1, "n2 at 10.0.0.2:7950: n2 #1")
	r.run(20 * time.Second)
	asked := r.now
	r.host(1).Ask(r.now, at(2))
	r.run(time.Second)
	if p := r.host(1).peers[r.host(2).self.life]; p == nil || p.heard.Before(asked) {
		t.Error("a question in a session is not answered")
	}
}

// A card that was delayed on its way, in another session of the same life, takes nothing back.
func TestS16_ALateCardIsNone(t *testing.T) {
	r := showing(t, 2)
	r.meet()
	p := r.host(2).peers[r.host(1).self.life]
	late := hello{addr: at(1), keys: []key.ID{testKey(1).ID}, has: p.has, card: card{1, []byte("n1 #1")}}
	r.host(1).SetCard(r.now, []byte("n1 #2"))
	r.run(time.Second)
	r.host(2).here = nil
	r.say(1, 2, string(late.append(nil)))
	r.run(time.Second)
	r.shows(2)
}

// A host that says to be where another is has no address, and so is not shown.
func TestS16_AnAddressOfAnotherIsNotShown(t *testing.T) {
	r := showing(t, 3)
	r.meet()
	for _, h := range r.hosts {
		h.here = nil
	}
	r.host(3).addr = at(2)
	r.host(3).Ask(r.now, at(1))
	r.say(2, 1, "x")
	again := r.add(3, testKey(1))
	again.addr = at(2)
	again.SetCard(r.now, []byte("n3 at the address of n2"))
	again.Ask(r.now, at(1))
	r.run(time.Second)
	r.shows(1)
}
