package membership

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/internal/transport"
)

// Message types of memberlist v0.7.0 (net.go). The others are never passed on:
// compressed (9), encrypted (10), user messages (8) and errors (13).
const (
	pingMsg         = 0
	indirectPingMsg = 1
	ackMsg          = 2
	suspectMsg      = 3
	aliveMsg        = 4
	deadMsg         = 5
	pushPullMsg     = 6
	compoundMsg     = 7
	userMsg         = 8
	compressMsg     = 9
	encryptMsg      = 10
	nackMsg         = 11
	crcMsg          = 12
	labelMsg        = 244
)

const (
	// maxGossip bounds a datagram of memberlist's, in bytes. It fits every link
	// that IPv6 allows, with an envelope around it.
	maxGossip = 1200

	// gossipPerSecond is ten times what a member's memberlist sends to one other: five
	// rounds of gossip a second, probes, and their answers. gossipAtOnce is half of the
	// LAN's queue.
	gossipPerSecond, gossipAtOnce = 200, 128

	crcSize = 5 // the type and a CRC-32 in front of what is gossiped

	// baseIncarnation and the second it is bound the incarnation that anybody may have
	// in memberlist. A life begins with 1 and adds 1 when it changes what it says of
	// itself or denies its death, so nobody ever comes near: the room is for what a
	// forger says. It rises by 1 each second, so that who was said to be dead with
	// the highest can deny it a second later; memberlist would count over at 2^32,
	// and nobody hear the life again. Seconds since 1970 reach 2^32 less this in 2072.
	baseIncarnation = 1 << 30
)

// maxIncarnation is the highest that is taken now.
func maxIncarnation(now time.Time) uint32 { return uint32(baseIncarnation + now.Unix()) }

// addrSize, vsnSize: an IPv6 address, and the six versions of an alive message.
const (
	addrSize = 16
	vsnSize  = 6
	maxPort  = 1<<16 - 1
	anyUint  = 1<<32 - 1
)

// shapes are the messages that come in datagrams, with their fields, by type.
var shapes = [...][]field{
	pingMsg: {{"SeqNo", number, anyUint}, {"Node", nodeOrNone, 0},
		{"SourceAddr", raw, addrSize}, {"SourcePort", number, maxPort}, {"SourceNode", nodeOrNone, 0}},
	indirectPingMsg: {{"SeqNo", number, anyUint}, {"Target", raw, addrSize}, {"Port", number, maxPort}, {"Node", nodeOrNone, 0},
		{"Nack", flag, 0}, {"SourceAddr", raw, addrSize}, {"SourcePort", number, maxPort}, {"SourceNode", nodeOrNone, 0}},
	ackMsg:     {{"SeqNo", number, anyUint}, {"Payload", raw, recordSize}},
	nackMsg:    {{"SeqNo", number, anyUint}},
	suspectMsg: {{"Incarnation", incarnation, 0}, {"Node", nodeOrNone, 0}, {"From", nodeOrNone, 0}},
	deadMsg:    {{"Incarnation", incarnation, 0}, {"Node", nodeOrNone, 0}, {"From", nodeOrNone, 0}},
	aliveMsg: {{"Incarnation", incarnation, 0}, {"Node", nodeOrNone, 0}, {"Addr", raw, addrSize}, {"Port", number, maxPort},
		{"Meta", raw, maxMeta}, {"Vsn", raw, vsnSize}},
}

// filter stands between the LAN and memberlist, which was not made for what anybody
// may send: it unpacks and allocates before it looks. Only what our own memberlist
// sends passes, of one source as much as that sends, each field of it within the bounds of what the protocol can
// produce; the rest is counted by cause.
//
//	datagram  label, perhaps a checksum, then one message or a compound of them:
//	          ping, indirect ping, ack, nack, suspect, alive, dead
//	stream    label (not in answers), then a push/pull
//
// A compound has no compound in it, and at most one message that is answered.
type filter struct {
	memberlist.NodeAwareTransport
	label []byte // as each packet and stream begins
	count func(cause string)

	suspected func(node []byte) // told of each node that a datagram calls suspect; nil: nobody is

	shares  *transport.Shares // passPackets'
	packets chan *memberlist.Packet
	streams chan net.Conn
	pending pending

	leavesLAN atomic.Bool // Shutdown does not close it

	quit    chan struct{}
	once    sync.Once
	running sync.WaitGroup
}

// newFilter takes what memberlist would take from lan, until stop.
func newFilter(lan memberlist.NodeAwareTransport, cluster string, count func(string), suspected func(node []byte)) *filter {
	f := &filter{
		NodeAwareTransport: lan,
		label:              append([]byte{labelMsg, byte(len(cluster))}, cluster...),
		count:              count,
		suspected:          suspected,
		shares:             transport.NewShares(gossipPerSecond, gossipAtOnce),
		packets:            make(chan *memberlist.Packet),
		streams:            make(chan net.Conn),
		quit:               make(chan struct{}),
	}
	f.running.Go(f.passPackets)
	f.running.Go(f.passStreams)
	return f
}

