package vip

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// numbered are addresses of one family.
func numbered(n int) (all []netip.Addr) {
	for i := range n {
		all = append(all, netip.AddrFrom4([4]byte{10, 78, byte(i / 250), byte(i%250 + 1)}))
	}
	return all
}

// utterance is an announcement in virtual time.
type utterance struct {
	at   time.Duration
	addr netip.Addr
}

func newRota(forever bool, addresses ...netip.Addr) *rota {
	seeded := rand.New(rand.NewPCG(1, 2))
	r := &rota{forever: forever, rand: seeded.Float64}
	r.add(begin, addresses, 0)
	return r
}

// begin is long after the boot.
const begin = time.Hour

// runs has the rota say what it has to, up to a time after begin.
func (r *rota) runs(until time.Duration) (said []utterance) {
	for {
		at, ok := r.next()
		if !ok || at > begin+until {
			return said
		}
		addr, ok := r.turn(at)
		if !ok {
			panic(fmt.Sprintf("nothing to say at %v, which was the deadline", at-begin))
		}
		said = append(said, utterance{at - begin, addr})
	}
}

func times(said []utterance) (all []time.Duration) {
	for _, u := range said {
		all = append(all, u.at)
	}
	return all
}

// One address is said as the schedule says; and with forever once in about half a minute then.
func TestOneAddressFollowsTheSchedule(t *testing.T) {
	if got := times(newRota(false, v4).runs(time.Hour)); !slices.Equal(got, schedule) {
		t.Errorf("said at %v, expected %v", got, schedule)
	}
	got := times(newRota(true, v4).runs(10 * time.Minute))
	if !slices.Equal(got[:len(schedule)], schedule) {
		t.Errorf("said at %v, expected %v at first", got, schedule)
	}
	for i, at := range got[len(schedule):] {
		if gap := at - got[len(schedule)+i-1]; gap < slow*9/10 || gap > slow*11/10 {
			t.Errorf("said %v after the last, expected about %v", gap, slow)
		}
	}
	if n := len(got) - len(schedule); n < 17 || n > 22 {
		t.Errorf("said %d times in ten minutes, expected about 20", n)
	}
}

// floodgate is a switch that passes so many broadcasts a second, and drops the rest.
type floodgate struct {
	rate, full float64
	room       float64
	at         time.Duration
}

func (f *floodgate) passes(at time.Duration) bool {
	f.room = min(f.full, f.room+f.rate*(at-f.at).Seconds())
	f.at = at
	if f.room < 1 {
		return false
	}
	f.room--
	return true
}

// Of any number of addresses all are known soon behind a switch that drops broadcasts above a rate; and also behind one that drops
// what it does not like, the rounds begin elsewhere each time.
func TestManyAddressesPassASwitch(t *testing.T) {
	for _, tt := range []struct {
		addresses  int
		rate, full float64 // of the switch
		within     time.Duration
	}{
		{80, 100, 100, 5 * time.Second},
		{200, 100, 100, 10 * time.Second},
		{616, 100, 100, 31 * time.Second},
		{80, 30, 10, 31 * time.Second}, // far less than is sent
	} {
		r := newRota(true, numbered(tt.addresses)...)
		gate := floodgate{rate: tt.rate, full: tt.full, room: tt.full, at: begin}
		known, frames := map[netip.Addr]bool{}, 0
		var last time.Duration
		for _, u := range r.runs(2 * time.Minute) {
			for range framesOf(u.addr) {
				frames++
				if gate.passes(begin+u.at) && !known[u.addr] {
					known[u.addr], last = true, u.at
				}
			}
			if most := burst + 2 + int(u.at/frameGap); frames > most {
				t.Fatalf("%d addresses: %d frames after %v, expected at most %d", tt.addresses, frames, u.at, most)
			}
		}
		if len(known) != tt.addresses || last > tt.within {
			t.Errorf("%+v: %d known, the last after %v", tt, len(known), last)
		}
		t.Logf("%d addresses, a switch that passes %v a second: all known after %v", tt.addresses, tt.rate, last)
	}
}

// Nobody is said twice before all have been said once; and two rounds do not have one order.
func TestRoundsBeginElsewhere(t *testing.T) {
	const n = 40
	r := newRota(true, numbered(n)...)
	said := r.runs(time.Minute)
	var rounds [2][]netip.Addr
	for i := range rounds {
		for _, u := range said[i*n : (i+1)*n] {
			rounds[i] = append(rounds[i], u.addr)
		}
		if len(slices.Compact(slices.SortedFunc(slices.Values(rounds[i]), netip.Addr.Compare))) != n {
			t.Errorf("round %d has an address twice", i+1)
		}
	}
	if slices.Equal(rounds[0], rounds[1]) {
		t.Error("two rounds have one order")
	}
}

