package sim

import (
	"math"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/wire"
)

// network is the cables between machines and what they do to datagrams.
type network struct {
	weather  weather
	cut      []bool   // [from*size+to]
	size     int      // machines that there is room for
	order    uint64   // datagrams sent
	arrived  []uint64 // [from*size+to]: the latest order; nil in large groups
	idle     []*packet
	captured [128]captured
	sent     [kinds]uint64 // by kind
	frame    []byte        // scratch
}

// weather says how often what happens to a datagram. The zero weather is calm:
// each arrives once, after delay and some jitter.
type weather struct {
	delay, jitter time.Duration
	spikeUpTo     time.Duration

	loss, duplicate, spike, truncate, flip, foreign, replay odds
	bursts                                                  bool
}

// odds are a chance in 2^32.
type odds uint32

func percent(p float64) odds { return odds(p / 100 * math.MaxUint32) }

// isCalm: nothing but delay and jitter.
func (c *weather) isCalm() bool {
	return c.loss|c.duplicate|c.spike|c.truncate|c.flip|c.foreign|c.replay == 0 && !c.bursts
}

// packet is one copy of a datagram under way.
type packet struct {
	bytes    []byte
	from, to *machine
	source   netip.AddrPort
	port     uint16 // of the destination when it was sent
	order    uint64
	nature   nature
	twin     *twin // the other copy, if there is one
}

type nature uint8

const (
	intact nature = iota
	damaged
	foreign
	replayed
	forged
)

// twin is shared by two copies of a datagram.
type twin struct{ life int32 } // in which one of them was taken in

// captured is a datagram that somebody wrote down, to send it again.
type captured struct {
	bytes  []byte
	from   *machine
	source netip.AddrPort
	to     *machine
}

func (w *World) isCut(from, to *machine) bool {
	return w.net.cut[(from.number-1)*w.net.size+to.number-1] || !from.linkUp || !to.linkUp
}

func (w *World) setCut(from, to *machine, isCut bool) {
	w.net.cut[(from.number-1)*w.net.size+to.number-1] = isCut
	w.detector.dirty = true
}

// talk reports whether datagrams pass both ways.
func (w *World) talk(a, b *machine) bool { return !w.isCut(a, b) && !w.isCut(b, a) }

// send carries out a Send effect: the frame goes as bytes.
func (w *World) send(m *machine, e *election.Send) {
	to := w.machineAt(e.To)
	w.watchFrame(m, to, &e.Frame)
	w.sayFrame(m, "→", to, &e.Frame)
	w.frames++
	w.net.sent[e.Frame.Kind]++
	w.attack.overhear(&e.Frame)
	w.net.frame = wire.Append(w.net.frame[:0], &e.Frame)
	m.lan.send(e.To, w.net.frame)
}

func (w *World) newPacket() *packet {
	last := len(w.net.idle) - 1
	if last < 0 {
		return &packet{bytes: make([]byte, 0, 128)}
	}
	p := w.net.idle[last]
	w.net.idle = w.net.idle[:last]
	*p = packet{bytes: p.bytes}
	return p
}

func (w *World) carry(p *packet) {
	w.net.order++
	p.order = w.net.order
	c := &w.net.weather
	chance := w.rng.Uint64()
	late := int64(c.delay+p.from.far+p.to.far+w.trips.trip/2) + int64(chance>>40)*int64(c.jitter)>>24
	if c.isCalm() || p.from.copyOf != nil {
		w.arriveAfter(p, late)
		return
	}
	w.carryThroughWeather(p, late)
}

func (w *World) arriveAfter(p *packet, late int64) {
	w.timeline.add(planned{at: w.now + late, kind: arrival, frame: p})
}

func (w *World) happens(o odds) bool { return o > 0 && w.rng.Uint32() < uint32(o) }

// carryThroughWeather lets the network do its worst to one datagram.
func (w *World) carryThroughWeather(p *packet, late int64) {
	c := &w.net.weather
	if w.raging && w.rng.Uint32()&63 == 0 {
		w.capture(p)
	}
	if w.happens(c.replay) {
		w.replay()
	}
	if w.happens(c.foreign) {
		w.sendForeign(p, late)
	}
	if w.happens(c.duplicate) {
		w.double(p, late)
	}
	switch {
	case w.happens(c.loss):
		w.fired(Loss)
		w.net.idle = append(w.net.idle, p)
		return
	case p.from.burst && w.rng.Uint32()&3 > 0:
		w.fired(BurstLoss)
		w.net.idle = append(w.net.idle, p)
		return
	case w.happens(c.truncate):
		w.fired(Truncated)
		p.bytes, p.nature = p.bytes[:w.rng.IntN(len(p.bytes))], damaged
	case w.happens(c.flip):
		w.fired(BitFlip)
		p.bytes[w.rng.IntN(len(p.bytes))] ^= 1 << w.rng.IntN(8)
		p.nature = damaged
	case w.happens(c.spike):
		w.fired(DelaySpike)
		late += int64(w.upTo(c.spikeUpTo))
	}
	w.arriveAfter(p, late)
}

