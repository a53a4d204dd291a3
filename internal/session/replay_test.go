package session

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// replay gives a host all that was captured for it, and more that was not.
func (r *rig) replay(n int, tape []parcel) {
	for _, p := range tape {
		r.host(n).hear(r.now, p.from, p.b)
	}
}

// Three lives of a host are captured and played ten times in any order: to the host
// that they were for, nothing of it is news.
func TestThreeLivesReplayedCase21(t *testing.T) {
	r := newRig(t, 2)
	for life := range 3 {
		if life > 0 {
			r.add(1, testKey(1))
		}
		for i := range 20 {
			r.say(1, 2, fmt.Sprint("life ", life, " word ", i))
			r.say(2, 1, "reply")
			r.run(300 * time.Millisecond)
		}
	}
	if n := len(r.host(2).got); n < 55 {
		t.Fatalf("%d words were heard of sixty", n)
	}
	r.host(1).got, r.host(2).got = nil, nil
	h := r.host(2)
	cur := h.routes[at(1)].peer.cur
	tape := slices.Clone(r.tape)
	shuffle := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		shuffle.Shuffle(len(tape), func(i, j int) { tape[i], tape[j] = tape[j], tape[i] })
		r.replay(2, tape)
		r.run(500 * time.Millisecond)
	}
	r.expect(2)
	if h.routes[at(1)].peer.cur != cur {
		t.Error("another session sends now")
	}
	r.say(1, 2, "still here")
	r.say(2, 1, "so am I")
	r.run(time.Second)
	r.expect(2, "n1: still here")
	r.expect(1, "n2: so am I")
}

func TestDuplicateCase22(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	r.say(1, 2, "once")
	p := r.last(typeData)
	r.wire = append(r.wire, p, p)
	r.run(time.Second)
	r.expect(2, "n1: once")
	if n := r.host(2).count[CauseReplayed]; n != 2 {
		t.Errorf("%d replays counted, expected 2", n)
	}
}

func TestOutsideTheWindowCase23(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	late := map[string]parcel{}
	r.lose = func(p parcel) bool { return true }
	for i := range windowSize + 1 {
		r.say(1, 2, fmt.Sprint(i))
		if i < 2 {
			late[fmt.Sprint(i)] = r.last(typeData)
		}
	}
	r.host(2).hear(r.now, at(1), r.last(typeData).b)
	r.host(2).hear(r.now, at(1), late["0"].b) // 1,024 behind: too old to tell
	r.host(2).hear(r.now, at(1), late["1"].b) // 1,023: the last that is not
	r.expect(2, fmt.Sprint("n1: ", windowSize), "n1: 1")
}

func TestReplayToARestartedReceiverCase24(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	r.say(1, 2, "before")
	r.run(time.Second)
	tape := slices.Clone(r.tape)
	r.add(2, testKey(1))
	for range 3 {
		r.replay(2, tape)
		r.run(time.Second)
	}
	r.expect(2)
	// The true sender notices the restart by the silence, or by the other's INIT.
	r.say(2, 1, "too soon")
	r.run(asked)
	r.say(2, 1, "back again")
	r.run(time.Second)
	r.expect(1, "n2: back again")
	r.say(1, 2, "after")
	r.run(time.Second)
	r.expect(2, "n1: after")
}

// What was captured from an earlier life opens nowhere. Its INITs earn a RESP each at most, to
// whoever sent them, and cost the life that is there nothing: that one begins new sessions
// all the while.
func TestReplayFromAnOlderLifeCase25(t *testing.T) {
	r := newRig(t, 2)
	var old []parcel
	for range 3 * perSource {
		old = append(old, parcel{from: at(66), b: r.caller(1, cookie{})})
	}
	r.run(time.Second)
	r.add(1, testKey(1))
	r.meet()
	h := r.host(2)
	cur, sent := h.routes[at(1)].peer.cur, len(r.tape)
	r.replay(2, old)
	if n := h.count[CauseCookie]; n != 2*perSource {
		t.Errorf("%d INITs of an earlier life were beyond the budget of who played them, expected %d", n, 2*perSource)
	}
	for _, p := range r.tape[sent:] {
		if p.typ() != typeResp && p.typ() != typeCookie || p.to != at(66) {
			t.Errorf("type %d was sent to %v", p.typ(), p.to)
		}
	}
	if h.routes[at(1)].peer.cur != cur {
		t.Error("another session sends now")
	}
	if cause := h.hear(r.now, at(1), r.caller(1, cookie{})); cause != CauseNone {
		t.Errorf("the life that is there begins a session: %v", cause)
	}
	r.say(2, 1, "still here")
	r.run(time.Second)
	r.expect(1, "n2: still here")
}

// A PROOF that was held back proves an earlier life while its RESP is remembered. It takes nothing from the later life:
// neither its address nor its session.
func TestAnEarlierLifeIsProvenLate(t *testing.T) {
	r := newRig(t, 2)
	r.lose = func(p parcel) bool { return p.typ() == typeProof || p.typ() == typeData }
	r.say(1, 2, "from the earlier")
	r.run(5 * time.Millisecond)
	held := r.last(typeProof)
	r.lose, r.wire = nil, nil
	later := r.add(1, testKey(1))
	r.say(1, 2, "from the later")
	r.run(time.Second)
	r.expect(2, "n1: from the later")
	h := r.host(2)
	h.hear(r.now, at(66), held.b)
	h.got = nil
	if p := h.routes[at(1)].peer; p == nil || p.Random != later.self.life.Random {
		t.Error("the earlier life has the address")
	}
	r.say(2, 1, "for the later")
	r.run(time.Second)
	r.expect(1, "n2: for the later")
}

