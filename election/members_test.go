package election

import (
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// The end of a member that nobody here ever saw is no news, and makes no member.
func TestTheEndOfAStranger(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.happens(MemberChanged{(&actor{s: n, number: 9, incarnation: 1, nonce: 9000}).member(Dead)})
	n.expects()
	if n.node.peer(hostID(9)) != nil {
		t.Error("a member that is dead on arrival is remembered")
	}
}

// The detector's word on a member's former life comes after its next one is
// known: the member that talks now must not die of it, nor be followed back.
func TestWordOfAFormerLife(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3)
	former := n.actor(2).member(Dead)
	again := n.actor(2)
	again.incarnation, again.nonce = 2, 2222
	n.happens(MemberChanged{again.member(Alive)})
	n.hears(again.heartbeat(1))
	n.expects("start → follow leader=n2")
	n.happens(MemberChanged{former})
	n.expects("ignored old-life")
	former.Status = Alive
	n.happens(MemberChanged{former})
	n.expects("ignored old-life")
	if p := n.node.peer(hostID(2)); p.Status != Alive || p.Nonce != 2222 {
		t.Errorf("n2 is %v in the life %d", p.Status, p.Nonce)
	}
}

// A member is started again elsewhere a moment after it was heard. The port has proved the new life, and holds back a copy
// of one that is there, so whoever tells of it first, its own frame or the failure detector, it takes the place at once.
func TestR2_ALaterLifeTakesThePlaceAtOnce(t *testing.T) {
	for name, meets := range map[string]func(*story, *actor){
		"by its frame":            func(n *story, a *actor) { n.hearsFrom(3, a.says(wire.Frame{Kind: wire.Query})) },
		"by the failure detector": func(n *story, a *actor) { n.happens(MemberChanged{a.memberAt(3)}) },
		"by both, its frame first": func(n *story, a *actor) {
			n.hearsFrom(3, a.says(wire.Frame{Kind: wire.Query}))
			n.forgets()
			n.happens(MemberChanged{a.memberAt(3)})
		},
	} {
		n := storyOf(t, 1, Config{}, 2, 3)
		a := n.actor(2)
		n.hearsAndForgets(a.says(wire.Frame{Kind: wire.Query}))
		a.incarnation, a.nonce = 2, 2222
		meets(n, a)
		n.forgets()
		if p := n.node.peer(hostID(2)); p.Nonce != 2222 || p.Addr != a.memberAt(3).Addr {
			t.Errorf("%s: n2 is at %v in the life %d", name, p.Addr, p.Nonce)
		}
		n.waits(time.Second)
		n.forgets()
		if p := n.node.peer(hostID(2)); n.node.presumedAlive(p) != (name != "by its frame") {
			t.Errorf("%s: it is silent for a second, and alive: %t", name, n.node.presumedAlive(p))
		}
	}
}

// memberAt is the failure detector's word on a that it is where host number is.
func (a *actor) memberAt(number int) Member {
	m := a.member(Alive)
	m.Addr = (&host{number: number}).addr()
	return m
}

// A detector's word without an address leaves the one that is known: frames must
// go somewhere.
func TestAMemberWithoutAnAddress(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3)
	m := n.actor(3).member(Alive)
	want := m.Addr
	m.Addr = Member{}.Addr
	n.happens(MemberChanged{m})
	n.hears(n.actor(3).coordinator(1))
	n.expects("start → follow leader=n3", "send n3 COORD_ACK")
	if got := n.sent[len(n.sent)-1].To; got != want {
		t.Errorf("answers to %v", got)
	}
}

// Frames from elsewhere are counted, as behind a router that rewrites addresses;
// the answer goes to the member's own address and not to whoever sent them.
func TestAFrameFromElsewhere(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3)
	n.hearsFrom(9, n.actor(3).coordinator(1))
	n.expects("ignored address-mismatch", "start → follow leader=n3", "send n3 COORD_ACK")
}

// A kind of a later version that this node does not know changes nothing but the
// time when its sender was heard.
func TestAnUnknownKind(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3)
	n.hears(n.actor(3).says(wire.Frame{Kind: wire.Kind(200)}))
	n.expects("ignored kind-without-meaning")
	n.hears(n.actor(3).says(wire.Frame{Kind: wire.Nominate})) // classic names nobody
	n.expects("ignored kind-without-meaning")
	if !n.node.peer(hostID(3)).heard.Equal(n.now) {
		t.Error("its sender does not count as heard")
	}
}

