package session

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

// restart begins the next life of a host.
func (r *rig) restart(n int) *host { return r.add(n, testKey(1)) }

// restore has a host begin again with the state that it had when a life began, and with what it had kept of others by then.
func (r *rig) restore(n int, life uint32, kept ...Receipt) *host {
	r.lives[n], r.disks[n] = life, kept
	return r.restart(n)
}

// wait has a life that was replaced be silent for long enough that it counts as gone.
func (r *rig) wait() { r.run(thereFor + time.Second) }

// isOld checks whether a host knows that its state is an older copy, by the life that was shown to it.
func (h *host) isOld(t *testing.T, want ...uint32) {
	t.Helper()
	if !slices.Equal(h.old, want) || h.IsOlder() != (len(want) > 0) {
		t.Errorf("%s was told of its lives %v, and is older: %v; expected %v", h.name, h.old, h.IsOlder(), want)
	}
}

// rigOfThree has three hosts of which the first is in its fourth life, and has met both others.
func rigOfThree(t *testing.T) *rig {
	r := newRig(t, 3)
	for range 3 {
		r.restart(1)
	}
	r.meet()
	return r
}

// A host begins with a state of two lives ago. Whoever it calls or is called by shows it the receipt of its last life. From then on
// it says nothing and opens nothing, and nobody hears it.
func TestS19_AnOlderStateIsProven(t *testing.T) {
	for _, calls := range []bool{true, false} {
		t.Run(fmt.Sprintf("it calls %v", calls), func(t *testing.T) {
			r := rigOfThree(t)
			old := r.restore(1, 1)
			if calls {
				r.say(1, 2, "a vote")
			} else {
				for range 5 { // it begins another session once nobody answers in the last one
					r.say(2, 1, "vote for me")
					r.run(400 * time.Millisecond)
				}
			}
			r.wait()
			old.isOld(t, 4)
			r.expect(1)
			r.expect(2)
			for _, h := range r.hosts[1:] {
				h.isOld(t)
			}
			if err := old.Send(r.now, at(3), []byte("a vote")); err != CauseOlder {
				t.Errorf("it may say something: %v", err)
			}
			r.say(3, 1, "vote for me")
			r.wait()
			r.expect(1)
			r.expect(3)
		})
	}
}

// A life of the past has no card: nothing is said to it without an end.
func TestS19_NothingIsSaidAgainToAnOlderState(t *testing.T) {
	r := rigOfThree(t)
	old := r.restore(1, 1)
	said := 0
	r.lose = func(p parcel) bool {
		if p.to == at(1) {
			said++
		}
		return false
	}
	r.say(1, 2, "a vote")
	r.run(time.Second)
	old.isOld(t, 4)
	r.host(2).SetCard(r.now, []byte("card"))
	r.run(5 * time.Second)
	if said == 0 || said > 30 {
		t.Errorf("%d datagrams were sent to it in five seconds", said)
	}
}

// What was proven holds for everybody: a host that has no receipt is not heard either, and hears nothing.
func TestS19_AnOlderStateIsDeaf(t *testing.T) {
	r := rigOfThree(t)
	old := r.restore(1, 1)
	r.say(1, 2, "a vote")
	r.wait()
	old.isOld(t, 4)
	r.add(4, testKey(1))
	for range 3 {
		r.say(4, 1, "vote for me")
		r.run(time.Second)
	}
	r.expect(1)
	if old.count[CauseOlder] == 0 {
		t.Error("nothing has come: this test sees too little")
	}
}

// Who has a receipt hears no earlier life, whatever becomes of the HELLO that shows it. It is shown until it has arrived.
func TestS19_AReceiptIsShownUntilItArrives(t *testing.T) {
	r := rigOfThree(t)
	old := r.restore(1, 1)
	isLost := true
	r.lose = func(p parcel) bool { return isLost && p.to == at(1) && p.typ() == typeData }
	for range 5 {
		r.say(1, 2, "a vote")
		r.run(2 * time.Second)
	}
	r.expect(2)
	old.isOld(t)
	isLost = false
	_ = old.Send(r.now, at(2), []byte("a vote"))
	r.run(2 * time.Second)
	r.expect(2)
	old.isOld(t, 4)
	if h := r.host(2); !slices.Contains(h.said, CausePast) {
		t.Errorf("people were told %v", h.said)
	}
}

// A PROOF that comes with a receipt may carry a frame: that is not opened.
func TestS19_NothingIsOpenedBesideTheProof(t *testing.T) {
	r := rigOfThree(t)
	r.host(2).off = true
	kept, _ := r.host(2).Receipts(0)
	r.disks[2] = kept
	h := r.restart(2) // it knows of no life that is there
	old := r.restore(1, 1)
	h.off, old.off = false, false
	r.say(2, 1, "vote for me")
	r.run(time.Second)
	r.expect(1)
	old.isOld(t, 4)
}

// The state of the life before the present one makes the present life again: no receipt is above it. So does a start as usual.
func TestS19_TheSameLifeIsNotOlder(t *testing.T) {
	r := rigOfThree(t)
	for _, h := range []*host{r.restore(1, 3), r.restart(1)} {
		r.say(1, 2, "here")
		r.wait()
		r.say(1, 2, "here")
		r.run(time.Second)
		h.isOld(t)
		if got := r.host(2).got; len(got) == 0 || got[len(got)-1] != "n1: here" {
			t.Errorf("life %d is not heard: %q", h.self.life.Incarnation, got)
		}
	}
}

// What others say of one's incarnation means nothing: a receipt that the host has not made, of another host, or of another life.
func TestS19_OthersWordMeansNothing(t *testing.T) {
	r := rigOfThree(t)
	h := r.host(1)
	for _, shown := range []Receipt{
		{Incarnation: 9},
		{Incarnation: 9, Text: testPrivate(2).Receipt(9)},
		{Incarnation: 9, Text: testPrivate(1).Receipt(8)},
		{Incarnation: 4, Text: testPrivate(1).Receipt(4)},
		{Incarnation: 3, Text: testPrivate(1).Receipt(3)},
		{Incarnation: 1<<32 - 1, Text: identity.Receipt{1}},
	} {
		lie := hello{addr: at(2), keys: r.host(2).ids(), shown: shown}
		r.say(2, 1, string(lie.append(nil)))
		r.run(time.Second)
		h.isOld(t)
	}
	true9 := hello{addr: at(2), keys: r.host(2).ids(), shown: Receipt{Incarnation: 9, Text: testPrivate(1).Receipt(9)}}
	for range 2 { // it is said once
		r.say(2, 1, string(true9.append(nil)))
		r.run(time.Second)
		h.isOld(t, 9)
	}
}

// A copy is held while the host that was there answers: what it gives is not kept, and so puts nobody out.
func TestS19_ACopyThatIsHeldGivesNothing(t *testing.T) {
	r, first, second := copied(t, 9)
	for range 10 {
		r.saysTo(first, 2, "the first")
		r.saysTo(second, 2, "the second")
		r.run(300 * time.Millisecond)
	}
	if shown := r.host(2).receipts.of(testID(1)); shown.Incarnation != first.self.life.Incarnation {
		t.Errorf("of n1 its life %d is kept", shown.Incarnation)
	}
	first.isOld(t)
	second.isOld(t)
}

// Of two lives of one id that meet each other neither proves anything to the other.
func TestS19_CopiesShowEachOtherNothing(t *testing.T) {
	r, first, second := copied(t, 9)
	r.saysTo(second, 1, "it is me")
	r.run(time.Second)
	first.isOld(t)
	second.isOld(t)
}

// A host's own receipt on its own disk proves it too, as where the state alone was restored. Nothing has to be heard for that.
func TestS19_OnesOwnDisk(t *testing.T) {
	r := rigOfThree(t)
	kept, _ := r.host(1).Receipts(0)
	if !r.restore(1, 1, kept...).IsOlder() {
		t.Error("life 2 does not see the receipt of life 4")
	}
	if r.restore(1, 3, kept...).IsOlder() || r.restore(1, 4, kept...).IsOlder() {
		t.Error("a life that is not earlier is older")
	}
	forged := Receipt{testID(1), 9, identity.Receipt{1}}
	if r.restore(1, 4, append(kept, forged)...).IsOlder() {
		t.Error("a receipt that it has not made proves something")
	}
}

// What was proven stays, and what was kept too, when the host goes on as another life at another address.
func TestS19_ARenewedTableLosesNothing(t *testing.T) {
	r := rigOfThree(t)
	h, old := r.host(2), r.restore(1, 1)
	_, before := h.Receipts(0)
	next := h.Renewed(r.now, Config{Key: testPrivate(2), Incarnation: 2, Addr: at(9), Cluster: "home", Rand: r.rand, Emit: h.emit}, nil)
	kept, version := next.Receipts(before)
	if version == before || !slices.ContainsFunc(kept, func(k Receipt) bool { return k.ID == testID(1) && k.Incarnation == 4 }) {
		t.Errorf("version %d after %d, kept %v", version, before, kept)
	}
	r.say(1, 2, "a vote")
	r.wait()
	old.isOld(t, 4)
	late := old.Renewed(r.now, Config{Key: testPrivate(1), Incarnation: 3, Addr: at(9), Cluster: "home", Rand: r.rand, Emit: old.emit}, nil)
	if !late.IsOlder() {
		t.Error("another address makes the state new")
	}
}

// There is room for some thousands. It is made by the host that is absent for longest, the roster apart, and what is written and
// read keeps that order.
func TestS19_RoomForReceipts(t *testing.T) {
	private := identity.FromBytes([identity.Size]byte{1: 1, 31: 1})
	r := newReceipts(private, testID(1), nil)
	id := func(n int) wire.ID { return wire.ID{byte(n >> 8), byte(n), 1} }
	give := func(n int, life uint32) { r.keep(time.Time{}, Life{ID: id(n), Incarnation: life}, identity.Receipt{1}) }
	r.roster = []wire.ID{id(0)}
	for n := range maxReceipts {
		give(n, 3)
	}
	give(1, 3)                                      // it was heard again
	r.keep(time.Time{}, Life{}, identity.Receipt{}) // nothing
	before := r.all()
	r = newReceipts(private, testID(1), before)
	r.roster = []wire.ID{id(0)}
	give(maxReceipts, 1)
	for n, want := range map[int]uint32{0: 3, 1: 3, 2: 0, 3: 3, maxReceipts: 1} {
		if got := r.of(id(n)).Incarnation; got != want {
			t.Errorf("of host %d life %d is kept, expected %d", n, got, want)
		}
	}
	version := r.version
	give(3, 2)
	give(3, 3)
	if r.of(id(3)).Incarnation != 3 || r.version != version {
		t.Error("an earlier life, or the same, is news")
	}
	if give(3, 4); r.of(id(3)).Incarnation != 4 || r.version == version {
		t.Error("a later life is none")
	}
	if n := len(newReceipts(private, testID(1), append(before, before...)).kept); n > maxReceipts {
		t.Errorf("%d are kept", n)
	}
}
