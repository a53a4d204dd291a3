package sim

import (
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// Port says what lies between the machines' processes and the network.
type Port uint8

// The ports. Zero draws one.
const (
	AnyPort Port = iota
	// ClearPort is an oracle. It does what a port promises, without sessions: see clearPort.
	ClearPort
	// SealedPort has the sessions that ship (package session), one table for each life.
	SealedPort
)

// port is what one life of an agent sends by, and what opens what comes for it.
type port interface {
	// send has a frame of the election go to an address, at once or as soon as it can.
	send(to netip.AddrPort, frame []byte)
	// sendJob does the same with a frame about jobs.
	sendJob(to *machine, frame []byte)
	// receive gives the frame that a datagram brings, and where its sender is reached; nil: nothing for the agent now.
	receive(p *packet) (frame []byte, from netip.AddrPort)
	// knows is the incarnation of a host's life whose receipt the state directory has; zero: it has none.
	knows(id wire.ID) uint32
	// keepWarm names the addresses to which a frame must be able to go at once.
	keepWarm(addrs []netip.AddrPort)
	// resume goes on after the process was stopped.
	resume()
}

// newPort opens the port of a life that begins.
func (w *World) newPort(m *machine) port {
	if w.ports.isSealed {
		return w.newSealedPort(m)
	}
	return &clearPort{w: w, m: m, there: make(map[wire.ID]incumbent)}
}

// clearPort is the oracle of what sessions promise. It hands a frame over at most once, in any order and however late, to no life
// but the one that had the address when the frame was sent. What the network has changed, or brings to somebody else, it drops.
// Of the lives of one host it hears the latest, and no copy of a host that is there (S17, S19).
type clearPort struct {
	w     *World
	m     *machine
	there map[wire.ID]incumbent // whom it has heard, by id
}

// incumbent is the life that is there, and when it was heard.
type incumbent struct {
	from  *machine
	life  int32
	heard int64
}

// mostSilent is how long a host may be silent before a copy of it takes its place. The sessions ask it, which takes less.
const mostSilent = int64(time.Second)

// holds reports whether what a life has sent is dropped, for another one of its host is there.
func (c *clearPort) holds(p *packet) bool {
	was, isKnown := c.there[p.from.id]
	switch {
	case !isKnown:
	case was.from == p.from && p.by < was.life:
		return true
	case was.from != p.from && c.w.now-was.heard < mostSilent:
		return true
	}
	c.there[p.from.id] = incumbent{p.from, p.by, c.w.now}
	return false
}

func (c *clearPort) send(to netip.AddrPort, frame []byte) {
	if !c.m.isOlder {
		c.w.carryDatagram(c.m, to, frame)
	}
}

func (c *clearPort) sendJob(to *machine, frame []byte) {
	if !c.m.isOlder {
		c.w.carryJob(c.m, to, frame)
	}
}

func (c *clearPort) receive(p *packet) ([]byte, netip.AddrPort) {
	if _, isWill := wire.ParseWill(p.bytes); isWill {
		return p.bytes, p.source
	}
	if p.nature == alien || p.life != c.m.life || !p.twin.isFirst(c.m.life) || c.m.isOlder || c.holds(p) || c.isPast(p) {
		return nil, netip.AddrPort{}
	}
	return p.bytes, p.source
}

func (c *clearPort) keepWarm([]netip.AddrPort) {}

func (c *clearPort) resume() {}

// carryDatagram puts a datagram of m's on the network.
func (w *World) carryDatagram(m *machine, to netip.AddrPort, b []byte) {
	host := w.machineAt(to)
	if host == nil {
		return // nobody has that address
	}
	p := w.newPacket()
	p.bytes = append(p.bytes[:0], b...)
	p.from, p.to, p.source, p.port, p.by, p.life = m, host, m.addr(), to.Port(), m.life, host.life
	p.sender, p.incarnation = m.id, m.disk.state.Incarnation
	if m.lan != nil { // a keeper sends a dead agent's will
		p.knows = m.lan.knows(host.id)
	}
	w.attack.overhear(p)
	w.hash.mix(uint64(w.now))
	w.hash.bytes(p.bytes)
	w.carry(p)
}

// keepWarm tells a's port with whom it must be able to talk at once, as the agent does (agent/seal.go): all that lead or vote.
func (w *World) keepWarm(a *machine) {
	if a.lan == nil || a.cfg.Part == election.Observer {
		return
	}
	var warm []netip.AddrPort
	for _, b := range w.machines {
		if v := w.detector.of(a, b); b != a && v.said == election.Alive && b.cfg.Part != election.Observer {
			warm = append(warm, v.addr)
		}
	}
	a.lan.keepWarm(warm)
}
