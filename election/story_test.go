package election

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// story is one Node and what a test does to it: it hears frames, it waits, and
// the test says what it expects to have come of it. Every verb first checks
// that nothing came of the one before which the test did not expect, and so
// does the end of the test.
//
// The node is host self of a group whose priorities are their numbers. Heartbeats
// sent, their acknowledgements and LeaseUntil are left out, unless showsAll; the
// save of an epoch that another leads in need not be expected. Wills are kept apart.
type story struct {
	t            *testing.T
	node         *Node
	self         int
	zero         time.Time
	now          time.Time
	pending      []Effect
	sent         []Send // everything, the latest last
	disk         Saved
	showsAll     bool
	showsTethers bool
	wills        []Will // all that were left, the latest last
	actors       map[int]*actor
	fails        func(Saved) bool // makes the next such Save fail
}

// actor is another member of the group: it makes the frames that the node hears.
type actor struct {
	s           *story
	number      int
	incarnation uint32
	nonce       uint32
	seq         uint32
}

// storyOf gives a node that is host self, has just started, and knows the others.
func storyOf(t *testing.T, self int, cfg Config, others ...int) *story {
	t.Helper()
	return storyFrom(t, self, cfg, Saved{Incarnation: 1}, others...)
}

// storyFrom is storyOf with what the disk holds from the lives before.
func storyFrom(t *testing.T, self int, cfg Config, saved Saved, others ...int) *story {
	t.Helper()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cfg.ID, cfg.Nonce, cfg.Priority = hostID(self), 77, uint16(self)
	cfg.Rand = rand.New(rand.NewPCG(1, 2))
	if cfg.MinAcks == 0 {
		cfg.MinAcks = AutoMinAcks // as an agent has it
	}
	s := &story{t: t, self: self, zero: start, now: start, disk: saved, actors: map[int]*actor{}}
	node, err := New(cfg, s.disk, start)
	if err != nil {
		t.Fatal(err)
	}
	s.node = node
	s.happens(Entrusted{wire.Secret{byte(self)}.Commit()})
	for _, number := range others {
		s.actors[number] = &actor{s: s, number: number, incarnation: 1, nonce: uint32(1000 * number)}
		s.happens(MemberChanged{s.actors[number].member(Alive)})
	}
	t.Cleanup(func() {
		if !t.Failed() {
			s.expects()
		}
	})
	return s
}

func (s *story) actor(number int) *actor { return s.actors[number] }

func (a *actor) epoch(counter uint64) wire.Epoch {
	return wire.Epoch{Counter: counter, Owner: hostID(a.number)}
}

func (a *actor) member(status Presence) Member {
	h := host{number: a.number}
	return Member{ID: h.id(), Addr: h.addr(), Incarnation: a.incarnation, Nonce: a.nonce,
		Priority: uint16(a.number), Status: status, RTT: time.Millisecond}
}

// says completes the header of f as a's own frame.
func (a *actor) says(f wire.Frame) wire.Frame {
	a.seq++
	f.Algo, f.ConfigHash = a.s.node.cfg.algo(), a.s.node.hash
	f.Sender, f.Incarnation, f.Nonce, f.Priority = hostID(a.number), a.incarnation, a.nonce, uint16(a.number)
	f.Seq = a.seq
	if (f.Kind == wire.Heartbeat || f.Kind == wire.Coordinator) && f.Epoch.Owner == f.Sender {
		f.Will = a.secret().Commit().Hash(a.s.node.cfg.Cluster, f.Epoch, a.incarnation, a.nonce)
	}
	return f
}

// secret is what the keeper of a's life holds.
func (a *actor) secret() wire.Secret { return wire.Secret{byte(a.number), byte(a.nonce)} }

// will is what a's keeper says after its death.
func (a *actor) will() WillHeard { return WillHeard{a.secret().Commit()} }