func (w *World) double(p *packet, late int64) {
	w.fired(Duplicate)
	p.twin = &twin{}
	second := w.newPacket()
	bytes := append(second.bytes[:0], p.bytes...)
	*second = *p
	second.bytes = bytes
	w.arriveAfter(second, late+int64(w.upTo(20*time.Millisecond)))
}

// sendForeign lets a member of another cluster send the same.
func (w *World) sendForeign(p *packet, late int64) {
	w.fired(ForeignCluster)
	if w.ports.isSealed {
		w.sendElsewhere(p, late)
		return
	}
	other := w.newPacket()
	var f wire.Frame
	if wire.Parse(p.bytes, &f) != nil {
		return
	}
	f.Cluster ^= 1 + w.rng.Uint32N(math.MaxUint32)
	bytes := wire.Append(other.bytes[:0], &f)
	*other = *p
	other.bytes, other.nature, other.twin = bytes, foreign, nil
	w.arriveAfter(other, late)
}

func (w *World) capture(p *packet) {
	slot := &w.net.captured[w.rng.IntN(len(w.net.captured))]
	*slot = captured{bytes: append(slot.bytes[:0], p.bytes...), from: p.from, source: p.source, to: p.to}
}

// replay sends a captured datagram again, to the host that it went to before.
func (w *World) replay() {
	slot := &w.net.captured[w.rng.IntN(len(w.net.captured))]
	if slot.to == nil {
		return
	}
	w.fired(Replay)
	p := w.newPacket()
	p.bytes = append(p.bytes[:0], slot.bytes...)
	p.from, p.to, p.source, p.port, p.nature = slot.from, slot.to, slot.source, slot.to.port, replayed
	w.arriveAfter(p, int64(w.net.weather.delay))
}

// onArrival ends a datagram's way.
func (w *World) onArrival(a planned) {
	p := a.frame
	if in := w.attack.insider; in != nil && p.to == in.host {
		in.hears(p)
		w.net.idle = append(w.net.idle, p)
		return
	}
	if w.isCut(p.from, p.to) || p.to.suspended || p.port != p.to.port {
		w.net.idle = append(w.net.idle, p)
		return
	}
	if !p.to.runs() {
		if p.nature != forged {
			w.refuse(p)
		}
		w.net.idle = append(w.net.idle, p)
		return
	}
	w.noteOrder(p)
	w.deliver(p)
	w.net.idle = append(w.net.idle, p)
}

func (w *World) noteOrder(p *packet) {
	if w.net.arrived == nil || p.nature == replayed || p.nature == forged {
		return
	}
	latest := &w.net.arrived[(p.from.number-1)*w.net.size+p.to.number-1]
	if p.order < *latest {
		w.fired(Reorder)
		return
	}
	*latest = p.order
}

// deliver hands a datagram to the process, as agent/receive.go does.
func (w *World) deliver(p *packet) {
	b, from := p.to.lan.receive(p)
	if b != nil {
		w.hand(p, b, from)
	}
}

// hand gives a frame, which a datagram has brought, to the process.
func (w *World) hand(p *packet, b []byte, from netip.AddrPort) {
	m := p.to
	if s, isWill := wire.ParseWill(b); isWill {
		w.handWill(m, s)
		return
	}
	r := election.Received{From: from}
	if err := wire.Parse(b, &r.Frame); err != nil {
		if p.nature != damaged {
			w.fail(17, "a frame does not survive the codec: %v", err)
		}
		return
	}
	if p.nature == damaged {
		w.i17DamageIsSeen(p)
		return
	}
	if p.nature == forged {
		w.step(m, r)
		return
	}
	if isAboutJobs(&r.Frame) {
		w.jobStep(m, jobs.Heard{From: r.Frame.Sender, Message: jobs.MessageOf(&r.Frame), Known: m.epoch.Counter})
		return
	}
	w.watchArrival(m, p.from, &r.Frame)
	if m.isBlocked() {
		m.wait(r)
		return
	}
	deadline := m.node.Deadline()
	isDue := !deadline.IsZero() && !m.clock.time(w.now).Before(deadline) // the step does that, too, whatever the frame is
	life, repeated := m.life, p.twin != nil && p.twin.life == m.life && m.copyOf == nil && p.from.copyOf == nil
	w.step(m, r)
	if m.life != life || m.saveDown {
		return
	}
	if !isRefused(m.effects) {
		w.watchTaken(m, &r.Frame)
		if p.twin != nil {
			p.twin.life = life
		}
	}
	switch {
	case isDue:
	case repeated:
		w.i16DuplicateChangesNothing(m, &r.Frame)
	case p.nature == foreign:
		w.i17ForeignChangesNothing(m, &r.Frame)
	}
}