// What vip add has said itself is not said again at once, and its frames count.
func TestWhatWasSaidCounts(t *testing.T) {
	all := numbered(80)
	r := newRota(true)
	r.add(begin, all, 10)
	said := r.runs(10 * time.Second)
	if first := said[0]; first.at == 0 || slices.Contains(all[:10], first.addr) {
		t.Errorf("%v was said at %v after ten others", first.addr, first.at)
	}
}

// A carrier that comes back, or a member, begins all anew.
func TestAgain(t *testing.T) {
	r := newRota(true, v4)
	r.runs(time.Minute)
	const back = 70 * time.Second
	r.again(begin + back)
	var want []time.Duration
	for _, at := range schedule {
		want = append(want, back+at)
	}
	if got := times(r.runs(back + 6*time.Second)); !slices.Equal(got, want) {
		t.Errorf("said at %v, expected %v", got, want)
	}
}

// A rival is answered soon, and not more than once in ten seconds; what it claims in between is answered then. Without a
// leadership nobody is.
func TestARivalIsAnswered(t *testing.T) {
	r := newRota(true, v4, v6)
	r.runs(10 * time.Second)
	at := begin + 10*time.Second
	for i := range 5 {
		r.rival(at+time.Duration(i)*45*time.Millisecond, v4)
	}
	r.rival(at, netip.MustParseAddr("192.0.2.1")) // not ours
	if said := r.runs(19 * time.Second); len(said) != 1 || said[0].addr != v4 || begin+said[0].at != at+answerAfter {
		t.Errorf("said %v, expected one answer after %v", said, answerAfter)
	}
	r.rival(begin+19*time.Second, v4)
	if said := r.runs(21 * time.Second); len(said) != 1 || begin+said[0].at != at+answerAfter+answerEvery {
		t.Errorf("said %v, expected the second answer %v after the first", said, answerEvery)
	}
	once := newRota(false, v4)
	once.runs(4500 * time.Millisecond)
	once.rival(begin+4500*time.Millisecond, v4)
	if said := once.runs(time.Minute); len(said) != 1 || said[0].at != 5*time.Second {
		t.Errorf("without a leadership %v was said, expected the schedule alone", said)
	}
}

// What other processes of this host send on a port has a part of its pace, and never all of it.
func TestAPortHasOnePace(t *testing.T) {
	one, other := newRota(true, numbered(100)[:50]...), newRota(true, numbered(100)[50:]...)
	frames, at := 0, time.Duration(0)
	for frames < 190 {
		first, second := one, other
		a, _ := one.next()
		b, _ := other.next()
		if b < a {
			first, second, a = other, one, b
		}
		addr, _ := first.turn(a)
		for range framesOf(addr) {
			second.heard(a)
			frames++
		}
		at = a - begin
	}
	if least := time.Duration(190-2*(burst+2)) * frameGap; at < least {
		t.Errorf("%d frames in %v, expected at least %v", frames, at, least)
	}

	r := newRota(true, numbered(10)...)
	for range 10_000 {
		r.heard(begin)
	}
	if said := r.runs(2500 * time.Millisecond); len(said) < 10 {
		t.Errorf("beside a flood %d were said in 2.5 s", len(said))
	}
}

// What is due when a process wakes that was frozen is left out.
func TestWhatIsLateIsLeftOut(t *testing.T) {
	r := newRota(true, v4)
	r.runs(500 * time.Millisecond)
	r.skip(begin + 3500*time.Millisecond)
	if got := times(r.runs(6 * time.Second)); !slices.Equal(got, []time.Duration{4 * time.Second, 5 * time.Second}) {
		t.Errorf("said at %v", got)
	}
	once := newRota(false, v4)
	once.skip(begin + 6*time.Second)
	if _, ok := once.next(); ok {
		t.Error("after its schedule it is due again")
	}
}

// An address that has gone is not said.
func TestADroppedAddressIsNotSaid(t *testing.T) {
	r := newRota(true, v4, v6)
	r.drop(v4)
	for _, u := range r.runs(time.Minute) {
		if u.addr == v4 {
			t.Fatalf("said %v after %v", u.addr, u.at)
		}
	}
	r.drop(v6)
	if _, ok := r.next(); ok {
		t.Error("without an address it is due")
	}
}