// heartbeat is what a leader a sends in its epoch counter/a.
func (a *actor) heartbeat(counter uint64) wire.Frame {
	return a.says(wire.Frame{Kind: wire.Heartbeat, Flags: wire.Active | wire.AckReq, Epoch: a.epoch(counter), Lease: 400, Interval: 50})
}

func (a *actor) coordinator(counter uint64) wire.Frame {
	return a.says(wire.Frame{Kind: wire.Coordinator, Flags: wire.AckReq, Epoch: a.epoch(counter), Lease: 400})
}

// election is a's challenge after the leader of the failed epoch fell silent.
func (a *actor) election(failed wire.Epoch) wire.Frame {
	return a.says(wire.Frame{Kind: wire.Election, Flags: wire.AckReq, Reason: wire.LeaderFailed, Epoch: failed, FailedCounter: failed.Counter})
}

// replies is a's answer f to the latest frame of the request's kind that it got.
func (a *actor) replies(request wire.Kind, f wire.Frame) wire.Frame {
	a.s.t.Helper()
	for _, sent := range slices.Backward(a.s.sent) {
		if sent.Frame.Kind == request && sent.To == (&host{number: a.number}).addr() {
			f.Round, f.EchoSeq, f.Attempt = sent.Frame.Round, sent.Frame.Seq, sent.Frame.Attempt
			return a.says(f)
		}
	}
	a.s.t.Fatalf("n%d was not sent a %v", a.number, request)
	return wire.Frame{}
}

// hears gives the node one frame, from its sender's own address.
func (s *story) hears(f wire.Frame) {
	s.t.Helper()
	s.hearsFrom(int(f.Sender[0]), f)
}

// hearsFrom gives the node a frame from the address of host number.
func (s *story) hearsFrom(number int, f wire.Frame) {
	s.t.Helper()
	s.happens(Received{From: (&host{number: number}).addr(), Frame: f})
}

// happens gives the node one event.
func (s *story) happens(ev Event) {
	s.t.Helper()
	s.expects()
	s.step(ev)
}

// waits lets time pass; the node is woken whenever it asked to be.
func (s *story) waits(d time.Duration) {
	s.t.Helper()
	s.expects()
	end := s.now.Add(d)
	turns := 0
	for at := s.node.Deadline(); !at.IsZero() && !at.After(end); at = s.node.Deadline() {
		s.now = later(s.now, at)
		s.step(Tick{})
		if turns++; turns > 100_000 {
			s.t.Fatalf("woken without end at %v in %s", s.now.Sub(s.zero), s.node.state)
		}
	}
	s.now = end
}

// sleeps lets time pass without the node being woken: its process is frozen.
func (s *story) sleeps(d time.Duration) {
	s.t.Helper()
	s.expects()
	s.now = s.now.Add(d)
}

func (s *story) step(ev Event) {
	for _, e := range slices.Clone(s.node.Step(s.now, ev)) {
		switch e := e.(type) {
		case Save:
			if s.fails != nil && s.fails(e.State) {
				s.fails = nil
				s.step(SaveFailed(e)) // and the rest is dropped
				return
			}
			was := s.disk
			s.disk = e.State
			if s.isWordOfAnother(was, e.State) {
				s.pending = append(s.pending, learnt{e})
				continue
			}
		case Send:
			s.sent = append(s.sent, e)
		case Will:
			s.wills = append(s.wills, e)
			continue
		}
		s.pending = append(s.pending, e)
	}
	if at := s.node.Deadline(); !at.IsZero() && !at.After(s.now) && ev != (Tick{}) {
		s.step(Tick{}) // an agent's timer for the same instant
	}
}

// learnt is a Save that a test need not expect.
type learnt struct{ Save }

// isWordOfAnother: the save keeps another's epoch, and nothing else.
func (s *story) isWordOfAnother(was, is Saved) bool {
	isNews := is.Accepted != was.Accepted && is.Accepted.Owner != hostID(s.self)
	was.Accepted, was.MaxCounter = is.Accepted, is.MaxCounter
	return isNews && reflect.DeepEqual(was, is)
}

