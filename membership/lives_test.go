package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// story plays memberlist's notices into lives. "told" takes what the consumer
// gets at that point, so each case also says what a slow consumer misses.
//
//	hear 1 up 1 dead 1   notice about the life with this incarnation
//	leaving 1            an update that says it is leaving
//	ping 1               an answer to a ping
//	doubt 1              a host suspects it
//	silence 1            no answer to the pings that this brought
//	join 1               hear and ping
//	gone 1               dead and silence
//	late 1               a join that says it is leaving
//	far 1                a join at another address
//	mark 1               a LEAVE frame
//	wait                 longer than leaveGrace
//	told                 the consumer asks
type story struct {
	lives lives
	now   time.Time
	got   []string
}

func (s *story) play(line string) {
	words := strings.Fields(line)
	var inc uint32
	if len(words) > 1 {
		_, _ = fmt.Sscan(words[1], &inc)
	}
	// 10, 20 … are clones of 1, 2 …: same incarnation, other nonce.
	m := Member{ID: idOf("beta"), Name: "beta", Incarnation: inc, Nonce: 100 + inc, Addr: addrOf("beta")}
	if inc >= 10 {
		m.Incarnation = inc / 10
	}
	s.now = s.now.Add(time.Second)
	switch words[0] {
	case "far", "join", "late":
		if m.Leaving = words[0] == "late"; words[0] == "far" {
			m.Addr = addrOf("gamma")
		}
		s.lives.meet(m, s.now)
	case "hear":
		s.lives.joined(m, s.now)
	case "elsewhere":
		m.Addr = addrOf("gamma")
		s.lives.joined(m, s.now)
	case "up":
		m.Priority = uint16(s.now.Unix())
		s.lives.updated(m, s.now)
	case "leaving":
		m.Leaving = true
		s.lives.updated(m, s.now)
	case "dead":
		s.lives.gone(m, s.now)
	case "gone":
		s.lives.lose(m, s.now)
	case "mark":
		s.lives.markLeft(m.ID, m.Incarnation, s.now)
	case "ping":
		s.lives.answered(m, time.Millisecond, s.now)
	case "doubt":
		s.lives.doubted(m.ID, m.Nonce, s.now)
	case "silence":
		s.lives.unanswered(m, s.now)
	case "wait":
		s.now = s.now.Add(leaveGrace)
	case "told":
		for _, e := range s.lives.take() {
			s.got = append(s.got, fmt.Sprintf("%s %d", e.Kind, e.Member.Nonce-100))
		}
		s.got = append(s.got, "|")
	default:
		panic("no such notice: " + line)
	}
}

