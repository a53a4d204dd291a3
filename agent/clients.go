package agent

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks/resourcerun"
	"github.com/bully-agent/bully-agent/wire"
)

// Who is connected to what the leader has: it tells its followers every second, by CLIENTS, and the next leader resets these
// connections (reset = true of a [[resource]]). Nothing of it is acknowledged or kept: a list that is lost is followed by another.

const (
	// clientsAge is how old a list may be that a new leader goes by. Arbitrary: several lists may be lost, and an election takes time.
	clientsAge = 10 * time.Second

	sizeOf4 = 1 + 2*(4+2) // bytes of a client in a payload
	sizeOf6 = 1 + 2*(16+2)
	// mostParts is how many parts the longest list has.
	mostParts = (resourcerun.MaxClients + wire.MaxPayload/sizeOf6 - 1) / (wire.MaxPayload / sizeOf6)
)

// cutClients makes the payloads of a list, at least one.
func cutClients(all []resourcerun.Client) (parts []string) {
	var part []byte
	for _, c := range all[:min(len(all), resourcerun.MaxClients)] {
		next := appendClient(nil, c)
		if len(part)+len(next) > wire.MaxPayload {
			parts, part = append(parts, string(part)), nil
		}
		part = append(part, next...)
	}
	return append(parts, string(part))
}

func appendClient(b []byte, c resourcerun.Client) []byte {
	family := byte(4)
	if c.Here.Addr().Is6() {
		family = 6
	}
	b = append(b, family)
	for _, end := range []netip.AddrPort{c.Here, c.There} {
		b = append(b, end.Addr().AsSlice()...)
		b = binary.BigEndian.AppendUint16(b, end.Port())
	}
	return b
}

// parseClients reads a payload; ok is false for one that cutClients does not make.
func parseClients(payload string) (all []resourcerun.Client, ok bool) {
	for b := []byte(payload); len(b) > 0; {
		size := sizeOf4
		if b[0] == 6 {
			size = sizeOf6
		}
		if b[0] != 4 && b[0] != 6 || len(b) < size {
			return nil, false
		}
		c := resourcerun.Client{Here: parseEnd(b[1 : 1+size/2]), There: parseEnd(b[1+size/2 : size])}
		if !c.IsUsable() {
			return nil, false
		}
		all, b = append(all, c), b[size:]
	}
	return all, true
}

// parseEnd reads an address and a port.
func parseEnd(b []byte) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(b[:len(b)-2])
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[len(b)-2:]))
}

// heardClients is what a follower has heard of its leader's clients.
type heardClients struct {
	epoch   wire.Epoch
	round   uint32
	parts   [][]resourcerun.Client // of the list that is coming; nil: it has not come
	missing int                    // of these

	last []resourcerun.Client // of the last list that came whole
	at   time.Time            // when
}

// hear takes a frame of the leader's; false: it is none that a leader sends.
func (h *heardClients) hear(f *wire.Frame, now time.Time) bool {
	some, ok := parseClients(f.Payload)
	if !ok || f.Parts == 0 || f.Parts > mostParts || f.Place >= f.Parts {
		return false
	}
	if h.epoch != f.Epoch || h.round != f.Round || len(h.parts) != int(f.Parts) {
		*h = heardClients{epoch: f.Epoch, round: f.Round, parts: make([][]resourcerun.Client, f.Parts), missing: int(f.Parts), last: h.last, at: h.at}
	}
	if h.parts[f.Place] != nil {
		return true
	}
	h.parts[f.Place] = append([]resourcerun.Client{}, some...) // not nil
	if h.missing--; h.missing > 0 {
		return true
	}
	var all []resourcerun.Client
	for _, part := range h.parts {
		all = append(all, part...)
	}
	if len(all) > resourcerun.MaxClients {
		return false
	}
	h.last, h.at = all, now
	return true
}

// take gives the last list, once, unless it is too old.
func (h *heardClients) take(now time.Time) []resourcerun.Client {
	last := h.last
	if now.Sub(h.at) > clientsAge {
		last = nil
	}
	*h = heardClients{}
	return last
}

// tellClients tells the followers who is connected to what this leader has.
func (s *seat) tellClients(all []resourcerun.Client) {
	status := s.node.Status()
	if status.State != election.Lead {
		return
	}
	s.clientsRound++
	parts := cutClients(all)
	for _, to := range s.around.seen().peers() {
		for i, part := range parts {
			s.sendAside(to, wire.Frame{Kind: wire.Clients, Round: s.clientsRound, Epoch: status.Epoch,
				Place: uint16(i), Parts: uint16(len(parts)), Payload: part})
		}
	}
}

// onClientsFrame reports whether the frame says who is connected to what the leader has. The leader that this host follows is believed, and
// nobody else.
func (s *seat) onClientsFrame(r *received) bool {
	f := &r.Frame
	if f.Kind != wire.Clients {
		return false
	}
	now, status := s.around.now(), s.node.Status()
	why := s.node.Admit(f)
	switch {
	case why != "":
	case status.State == election.Lead || f.Sender != status.Leader || f.Epoch != status.Epoch:
		why = "other-leader"
	case !s.clients.hear(f, now):
		why = "malformed"
	}
	switch {
	case why != "":
		s.around.count("clients_refused_"+why, 1)
	case s.clients.missing == 0:
		s.around.count("clients_heard", 1)
	}
	return true
}

// passClients has the connections reset that the leader before had, once this one has their addresses.
func (s *seat) passClients() {
	if clients := s.clients.take(s.around.now()); len(clients) > 0 {
		s.runner.Reset(clients)
	}
}
