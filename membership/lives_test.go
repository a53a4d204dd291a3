package membership

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// story plays what gossip and sessions say of a host into lives. "told" takes what the consumer
// gets at that point, so each case also says what a slow consumer misses.
//
//	hint 1, unhint 1     memberlist believes in the life with this incarnation, and no more
//	doubt 1              a host suspects it
//	show 1               it shows itself in its session: its card is new, or it was asked
//	up 1, leaving 1      the same, with another card
//	far 1                the same, at another address
//	silence              whoever is asked does not answer
//	moment               the same, for three questions
//	turn                 what is due is done
//	join 1               hint and show
//	gone 1               unhint and silence
//	mark 1               a LEAVE frame
//	wait                 longer than leaveGrace
//	told                 the consumer asks
type story struct {
	lives lives
	now   time.Time
	got   []string
}

func newStory() *story {
	return &story{lives: newLives(Member{ID: idOf("alpha"), Addr: addrOf("alpha")}, time.Second, isNew), now: time.Unix(1000, 0)}
}

// isNew: nobody is known.
func isNew(wire.ID) bool { return false }

func lifeOf(name string) Member {
	m := selfOf(name)
	m.Addr = addrOf(name)
	return m
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
	case "join":
		s.lives.hint(m, s.now)
		s.lives.show(m, s.now)
	case "hint":
		s.lives.hint(m, s.now)
	case "unhint":
		s.lives.unhint(m, s.now)
	case "doubt":
		s.lives.doubted(lifeName{m.ID, m.Nonce}, s.now)
	case "show":
		s.lives.show(m, s.now)
	case "up":
		m.Priority = uint16(s.now.Unix())
		s.lives.show(m, s.now)
	case "leaving":
		m.Leaving = true
		s.lives.show(m, s.now)
	case "far":
		m.Addr = addrOf("gamma")
		s.lives.show(m, s.now)
	case "gone":
		s.lives.unhint(m, s.now)
		s.silence()
	case "silence":
		s.silence()
	case "turn":
		s.lives.due(s.now)
	case "moment":
		for range questions + 1 {
			s.lives.due(s.now)
			s.now = s.now.Add(s.lives.patient)
		}
		s.lives.due(s.now)
	case "mark":
		s.lives.markLeft(lifeName{m.ID, m.Nonce}, s.now)
	case "wait":
		s.now = s.now.Add(leaveGrace)
		s.lives.due(s.now)
	case "told":
		for _, e := range s.lives.take() {
			s.got = append(s.got, fmt.Sprintf("%s %d", e.Kind, e.Member.Nonce-100))
		}
		s.got = append(s.got, "|")
	default:
		panic("no such notice: " + line)
	}
}

// silence is as long as an open question takes.
func (s *story) silence() {
	for range questionsMore + 1 {
		s.lives.due(s.now)
		s.now = s.now.Add(s.lives.patient)
	}
}

func (s *story) tell(t *testing.T, notices, want string) {
	t.Helper()
	for line := range strings.SplitSeq(notices, ",") {
		s.play(line)
	}
	if got := strings.Join(s.got, " "); got != want {
		t.Errorf("%s: told %q; expected %q", notices, got, want)
	}
}