func TestWhatAConsumerIsTold(t *testing.T) {
	cases := []struct{ what, notices, want string }{
		{"a life", "join 1, told, up 1, told, gone 1, told", "joined 1 | updated 1 | failed 1 |"},
		{"the same to a slow consumer", "join 1, up 1, told", "joined 1 |"},
		{"came and went unseen", "join 1, gone 1, told", "|"},
		{"a flap unseen", "join 1, told, gone 1, join 1, ping 1, told", "joined 1 | |"},
		{"a flap seen", "join 1, told, gone 1, told, hear 1, told, ping 1, told", "joined 1 | failed 1 | | joined 1 |"},
		{"others alone reach it", "join 1, told, gone 1, told, hear 1, dead 1, hear 1, up 1, told, dead 1, told", "joined 1 | failed 1 | | |"},
		{"a departure by flag", "join 1, told, leaving 1, gone 1, told", "joined 1 | left 1 |"},
		{"a departure by flag, step by step", "join 1, told, leaving 1, told, gone 1, told", "joined 1 | updated 1 | left 1 |"},
		{"a departure by frame", "join 1, told, mark 1, told, leaving 1, gone 1, told", "joined 1 | left 1 | |"},
		{"the frame comes after the death", "join 1, told, gone 1, told, mark 1, told", "joined 1 | failed 1 | left 1 |"},
		{"the frame comes twice", "join 1, mark 1, told, mark 1, told", "| |"},
		{"the frame of another life", "join 2, told, mark 1, told", "joined 2 | |"},
		{"gossip brings a departed life back", "join 1, leaving 1, mark 1, told, leaving 1, told", "| |"},
		{"old push/pull brings a departed life back", "join 1, told, leaving 1, gone 1, told, late 1, told, gone 1, told", "joined 1 | left 1 | | |"},
		{"first heard of while it leaves", "late 1, told, gone 1, told", "joined 1 | left 1 |"},
		{"it left, and answers pings on its way out", "join 1, told, mark 1, told, ping 1, told", "joined 1 | left 1 | |"},
		{"it was said to leave, and answers for long", "join 1, told, mark 1, told, wait, ping 1, told", "joined 1 | left 1 | joined 1 |"},
		{"it left, and a late answer arrives", "join 1, told, mark 1, gone 1, told, wait, ping 1, told", "joined 1 | left 1 | |"},
		{"it is leaving for very long", "join 1, leaving 1, told, mark 1, told, wait, ping 1, told", "joined 1 | left 1 | |"},
		{"a dead life's late answer", "join 1, gone 1, told, ping 1, told", "| |"},

		{"restart before detection (P9)", "join 1, told, join 2, told, gone 1, told", "joined 1 | failed 1 joined 2 | |"},
		{"restart after a departure", "join 1, told, mark 1, join 2, told", "joined 1 | left 1 joined 2 |"},
		{"restart after a death unseen", "join 1, told, gone 1, join 2, told", "joined 1 | failed 1 joined 2 |"},
		{"two restarts unseen", "join 1, told, join 2, join 3, told", "joined 1 | failed 1 joined 3 |"},
		{"restart and death unseen", "join 1, told, join 2, gone 2, told", "joined 1 | failed 1 |"},
		{"the ghost of an older life", "join 2, told, join 1, up 1, told, gone 1, told", "joined 2 | | |"},
		{"the ghost outlives the restart", "join 1, join 2, told, gone 2, told, gone 1, told", "joined 2 | failed 2 | |"},
		{"an old backup of the state is started", "join 2, told, gone 2, told, join 1, told", "joined 2 | failed 2 | joined 1 |"},

		{"restart elsewhere", "join 1, told, gone 1, far 2, told", "joined 1 | failed 1 joined 2 |"},
		{"restart elsewhere before detection", "join 1, told, far 2, told, gone 1, told", "joined 1 | joined 2 | failed 1 joined 2 |"},
		{"a clone elsewhere and its end unseen", "join 1, told, far 2, gone 2, told, gone 1, told", "joined 1 | | failed 1 |"},
		{"a clone", "join 1, told, join 10, told", "joined 1 | failed 1 joined 10 |"},
		{"a clone, then the original says something", "join 1, join 10, told, up 1, told", "joined 10 | |"},
		{"a clone is stopped, the original answers", "join 1, join 10, told, gone 10, told, wait, ping 1, told", "joined 10 | failed 10 | joined 1 |"},
		{"a clone from an image hides the original until it stops", "join 1, told, join 2, told, gone 2, wait, ping 1, told", "joined 1 | failed 1 joined 2 | failed 2 joined 1 |"},
		{"a ghost answers nothing", "join 1, join 2, told, gone 2, gone 1, wait, ping 1, told", "joined 2 | failed 2 |"},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			s := story{lives: newLives(), now: time.Unix(1000, 0)}
			for line := range strings.SplitSeq(c.notices, ",") {
				s.play(line)
			}
			if got := strings.Join(s.got, " "); got != c.want {
				t.Errorf("told %q; expected %q", got, c.want)
			}
		})
	}
}

