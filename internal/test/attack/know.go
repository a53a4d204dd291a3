package attack

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/bully-agent/bully-agent/wire"
)

// Peer is what a listener knows of one member.
type Peer struct {
	Addr  netip.AddrPort
	Frame wire.Frame // its last, with its id, life and priority

	seqs map[series]uint32 // the last sequence number of each series of this life
}

// series is frames that are numbered one after the other: each receiver has numbers of its own,
// which begin anywhere, and frames about jobs have others than those of the election.
type series struct {
	to         netip.AddrPort
	isAboutJob bool
}

func seriesOf(to netip.AddrPort, kind wire.Kind) series { return series{to, kind >= wire.JobClaim} }

// Knowledge is what somebody has learned who hears all frames in clear. Its methods may be called
// concurrently.
type Knowledge struct {
	mu     sync.Mutex
	peers  map[wire.ID]*Peer
	leader wire.Frame // the last heartbeat
	spoken byte       // the version that the members speak, as in the third byte of a frame
}

// NewKnowledge begins with nothing.
func NewKnowledge() *Knowledge { return &Knowledge{peers: map[wire.ID]*Peer{}} }

// Hear learns from a packet, if it is a frame in clear.
func (k *Knowledge) Hear(p Packet) {
	var f wire.Frame
	if p.IsStream || !isFrame(p.Payload) || wire.Parse(speak(p.Payload, ourVersion), &f) != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spoken = p.Payload[versionAt]
	known := k.peers[f.Sender]
	if known == nil || known.Frame.Nonce != f.Nonce {
		known = &Peer{seqs: map[series]uint32{}}
		k.peers[f.Sender] = known
	}
	known.Addr, known.Frame, known.seqs[seriesOf(p.To, f.Kind)] = p.From, f, f.Seq
	if f.Kind == wire.Heartbeat {
		k.leader = f
	}
}

// Peers gives who was heard, in the order of their addresses.
func (k *Knowledge) Peers() []Peer {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]Peer, 0, len(k.peers))
	for _, p := range k.peers {
		all = append(all, p.clone())
	}
	slices.SortFunc(all, func(a, b Peer) int { return a.Addr.Compare(b.Addr) })
	return all
}

// Leader gives the one whose heartbeat was heard last, and that heartbeat.
func (k *Knowledge) Leader() (Peer, wire.Frame, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, known := k.peers[k.leader.Sender]
	if !known {
		return Peer{}, wire.Frame{}, false
	}
	return p.clone(), k.leader, true
}

func (p *Peer) clone() Peer {
	c := *p
	c.seqs = maps.Clone(p.seqs)
	return c
}

// Say encodes a frame in the version that the members speak.
func (k *Knowledge) Say(f wire.Frame) []byte { return speak(wire.Append(nil, &f), k.version()) }

// version is that of the members, or ours while nobody was heard.
func (k *Knowledge) version() byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.spoken == 0 {
		return ourVersion
	}
	return k.spoken
}

// Where a frame has its version, see package wire.
const versionAt = 2

// ourVersion is what package wire writes: members of another version may lay out frames the same,
// and then the attacker speaks theirs.
var ourVersion = wire.Append(nil, &wire.Frame{Kind: wire.Query})[versionAt]

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// speak gives a copy of a frame in another version, with its checksum put right.
func speak(b []byte, version byte) []byte {
	b = slices.Clone(b)
	b[versionAt] = version
	return reseal(b)
}

// reseal puts the checksum of a frame right, in place.
func reseal(b []byte) []byte {
	if len(b) >= wire.MinFrame {
		end := len(b) - 4
		binary.BigEndian.PutUint32(b[end:], crc32.Checksum(b[:end], castagnoli))
	}
	return b
}

func isFrame(b []byte) bool {
	return len(b) >= wire.MinFrame && b[0] == wire.Magic0 && b[1] == wire.Magic1
}