func TestWhatAConsumerIsTold(t *testing.T) {
	for what, c := range map[string][2]string{
		"a life":                           {"join 1, told, up 1, told, gone 1, told", "joined 1 | updated 1 | failed 1 |"},
		"the same to a slow consumer":      {"join 1, up 1, told", "joined 1 |"},
		"came and went unseen":             {"join 1, gone 1, told", "|"},
		"a flap unseen":                    {"join 1, told, gone 1, show 1, told", "joined 1 | |"},
		"a flap seen":                      {"join 1, told, gone 1, told, hint 1, told, show 1, told", "joined 1 | failed 1 | | joined 1 |"},
		"others alone reach it":            {"join 1, told, gone 1, told, hint 1, unhint 1, hint 1, told, unhint 1, told", "joined 1 | failed 1 | | |"},
		"a departure by card":              {"join 1, told, leaving 1, unhint 1, told", "joined 1 | left 1 |"},
		"a departure, step by step":        {"join 1, told, leaving 1, told, unhint 1, told", "joined 1 | updated 1 | left 1 |"},
		"gossip is faster than its card":   {"join 1, told, unhint 1, leaving 1, told", "joined 1 | left 1 |"},
		"a departure by frame":             {"join 1, told, mark 1, told, leaving 1, unhint 1, told", "joined 1 | left 1 | |"},
		"the frame comes after the death":  {"join 1, told, gone 1, told, mark 1, told", "joined 1 | failed 1 | left 1 |"},
		"the frame comes twice":            {"join 1, mark 1, told, mark 1, told", "| |"},
		"the frame of another life":        {"join 2, told, mark 1, told", "joined 2 | |"},
		"the frame of one never here":      {"hint 1, mark 1, told", "|"},
		"gossip revives one that left":     {"join 1, leaving 1, mark 1, told, hint 1, told", "| |"},
		"it left, and says more":           {"join 1, told, mark 1, told, show 1, told", "joined 1 | left 1 | |"},
		"it was said to leave, and speaks": {"join 1, told, mark 1, told, wait, show 1, told", "joined 1 | left 1 | joined 1 |"},
		"it is leaving for very long":      {"join 1, leaving 1, told, unhint 1, told, wait, leaving 1, told", "joined 1 | left 1 | |"},

		"restart before detection (P9)":   {"join 1, told, join 2, told, gone 1, told", "joined 1 | failed 1 joined 2 | |"},
		"restart after a departure":       {"join 1, told, mark 1, join 2, told", "joined 1 | left 1 joined 2 |"},
		"restart after a death unseen":    {"join 1, told, gone 1, join 2, told", "joined 1 | failed 1 joined 2 |"},
		"two restarts unseen":             {"join 1, told, join 2, join 3, told", "joined 1 | failed 1 joined 3 |"},
		"restart and death unseen":        {"join 1, told, join 2, gone 2, told", "joined 1 | failed 1 |"},
		"the ghost of an older life":      {"join 2, told, join 1, up 1, told, gone 1, told", "joined 2 | | |"},
		"the ghost outlives the restart":  {"join 1, join 2, told, gone 2, told, gone 1, told", "joined 2 | failed 2 | |"},
		"an old backup of the state":      {"join 2, told, gone 2, told, join 1, told", "joined 2 | failed 2 | joined 1 |"},
		"a copy hid one until it stopped": {"join 1, told, join 2, told, gone 2, show 1, told", "joined 1 | failed 1 joined 2 | failed 2 joined 1 |"},

		"restart elsewhere before detection": {"join 1, told, far 2, told, unhint 1, told", "joined 1 | failed 1 joined 2 | |"},
		"restart elsewhere":                  {"join 1, told, gone 1, far 2, told", "joined 1 | failed 1 joined 2 |"},
	} {
		t.Run(what, func(t *testing.T) { newStory().tell(t, c[0], c[1]) })
	}
}

// Whatever gossip says of a life, nothing comes of it but a question, and only silence ends a life.
func TestWhatAConsumerIsToldOfHearsay(t *testing.T) {
	for what, c := range map[string][2]string{
		"a life":                                {"hint 1, told, show 1, told", "| joined 1 |"},
		"one that is made up":                   {"hint 1, told, unhint 1, told, silence, told", "| | |"},
		"a later life that is made up":          {"join 1, told, hint 2, told, unhint 2, told, silence, told", "joined 1 | | | |"},
		"it is suspect and silent":              {"join 1, told, doubt 1, silence, told", "joined 1 | failed 1 |"},
		"it was silent, and gossip has it dead": {"join 1, told, doubt 1, moment, told, unhint 1, turn, told", "joined 1 | | failed 1 |"},
		"it stood still for a moment":           {"join 1, told, doubt 1, moment, show 1, told", "joined 1 | |"},
		"it is suspect and answers":             {"join 1, told, doubt 1, show 1, silence, told", "joined 1 | |"},
		"it is said to be dead, and answers":    {"join 1, told, unhint 1, told, show 1, told, hint 1, told", "joined 1 | | | |"},
		"it answers, and later no more":         {"join 1, told, unhint 1, show 1, told, silence, told", "joined 1 | | failed 1 |"},
		"its LEAVE comes meanwhile":             {"join 1, told, unhint 1, mark 1, silence, told", "joined 1 | left 1 |"},
		"its next life comes meanwhile":         {"join 1, told, unhint 1, join 2, told, silence, told", "joined 1 | failed 1 joined 2 | |"},
		"another life of it is suspect":         {"join 2, told, doubt 1, silence, told", "joined 2 | |"},
		"who is not here is suspect":            {"hint 1, doubt 1, silence, told", "|"},
		"gossip never heard of who is here":     {"show 1, told, show 1, told", "joined 1 | |"},
		"gossip never hears of who is silent":   {"show 1, told, wait, silence, told", "joined 1 | failed 1 |"},
	} {
		t.Run(what, func(t *testing.T) { newStory().tell(t, c[0], c[1]) })
	}
	s := newStory()
	if s.tell(t, "hint 1, unhint 1", ""); len(s.lives.byID) > 0 || s.lives.hints != 0 {
		t.Errorf("%d ids and %d hints are remembered of nobody", len(s.lives.byID), s.lives.hints)
	}
}