// A death that others found is believed at once where this host has asked in vain, and otherwise once it has. One other is there.
func TestWhoseDeathIsBelieved(t *testing.T) {
	cases := []struct{ what, notices, want string }{
		{"it was suspected and silent", "hear 1, ping 1, told, doubt 1, silence 1, dead 1, told", "joined 1 | failed 1 |"},
		{"it answered since it was suspected", "hear 1, ping 1, told, doubt 1, ping 1, dead 1, told, silence 1, told", "joined 1 | | failed 1 |"},
		{"nobody suspected it, and it answers", "hear 1, ping 1, told, dead 1, ping 1, told, hear 1, told", "joined 1 | | |"},
		{"it answers, and later no more", "hear 1, ping 1, told, dead 1, ping 1, told, silence 1, told", "joined 1 | | failed 1 |"},
		{"it had said that it leaves", "hear 1, ping 1, leaving 1, told, dead 1, told, silence 1, told", "joined 1 | | left 1 |"},
		{"its LEAVE comes meanwhile", "hear 1, ping 1, told, dead 1, mark 1, silence 1, told", "joined 1 | left 1 |"},
		{"its next life comes meanwhile", "hear 1, ping 1, told, dead 1, hear 2, ping 2, told, silence 1, told", "joined 1 | failed 1 joined 2 | |"},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			s := story{lives: newLives(), now: time.Unix(1000, 0)}
			s.lives.joined(Member{ID: idOf("gamma"), Nonce: 100, Addr: addrOf("gamma")}, s.now)
			s.lives.take()
			for line := range strings.SplitSeq(c.notices, ",") {
				s.play(line)
			}
			if got := strings.Join(s.got, " "); got != c.want {
				t.Errorf("told %q; expected %q", got, c.want)
			}
		})
	}
}

// A life is one once it has answered: what only gossip says takes nobody's place.
func TestWhatAConsumerIsToldOfHearsay(t *testing.T) {
	cases := []struct{ what, notices, want string }{
		{"a life", "hear 1, told, ping 1, told, ping 1, up 1, told, gone 1, told", "| joined 1 | updated 1 | failed 1 |"},
		{"it says something else before it answers", "hear 1, up 1, told, ping 1, told", "| joined 1 |"},
		{"one that is made up", "hear 1, told, up 1, dead 1, told, ping 1, told", "| | |"},
		{"a later life that is made up", "hear 1, ping 1, told, hear 2, told, up 2, told, dead 2, told", "joined 1 | | | |"},
		{"the same elsewhere", "hear 1, ping 1, told, elsewhere 2, told, dead 2, told", "joined 1 | | |"},
		{"another of the same number elsewhere", "hear 1, ping 1, told, elsewhere 10, told, dead 10, told", "joined 1 | | |"},
		{"a life that goes on is said to be dead beside a made-up one", "hear 1, ping 1, told, elsewhere 2, gone 1, told, hear 1, ping 1, told", "joined 1 | failed 1 | joined 1 |"},
		{"a restart before detection", "hear 1, ping 1, told, hear 2, ping 2, told, dead 1, told", "joined 1 | failed 1 joined 2 | |"},
		{"a restart after it", "hear 1, ping 1, told, gone 1, told, hear 2, told, ping 2, told", "joined 1 | failed 1 | | joined 2 |"},
		{"the ghost of an older life", "hear 2, ping 2, told, hear 1, ping 1, told, dead 1, told", "joined 2 | | |"},
		{"the LEAVE of one that was never there", "hear 1, mark 1, told", "|"},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			s := story{lives: newLives(), now: time.Unix(1000, 0)}
			for line := range strings.SplitSeq(c.notices, ",") {
				s.play(line)
			}
			if got := strings.Join(s.got, " "); got != c.want {
				t.Errorf("told %q; expected %q", got, c.want)
			}
			if n := len(s.lives.known(time.Now())); c.what == "one that is made up" && n+len(s.lives.byID) != 0 {
				t.Errorf("%d are remembered", n+len(s.lives.byID))
			}
		})
	}
}

// meet is told of a life, which answers at once.
func (l *lives) meet(m Member, now time.Time) {
	l.joined(m, now)
	l.answered(m, time.Millisecond, now)
}

// lose is told of the end of a life, which is silent.
func (l *lives) lose(m Member, now time.Time) {
	l.gone(m, now)
	l.unanswered(m, now)
}

