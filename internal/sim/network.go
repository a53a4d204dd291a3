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
	out      election.Send // scratch: a local one would be garbage
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
	bytes       []byte
	from, to    *machine
	source      netip.AddrPort
	port        uint16  // of the destination when it was sent
	by, life    int32   // the sender's, and the one that it is for: which had the address when it was sent
	sender      wire.ID // as it was then: it may have lost its disk, and have another since
	incarnation uint32  // the sender's
	knows       uint32  // incarnation of a life of the receiver whose receipt the sender has; zero: it has none
	order       uint64  // of its sending; 0: somebody has sent it again, or made it up
	nature      nature
	twin        *twin // what its copies have in common; nil: there is none
}

type nature uint8

const (
	intact nature = iota
	alien         // no member has said this to this host: it was changed, or is for another, or made up
	replayed
	forged // by a host with the cluster's key
)

// twin is shared by all copies of a datagram.
type twin struct{ life int32 } // in which one of them was taken

// isFirst notes that a life takes a copy, and reports whether it had taken none.
func (t *twin) isFirst(life int32) bool {
	if t == nil {
		return true
	}
	was := t.life
	t.life = life
	return was != life
}

// captured is a datagram that somebody wrote down, to send it again.
type captured struct {
	bytes       []byte
	from        *machine
	source      netip.AddrPort
	to          *machine
	by          int32
	life        int32
	sender      wire.ID
	incarnation uint32 // the sender's
	twin        *twin
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
	if m.isOlder {
		return // S19: its port says nothing more
	}
	to := w.machineAt(e.To)
	w.watchFrame(m, to, &e.Frame)
	w.sayFrame(m, "→", to, &e.Frame)
	w.frames++
	w.net.sent[e.Frame.Kind]++
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
		w.sendElsewhere(p, late)
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
		p.bytes, p.nature = p.bytes[:w.rng.IntN(len(p.bytes))], alien
	case w.happens(c.flip):
		w.fired(BitFlip)
		p.bytes[w.rng.IntN(len(p.bytes))] ^= 1 << w.rng.IntN(8)
		p.nature = alien
	case w.happens(c.spike):
		w.fired(DelaySpike)
		late += int64(w.upTo(c.spikeUpTo))
	}
	w.arriveAfter(p, late)
}

func (w *World) double(p *packet, late int64) {
	w.fired(Duplicate)
	p.share()
	second := w.newPacket()
	bytes := append(second.bytes[:0], p.bytes...)
	*second = *p
	second.bytes = bytes
	w.arriveAfter(second, late+int64(w.upTo(20*time.Millisecond)))
}

// share has the copies of a datagram that are made from now on know of each other.
func (p *packet) share() {
	if p.twin == nil {
		p.twin = &twin{}
	}
}

func (w *World) capture(p *packet) { w.net.captured[w.rng.IntN(len(w.net.captured))].keep(p) }

// keep takes the place of what was written down before.
func (c *captured) keep(p *packet) {
	p.share()
	*c = captured{bytes: append(c.bytes[:0], p.bytes...), from: p.from, source: p.source, to: p.to, by: p.by, life: p.life, sender: p.sender, incarnation: p.incarnation, twin: p.twin}
}

// again writes a datagram that was captured.
func (c *captured) again(p *packet) {
	p.bytes = append(p.bytes[:0], c.bytes...)
	p.from, p.to, p.source, p.port, p.by, p.life, p.nature, p.twin = c.from, c.to, c.source, c.to.port, c.by, c.life, replayed, c.twin
	p.sender, p.incarnation = c.sender, c.incarnation
}

// replay sends a captured datagram again, to the host that it went to before.
func (w *World) replay() {
	slot := &w.net.captured[w.rng.IntN(len(w.net.captured))]
	if slot.to == nil {
		return
	}
	w.fired(Replay)
	p := w.newPacket()
	slot.again(p)
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
		if p.order != 0 {
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
	if w.net.arrived == nil || p.order == 0 {
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
		w.fail(17, "a frame does not survive the codec: %v", err)
		return
	}
	if p.nature == forged {
		r.IsNew = w.attack.insider != nil && p.from == w.attack.insider.host
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
	life := m.life
	w.step(m, r)
	if m.life == life && !m.saveDown && !isRefused(m.effects) {
		w.watchTaken(m, &r.Frame)
	}
}