// An event or a command that nobody wrote a rule for must not pass in silence.
func TestUnknownEventsAreBugs(t *testing.T) {
	for name, ev := range map[string]Event{"event": struct{ Tick }{}, "command": Command{Verb: 99}} {
		t.Run(name, func(t *testing.T) {
			n := storyOf(t, 1, Config{}, 2)
			defer func() {
				if recover() == nil {
					t.Error("taken without a word")
				}
			}()
			n.happens(ev)
		})
	}
}

// The rhythm of the heartbeats is what the leader announces and what arrives; one
// that announces none must not turn every pause into a silence.
func TestAHeartbeatWithoutAnInterval(t *testing.T) {
	n := storyOf(t, 1, Config{}, 2, 3)
	n.follows(3, 1)
	before := n.node.suspectTimeout()
	f := n.actor(3).heartbeat(1)
	f.Interval = 0
	n.hears(f)
	n.expects()
	if got := n.node.suspectTimeout(); got != before {
		t.Errorf("suspects after %v, before that after %v", got, before)
	}
}

// The failure detector gives the leader up while this node doubts it: that
// settles the matter, and the probes need not run out.
func TestE5_TheDetectorAgrees(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.happens(MemberChanged{n.actor(3).member(Dead)})
	n.expects("ignored detector-disagrees")
	n.happens(MemberChanged{n.actor(3).member(Alive)})
	n.waits(n.node.suspectTimeout())
	n.expects("follow → suspect", "send n1 PROBE", "send n3 PROBE")
	n.happens(MemberChanged{n.actor(3).member(Dead)})
	n.expects("suspect → stagger cause=leader-failed")
}

// In a doubt somebody vouches for another leader, in a later epoch: that is whom
// to expect, and the silent one need not be waited for.
func TestAnOpinionOfALaterLeader(t *testing.T) {
	n := storyOf(t, 2, Config{}, 1, 3, 4)
	n.follows(3, 1)
	n.waits(n.node.suspectTimeout())
	n.forgets()
	n.is(Suspect)
	n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Flags: wire.Fresh, HeartbeatAge: 5, Standing: wire.Following,
		Epoch: n.actor(4).epoch(2)}))
	n.expects("suspect → follow leader=n4 epoch=2/n4 cause=told-of-leader")
}

// A claimant that nobody has heard asks for a sign of life, and hears of a leader
// instead: it follows if it knows that member, and else looks again later rather
// than depose it.
func TestASignOfLifeNamesALeader(t *testing.T) {
	looks := func(t *testing.T) *story {
		n := storyOf(t, 3, Config{}, 1, 2)
		n.waits(2 * time.Second)
		n.forgets()
		n.is(Elect)
		return n
	}
	vouches := func(n *story, e wire.Epoch) wire.Frame {
		return n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Flags: wire.Fresh, Standing: wire.Following, Epoch: e})
	}
	t.Run("that it knows", func(t *testing.T) {
		n := looks(t)
		n.hears(vouches(n, n.actor(2).epoch(7)))
		n.expects("elect → follow leader=n2 epoch=7/n2 cause=told-of-leader")
	})
	t.Run("that it does not know", func(t *testing.T) {
		n := looks(t)
		n.hears(vouches(n, wire.Epoch{Counter: 7, Owner: hostID(9)}))
		n.expects("elect → stagger cause=told-of-leader")
	})
	t.Run("and without one it claims", func(t *testing.T) {
		n := looks(t)
		n.hears(n.actor(1).replies(wire.Probe, wire.Frame{Kind: wire.ProbeAck, Standing: wire.Following}))
		n.expects("save counter=1", "elect → claim epoch=1/n3", "send n1 COORDINATOR", "send n2 COORDINATOR")
	})
}