// A life that memberlist does not believe in is asked now and then, since nobody else looks after it, and looked for. Its next
// life is another.
func TestWhoIsStrangeToGossipIsLookedAfter(t *testing.T) {
	s := newStory()
	s.play("show 1")
	if _, lost := s.lives.addresses(); !lost[addrOf("beta")] {
		t.Error("memberlist need not meet it")
	}
	asked := 0
	for range 20 {
		s.now = s.now.Add(time.Second)
		if len(s.lives.due(s.now).dial) > 0 {
			asked++
			s.play("show 1")
		}
	}
	if asked < 2 || asked > 5 {
		t.Errorf("asked %d times in twenty seconds", asked)
	}
	s.play("join 2")
	if alive, lost := s.lives.addresses(); !alive[addrOf("beta")] || len(lost) != 0 {
		t.Errorf("alive %v, lost %v; expected its next life alive at its address, and nobody lost", alive, lost)
	}
}

// A question is asked three times, of the life that is here, each time with a while to answer; one more doubt begins no other.
func TestAQuestionIsAskedThreeTimes(t *testing.T) {
	s := newStory()
	s.play("join 1")
	s.play("unhint 1")
	var asked []time.Duration
	began := s.now
	for range 100 {
		do := s.lives.due(s.now)
		if len(do.dial) > 0 {
			asked = append(asked, s.now.Sub(began))
			if do.dial[0] != addrOf("beta") || !slices.Equal(do.show, []wire.ID{idOf("beta")}) {
				t.Errorf("asks %v, to show %v", do.dial, do.show)
			}
		}
		if do.news != (s.now.Sub(began) == 3*time.Second) {
			t.Errorf("after %v there is news: %v", s.now.Sub(began), do.news)
		}
		if at := s.lives.deadline(s.now); len(asked) < questions && at.After(s.now.Add(s.lives.patient)) {
			t.Errorf("after %v there is nothing to do before %v", s.now.Sub(began), at)
		}
		s.lives.doubted(lifeName{idOf("beta"), 101}, s.now)
		s.now = s.now.Add(100 * time.Millisecond)
	}
	if !slices.Equal(asked, []time.Duration{0, time.Second, 2 * time.Second}) {
		t.Errorf("asked after %v", asked)
	}
}

// Who is told of is dialled, at most sixteen at a time, and then less and less often. Who is here is not.
func TestWhoIsToldOfIsDialled(t *testing.T) {
	s := newStory()
	for i := range 3 * dialsAtOnce {
		s.lives.hint(Member{ID: wire.ID{1, byte(i)}, Nonce: 1, Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), 1)}, s.now)
	}
	s.play("join 1")
	dials := make(map[netip.AddrPort][]time.Time)
	for end := s.now.Add(time.Hour); s.now.Before(end); {
		do := s.lives.due(s.now)
		for range do.show { // it is asked now and then, and answers
			do.dial = slices.DeleteFunc(do.dial, func(a netip.AddrPort) bool { return a == addrOf("beta") })
			s.lives.show(s.lives.byID[idOf("beta")].now, s.now)
		}
		if more := s.lives.due(s.now).dial; len(do.dial) > dialsAtOnce || len(more) > 0 {
			t.Fatalf("%d and %d are dialled at once", len(do.dial), len(more))
		}
		for _, addr := range do.dial {
			dials[addr] = append(dials[addr], s.now)
		}
		at := s.lives.deadline(s.now)
		if !at.After(s.now) {
			t.Fatalf("there is something to do at once, after %d dials", len(dials))
		}
		s.now = at
	}
	if len(dials) != 3*dialsAtOnce || dials[addrOf("beta")] != nil {
		t.Errorf("%d are dialled", len(dials))
	}
	for addr, when := range dials {
		if n := len(when); n < 15 || n > 20 {
			t.Errorf("%v is dialled %d times in an hour", addr, n)
		}
		if last := when[len(when)-1].Sub(when[len(when)-2]); last < dialMost {
			t.Errorf("%v is dialled again after %v", addr, last)
		}
	}
}

