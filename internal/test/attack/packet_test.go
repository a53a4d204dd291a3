package attack

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

var (
	alpha = netip.MustParseAddrPort("10.78.1.1:7950")
	beta  = netip.MustParseAddrPort("10.78.1.2:7950")
	gamma = netip.MustParseAddrPort("10.78.1.66:4000")
)

func TestFragmentsAreTheWholeDatagram(t *testing.T) {
	for _, size := range []int{0, 1, 1472, 1473, 4096, 31 << 10, maxPayload} {
		payload := noise(NewRandom(uint64(size)), size)
		var whole []byte
		pieces := Packet{From: alpha, To: beta, Payload: payload}.Fragments(7)
		for i, piece := range pieces {
			at := binary.BigEndian.Uint16(piece[6:])
			if more := at&moreFragments != 0; more != (i < len(pieces)-1) {
				t.Errorf("%d bytes: fragment %d of %d says more=%v", size, i, len(pieces), more)
			}
			if int(at&^moreFragments)*8 != len(whole) || len(piece) > mtu {
				t.Errorf("%d bytes: fragment %d has %d bytes at %d", size, i, len(piece), at)
			}
			whole = append(whole, piece[ipHeader:]...)
		}
		if !bytes.Equal(whole[udpHeader:], payload) {
			t.Errorf("%d bytes: %d arrive", size, len(whole)-udpHeader)
		}
	}
	if p := (Packet{From: alpha, To: beta, Payload: make([]byte, maxPayload+1)}).Fragments(1); p != nil {
		t.Error("a datagram that IPv4 cannot carry has fragments")
	}
}

func TestParseTakesWholePacketsOnly(t *testing.T) {
	want := Packet{From: alpha, To: gamma, Payload: []byte("hello")}
	raw := want.Fragments(1)[0]
	got, ok := Parse(append(raw, 0, 0)) // Ethernet pads short frames
	if !ok || got.From != want.From || got.To != want.To || got.IsStream || string(got.Payload) != "hello" {
		t.Errorf("parsed %+v, %v", got, ok)
	}
	for n := range raw {
		if _, ok := Parse(raw[:n]); ok {
			t.Errorf("%d bytes of %d parse", n, len(raw))
		}
	}
	for _, piece := range (Packet{From: alpha, To: beta, Payload: make([]byte, 3000)}).Fragments(1) {
		if _, ok := Parse(piece); ok {
			t.Error("a fragment parses")
		}
	}
}
