package session

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/wire"
)

// leaderFor is for how long a leader that a list has lost is heard.
const leaderFor = 500 * time.Millisecond

// listOf is a host list of these ids.
func listOf(t testing.TB, ids ...wire.ID) identity.Hosts {
	t.Helper()
	var all []identity.Host
	for _, id := range ids {
		all = append(all, identity.Host{Name: names[id] + id.Short(), ID: id})
	}
	hosts, err := identity.MakeHosts(all)
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

// lists gives a host a list of those, itself among them. It gives the hosts that are left out, by name.
func (r *rig) lists(n int, others ...int) (leaves []string) {
	r.t.Helper()
	return r.listsUnder(n, 0, others...)
}

// listsUnder is lists while a host leads.
func (r *rig) listsUnder(n, leader int, others ...int) (leaves []string) {
	r.t.Helper()
	ids := []wire.ID{testID(n)}
	for _, o := range others {
		ids = append(ids, testID(o))
	}
	for _, s := range r.host(n).SetHosts(r.now, listOf(r.t, ids...), testID(leader), leaderFor, true) {
		leaves = append(leaves, names[s.ID])
	}
	return leaves
}

// knows are the hosts that a host has a peer of, by name.
func (h *host) knows() (all []string) {
	for _, p := range h.peersInOrder() {
		all = append(all, names[p.ID])
	}
	slices.Sort(all)
	return all
}

// acquainted makes n hosts that are here for each other.
func acquainted(t *testing.T, n int) *rig {
	r := showing(t, n)
	r.meet()
	for _, h := range r.hosts {
		h.here, h.said = nil, nil
	}
	return r
}

// Who is not listed is told so in its session and has no place in any table, whoever calls. It knows who leaves it out.
func TestS20_WhoIsNotListedIsToldSo(t *testing.T) {
	for _, caller := range []int{1, 2} {
		t.Run(fmt.Sprintf("n%d calls", caller), func(t *testing.T) {
			r := showing(t, 2)
			r.lists(1)
			r.lists(2, 1)
			r.say(caller, 3-caller, "hello")
			r.run(time.Millisecond)
			if len(r.host(2).gate.by) != 1 {
				t.Error("n2 is not told at once")
			}
			r.run(time.Second)
			r.expect(1)
			r.expect(2)
			r.shows(1)
			r.shows(2)
			if in, out := r.host(1), r.host(2); len(in.peers) != 0 || len(out.peers) != 0 || len(in.gate.out) != 1 || len(in.gate.by) != 0 || len(out.gate.by) != 1 ||
				out.gate.by[0].ID != testID(1) || out.gate.by[0].List != in.gate.hosts.Digest() || !slices.Equal(out.shut, []bool{true}) || in.shut != nil {
				t.Errorf("n1 has %v, left out %v; n2 has %v, left out by %+v, told %v", in.knows(), in.gate.out, out.knows(), out.gate.by, out.shut)
			}
			if said := r.host(1).said; !slices.Contains(said, CauseUnlisted) {
				t.Errorf("nobody was told at n1: %v", said)
			}
			if said := r.host(2).said; !slices.Contains(said, CauseLeftOut) {
				t.Errorf("nobody was told at n2: %v", said)
			}
		})
	}
}

// Half of all datagrams are lost: a host that is left out hears of it all the same, and has nothing opened.
func TestS20_RefusedArrivesOverABadPath(t *testing.T) {
	r := showing(t, 2)
	r.lists(1)
	r.lose = func(parcel) bool { return r.rand.Uint64()%2 == 0 }
	for range 40 {
		r.say(2, 1, "hello")
		r.run(250 * time.Millisecond)
	}
	r.expect(1)
	r.shows(1)
	if out := r.host(2); len(out.gate.by) != 1 || len(r.host(1).peers) != 0 {
		t.Errorf("n2 is left out by %v; n1 has %v", out.gate.by, r.host(1).knows())
	}
}

// REFUSED is not longer than the PROOF that it answers, and the same PROOF has the same answer.
func TestS20_TheSameProofHasTheSameAnswer(t *testing.T) {
	r := showing(t, 2)
	r.lists(1)
	r.lose = func(p parcel) bool { return p.from == at(1) && p.typ() == typeData }
	r.say(2, 1, "hello")
	r.run(200 * time.Millisecond)
	var proof, answers []string
	for _, p := range r.tape {
		switch {
		case p.from == at(2) && p.typ() == typeProof:
			proof = append(proof, string(p.b))
		case p.from == at(1) && p.typ() == typeData:
			answers = append(answers, string(p.b))
		}
	}
	if len(answers) < 2 || len(answers) > len(proof) || len(slices.Compact(answers)) != 1 || len(answers[0]) >= len(proof[0]) {
		t.Errorf("%d proofs, %d answers of %d bytes", len(proof), len(answers), len(answers[0]))
	}
	if forged := []byte(proof[0]); r.host(1).hear(r.now, at(2), append(forged[:len(forged)-1], forged[len(forged)-1]^1)) != CauseMAC {
		t.Error("a damaged PROOF is answered")
	}
}

// A line that is taken out: the sessions of that host end with all at once, what it says counts no more, and it is told again
// whenever it speaks. It stands no more, though one host alone leaves it out. Others notice nothing.
func TestS20_AHostIsTakenOut(t *testing.T) {
	r := acquainted(t, 3)
	r.lists(3, 1, 2)
	if leaves := r.lists(1, 2); !slices.Equal(leaves, []string{"n3"}) {
		t.Errorf("%v are left out", leaves)
	}
	r.say(3, 1, "too late")
	r.say(3, 2, "heard")
	r.run(20 * time.Millisecond)
	r.expect(1)
	r.expect(2, "n3: heard")
	if out := r.host(3); !slices.Equal(out.shut, []bool{true}) || !slices.Equal(out.knows(), []string{"n2"}) {
		t.Errorf("n3 knows %v, told %v", out.knows(), out.shut)
	}
	if _, _, ok := r.host(1).Heard(r.now, testID(3), r.host(3).self.life.Nonce()); ok {
		t.Error("n1 says that it hears n3")
	}
	r.run(partingFor)
	if in := r.host(1); !slices.Equal(in.knows(), []string{"n2"}) || len(in.byIndex) > 2*maxLosers {
		t.Errorf("n1 knows %v, %d indices", in.knows(), len(in.byIndex))
	}
	r.say(1, 2, "goes on")
	r.run(time.Millisecond)
	r.expect(2, "n1: goes on")
	if r.host(1).shut != nil || r.host(2).shut != nil {
		t.Error("a host that is listed is told that it is not")
	}
}

// A leader is heard for half a second more, and told meanwhile.
func TestS20_ALeaderIsHeardWhileItHandsOver(t *testing.T) {
	r := acquainted(t, 3)
	r.lists(3, 1, 2)
	r.listsUnder(1, 3, 2)
	r.run(leaderFor - 10*time.Millisecond)
	if !slices.Equal(r.host(3).shut, []bool{true}) {
		t.Errorf("the leader was told %v", r.host(3).shut)
	}
	r.say(3, 1, "resign")
	r.say(1, 3, "resigned")
	r.run(time.Millisecond)
	r.expect(1, "n3: resign")
	r.expect(3, "n1: resigned")
	r.run(10 * time.Millisecond)
	r.say(3, 1, "too late")
	r.say(1, 3, "too late")
	r.run(300 * time.Millisecond)
	r.expect(1)
	r.expect(3)
}

// Two datagrams of three are lost, and all that was said at first: the leader hears of it in time.
func TestS20_ALeaderIsToldAgain(t *testing.T) {
	r := acquainted(t, 2)
	r.lists(2, 1)
	end := r.now.Add(50 * time.Millisecond)
	r.lose = func(parcel) bool { return r.now.Before(end) || r.rand.Uint64()%3 != 0 }
	r.listsUnder(1, 2)
	r.run(leaderFor)
	if !slices.Equal(r.host(2).shut, []bool{true}) {
		t.Errorf("the leader was told %v", r.host(2).shut)
	}
}

// A list that would leave out a host which is here is taken only if that is meant; else nothing changes.
func TestS20_NobodyIsLeftOutUnasked(t *testing.T) {
	r := acquainted(t, 3)
	in := r.host(1)
	leaves := in.SetHosts(r.now, listOf(t, testID(1), testID(2)), wire.ID{}, leaderFor, false)
	if len(leaves) != 1 || leaves[0].ID != testID(3) || leaves[0].Addr != at(3) || !in.gate.hosts.IsNone() {
		t.Errorf("%v would be left out, list %v", leaves, in.gate.hosts)
	}
	r.say(3, 1, "still here")
	r.run(time.Millisecond)
	r.expect(1, "n3: still here")
	r.host(3).off = true
	r.run(thereFor)
	if leaves := in.SetHosts(r.now, listOf(t, testID(1), testID(2)), wire.ID{}, leaderFor, false); len(leaves) != 0 || in.gate.hosts.IsNone() {
		t.Errorf("%v are left out, who are not here", leaves)
	}
}

// A host that is listed again joins at once, and stands again.
func TestS20_WhoIsListedAgainIsBack(t *testing.T) {
	r := acquainted(t, 2)
	r.lists(2, 1)
	r.lists(1)
	r.say(2, 1, "x")
	r.run(time.Second)
	r.expect(1)
	r.host(1).here = nil
	r.host(1).KeepWarm(r.now, []netip.AddrPort{at(2)})
	r.run(time.Second)
	r.lists(1, 2)
	r.run(2 * time.Second)
	r.shows(1, "n2 at 10.0.0.2:7950: n2 #1")
	if out := r.host(2); !slices.Equal(out.shut, []bool{true, false}) || len(out.gate.by) != 0 || len(r.host(1).gate.out) != 0 {
		t.Errorf("n2 was told %v, left out by %v; n1 leaves out %v", out.shut, out.gate.by, r.host(1).gate.out)
	}
}

// Nobody but a host that this one's list has keeps it from standing: others have the key, and no more.
func TestS20_AStrangersRefusalKeepsNobodyFromStanding(t *testing.T) {
	r := acquainted(t, 3)
	r.lists(1, 2)
	r.lists(2, 1)
	r.lists(3)
	r.say(3, 1, "x")
	r.run(time.Second)
	if in := r.host(1); in.shut != nil {
		t.Errorf("n1 was told %v", in.shut)
	}
}

// Without a list whoever has the key could say so: it counts only where no other host is here.
func TestS20_WithoutAListTheLastWhoIsHereCounts(t *testing.T) {
	r := acquainted(t, 3)
	r.lists(1)
	r.run(20 * time.Millisecond)
	if out := r.host(2); len(out.gate.by) != 1 || out.shut != nil {
		t.Errorf("n2 is left out by %v and told %v, though n3 is here", out.gate.by, out.shut)
	}
	r.host(3).off = true
	for range 12 {
		r.say(2, 1, "x")
		r.run(time.Second)
	}
	if out := r.host(2); !slices.Equal(out.shut, []bool{true}) {
		t.Errorf("n2 was told %v", out.shut)
	}
}

// A refusal that is not said again counts no more.
func TestS20_ARefusalIsForgotten(t *testing.T) {
	r := acquainted(t, 2)
	r.lists(2, 1)
	r.lists(1)
	r.run(time.Second)
	r.host(1).off = true
	r.run(refusalFor)
	if out := r.host(2); !slices.Equal(out.shut, []bool{true, false}) || len(out.gate.by) != 0 {
		t.Errorf("n2 was told %v, left out by %v", out.shut, out.gate.by)
	}
}

// A host that is left out, and has nothing to say, does not stand for as long as the other is there: it asks again by itself. The path
// loses every third datagram.
func TestS20_ARefusalIsAskedForAgain(t *testing.T) {
	r := acquainted(t, 2)
	r.lists(2, 1)
	r.lose = func(parcel) bool { return r.rand.Uint64()%3 == 0 }
	r.lists(1)
	r.run(10 * refusalFor)
	if out := r.host(2); !slices.Equal(out.shut, []bool{true}) || len(out.gate.by) != 1 {
		t.Errorf("n2 was told %v, left out by %v", out.shut, out.gate.by)
	}
	r.tape = nil
	r.host(1).off = true
	r.run(refusalFor + time.Second)
	if out := r.host(2); !slices.Equal(out.shut, []bool{true, false}) || len(r.tape) > 20 {
		t.Errorf("n2 was told %v, and has said %d datagrams to nobody", out.shut, len(r.tape))
	}
}

// A state of two lives ago has the list of then: what it says of this host means nothing, whoever has called.
func TestS20_AnOlderStateLeavesNobodyOut(t *testing.T) {
	for _, caller := range []int{1, 2} {
		t.Run(fmt.Sprintf("n%d calls", caller), func(t *testing.T) {
			r := rigOfThree(t)
			r.lists(2, 1, 3)
			r.restore(1, 1)
			r.lists(1, 3)
			for range 20 { // n2 begins another session once nobody answers in the last one
				r.say(caller, 3-caller, "hello")
				r.run(400 * time.Millisecond)
			}
			if in := r.host(2); in.shut != nil || len(in.gate.by) != 0 || in.count[CausePast] == 0 {
				t.Errorf("n2 was told %v, left out by %v; it has heard of the past %d times", in.shut, in.gate.by, in.count[CausePast])
			}
		})
	}
}

// A second life of a host that is there leaves nobody out, in a session, in PROOF or on a stream: only the first one is the host.
// Once that is silent the word of the other counts.
func TestS20_ALifeThatIsHeldLeavesNobodyOut(t *testing.T) {
	for _, caller := range []int{2, 3} {
		t.Run(fmt.Sprintf("n%d calls", caller), func(t *testing.T) {
			r, first, second := copied(t, 2)
			r.lists(2, 1)
			second.SetHosts(r.now, listOf(t, testID(1), testID(3)), wire.ID{}, leaderFor, true)
			says := func() {
				r.say(2, 1, "to the first")
				r.saysTo(first, 2, "the first")
				if caller == 3 {
					r.saysTo(second, 2, "the second")
				} else {
					r.say(2, 3, "to the second")
				}
				r.run(400 * time.Millisecond)
			}
			for range 20 {
				says()
			}
			h := r.host(2)
			c := &Call{&call{secret: h.ring[0], self: h.self}, at(3), Meant{}}
			if got := h.RefusedStream(r.now, c, second.self.life, refused{list: 7}.append(nil)); got != CauseClash {
				t.Errorf("a stream that refuses: %v", got)
			}
			if h.shut != nil || len(h.gate.by) != 0 || h.count[CauseClash] < 2 {
				t.Errorf("n2 was told %v, left out by %v; it has heard of the second %d times", h.shut, h.gate.by, h.count[CauseClash])
			}
			first.off = true
			for range 20 {
				says()
			}
			if !slices.Equal(h.shut, []bool{true}) {
				t.Errorf("without the first n2 was told %v, left out by %v", h.shut, h.gate.by)
			}
		})
	}
}

// Of refusals few are kept, and those of listed hosts first.
func TestS20_RefusalsAreBounded(t *testing.T) {
	var rs refusals
	now := time.Unix(1, 0)
	isListed := func(id wire.ID) bool { return id == testID(200) }
	for i := range 3 * maxRefusals {
		rs.add(now, Refusal{ID: testID(i)}, isListed)
	}
	rs.add(now, Refusal{ID: testID(200)}, isListed)
	rs.add(now, Refusal{ID: testID(200), List: 7}, isListed)
	rs.add(now, Refusal{ID: testID(201)}, isListed)
	if n := len(rs); n != maxRefusals || !slices.ContainsFunc(rs, func(r Refusal) bool { return r.ID == testID(200) && r.List == 7 }) {
		t.Errorf("%d are kept: %v", n, rs)
	}
	if rs.expire(now.Add(refusalFor)); len(rs) != 0 {
		t.Errorf("%v are kept for ever", rs)
	}
}

// An address where this host is left out is called once in five seconds, whoever wants to speak.
func TestS20_AShutAddressIsLeftAlone(t *testing.T) {
	r := acquainted(t, 2)
	r.lists(1)
	r.run(time.Second)
	r.tape = nil
	for range 100 {
		r.say(2, 1, "x")
		r.run(100 * time.Millisecond)
	}
	inits := 0
	for _, p := range r.tape {
		if p.typ() == typeInit {
			inits++
		}
	}
	if inits < 1 || inits > 3 {
		t.Errorf("%d INITs in 10 s", inits)
	}
}

// Streams have the same gate: who has answered, and who has dialled.
func TestS20_StreamsHaveTheSameGate(t *testing.T) {
	r := acquainted(t, 2)
	r.lists(1)
	in, out := r.host(1), r.host(2)
	for _, kd := range []Kind{KindStream, KindTether, KindQuestion} {
		bound := func(n int) (m Meant) {
			if kd != KindStream {
				m.Addr = at(n)
			}
			return m
		}
		init, c, err := out.CallStream(at(1), kd, bound(1))
		if err != nil {
			t.Fatal(err)
		}
		q, _, cause := in.Accept(r.now, at(2), init)
		if cause != CauseNone {
			t.Fatal(cause)
		}
		resp, _ := q.Answer()
		who, proof, _, _ := c.Answered(resp)
		by, _, cause := q.Proven(proof)
		if cause != CauseNone {
			t.Fatal(cause)
		}
		refusal, cause := in.Admit(r.now, q, by, at(2))
		if cause != CauseUnlisted || !IsRefused(refusal) {
			t.Errorf("kind %d: %v, refusal %x", kd, cause, refusal)
		}
		out.gate.by = nil
		if out.RefusedStream(r.now, c, who, refusal) != CauseLeftOut || len(out.gate.by) != 1 || out.gate.by[0].ID != testID(1) {
			t.Errorf("kind %d: left out by %v", kd, out.gate.by)
		}
		init, c, _ = in.CallStream(at(2), kd, bound(2))
		if q, _, cause = out.Accept(r.now, at(1), init); cause != CauseNone {
			t.Fatal(cause)
		}
		resp, _ = q.Answer()
		if who, _, _, cause = c.Answered(resp); cause != CauseNone {
			t.Fatal(cause)
		}
		if cause := in.Met(c, who); cause != CauseUnlisted {
			t.Errorf("kind %d: a host that is not listed has answered: %v", kd, cause)
		}
	}
}

// Each host says the digest of its list, and again when it is another.
func TestS20_TheDigestIsSaid(t *testing.T) {
	r := acquainted(t, 2)
	digest := func(n int) identity.Digest { return r.host(n).only(t).list }
	if digest(1) != 0 || digest(2) != 0 {
		t.Errorf("without lists: %v, %v", digest(1), digest(2))
	}
	r.lists(1, 2)
	r.run(20 * time.Millisecond)
	if digest(2) != listOf(t, testID(1), testID(2)).Digest() || digest(1) != 0 {
		t.Errorf("n1 has a list: %v, %v", digest(1), digest(2))
	}
	r.shows(2, "n1 at 10.0.0.1:7950: n1 #1")
}

// The next life of a host, at another address, has the same gate and the refusals of before.
func TestS20_TheGateOutlivesALife(t *testing.T) {
	r := acquainted(t, 2)
	r.lists(2, 1)
	r.lists(1)
	r.run(20 * time.Millisecond)
	old := r.host(2)
	next := old.Renewed(r.now, Config{Key: testPrivate(2), Incarnation: 9, Addr: at(7), Cluster: "home",
		Rand: r.rand, Hosts: old.gate.hosts}, nil)
	if !next.gate.hosts.Equal(old.gate.hosts) || len(next.gate.by) != 1 || !next.gate.isShut {
		t.Errorf("the next life has %v, left out by %v", next.gate.hosts, next.gate.by)
	}
}