// TestEventsAreConsistent plays random notices with random pauses of the
// consumer. Whatever happens, for each beginning there is at most one end, save
// that a death may turn out to be a departure, and the consumer's picture is the
// truth whenever it asked.
func TestEventsAreConsistent(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		s := newStory()
		notices := []string{"join", "hint", "unhint", "doubt", "show", "up", "far", "leaving", "silence", "gone", "mark", "wait", "told"}
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
			if truth := s.lives.countHere(); living != truth {
				t.Fatalf("seed %d: the consumer believes in %d living members, lives in %d", seed, living, truth)
			}
			hints := 0
			for _, h := range s.lives.byID {
				hints += len(h.hints)
			}
			if hints != s.lives.hints {
				t.Fatalf("seed %d: %d hints, and %d are counted", seed, hints, s.lives.hints)
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

// TestEndedMembersAreBounded: members that come and go, told or not, do
// not fill the memory, and those who may come back are kept longest.
func TestEndedMembersAreBounded(t *testing.T) {
	for _, told := range []bool{true, false} {
		s := newStory()
		l := &s.lives
		idAt := func(i int) wire.ID { return wire.ID{0: 1, 14: byte(i >> 8), 15: byte(i)} }
		const n = 3 * maxEnded
		for i := range n {
			m := Member{ID: idAt(i), Nonce: 1, Leaving: i%3 != 0}
			l.hint(m, s.now)
			l.show(m, s.now)
			if told {
				l.take()
			}
			l.unhint(m, s.now)
			s.silence()
		}
		l.take()
		if len(l.byID) > maxEnded+1 || len(l.dirty) > 0 {
			t.Fatalf("told %v: %d members are kept and %d are to be told; expected at most %d", told, len(l.byID), len(l.dirty), maxEnded)
		}
		dead := 0
		for _, m := range l.known(s.now) {
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
	s := newStory()
	for _, name := range []string{"gamma", "delta", "beta"} {
		s.lives.show(lifeOf(name), s.now)
		told := lifeOf("told " + name)
		s.lives.hint(told, s.now)
	}
	byID := func(a, b Member) int { return a.ID.Compare(b.ID) }
	if known := s.lives.known(s.now); !slices.IsSortedFunc(known, byID) || len(known) != 3 {
		t.Errorf("known is %v", known)
	}
	if told := s.lives.told(s.now); len(told) > 0 {
		t.Errorf("told is %v before anybody was dialled", told)
	}
	s.lives.due(s.now)
	if told := s.lives.told(s.now.Add(dialFor)); !slices.IsSortedFunc(told, byID) || len(told) != 3 || told[0].Status != Told {
		t.Errorf("told is %v", told)
	}
}

func TestLostAddresses(t *testing.T) {
	s := newStory()
	l := &s.lives
	join := func(m Member) {
		l.hint(m, s.now)
		l.show(m, s.now)
	}
	for _, name := range []string{"delta", "beta", "gamma"} {
		join(Member{ID: idOf(name), Nonce: 1, Addr: addrOf(name)})
	}
	l.unhint(Member{ID: idOf("beta"), Nonce: 1}, s.now)
	s.silence()
	l.markLeft(lifeName{idOf("gamma"), 1}, s.now)
	alive, lost := l.addresses()
	if len(alive) != 1 || !alive[addrOf("delta")] || len(lost) != 1 || !lost[addrOf("beta")] {
		t.Errorf("alive %v, lost %v; expected delta, and beta but not gamma, which left", alive, lost)
	}
	// Another id lives at beta's address now: nobody else can.
	join(Member{ID: idOf("epsilon"), Nonce: 1, Addr: addrOf("beta")})
	if _, lost := l.addresses(); len(lost) != 0 {
		t.Errorf("lost %v; expected none", lost)
	}
}

// Three copies of one state directory: one goes on, and another is started again and again. Each that shows itself is told, and
// what gossip says of one has it dialled.
func TestOfOurOwnIDEveryLifeIsTold(t *testing.T) {
	for what, c := range map[string][2]string{
		"told of":                 {"hint 1, hint 2, told", "|"},
		"both at once":            {"join 1, join 2, told", "joined 1 joined 2 |"},
		"the older one later":     {"join 2, told, join 1, told", "joined 2 | joined 1 |"},
		"the older one says more": {"join 1, join 2, told, show 1, told", "joined 1 joined 2 | joined 1 |"},
		"one ended":               {"join 2, told, unhint 2, told", "joined 2 | |"},
	} {
		s := newStory()
		s.lives.self = idOf("beta")
		t.Run(what, func(t *testing.T) { s.tell(t, c[0], c[1]) })
		if s.lives.countHere() > 0 {
			t.Errorf("%s: a copy of this host is here", what)
		}
	}
}

// The first join waits for a copy that is told of for a second, and no longer than until it has shown itself. At our own address
// there is none.
func TestTheFirstJoinWaitsForACopy(t *testing.T) {
	s := newStory()
	s.lives.self, s.lives.addr = idOf("beta"), addrOf("alpha")
	awaits := func(want bool) {
		t.Helper()
		if got := s.lives.awaitsCopies(s.now); got != want {
			t.Errorf("at %v it awaits copies: %v", s.now, got)
		}
	}
	awaits(false)
	s.play("hint 1")
	awaits(true)
	s.play("turn")
	awaits(true)
	if at := s.lives.deadline(s.now); !at.Equal(s.now.Add(copyFor)) {
		t.Errorf("it is looked at in %v", at.Sub(s.now))
	}
	s.now = s.now.Add(copyFor)
	awaits(false)
	s.play("hint 2")
	s.play("show 2")
	awaits(false)
	if do := s.lives.due(s.now); len(do.dial) > 0 {
		t.Errorf("it dials %v, which has shown itself", do.dial)
	}
	s.lives.addr = addrOf("beta")
	s.play("hint 3")
	awaits(false)
}

// One that died and that others believe in is reached by others, for a while after they ceased to.
func TestWhoIsReachedByOthers(t *testing.T) {
	s := newStory()
	for _, line := range []string{"join 1", "gone 1", "hint 1", "unhint 1"} {
		s.play(line)
	}
	if m := s.lives.known(s.now)[0]; m.Status != Dead || !m.Relayed {
		t.Fatalf("others said that it lives: %s, relayed %v", m.Status, m.Relayed)
	}
	if m := s.lives.known(s.now.Add(relayedFor))[0]; m.Relayed {
		t.Error("it is said to be reached through others, long after they said so")
	}
}

// For what is made up there is little room, at a bounded rate. A life that is here has its own, where its session is.
func TestHintsAreBounded(t *testing.T) {
	s := newStory()
	s.play("show 1")
	taken, causes := 0, make(map[string]int)
	hear := func(m Member) {
		if r := s.lives.admit(m, s.now); r != nil {
			causes[r.cause]++
			return
		}
		taken++
		s.lives.hint(m, s.now)
	}
	for i := range 2 * maxHints {
		hear(Member{ID: wire.ID{1, byte(i), byte(i >> 8)}, Nonce: 1, Addr: addrOf("gamma")})
	}
	if taken != maxHints || causes["full"] != maxHints {
		t.Errorf("%d names are taken, %v refused", taken, causes)
	}
	here := Member{ID: idOf("beta"), Incarnation: 1, Nonce: 101, Addr: addrOf("beta")}
	if r := s.lives.admit(here, s.now); r != nil {
		t.Errorf("who is here is refused: %v", r)
	}
	if here.Addr = addrOf("gamma"); s.lives.admit(here, s.now) == nil {
		t.Error("who is here is let in at another address")
	}
	for i := range maxHints {
		s.lives.unhint(Member{ID: wire.ID{1, byte(i), byte(i >> 8)}, Nonce: 1, Addr: addrOf("gamma")}, s.now)
	}
	taken = 0
	for i := range maxHints {
		hear(Member{ID: wire.ID{2, byte(i), byte(i >> 8)}, Nonce: 1, Addr: addrOf("gamma")})
	}
	if taken > 0 || causes["rate"] != maxHints {
		t.Errorf("%d more names are taken at once, %v refused", taken, causes)
	}
	if s.now = s.now.Add(time.Minute); s.lives.hints > 0 {
		t.Errorf("%d hints are counted", s.lives.hints)
	}
	for i := range 2 * maxHintsOfOne {
		hear(Member{ID: idOf("gamma"), Nonce: uint32(i), Addr: addrOf("gamma")})
	}
	if taken != maxHintsOfOne || causes["lives"] != maxHintsOfOne {
		t.Errorf("%d lives of one id are taken, %v refused", taken, causes)
	}
}

// Lives that have ended, since a later one of the host is here, take no place among the four: else a host that crashes again and again is
// refused. They have a bound of their own, are not looked for, and those that others tell of late are not taken.
func TestEndedLivesTakeNoPlace(t *testing.T) {
	s := newStory()
	life := func(n int) Member {
		m := lifeOf("beta")
		m.Incarnation, m.Nonce = uint32(n), uint32(n)
		return m
	}
	for n := 1; n <= 2*maxPastOfOne; n++ {
		r := s.lives.admit(life(n), s.now)
		if isWithin := n <= maxPastOfOne+maxHintsOfOne; isWithin != (r == nil) {
			t.Errorf("life %d: %v", n, r)
		}
		if r == nil {
			s.lives.hint(life(n), s.now)
		}
		s.lives.show(life(n), s.now)
	}
	if r := s.lives.admit(life(0), s.now); r == nil || r.cause != causePast {
		t.Errorf("a life that has ended, told of late: %v", r)
	}
	if do := s.lives.due(s.now); len(do.dial) > 0 || s.lives.awaitsDials(s.now) {
		t.Errorf("lives that have ended are dialled: %v", do.dial)
	}
	s.silence()
	if do := s.lives.due(s.now.Add(dialMost)); len(do.dial) == 0 {
		t.Error("once the last is gone nobody is looked for")
	}
}

// However many new names are told of, a host that is known has a place, and is dialled before them. So is the leader, of which alone a
// host that joins has heard.
func TestKnownHostsHavePlacesApart(t *testing.T) {
	s := newStory()
	s.lives.isKnown = func(id wire.ID) bool { return id == idOf("beta") }
	s.lives.leader = idOf("delta")
	leader := Member{ID: idOf("delta"), Nonce: 1, Addr: addrOf("delta")}
	s.lives.hint(leader, s.now.Add(-time.Second))
	for i := range maxHints - 1 {
		s.lives.hint(Member{ID: wire.ID{1, byte(i), byte(i >> 8)}, Nonce: 1, Addr: addrOf("gamma")}, s.now)
	}
	stranger := Member{ID: idOf("gamma"), Nonce: 1, Addr: addrOf("gamma")}
	if r := s.lives.admit(stranger, s.now); r == nil || r.cause != "full" {
		t.Errorf("one more that is new: %v", r)
	}
	known := lifeOf("beta")
	if r := s.lives.admit(known, s.now); r != nil {
		t.Errorf("a host that is known is refused: %v", r)
	}
	s.lives.hint(known, s.now.Add(-time.Second))
	do := s.lives.due(s.now)
	if first := do.dial[:2]; !slices.Contains(first, known.Addr) || !slices.Contains(first, leader.Addr) {
		t.Errorf("first is dialled %v", first)
	}
	var again []netip.AddrPort // the first dial is lost
	for end := s.now.Add(2 * (dialFor + dialFirst)); s.now.Before(end); s.now = s.now.Add(100 * time.Millisecond) {
		again = append(again, s.lives.due(s.now).dial...)
	}
	if !slices.Contains(again, known.Addr) || !slices.Contains(again, leader.Addr) {
		t.Error("known hosts wait behind those that are new, once a dial was lost")
	}
}

// Who is told of last is dialled first: one that is true does not wait for hundreds that were made up at once.
func TestTheNewestIsDialledFirst(t *testing.T) {
	s := newStory()
	for i := range 300 {
		s.lives.hint(Member{ID: wire.ID{1, byte(i), byte(i >> 8)}, Nonce: 1, Addr: addrOf("gamma")}, s.now)
	}
	s.lives.due(s.now)
	s.play("hint 1")
	for end := s.now.Add(dialFor); !s.now.After(end); s.now = s.now.Add(100 * time.Millisecond) {
		if slices.Contains(s.lives.due(s.now).dial, addrOf("beta")) {
			return
		}
	}
	t.Error("it is not dialled as soon as there is a place")
}