// TestSurvivorOfAnIDConflict: its incarnation rises while its nonce stays.
func TestSurvivorOfAnIDConflict(t *testing.T) {
	l, now := newLives(), time.Unix(1000, 0)
	original := Member{ID: idOf("beta"), Incarnation: 5, Nonce: 1}
	clone := Member{ID: idOf("beta"), Incarnation: 6, Nonce: 2}
	l.meet(original, now)
	l.meet(clone, now)
	l.take()
	original.Incarnation = 7
	l.updated(original, now)
	l.answered(original, time.Millisecond, now)
	events := l.take()
	if len(events) != 2 || events[0].Member.Nonce != 2 || events[1].Member.Nonce != 1 || events[1].Kind != Joined {
		t.Errorf("told %v; expected the end of the clone and the original again", events)
	}
}

// TestEventsAreConsistent plays random notices with random pauses of the
// consumer. Whatever happens, for each beginning there is at most one end, save
// that a death may turn out to be a departure, and the consumer's picture is the
// truth whenever it asked.
func TestEventsAreConsistent(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := story{lives: newLives(), now: time.Unix(1000, 0)}
		notices := []string{"join", "up", "leaving", "gone", "mark", "ping", "wait", "told"}
		living, last := 0, Joined
		check := func() {
			for _, e := range s.lives.take() {
				switch e.Kind {
				case Joined:
					living++
				case Failed, Departed:
					if last != Failed || e.Kind != Departed {
						living--
					}
				case Updated:
					if living != 1 {
						t.Fatalf("seed %d: %v while nobody is alive", seed, e)
					}
				}
				last = e.Kind
				if living < 0 || living > 1 {
					t.Fatalf("seed %d: %v makes %d living members of one id", seed, e, living)
				}
			}
			truth := 0
			for _, m := range s.lives.known(s.now) {
				if m.Status == Alive {
					truth++
				}
			}
			if living != truth {
				t.Fatalf("seed %d: the consumer believes in %d living members, lives in %d", seed, living, truth)
			}
		}
		for range 200 {
			verb := notices[r.IntN(len(notices))]
			if verb == "told" {
				check()
				continue
			}
			s.play(fmt.Sprintf("%s %d", verb, []int{1, 2, 3, 10, 20}[r.IntN(5)]))
		}
		check()
	}
}

// TestEndedMembersAreBounded: forged members that come and go, told or not, do
// not fill the memory, and those who may come back are kept longest.
func TestEndedMembersAreBounded(t *testing.T) {
	for _, told := range []bool{true, false} {
		l, now := newLives(), time.Unix(1000, 0)
		idAt := func(i int) wire.ID { return wire.ID{0: 1, 14: byte(i >> 8), 15: byte(i)} }
		const n = 3 * maxEnded
		for i := range n {
			now = now.Add(time.Second)
			m := Member{ID: idAt(i), Nonce: 1, Leaving: i%3 != 0}
			l.meet(m, now)
			if told {
				l.take()
			}
			l.lose(m, now)
		}
		l.take()
		if len(l.byID) > maxEnded+1 || len(l.dirty) > 0 {
			t.Fatalf("told %v: %d members are kept and %d are to be told; expected at most %d", told, len(l.byID), len(l.dirty), maxEnded)
		}
		dead := 0
		for _, m := range l.known(time.Now()) {
			if m.Status == Dead {
				dead++
			}
		}
		if dead < maxEnded-2 {
			t.Errorf("told %v: %d of the %d dead are kept; expected that those that left go first", told, dead, n/3)
		}
	}
}

func TestKnownIsSortedByID(t *testing.T) {
	l := newLives()
	for _, name := range []string{"gamma", "alpha", "beta"} {
		l.meet(Member{ID: idOf(name), Name: name}, time.Unix(1000, 0))
	}
	if known := l.known(time.Now()); !slices.IsSortedFunc(known, func(a, b Member) int { return a.ID.Compare(b.ID) }) || len(known) != 3 {
		t.Errorf("known is %v", known)
	}
}