// PacketCh gives memberlist the datagrams that passed.
func (f *filter) PacketCh() <-chan *memberlist.Packet { return f.packets }

// StreamCh gives memberlist the streams, each of which is checked while it is read.
func (f *filter) StreamCh() <-chan net.Conn { return f.streams }

// DialTimeout opens a stream whose answer is checked.
func (f *filter) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return f.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream whose answer is checked.
func (f *filter) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	conn, err := f.NodeAwareTransport.DialAddressTimeout(addr, timeout)
	if err != nil {
		return nil, err
	}
	return f.checked(conn, nil), nil
}

// stop ends the filter and leaves the LAN open.
func (f *filter) stop() {
	f.once.Do(func() { close(f.quit) })
	f.running.Wait()
}

// Shutdown ends the filter, and the LAN unless that goes on.
func (f *filter) Shutdown() error {
	f.stop()
	if f.leavesLAN.Load() {
		return nil
	}
	return f.NodeAwareTransport.Shutdown()
}

func (f *filter) passPackets() {
	for {
		select {
		case <-f.quit:
			return
		case p := <-f.NodeAwareTransport.PacketCh():
			now := time.Now()
			if !f.shares.Take(sourceOf(p.From), now) {
				f.refuse(unfit("flood"))
				continue
			}
			if err := f.datagram(p.Buf, now); err != nil {
				f.refuse(err)
				continue
			}
			select {
			case f.packets <- p:
			case <-f.quit:
				return
			}
		}
	}
}

// sourceOf is whose share a datagram takes.
func sourceOf(from net.Addr) [16]byte {
	if udp, ok := from.(*net.UDPAddr); ok {
		return udp.AddrPort().Addr().As16()
	}
	return [16]byte{}
}

func (f *filter) passStreams() {
	for {
		select {
		case <-f.quit:
			return
		case conn := <-f.NodeAwareTransport.StreamCh():
			select {
			case f.streams <- f.checked(conn, f.label):
			case <-f.quit:
				_ = conn.Close()
				return
			}
		}
	}
}

// refuse counts what is not passed on. An error that is no word of ours is the
// network's, and none of anybody's doing.
func (f *filter) refuse(err error) {
	if u, ok := err.(unfit); ok {
		f.count(string(u))
	}
}

// datagram is nil for one that memberlist may have. It allocates nothing.
func (f *filter) datagram(b []byte, now time.Time) error {
	if len(b) > maxGossip {
		return tooLarge
	}
	b, ours := bytes.CutPrefix(b, f.label)
	if !ours {
		return unfit("label")
	}
	if b0(b) == crcMsg && len(b) >= crcSize {
		if crc32.ChecksumIEEE(b[crcSize:]) != binary.BigEndian.Uint32(b[1:crcSize]) {
			return unfit("checksum")
		}
		b = b[crcSize:]
	}
	if b0(b) == compoundMsg {
		return f.compound(b, maxIncarnation(now))
	}
	return f.message(b, maxIncarnation(now))
}

// compound: the number of its parts, two bytes of length for each, the parts. The
// first alone may be one that is answered, as memberlist sends it, with news of
// members behind it: an answer to each of many would be more than what was sent.
func (f *filter) compound(b []byte, most uint32) error {
	if len(b) < 2 || len(b) < 2+2*int(b[1]) {
		return cutShort
	}
	lengths, rest := b[2:2+2*int(b[1])], b[2+2*int(b[1]):]
	for i := 0; i < len(lengths); i += 2 {
		n := int(binary.BigEndian.Uint16(lengths[i:]))
		if n > len(rest) {
			return cutShort
		}
		part := rest[:n]
		rest = rest[n:]
		if t := b0(part); i > 0 && t != suspectMsg && t != aliveMsg && t != deadMsg {
			return unfit("compound")
		}
		if err := f.message(part, most); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return unfit("compound")
	}
	return nil
}

// message is one that is no compound.
func (f *filter) message(b []byte, most uint32) error {
	if len(b) == 0 {
		return cutShort
	}
	if int(b[0]) >= len(shapes) || shapes[b[0]] == nil {
		return kindOf(b[0])
	}
	s := scan{b: b[1:], most: most}
	if err := s.object(shapes[b[0]], nil); err != nil {
		return err
	}
	if s.at < len(s.b) {
		return unfit("rest")
	}
	if b[0] == suspectMsg && f.suspected != nil {
		f.suspected(s.node)
	}
	return nil
}

// kindOf says what is not taken.
func kindOf(t byte) error {
	switch t {
	case pushPullMsg:
		return unfit("push-pull")
	case compoundMsg:
		return unfit("nested")
	case userMsg:
		return unfit("user")
	case compressMsg:
		return unfit("compressed")
	case encryptMsg:
		return unfit("encrypted")
	}
	return unfit("type")
}
