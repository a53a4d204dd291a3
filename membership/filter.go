package membership

import (
	"bytes"
	"encoding/binary"
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
)

// unfit is why a message of gossip is kept from memberlist, in the word that it is
// counted by.
type unfit string

func (u unfit) Error() string { return "gossip refused: " + string(u) }

const (
	cutShort unfit = "cut-short"
	tooLarge unfit = "too-large"
)

// filter stands between the LAN and memberlist, which unpacks before it looks: 1,200 bytes become 300 KiB, and a stream's become
// gigabytes. Who speaks, the port has proved; what it says is a hint. So the filter bounds what a message can cost, and memberlist reads the rest.
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

	suspected func(lifeName) // told of each life that a datagram calls suspect; nil: nobody is

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
func newFilter(lan memberlist.NodeAwareTransport, cluster string, count func(string), suspected func(lifeName)) *filter {
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
	return f.checked(conn, false), nil
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
			if !f.shares.Take(sourceOf(p.From), time.Now()) {
				f.refuse(unfit("flood"))
				continue
			}
			if err := f.datagram(p.Buf); err != nil {
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
			case f.streams <- f.checked(conn, true):
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

// datagram is nil for one that memberlist may have.
func (f *filter) datagram(b []byte) error {
	if len(b) > maxGossip {
		return tooLarge
	}
	b, ours := bytes.CutPrefix(b, f.label)
	if !ours {
		return unfit("label")
	}
	if len(b) >= crcSize && b[0] == crcMsg {
		b = b[crcSize:] // memberlist holds it against the rest
	}
	if len(b) > 0 && b[0] == compoundMsg {
		return f.compound(b[1:])
	}
	return f.message(b, true)
}

// compound: the number of its parts, two bytes of length for each, the parts. The
// first alone may be one that is answered, as memberlist sends it, with news of
// members behind it: an answer to each of many would be more than what was sent.
func (f *filter) compound(b []byte) error {
	if len(b) < 1 || len(b) < 1+2*int(b[0]) {
		return cutShort
	}
	lengths, rest := b[1:1+2*int(b[0])], b[1+2*int(b[0]):]
	for i := 0; i < len(lengths); i += 2 {
		n := int(binary.BigEndian.Uint16(lengths[i:]))
		if n > len(rest) {
			return cutShort
		}
		if err := f.message(rest[:n], i == 0); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// message is one that is no compound.
func (f *filter) message(b []byte, mayBeAnswered bool) error {
	if len(b) == 0 {
		return cutShort
	}
	switch b[0] {
	case pingMsg, indirectPingMsg, ackMsg, nackMsg:
		if !mayBeAnswered {
			return unfit("compound")
		}
	case suspectMsg:
		if f.suspected == nil {
			return nil
		}
		if name, ok := suspectOf(b); ok {
			f.suspected(name)
		}
	case aliveMsg, deadMsg:
	default:
		return kindOf(b[0])
	}
	return nil
}

// suspectOf gives the life that a suspect message names, if its bytes look like one: it is a hint.
func suspectOf(b []byte) (lifeName, bool) {
	_, rest, _ := bytes.Cut(b, []byte("\xa4Node"))
	at := bytes.IndexByte(rest, '#') - (nodeNameSize - 9)
	if at < 0 || len(rest) < at+nodeNameSize {
		return lifeName{}, false
	}
	return parseNodeName(rest[at : at+nodeNameSize])
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
