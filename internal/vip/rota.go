package vip

import (
	"net/netip"
	"slices"
	"time"
)

// schedule is when neighbours are told, from the first time on: five times in 200 ms, since a frame may be lost and they
// send to the old leader until they hear one, and for 5 s more: a switch may need that long to learn the way.
var schedule = []time.Duration{0, 45 * time.Millisecond, 90 * time.Millisecond, 135 * time.Millisecond, 180 * time.Millisecond,
	time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second}

const (
	// slow is between two announcements of an address once the schedule has ended, give or take a tenth. A neighbour that has
	// learnt another host, and nobody noticed, sends there for so long. A shorter one costs frames on every LAN for ever.
	slow = 30 * time.Second

	// answerAfter is from somebody else's claim to our answer: a rival that begins says it five times in 200 ms.
	answerAfter = 250 * time.Millisecond

	// answerEvery is between two answers for one address: DEFEND_INTERVAL of RFC 5227, without which two hosts that both
	// want an address would answer each other for ever.
	answerEvery = 10 * time.Second

	// frameGap is between two frames on one port in the long run, which makes 50 a second. Switches begin to drop broadcasts
	// at some 100; who asks at the same time has the rest.
	frameGap = 20 * time.Millisecond

	// burst is how many frames may go at once: ten IPv4 addresses.
	burst = 20

	// longestWait is between two announcements that are due, whatever else this host sends on the port.
	longestWait = 200 * time.Millisecond
)

// rota says which of its addresses the neighbours on one port are told of next, and when. It has no clock: the time is handed
// in, since boot and not going back, and the next deadline is handed out.
//
// After an address comes to it, and after again, it follows the schedule. With forever it goes on, slowly; without, it
// drops the address then. Addresses that cannot be said at their time, since the port's pace does not let them, are said as
// soon as it does: those that have been said least often first, and among those in an order that is drawn anew each round.
type rota struct {
	forever bool
	rand    func() float64 // in [0, 1)
	lines   []line
	pace    pace
}

// line is one address.
type line struct {
	addr     netip.Addr
	begun    time.Duration // its schedule counts from here
	due      time.Duration
	said     int           // times since begun
	rank     float64       // among those that were said as often
	answered time.Duration // when a rival was answered last; never: long ago

	isAnswer bool // what is due is an answer
}

// add begins the schedule of addresses. Of these the first told have been said at that time already.
func (r *rota) add(at time.Duration, addresses []netip.Addr, told int) {
	r.pace.last = max(r.pace.last, at)
	for i, addr := range addresses {
		r.drop(addr)
		l := line{addr: addr, begun: at, due: at, rank: r.rand(), answered: at - answerEvery}
		if i < told {
			l.said = 1
			r.pace.spend(at, framesOf(addr))
			r.put(&l, at)
		}
		r.lines = append(r.lines, l)
	}
}

// again begins all schedules anew: neighbours may have learnt another host, or could not hear us.
func (r *rota) again(now time.Duration) {
	for i := range r.lines {
		l := &r.lines[i]
		l.begun, l.due, l.said, l.rank, l.isAnswer = now, now, 0, r.rand(), false
	}
}

// rival: somebody else has claimed an address. It is answered if this rota is forever, and once in answerEvery.
func (r *rota) rival(now time.Duration, addr netip.Addr) {
	i := r.find(addr)
	if i < 0 || !r.forever {
		return
	}
	l := &r.lines[i]
	if due := max(now+answerAfter, l.answered+answerEvery); due < l.due {
		l.due, l.isAnswer = due, true
	}
}

// drop forgets an address.
func (r *rota) drop(addr netip.Addr) {
	r.lines = slices.DeleteFunc(r.lines, func(l line) bool { return l.addr == addr })
}

func (r *rota) find(addr netip.Addr) int {
	return slices.IndexFunc(r.lines, func(l line) bool { return l.addr == addr })
}

// heard: this host has sent a frame of the kind that we send, on this port, by another process or its kernel. It has a part of
// the port's pace.
func (r *rota) heard(now time.Duration) { r.pace.spend(now, 1) }

// next is when turn has something to say; ok is false if it never will.
func (r *rota) next() (at time.Duration, ok bool) {
	for i, l := range r.lines {
		if i == 0 || l.due < at {
			at = l.due
		}
	}
	return max(at, r.pace.free()), len(r.lines) > 0
}

// turn gives the address that is to be said now, and takes it for said.
func (r *rota) turn(now time.Duration) (addr netip.Addr, ok bool) {
	if now < r.pace.free() {
		return netip.Addr{}, false
	}
	var first *line
	for i := range r.lines {
		if l := &r.lines[i]; l.due <= now && (first == nil || l.said < first.said || l.said == first.said && l.rank < first.rank) {
			first = l
		}
	}
	if first == nil {
		return netip.Addr{}, false
	}
	addr = first.addr
	if first.isAnswer {
		first.answered, first.isAnswer = now, false
	}
	first.said++
	first.rank = r.rand()
	r.pace.spend(now, framesOf(addr))
	r.pace.last = now
	r.put(first, now)
	r.end(now)
	return addr, true
}

// skip leaves out what is due now and was to be said long ago: it may not be so any more.
func (r *rota) skip(now time.Duration) {
	for i := range r.lines {
		if l := &r.lines[i]; l.due <= now {
			l.isAnswer = false
			r.put(l, now)
		}
	}
	r.end(now)
}

// put says when a line is due next.
func (r *rota) put(l *line, now time.Duration) {
	for _, at := range schedule {
		if l.begun+at > now {
			l.due = l.begun + at
			return
		}
	}
	l.due = now + slow - slow/10 + time.Duration(r.rand()*float64(slow/5))
}

// end drops the lines whose schedule has ended, unless this is forever.
func (r *rota) end(now time.Duration) {
	if !r.forever {
		last := schedule[len(schedule)-1]
		r.lines = slices.DeleteFunc(r.lines, func(l line) bool { return l.due > now && l.due > l.begun+last })
	}
}

// framesOf is how many frames an announcement takes.
func framesOf(addr netip.Addr) int {
	if addr.Is4() {
		return 2
	}
	return 1
}

// pace bounds the frames on one port: burst at once, and one each frameGap in the long run. It is the virtual schedule of ATM's
// generic cell rate algorithm. Zero is a port on which nobody has sent.
type pace struct {
	paid time.Duration // when all that was sent has had its time
	last time.Duration // when we had a turn, or came to it
}

// spend notes frames that somebody has sent.
func (p *pace) spend(now time.Duration, frames int) {
	p.paid = max(p.paid, now) + time.Duration(frames)*frameGap
}

// free is when the next may go.
func (p *pace) free() time.Duration { return min(p.paid-(burst-1)*frameGap, p.last+longestWait) }
