package attack

import (
	"math/rand/v2"
	"net/netip"

	"github.com/bully-agent/bully-agent/wire"
)

// Forger makes frames that parse, in the name of members and of strangers.
type Forger struct {
	Know    *Knowledge
	Own     netip.AddrPort   // the attacker's
	Targets []netip.AddrPort // whom it sends to
	Random  *rand.Rand
}

// How far ahead is far: of sequence numbers, which wrap, and of epochs. The first step of each is
// one that the protocol makes itself.
var (
	seqSteps   = []uint32{1, 2, 1000, 1 << 20, 1 << 30, 1<<31 - 100, 1 << 31}
	epochSteps = []uint64{0, 1, 2, 1 << 10, 1 << 20, 1<<20 + 1, 1 << 40, 1 << 61}
)

const (
	firstKind = wire.Election
	lastKind  = wire.LedgerPart // of those that must be known
)

// Frame makes one of any kind. Its sender is the leader, another member, the target itself or a
// stranger, its source address the sender's, the attacker's or another's.
func (f *Forger) Frame() Packet {
	peers := f.Know.Peers()
	to := f.Targets[f.Random.IntN(len(f.Targets))]
	sender := f.sender(peers, to)
	frame := f.body(f.header(sender, to))
	from := sender.Addr
	switch f.Random.IntN(4) {
	case 0:
		from = f.Own
	case 1:
		from = f.Targets[f.Random.IntN(len(f.Targets))]
	}
	if from.Addr() == to.Addr() {
		from = f.Own // the kernel takes nothing that says it comes from itself
	}
	return Packet{From: from, To: to, Payload: f.Know.Say(frame)}
}

// sender picks who is said to have sent a frame to a target.
func (f *Forger) sender(peers []Peer, to netip.AddrPort) Peer {
	choice := f.Random.IntN(8)
	if leader, _, known := f.Know.Leader(); known && choice < 3 {
		return leader
	}
	for _, p := range peers {
		if choice == 3 && p.Addr == to {
			p.Frame.Nonce = f.Random.Uint32() // another life under its own id
			return p
		}
	}
	if choice < 7 && len(peers) > 0 {
		return peers[f.Random.IntN(len(peers))]
	}
	return f.Stranger()
}

// Stranger is nobody that was ever heard, but it knows cluster and settings.
func (f *Forger) Stranger() Peer {
	p := Peer{Addr: f.Own}
	if leader, _, known := f.Know.Leader(); known {
		p.Frame = leader.Frame
	}
	p.Frame.Sender, p.Frame.Nonce, p.Frame.Priority = f.id(), f.Random.Uint32(), 65535
	return p
}

// As makes a frame of a peer's, for whoever is at to, that says what body says. Its Seq is how far
// the frame is ahead of the last of its series that the peer sent there: 0 for 1, the next.
func (f *Forger) As(p Peer, to netip.AddrPort, body wire.Frame) wire.Frame {
	h := p.Frame
	body.Algo, body.Cluster, body.ConfigHash = h.Algo, h.Cluster, h.ConfigHash
	body.Sender, body.Incarnation, body.Nonce, body.Priority = h.Sender, h.Incarnation, h.Nonce, h.Priority
	body.Seq = p.seqs[seriesOf(to, body.Kind)] + max(1, body.Seq)
	return body
}

func (f *Forger) header(p Peer, to netip.AddrPort) wire.Frame {
	frame := f.As(p, to, wire.Frame{
		Kind:  f.kind(),
		Flags: wire.Flags(f.Random.Uint32()),
		Seq:   pick(f.Random, seqSteps) + f.Random.Uint32N(16),
		Round: p.Frame.Round + f.Random.Uint32N(3),
	})
	_, beat, _ := f.Know.Leader()
	frame.Epoch = beat.Epoch
	frame.Epoch.Counter += pick(f.Random, epochSteps)
	if f.Random.IntN(2) == 0 {
		frame.Epoch.Owner = frame.Sender
	}
	switch f.Random.IntN(8) {
	case 0:
		frame.Incarnation += 1 + f.Random.Uint32N(1<<20)
		frame.Nonce = f.Random.Uint32()
	case 1:
		frame.Priority = uint16(f.Random.Uint32())
	}
	return frame
}

// kind picks one of all.
func (f *Forger) kind() wire.Kind {
	if k := firstKind + wire.Kind(f.Random.IntN(int(lastKind-firstKind)+2)); k <= lastKind {
		return k
	}
	return wire.Clients
}

// body fills in what any kind may say; wire.Append sends what holds for it.
func (f *Forger) body(frame wire.Frame) wire.Frame {
	r := f.Random
	frame.Reason, frame.Attempt, frame.Verdict = wire.Reason(r.IntN(10)), uint8(r.IntN(3)), wire.Verdict(r.IntN(7))
	frame.HeartbeatAge, frame.ETA, frame.Remain = r.Uint32N(5000), r.Uint32N(1000), r.Uint32N(5000)
	frame.FailedCounter, frame.EchoSeq = frame.Epoch.Counter, frame.Seq-1
	frame.Phase, frame.AckVerdict = wire.Phase(1+r.IntN(2)), wire.AckVerdict(r.IntN(5))
	frame.Lease, frame.Interval = pick(r, []uint32{0, 1, 400, 1 << 31}), pick(r, []uint32{0, 1, 50, 1 << 31})
	frame.Knowledge, frame.Purpose, frame.Standing = wire.Knowledge(r.IntN(3)), wire.Purpose(r.IntN(2)), wire.Standing(r.IntN(6))
	frame.AckFlags, frame.IsReady, frame.Why = uint8(r.IntN(8)), r.IntN(2) == 0, uint8(r.IntN(4))
	frame.RosterVersion = pick(r, []uint32{0, 1, 2, 1 << 20, 1<<32 - 1})
	frame.Successor = f.member()
	frame.Count = uint8(r.IntN(wire.MaxVoters + 1))
	for i := range frame.Count {
		frame.Voters[i] = f.member()
	}
	frame.Digest, frame.Place, frame.Parts = r.Uint64(), uint16(r.IntN(4)), pick(r, []uint16{0, 1, 2, 1<<16 - 1})
	if ledger := f.ledger(frame.Epoch); len(ledger) <= wire.MaxPayload {
		frame.Payload = string(ledger)
	}
	return frame
}

// member is the id of one that was heard, or of nobody.
func (f *Forger) member() wire.ID {
	if peers := f.Know.Peers(); len(peers) > 0 && f.Random.IntN(4) > 0 {
		return peers[f.Random.IntN(len(peers))].Frame.Sender
	}
	return f.id()
}

// id is a UUID, version 4.
func (f *Forger) id() (id wire.ID) {
	for i := range id {
		id[i] = byte(f.Random.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }
