package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// A quarter of the schedules seal their datagrams, and all in which somebody attacks the port: each life of an agent has a
// session.Table, as package sealed gives it one. Frames of the election and of jobs go through it, and wills past it. So handshakes take round
// trips, and the weather, cuts and clocks work on what is sealed. Gossip and streams stay the oracle's.

// ports are what the ports of a schedule have in common. They have a stream of chance of their own.
type ports struct {
	rng      *rand.Rand
	isSealed bool
	isX25519 bool                                    // without the model of curve.go
	publics  map[[identity.Size]byte]identity.Public // of each host's private key
	cluster  [2]key.Key                              // the secrets of the cluster: each host has both, in one order or the other
	sessionFaults
	tap func(to netip.AddrPort, b []byte) (isLost bool) // sees what is sent; nil: nobody does
}

// clusterName is bound into each handshake.
const clusterName = "sim"

// drawPorts gives a quarter of the schedules sealed ports. An attack is one on sessions.
func (w *World) drawPorts(o *Options) {
	p := &w.ports
	p.rng = rand.New(rand.NewPCG(o.Seed, 0x5ea1))
	p.isX25519, p.publics = o.x25519, make(map[[identity.Size]byte]identity.Public)
	isDrawn := p.rng.IntN(4) == 0 && !o.Usual && o.Nodes <= mostSealed
	switch {
	case o.Port != AnyPort:
		p.isSealed = o.Port == SealedPort
	default:
		p.isSealed = isDrawn || o.Attack > NoAttack
	}
	for i := range p.cluster {
		k := &p.cluster[i]
		k.Secret = p.bytes()
		k.ID = key.IDOf(k.Secret)
	}
	w.drawSessionFaults()
}

// mostSealed bounds the machines of a schedule that draws sealed ports: handshakes of all with all cost their square.
const mostSealed = 9

// bytes are 32 of chance.
func (p *ports) bytes() (b [32]byte) {
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], p.rng.Uint64())
	}
	return b
}

// newKey makes the private key of a host, of which its id follows.
func (p *ports) newKey() (identity.Private, wire.ID) {
	raw := p.bytes()
	k := identity.FromBytes(raw)
	public := k.Public()
	p.publics[raw] = public
	return k, public.ID()
}

// sealedPort is the port of one life of a host that has the cluster's key.
type sealedPort struct {
	w      *World
	m      *machine
	table  *session.Table
	ahead  time.Duration // of the host's clock: what the sessions have aged besides
	tickAt int64         // the planned tick that counts; 0: none
	unread []*packet     // in the socket of a process that is stopped
	warm   []netip.AddrPort

	written uint64             // version of the receipts on the disk
	known   map[wire.ID]uint32 // what they are of, at a version
	knownAt uint64
}

func (w *World) newSealedPort(m *machine) *sealedPort {
	s := &sealedPort{w: w, m: m}
	s.table = session.New(w.tableConfig(m, s.emit))
	s.table.SetKeys(s.now(), w.ring(m))
	return s
}

// tableConfig is that of a life which begins.
func (w *World) tableConfig(m *machine, emit func(netip.AddrPort, []byte) error) session.Config {
	var random [8]byte
	binary.BigEndian.PutUint32(random[:], m.nonce)
	binary.BigEndian.PutUint32(random[4:], w.ports.rng.Uint32())
	return session.Config{Key: m.key, Incarnation: m.disk.state.Incarnation, Random: random, Addr: m.addr(), Cluster: clusterName,
		Rand: rand.NewChaCha8(w.ports.bytes()), Curve: w.ports.curve, Emit: emit, Receipts: m.disk.receipts.kept,
		Older: func(later uint32) { w.proveOlder(m, later) }}
}

// ring is the secrets that a host has now.
func (w *World) ring(m *machine) key.Ring {
	first := 0
	if m.keysSwapped {
		first = 1
	}
	return key.Ring{w.ports.cluster[first], w.ports.cluster[1-first]}
}

// now is the host's clock, with what the sessions have aged besides.
func (s *sealedPort) now() time.Time { return s.m.clock.time(s.w.now).Add(s.ahead) }

// isOpen: the life goes on, and its process is not stopped.
func (s *sealedPort) isOpen() bool { return s.m.lan == port(s) && !s.m.frozen && !s.m.suspended }

// emit is what the table puts on the wire.
func (s *sealedPort) emit(to netip.AddrPort, b []byte) error {
	if s.w.traceBeats && !isData(b) {
		s.w.say(s.m, "→ %v handshake, %d bytes", to, len(b))
	}
	if !isData(b) && s.w.raging && s.w.happens(s.w.ports.loseHandshakes) {
		s.w.fired(HandshakeLost)
		return nil
	}
	if tap := s.w.ports.tap; tap != nil && tap(to, b) {
		return nil
	}
	s.w.carryDatagram(s.m, to, b)
	return nil
}