func TestReplayToAnotherHostCase26(t *testing.T) {
	r := newRig(t, 3)
	r.meet()
	r.say(1, 2, "for two")
	r.run(time.Second)
	var forTwo []parcel
	for _, p := range r.tape {
		if p.to == at(2) {
			forTwo = append(forTwo, p)
		}
	}
	r.quietly(3, func(h *host) { r.replay(3, forTwo) })
	if n := r.host(3).count[CausePrologue]; n == 0 {
		t.Error("no INIT for another address was seen to be one")
	}
}

// An INIT that is played again earns nothing: the same one is known. One that the host
// never saw earns one RESP, and no session.
func TestReplayedInitCase27(t *testing.T) {
	r := newRig(t, 2)
	r.lose = func(p parcel) bool { return p.typ() == typeInit }
	r.say(1, 2, "hello")
	r.run(50 * time.Millisecond)
	captured := r.last(typeInit)
	r.host(1).off = true
	r.lose = nil
	sent := len(r.tape)
	for range 100 {
		r.host(2).hear(r.now, at(7), captured.b)
		r.run(10 * time.Millisecond)
	}
	if n := len(r.tape) - sent; n != 1 || r.last(typeResp).to != at(7) {
		t.Errorf("%d datagrams for a hundred replays, expected one RESP to whoever sent them", n)
	}
	r.say(2, 1, "is that you?") // nothing is sealed for an unproven session
	r.run(time.Minute)
	for _, p := range r.tape[sent:] {
		if p.typ() == typeData {
			t.Error("something was sealed for a session that nobody has proved")
		}
	}
	if h := r.host(2); len(h.peers) != 0 || len(h.byIndex) != 0 {
		t.Errorf("%d peers and %d indices are left of it", len(h.peers), len(h.byIndex))
	}
}

func TestReflectedCase31(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	r.say(1, 2, "from one")
	r.run(time.Second)
	var own []parcel
	for _, p := range r.tape {
		if p.from == at(1) {
			own = append(own, p)
		}
	}
	r.quietly(1, func(*host) { r.replay(1, own) })
}

// Carried on from another address a datagram is still its sender's, and answers go to
// where that is reached.
func TestRelayedFromAnotherAddressCase32(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	r.lose = func(p parcel) bool { return p.from == at(1) }
	r.say(1, 2, "relayed")
	h := r.host(2)
	_, p, cause := h.Receive(r.now, at(66), bytes.Clone(r.last(typeData).b))
	if cause != CauseNone || p.ID != testID(1) || p.Addr != at(1) {
		t.Errorf("relayed: %v, of %v", cause, p)
	}
	// So is an INIT: RESP goes where it came from, and nothing else ever.
	r.now = r.now.Add(2 * time.Hour)
	r.say(1, 2, "again")
	r.run(time.Second)
	h.hear(r.now, at(66), r.last(typeInit).b)
	sent := len(r.tape)
	r.say(2, 1, "to one")
	r.run(3 * time.Second)
	for _, p := range r.tape[sent:] {
		if p.to == at(66) && p.typ() != typeResp {
			t.Errorf("type %d was sent to the relay", p.typ())
		}
	}
}

// A copy of a running machine has its keys and counters: what both say under one number
// is taken from one of them. When one is gone the other is heard again.
func TestClonedMachineCase33(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	original := r.host(1)
	p := original.only(t)
	held := p.cur.sent
	r.say(1, 2, "from the original")
	r.run(time.Millisecond)
	p.cur.sent = held // the copy goes on where the original was copied
	r.say(1, 2, "from the copy")
	r.run(time.Millisecond)
	r.expect(2, "n1: from the original")
	if n := r.host(2).count[CauseReplayed]; n != 1 {
		t.Errorf("%d replays counted, expected one", n)
	}
	for range 10 {
		r.say(1, 2, "heard?")
		r.run(time.Second)
	}
	if len(r.host(2).got) < 5 {
		t.Errorf("heard %q in ten seconds", r.host(2).got)
	}
}

// A session that one end has forgotten is noticed by its silence and replaced.
func TestEvictedSessionCase34(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	r.host(2).forget(r.host(2).only(t))
	for i := range 30 {
		r.say(1, 2, fmt.Sprint(i))
		r.run(100 * time.Millisecond)
	}
	got := r.host(2).got
	if len(got) < 15 || got[len(got)-1] != "n1: 29" {
		t.Errorf("heard %q: a session should have been made within a second and a half", got)
	}
}

// New keys each hour, while both talk and the network reorders: each word arrives once.
func TestAcrossNewKeysEachOnceCase35(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	begun := r.host(1).opened
	want := 0
	for end := r.now.Add(3 * time.Hour); r.now.Before(end); want++ {
		r.say(1, 2, fmt.Sprint(want))
		r.say(2, 1, fmt.Sprint(want))
		r.delay = time.Duration(want%7) * time.Millisecond
		r.run(500 * time.Millisecond)
		slices.SortStableFunc(r.wire, func(a, b parcel) int { return a.at.Compare(b.at) })
	}
	r.run(time.Second)
	for _, h := range r.hosts {
		if slices.Sort(h.got); len(h.got) != want || len(slices.Compact(h.got)) != want {
			t.Errorf("%s heard %d words of %d, each once", h.name, len(h.got), want)
		}
	}
	if n := r.host(1).opened - begun; n < 3 || n > 12 {
		t.Errorf("%d new sessions in three hours", n)
	}
}