func TestLostAddresses(t *testing.T) {
	l, now := newLives(), time.Unix(1000, 0)
	for _, name := range []string{"alpha", "beta", "gamma"} {
		l.meet(Member{ID: idOf(name), Nonce: 1, Addr: addrOf(name)}, now)
	}
	l.lose(Member{ID: idOf("beta"), Nonce: 1}, now)
	l.markLeft(idOf("gamma"), 0, now)
	alive, lost := l.addresses()
	if len(alive) != 1 || !alive[addrOf("alpha")] || len(lost) != 1 || !lost[addrOf("beta")] {
		t.Errorf("alive %v, lost %v; expected alpha, and beta but not gamma, which left", alive, lost)
	}
	// Another id lives at beta's address now: nobody else can.
	l.meet(Member{ID: idOf("delta"), Nonce: 1, Addr: addrOf("beta")}, now)
	if _, lost := l.addresses(); len(lost) != 0 {
		t.Errorf("lost %v; expected none", lost)
	}
}

// Three copies of one state directory: one goes on, and another is started again and again. Its life that has ended is the
// newest, and must not hide the one that goes on.
func TestOfOurOwnIDEveryLifeIsTold(t *testing.T) {
	cases := []struct{ what, notices, want string }{
		{"both at once", "join 1, join 2, told", "joined 2 joined 1 |"},
		{"the older one later", "join 2, told, join 1, told", "joined 2 | joined 1 |"},
		{"the older one answers a ping", "join 1, join 2, told, ping 1, told", "joined 2 joined 1 | joined 1 |"},
		{"the older one ended untold", "join 2, told, join 1, gone 1, told", "joined 2 | |"},
	}
	for _, c := range cases {
		s := story{lives: newLives(), now: time.Unix(1000, 0)}
		s.lives.self = idOf("beta")
		for line := range strings.SplitSeq(c.notices, ",") {
			s.play(line)
		}
		if got := strings.Join(s.got, " "); got != c.want {
			t.Errorf("%s: told %q, want %q", c.what, got, c.want)
		}
	}
}

// What this host believes of a life against memberlist is of that life: the next one at its
// address is alive, and nobody looks for the one before.
func TestTheNextLifeIsNotHeld(t *testing.T) {
	s := story{lives: newLives(), now: time.Unix(1000, 0)}
	s.lives.joined(Member{ID: idOf("gamma"), Nonce: 100, Addr: addrOf("gamma")}, s.now)
	for _, line := range []string{"join 1", "dead 1"} {
		s.play(line)
	}
	if _, lost := s.lives.addresses(); !lost[addrOf("beta")] {
		t.Fatal("the life that memberlist has ended is not looked for")
	}
	s.play("join 2")
	if alive, lost := s.lives.addresses(); !alive[addrOf("beta")] || len(lost) != 0 {
		t.Errorf("alive %v, lost %v; expected its next life alive at its address, and nobody lost", alive, lost)
	}
}

// A life that has not answered and is gone waits for nothing any more: it is not asked again,
// and one that died is not reached through others for ever.
func TestALifeThatIsGoneWaitsNoMore(t *testing.T) {
	s := story{lives: newLives(), now: time.Unix(1000, 0)}
	for _, line := range []string{"join 1", "hear 2", "dead 2"} {
		s.play(line)
	}
	if s.lives.waits(Member{ID: idOf("beta"), Nonce: 102}) {
		t.Error("a later life that is gone still has to answer")
	}
	for _, line := range []string{"gone 1", "hear 1", "dead 1"} {
		s.play(line)
	}
	if m := s.lives.known(s.now)[0]; m.Status != Dead || !m.Relayed {
		t.Fatalf("others said that it lives: %s, relayed %v", m.Status, m.Relayed)
	}
	if m := s.lives.known(s.now.Add(relayedFor))[0]; m.Relayed {
		t.Error("it is said to be reached through others, long after they said so")
	}
}
