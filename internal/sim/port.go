package sim

import (
	"net/netip"

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
	return &clearPort{w, m}
}

// clearPort is the oracle of what sessions promise. It hands a frame over at most once, in any order and however late, to no life
// but the one that had the address when the frame was sent. What the network has changed, or brings to somebody else, it drops.
type clearPort struct {
	w *World
	m *machine
}

func (c *clearPort) send(to netip.AddrPort, frame []byte) { c.w.carryDatagram(c.m, to, frame) }

func (c *clearPort) sendJob(to *machine, frame []byte) { c.w.carryJob(c.m, to, frame) }

func (c *clearPort) receive(p *packet) ([]byte, netip.AddrPort) {
	if _, isWill := wire.ParseWill(p.bytes); isWill {
		return p.bytes, p.source
	}
	if p.nature == alien || p.life != c.m.life || !p.twin.isFirst(c.m.life) {
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
	p.from, p.to, p.source, p.port, p.life = m, host, m.addr(), to.Port(), host.life
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