// isData tells what a session carries from what begins one (protocol 10.2).
func isData(b []byte) bool { return isOfType(b, 3) }

// isProof: it begins a session, and says HELLO.
func isProof(b []byte) bool { return isOfType(b, 5) }

func isOfType(b []byte, which byte) bool {
	const typeAt = 2
	return len(b) > typeAt && b[typeAt]&0x0F == which
}

func (s *sealedPort) send(to netip.AddrPort, frame []byte) {
	_ = s.table.Send(s.now(), to, frame) // as lost on the way
	s.arm()
}

func (s *sealedPort) sendJob(to *machine, frame []byte) { s.send(to.addr(), frame) }

// receive opens a datagram, or leaves it in the socket while the process is stopped.
func (s *sealedPort) receive(p *packet) ([]byte, netip.AddrPort) {
	if s.m.frozen {
		s.leave(p)
		return nil, netip.AddrPort{}
	}
	if _, isWill := wire.ParseWill(p.bytes); isWill {
		return p.bytes, p.source
	}
	isSaid := isData(p.bytes) || isProof(p.bytes)
	inner, by, cause := s.table.Receive(s.now(), p.source, p.bytes)
	s.arm()
	s.keepReceipts()
	if cause == session.CauseNone && p.nature == intact && isSaid {
		s.w.meets(s.m, p)
	}
	switch {
	case inner == nil, !isFrameOf(inner, by.Life):
		return nil, netip.AddrPort{}
	case p.nature == alien:
		s.w.i17OpensNowhereElse(p)
	case !p.twin.isFirst(s.m.life):
		s.w.i16OpensOnce(s.m)
	}
	if by.Addr.IsValid() {
		return inner, by.Addr
	}
	return inner, p.source
}

// isFrameOf (S11) is package sealed's: which life has sealed a frame is the one that it names.
func isFrameOf(b []byte, who session.Life) bool {
	const sender, incarnation, nonce, end = 16, 32, 36, 40
	return len(b) >= end && b[0] == wire.Magic0 && b[1] == wire.Magic1 && wire.ID(b[sender:incarnation]) == who.ID &&
		binary.BigEndian.Uint32(b[incarnation:]) == who.Incarnation && binary.BigEndian.Uint32(b[nonce:]) == who.Nonce()
}

// leave keeps a copy, for the packet is used again.
func (s *sealedPort) leave(p *packet) {
	if len(s.unread) == inboxSize {
		return
	}
	kept := *p
	kept.bytes = slices.Clone(p.bytes)
	s.unread = append(s.unread, &kept)
}

func (s *sealedPort) keepWarm(addrs []netip.AddrPort) {
	if slices.Equal(addrs, s.warm) {
		return
	}
	s.warm = addrs
	s.table.KeepWarm(s.now(), addrs)
	s.arm()
}

// resume has the table see that time has passed, and what lies in the socket, in any order.
func (s *sealedPort) resume() {
	if s.w.ports.rng.IntN(2) == 0 {
		s.tick()
	}
	unread := s.unread
	s.unread = nil
	for _, p := range unread {
		if !s.isOpen() {
			return
		}
		s.w.deliver(p)
	}
	if s.isOpen() {
		s.arm()
	}
}

// arm plans a tick for when the table wants one. One that comes too early plans the next.
func (s *sealedPort) arm() {
	due := s.table.Due()
	if due.IsZero() || !s.isOpen() {
		return
	}
	at := s.m.clock.when(due.Add(-s.ahead), s.w.now)
	if s.tickAt != 0 && s.tickAt <= at {
		return
	}
	s.tickAt = at
	s.w.after(time.Duration(at-s.w.now), func() {
		if s.tickAt != at {
			return
		}
		s.tickAt = 0
		if s.isOpen() {
			s.tick()
		}
	})
}

// tick has the table do what is due.
func (s *sealedPort) tick() {
	if due := s.table.Due(); !due.IsZero() && !s.now().Before(due) {
		s.table.Tick(s.now())
	}
	s.arm()
}

// sendElsewhere lets a datagram come to another host than it is for, in place of one of another cluster.
func (w *World) sendElsewhere(p *packet, late int64) {
	to := pick(w.rng, w.machines...)
	if to == p.to || to.id == p.to.id {
		return
	}
	other := w.newPacket()
	bytes := append(other.bytes[:0], p.bytes...)
	*other = *p
	other.bytes, other.to, other.port, other.nature, other.twin, other.knows = bytes, to, to.port, alien, nil, 0
	w.arriveAfter(other, late)
}

// I17: a datagram opens at whom it is for, and as it was sealed.
func (w *World) i17OpensNowhereElse(p *packet) {
	w.fail(17, "n%d opens a datagram that nobody has sealed for it: %x", p.to.number, p.bytes)
}

// I16: a datagram opens once.
func (w *World) i16OpensOnce(m *machine) {
	w.fail(16, "n%d opens a datagram a second time", m.number)
}
