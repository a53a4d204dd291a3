package attack

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/bully-agent/bully-agent/wire"
)

// Whisper makes gossip that lies: about members, about strangers, and in forms that cost whoever
// reads them.
func (f *Forger) Whisper(g Gossip) Packet {
	to := f.Targets[f.Random.IntN(len(f.Targets))]
	from := f.Own
	if other := f.Targets[f.Random.IntN(len(f.Targets))]; other != to {
		from = other
	}
	return Packet{From: from, To: to, Payload: f.rumour(g)}
}

func (f *Forger) rumour(g Gossip) []byte {
	life := f.Life()
	switch f.Random.IntN(16) {
	case 0:
		life.Meta = binary.BigEndian.AppendUint32([]byte{4}, f.Random.Uint32()) // another number of the life
		return g.Datagram(life.Alive())
	case 1:
		life.Addr = f.Own // and this is where it is now
		return g.Datagram(life.Alive())
	case 2:
		life.Nonce, life.Addr = f.Random.Uint32(), f.Own // another life of it
		return g.Datagram(life.Alive())
	case 3:
		life.Gossip = 1<<32 - 1
		return g.Datagram(life.Alive(), life.Dead())
	case 4:
		return g.Datagram(life.Dead())
	case 5:
		return g.Datagram(life.Suspect())
	case 6:
		return g.Datagram(Nested(20, life.Dead()))
	case 7:
		life.Meta = []byte(pick(f.Random, []string{"-rf", "..", "a\nb", "", strings.Repeat("x", 63)}))
		return g.Datagram(life.Alive())
	case 8:
		life.Meta = make([]byte, 513)
		return g.Datagram(life.Alive())
	case 9:
		return g.Datagram(life.Alive(), life.Suspect(), life.Alive())
	case 10:
		life.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), life.Addr.Port())
		return g.Datagram(life.Alive())
	case 11:
		return g.Datagram(Compound(life.Alive(), life.Suspect(), life.Dead()))
	case 12:
		return append([]byte{1}, g.Datagram(life.Alive())...) // as if encrypted
	case 13, 14:
		return g.Datagram(Ack(uint32(f.Random.IntN(1000)))) // in the place of whoever was asked
	}
	return g.Datagram(life.Alive())
}

// Life is that of a member that was heard, or of a stranger.
func (f *Forger) Life() Life {
	p := f.Stranger()
	if peers := f.Know.Peers(); len(peers) > 0 && f.Random.IntN(2) == 0 {
		p = peers[f.Random.IntN(len(peers))]
	}
	return f.Know.LifeOf(p)
}

// LifeOf is what gossip says of a peer.
func (k *Knowledge) LifeOf(p Peer) Life {
	return Life{ID: p.Frame.Sender, Incarnation: p.Frame.Incarnation, Nonce: p.Frame.Nonce, Addr: p.Addr, Gossip: 2}
}

// IDs are the ids of those that were heard.
func (k *Knowledge) IDs() (ids []wire.ID) {
	for _, p := range k.Peers() {
		ids = append(ids, p.Frame.Sender)
	}
	return ids
}