// expects says, in order, all that came of the last verb. Each line is some
// words of the effect's text, in which members are n1, n2, ….
func (s *story) expects(lines ...string) {
	s.t.Helper()
	var got []string
	for _, e := range s.pending {
		if _, is := e.(learnt); is && !s.showsAll && (len(got) >= len(lines) || !strings.HasPrefix(lines[len(got)], "save")) {
			continue
		}
		if line := s.text(e); line != "" {
			got = append(got, line)
		}
	}
	s.pending = nil
	isSame := len(got) == len(lines)
	for i := 0; isSame && i < len(lines); i++ {
		isSame = hasWords(got[i], lines[i])
	}
	if !isSame {
		s.t.Fatalf("at %v in %s\ngot:\n\t%s\nwant:\n\t%s", s.now.Sub(s.zero), s.node.state,
			strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}

// expectsSome is expects for what begins with these lines, whatever comes then.
func (s *story) expectsSome(lines ...string) {
	s.t.Helper()
	got := 0
	for i, e := range s.pending {
		if s.text(e) == "" {
			continue
		}
		if got++; got == len(lines) {
			s.pending = s.pending[:i+1]
			break
		}
	}
	s.expects(lines...)
}

// forgets drops what came of the last verb: the way to where the story begins.
func (s *story) forgets() { s.pending = nil }

func hasWords(line, words string) bool {
	have := strings.Fields(line)
	for _, w := range strings.Fields(words) {
		if !slices.Contains(have, w) {
			return false
		}
	}
	return true
}

// text gives an effect's line, or "" if the story leaves it out.
func (s *story) text(e Effect) string {
	var line string
	switch e := e.(type) {
	case Send:
		if !s.showsAll && (e.Frame.Kind == wire.Heartbeat || e.Frame.Kind == wire.HeartAck) {
			return ""
		}
		line = fmt.Sprintf("send n%d %v", e.To.Addr().As4()[3], &e.Frame)
	case Tether:
		if !s.showsTethers {
			return ""
		}
		line = e.String()
	case LeaseUntil:
		if !s.showsAll {
			return ""
		}
		line = e.String()
	default:
		line = e.String()
	}
	for number := range 10 {
		line = strings.ReplaceAll(line, hostID(number).Short(), fmt.Sprintf("n%d", number))
	}
	return line
}

// is checks the node's state.
func (s *story) is(want State) {
	s.t.Helper()
	if s.node.state != want {
		s.t.Fatalf("at %v: state %s, want %s", s.now.Sub(s.zero), s.node.state, want)
	}
}

// follows brings the node to follow host number in the epoch counter/number,
// with the start's settling behind it.
func (s *story) follows(number int, counter uint64) {
	s.t.Helper()
	s.hears(s.actor(number).heartbeat(counter))
	for range 50 {
		s.forgets()
		s.waits(50 * time.Millisecond)
		s.forgets()
		s.hears(s.actor(number).heartbeat(counter))
	}
	s.forgets()
	s.is(Follow)
}

// leads brings the node, which must be the best, to lead; host number alone
// acknowledges it.
func (s *story) leads(number int) {
	s.t.Helper()
	s.waits(2 * time.Second)
	s.forgets()
	for s.node.state != Claiming && s.now.Sub(s.zero) < 5*time.Second {
		s.hears(s.actor(number).says(wire.Frame{Kind: wire.Query}))
		s.forgets()
		s.waits(10 * time.Millisecond)
		s.forgets()
	}
	s.hears(s.actor(number).replies(wire.Coordinator, wire.Frame{Kind: wire.CoordAck, Epoch: s.node.epoch}))
	s.forgets()
	s.is(Lead)
}

// acks lets host number acknowledge the latest heartbeat.
func (s *story) acks(number int) {
	s.t.Helper()
	s.hears(s.actor(number).replies(wire.Heartbeat, wire.Frame{Kind: wire.HeartAck, Epoch: s.node.epoch}))
}