// R5 at a claimant: who knows a higher epoch says so. With a leader that is heard
// there, it is followed; without, the claim is made again above it.
func TestR5_StaleClaim(t *testing.T) {
	claiming := func(t *testing.T) *story {
		n := storyOf(t, 3, Config{MinAcks: 2}, 1, 2)
		n.waits(1950 * time.Millisecond)
		for _, number := range []int{1, 2} {
			n.hearsAndForgets(n.actor(number).says(wire.Frame{Kind: wire.Query}))
		}
		n.waits(50 * time.Millisecond)
		n.forgets()
		n.is(Claiming)
		return n
	}
	stale := func(n *story, flags wire.Flags, e wire.Epoch) wire.Frame {
		return n.actor(1).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, AckVerdict: wire.AckStale, Flags: flags, Epoch: e})
	}
	t.Run("a leader is heard there", func(t *testing.T) {
		n := claiming(t)
		n.hears(stale(n, wire.Fresh, n.actor(2).epoch(7)))
		n.expects("claim → stagger cause=claim-stale", "stagger → follow leader=n2 epoch=7/n2 cause=told-of-leader")
	})
	t.Run("nobody leads it", func(t *testing.T) {
		n := claiming(t)
		n.hears(stale(n, 0, n.actor(2).epoch(7)))
		n.expects("save counter=8", "claim → claim epoch=8/n3 cause=claim-stale", "send n1 COORDINATOR epoch=8/n3", "send n2 COORDINATOR epoch=8/n3")
		n.hears(stale(n, 0, n.actor(2).epoch(7))) // a copy: 8 is above it
		n.expects()
	})
}

// A node that listens for a leader before its first election is not waited for
// where a leader died, or its settling would be added to every fail-over; where
// nobody led yet, it is worth waiting for.
func TestAChallengeWhileSettling(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.waits(500 * time.Millisecond)
	n.forgets()
	n.hears(n.actor(1).election(n.actor(2).epoch(4)))
	n.expects("send n1 ANSWER verdict=ineligible")
	n.hears(n.actor(1).says(wire.Frame{Kind: wire.Election, Flags: wire.AckReq, Reason: wire.Boot}))
	n.expects("send n1 ANSWER verdict=ok eta=1500ms")
	n.is(Start)
}

// A leader known by hearsay that is never heard is given up, and its lease counts
// from when this node was told: it may have led until then.
func TestNobodyClaimsDuringALeaseByHearsay(t *testing.T) {
	n := storyOf(t, 2, Config{TakeoverDelay: time.Second}, 1, 3)
	n.waits(1990 * time.Millisecond) // the settling is no reason to wait any more
	n.forgets()
	n.happens(LeaderReported{n.actor(3).epoch(1)})
	told := n.now
	n.expects("start → follow leader=n3 cause=told-of-leader")
	n.waits(400 * time.Millisecond)
	n.forgets()
	n.is(Stagger)
	for n.node.state != Claiming && n.now.Sub(told) < 5*time.Second {
		n.hearsAndForgets(n.actor(1).says(wire.Frame{Kind: wire.Query}))
		n.waits(10 * time.Millisecond)
		n.forgets()
	}
	if waited := n.now.Sub(told); waited < 1408*time.Millisecond || n.node.state != Claiming {
		t.Errorf("%s %v after it was told of a leader with a lease of 400ms and a delay of 1s", n.node.state, waited)
	}
}

// An operator who raises a follower's priority need not restart it: it asks the
// leader for its turn after the usual delay, and lowered again it asks no more.
func TestReprioritise(t *testing.T) {
	hearsFor := func(n *story, d time.Duration) (asked int) {
		for end := n.now.Add(d); n.now.Before(end); {
			n.hearsAndForgets(n.actor(3).heartbeat(1))
			before := len(n.sent)
			n.waits(50 * time.Millisecond)
			n.forgets()
			for _, sent := range n.sent[before:] {
				if sent.Frame.Kind == wire.Election && sent.Frame.Reason == wire.Preempt && sent.Frame.Flags&wire.Retx == 0 {
					asked++
				}
			}
		}
		return asked
	}
	n := storyOf(t, 2, Config{}, 1, 3)
	n.follows(3, 1)
	n.happens(Command{Verb: Reprioritise, Priority: 9, Token: 2})
	n.expects("reply ok")
	if asked := hearsFor(n, 900*time.Millisecond); asked != 0 {
		t.Error("asks before the preempt delay")
	}
	if asked := hearsFor(n, 200*time.Millisecond); asked != 1 {
		t.Errorf("asked %d times after the preempt delay", asked)
	}
	if f := n.lastTo(3, wire.Election); f.Priority != 9 {
		t.Errorf("asks with priority %d", f.Priority)
	}
	n.happens(Command{Verb: Reprioritise, Priority: 2, Token: 3})
	n.expects("reply ok")
	if asked := hearsFor(n, 3*time.Second); asked != 0 {
		t.Errorf("asked %d times with its old priority", asked)
	}
}

// A candidate whose own link goes cannot be heard: it stands for nothing until
// the link is back.
func TestACandidatesLinkIsLost(t *testing.T) {
	n := electing(t)
	n.happens(LinkChanged{Up: false})
	n.expects("elect → observe cause=link-lost")
	n.happens(LinkChanged{Up: false})
	n.waits(5 * time.Second)
	n.expects()
	n.happens(LinkChanged{Up: true})
	n.expects("observe → stagger cause=link-back")
}

