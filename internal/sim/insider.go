package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// insider is a host with the cluster's key and an id of its own that wishes the others ill. It knows what all members
// know of each other, and it reads and sends from its own address alone: what goes between others it cannot read.
type insider struct {
	w           *World
	host        *machine // its place in the network, as an observer; no agent runs there
	rng         *rand.Rand
	masks       []*mask
	others      []*machine // further hosts of its own, each with an id
	seen        []captured // what came to it, to be sent again
	isBesieging bool       // or has done so: once in a schedule
	isOff       bool       // its host is off: the attack is over
}

// mask is one life that the insider plays: a table of sessions, under some id and at some address.
type mask struct {
	owner       *insider
	as          *machine // whose id it says; the insider's own host: its own
	table       *session.Table
	nonce       uint32
	incarnation uint32
	seq         uint32
}

// mostMasks bounds the lives that are played at a time, and mostSeen what is kept.
const (
	mostMasks = 12
	mostSeen  = 64
)

// admitInsider gives the insider a host, once all others are there.
func (w *World) admitInsider() {
	if w.attack.kind != Insider {
		return
	}
	host := &machine{number: w.size + 1, linkUp: true, port: 7950}
	host.key, host.id = w.ports.newKey()
	host.cfg.Part = election.Observer
	host.disk.state.Incarnation, host.nonce = 1, w.attack.rng.Uint32()
	w.attack.insider = &insider{w: w, host: host, rng: w.attack.rng}
}

// introduce has a process that has just begun hear of the insider by gossip: it has joined as an observer.
func (in *insider) introduce(m *machine) {
	life := m.life
	in.w.after(time.Duration(in.rng.Float64()*float64(in.w.detector.alive)), func() {
		if m.life == life && !in.isOff {
			in.w.step(m, election.MemberChanged{Member: in.host.member(election.Alive, in.host.nonce, 2*in.w.net.weather.delay)})
		}
	})
}

// leave switches the insider's host off, and all who run find out in time.
func (in *insider) leave() {
	in.isOff = true
	for _, m := range in.w.machines {
		life := m.life
		in.w.after(in.w.detector.dead/2, func() {
			for _, host := range append(in.others, in.host) {
				if m.life == life {
					in.w.step(m, election.MemberChanged{Member: host.member(election.Dead, host.nonce, 0)})
				}
			}
		})
	}
}

// join brings one more host of the insider's to somebody, with an id of its own: ids cost nothing.
func (in *insider) join(at *machine) *mask {
	host := *in.host
	host.key, host.id = in.w.ports.newKey()
	host.nonce = in.rng.Uint32()
	in.others = append(in.others, &host)
	in.w.step(at, election.MemberChanged{Member: host.member(election.Alive, host.nonce, 2*in.w.net.weather.delay)})
	return in.put(&host, in.host.addr())
}

// put makes a mask: the insider as another host, or itself, that says to be at an address.
func (in *insider) put(as *machine, says netip.AddrPort) *mask {
	m := &mask{owner: in, as: as, nonce: in.rng.Uint32(), incarnation: 1, seq: in.rng.Uint32() >> 1}
	if in.owns(as) {
		m.nonce = as.nonce
	}
	if as.node != nil {
		m.incarnation = as.disk.state.Incarnation + uint32(in.rng.IntN(3))
	}
	if as.node != nil && in.rng.IntN(2) == 0 {
		m.nonce = as.nonce // all members know it, by gossip
	}
	m.table = session.New(in.config(m, says))
	m.table.SetKeys(in.now(), in.w.ring(in.host))
	if in.masks = append(in.masks, m); len(in.masks) > mostMasks {
		in.masks = in.masks[1:]
	}
	return m
}

// owns: it is the insider's own host, or one of those that it has made.
func (in *insider) owns(host *machine) bool { return host.number == in.host.number }

// config is that of a mask's table. A handshake proves a key, and the insider has those alone that it makes: what it says in
// another's name comes from an id of its own.
func (in *insider) config(m *mask, says netip.AddrPort) session.Config {
	own := m.as.key
	if !in.owns(m.as) {
		own, _ = in.w.ports.newKey()
	}
	var random [8]byte
	binary.BigEndian.PutUint32(random[:], m.nonce)
	binary.BigEndian.PutUint32(random[4:], in.rng.Uint32())
	return session.Config{Key: own, Incarnation: m.incarnation, Random: random, Addr: says, Cluster: clusterName,
		Rand: rand.NewChaCha8(in.w.ports.bytes()), Curve: in.w.ports.curve, Emit: m.emit}
}

func (in *insider) now() time.Time { return epoch.Add(time.Duration(in.w.now)) }

// emit sends from the insider's own address.
func (m *mask) emit(to netip.AddrPort, b []byte) error {
	in := m.owner
	in.send(to, b)
	return nil
}

func (in *insider) send(to netip.AddrPort, b []byte) {
	w := in.w
	host := w.machineAt(to)
	if host == nil || host == in.host || in.isOff {
		return
	}
	p := w.newPacket()
	p.bytes = append(p.bytes[:0], b...)
	p.from, p.to, p.source, p.port, p.nature = in.host, host, in.host.addr(), to.Port(), forged
	w.hash.mix(uint64(w.now))
	w.hash.bytes(p.bytes)
	w.arriveAfter(p, int64(w.net.weather.delay+host.far+w.trips.trip/2))
}

// hears takes what comes to the insider's address. Whichever mask it is for opens it, and plays on.
func (in *insider) hears(p *packet) {
	if in.isOff {
		return
	}
	if in.seen = append(in.seen, captured{bytes: slices.Clone(p.bytes), to: p.from}); len(in.seen) > mostSeen {
		in.seen = in.seen[1:]
	}
	for _, m := range in.masks {
		inner, by, _ := m.table.Receive(in.now(), p.source, slices.Clone(p.bytes))
		var f wire.Frame
		if inner == nil || wire.Parse(inner, &f) != nil {
			continue
		}
		to := p.source
		if by.Addr.IsValid() {
			to = by.Addr
		}
		m.playVoter(to, &f)
	}
}

// playVoter grants whatever is asked for.
func (m *mask) playVoter(to netip.AddrPort, f *wire.Frame) {
	if r, ok := Granted(f); ok {
		m.say(to, &r)
	}
}

// Granted is the answer that whoever asks f wishes for; false if f asks nothing. It is what a voter says that keeps no rule.
func Granted(f *wire.Frame) (r wire.Frame, ok bool) {
	r = wire.Frame{Round: f.Round, EchoSeq: f.Seq, Attempt: f.Attempt, Epoch: f.Epoch, RosterVersion: f.RosterVersion}
	switch f.Kind {
	case wire.Canvass:
		r.Kind, r.Verdict = wire.Answer, wire.Yes
	case wire.Election:
		r.Kind, r.Verdict = wire.Answer, wire.Ineligible
	case wire.Coordinator:
		r.Kind, r.AckVerdict = wire.CoordAck, wire.Accept
	case wire.Heartbeat:
		r.Kind, r.AckVerdict = wire.HeartAck, wire.Accept
	case wire.Probe:
		r.Kind, r.Standing, r.HeartbeatAge, r.Epoch = wire.ProbeAck, wire.Following, 1<<31, wire.Epoch{}
	case wire.Roster:
		r.Kind, r.AckVerdict = wire.RosterAck, wire.Accept
	case wire.Resign:
		r.Kind = wire.ResignAck
	default:
		return r, false
	}
	return r, true
}

// say sends a frame in the mask's name.
func (m *mask) say(to netip.AddrPort, f *wire.Frame) {
	m.seq++
	g := m.owner.w.stamped(m.as)
	f.Algo, f.Cluster, f.ConfigHash, f.Priority = g.Algo, cluster, g.ConfigHash, m.as.cfg.Priority
	f.Sender, f.Incarnation, f.Nonce, f.Seq = m.as.id, m.incarnation, m.nonce, m.seq
	_ = m.table.Send(m.owner.now(), to, wire.Append(nil, f))
}

// schemes are what the insider does, each against one host.
var schemes = []func(in *insider, at *machine){
	(*insider).impersonate, (*insider).impersonate, (*insider).crowd, (*insider).flood, (*insider).repeat,
	(*insider).misname, (*insider).claimAddress, (*insider).speak, (*insider).besiegeSometimes, (*insider).forgeWill,
}

// impersonate begins a session in another's name, or goes on with one, and says something in it.
func (in *insider) impersonate(at *machine) {
	a := in.w.attack.rng
	as := pick(a, in.w.machines...)
	i := slices.IndexFunc(in.masks, func(m *mask) bool { return m.as == as && m.as.id == as.id })
	var m *mask
	if i < 0 || a.IntN(4) == 0 {
		says := pick(a, as.addr(), in.host.addr(), in.host.addr(), pick(a, in.w.machines...).addr())
		m = in.put(as, says)
	} else {
		m = in.masks[i]
	}
	var f wire.Frame
	in.w.fill(&f, as)
	m.say(at.addr(), &f)
}

// flood sends as many INITs in one name as a host looks at in a second.
func (in *insider) flood(at *machine) {
	as := pick(in.rng, in.w.machines...)
	for range 12 {
		m := in.put(as, in.host.addr())
		m.say(at.addr(), &wire.Frame{Kind: wire.ResignAck})
	}
}