// In a large group the best few keep a stream to the leader, for they take over;
// the leader is spared one from each of the others.
func TestTethersOfALargeGroup(t *testing.T) {
	for self, want := range map[int][]string{60: {"start → follow"}, 66: {"start → follow", "liveness stream to"}} {
		var others []int
		for number := 1; number <= 71; number++ {
			if number != self {
				others = append(others, number)
			}
		}
		n := storyOf(t, self, Config{}, others...)
		n.showsTethers = true
		n.hears(n.actor(71).heartbeat(1))
		n.expects(want...)
	}
}

// The candidate set is only the leader just lost: the better ones outside it are
// asked at once, or nobody would be.
func TestEnhancedSetOfTheLostLeader(t *testing.T) {
	n := storyOf(t, 2, Config{Algorithm: Enhanced, CandidateSet: 1}, 1, 3, 4)
	n.follows(4, 1)
	for n.node.state != Elect {
		n.forgets()
		n.waits(5 * time.Millisecond)
	}
	n.expects("stagger → elect", "send n3 ELECTION")
}

// A claimant that is challenged goes on with its claim: it says so by an ETA, and
// the challenger is told of the claim again, since it seems to have missed it.
func TestEnhancedChallengeOfAClaimant(t *testing.T) {
	n := storyOf(t, 3, Config{Algorithm: Enhanced, MinAcks: 2}, 1, 2)
	n.waits(1950 * time.Millisecond)
	for _, number := range []int{1, 2} {
		n.hearsAndForgets(n.actor(number).says(wire.Frame{Kind: wire.Query}))
	}
	n.waits(50 * time.Millisecond)
	n.forgets()
	n.is(Claiming)
	n.hears(n.actor(1).election(wire.Epoch{}))
	n.expects("send n1 ANSWER verdict=ok eta=1ms", "send n1 COORDINATOR epoch=1/n3")
}

// A member that is forgotten for good is not waited for: a node that leaves would
// never go.
func TestAForgottenMemberIsNotWaitedFor(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	n.leads(2)
	n.happens(Command{Verb: Leave, Token: 7})
	n.forgets()
	n.hears(n.actor(2).ready(true))
	n.forgets()
	n.loseHookEnds()
	n.forgets()
	n.hears(n.actor(2).replies(wire.Resign, wire.Frame{Kind: wire.ResignAck}))
	n.expects()
	n.happens(MemberChanged{n.actor(1).member(Dead)}) // has not been told yet that the leader goes
	n.expects()
	m := Member{Incarnation: 1, Addr: n.actor(1).member(Alive).Addr}
	for i := 0; i <= maxEnded && n.node.state == Stopping; i++ {
		n.forgets()
		m.ID, m.Nonce = wire.ID{0: 9, 1: byte(i >> 8), 2: byte(i), 15: 1}, uint32(i)
		for _, m.Status = range []Presence{Alive, Dead} {
			n.happens(MemberChanged{m})
		}
	}
	if n.replies(7) != 1 {
		t.Errorf("in %s, and the command is not answered", n.node.state)
	}
	n.forgets()
	if n.node.peer(hostID(1)) != nil {
		t.Error("the member that ended first is not the one forgotten")
	}
}

// A life that the failure detector has not seen, since it began and ended between two
// looks, has ended when its frames are: nobody would report its end, and a member that
// is alive for ever keeps a roster from forming and a host without a link from
// standing.
func TestALifeThatOnlyItsFramesToldOf(t *testing.T) {
	n := storyOf(t, 3, Config{}, 1, 2)
	a := n.actor(2)
	a.nonce, a.incarnation = a.nonce+1, a.incarnation+1
	n.hears(a.says(wire.Frame{Kind: wire.Query}))
	n.expects("send n2 CID state=none")
	p := n.node.peer(hostID(2))
	if !n.node.presumedAlive(p) {
		t.Error("it is not alive as it talks")
	}
	n.waits(time.Second)
	n.forgets()
	if n.node.presumedAlive(p) {
		t.Error("it is alive though it says nothing and nobody else has seen it")
	}
	n.happens(MemberChanged{a.member(Alive)})
	n.waits(time.Second)
	n.forgets()
	if !n.node.presumedAlive(p) {
		t.Error("it is not alive though the failure detector says so")
	}
}