// repeat sends again what has come, to any host.
func (in *insider) repeat(at *machine) {
	if len(in.seen) > 0 {
		in.send(at.addr(), pick(in.rng, in.seen...).bytes)
	}
}

// misname says something in another's name in a session of its own.
func (in *insider) misname(at *machine) {
	m := in.put(in.host, in.host.addr())
	m.as = pick(in.rng, in.w.machines...)
	f := in.w.stamped(m.as)
	in.w.fill(&f, m.as)
	m.say(at.addr(), &f)
}

// speak says something in its own name.
func (in *insider) speak(at *machine) {
	m := in.put(in.host, in.host.addr())
	var f wire.Frame
	in.w.fill(&f, in.host)
	m.say(at.addr(), &f)
}

// crowd has one more host of its own say that the counter is far on.
func (in *insider) crowd(at *machine) {
	m := in.join(at)
	var f wire.Frame
	in.w.fill(&f, m.as)
	f.Epoch.Counter = at.disk.state.MaxCounter + pick[uint64](in.rng, 1, 500, 1024, 1<<19)
	m.say(at.addr(), &f)
}

// claimAddress says, under its own id, that it is where another host is.
func (in *insider) claimAddress(at *machine) {
	m := in.put(in.host, pick(in.rng, in.w.machines...).addr())
	m.say(at.addr(), &wire.Frame{Kind: wire.ResignAck})
}

// besiegeSometimes: it takes seconds, so it is seldom begun.
func (in *insider) besiegeSometimes(at *machine) {
	ally := pick(in.rng, in.w.machines...)
	if ally == at || in.rng.IntN(8) > 0 || in.isBesieging {
		return
	}
	in.isBesieging = true
	in.besiege(at, ally)
}

// siege is how long a siege lasts, and siegeAlone how long of it the host is alone before it finds an ally.
const (
	siege      = 13 * time.Second
	siegeAlone = 3 * time.Second
)

// besiege takes a host from all others: it plays each of them, at that one's address, so that what the host sends goes
// nowhere. Then it plays one of them at its own address, who grants whatever the host asks for.
func (in *insider) besiege(at, ally *machine) {
	w := in.w
	w.say(nil, "the insider besieges n%d, with n%d for its ally", at.number, ally.number)
	end := w.now + int64(siege)
	for _, other := range w.machines {
		if other != at && other.id != at.id {
			m := in.put(other, other.addr())
			m.repeat(at, end, 300*time.Millisecond, m.mutter)
		}
	}
	w.after(siegeAlone, func() {
		m := in.put(ally, in.host.addr())
		m.nonce, m.incarnation = in.rng.Uint32(), ally.disk.state.Incarnation+1
		m.repeat(at, end, 100*time.Millisecond, func(at *machine) {
			m.say(at.addr(), &wire.Frame{Kind: wire.Query, Round: m.seq})
		})
	})
}

// mutter says what means nothing: that something of its id is heard is what counts.
func (m *mask) mutter(at *machine) {
	f := wire.Frame{Kind: wire.ResignAck, Sender: m.as.id}
	_ = m.table.Send(m.owner.now(), at.addr(), wire.Append(nil, &f))
}

// repeat does something again and again.
func (m *mask) repeat(at *machine, end int64, every time.Duration, do func(*machine)) {
	w := m.owner.w
	if w.now >= end || m.owner.isOff {
		return
	}
	do(at)
	w.after(every, func() { m.repeat(at, end, every, do) })
}

// scheme has the insider do something, unless frames that are made up would keep a first roster from forming for ever.
func (in *insider) scheme() {
	w := in.w
	at := pick(in.rng, w.machines...)
	if !at.runs() || w.mode == Quorum && !w.isRosterFormed() {
		return
	}
	w.fired(Impersonated)
	pick(in.rng, schemes...)(in, at)
}

// runTables lets time pass for the tables of all masks.
func (in *insider) runTables() {
	for _, m := range in.masks {
		if due := m.table.Due(); !due.IsZero() && !in.now().Before(due) {
			m.table.Tick(in.now())
		}
	}
}

// insiderTick is how often the insider's tables are looked at.
const insiderTick = 10 * time.Millisecond

// begin has the insider join, with the settings that all have.
func (in *insider) begin() {
	in.host.cfg = in.w.machines[0].cfg
	in.host.cfg.Part = election.Observer
	in.play()
}

// play goes on until the insider's host is off.
func (in *insider) play() {
	in.w.after(insiderTick, func() {
		if !in.isOff {
			in.runTables()
			in.play()
		}
	})
}
