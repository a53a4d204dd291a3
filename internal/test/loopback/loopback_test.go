package loopback

import (
	"net"
	"testing"
)

func TestAddr(t *testing.T) {
	a, b := Addr(), Addr()
	if a == b {
		t.Errorf("%v was given twice", a)
	}
	for _, addr := range []string{a.String(), b.String()} {
		tcp, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.Close()
		udp, err := net.ListenPacket("udp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer udp.Close()
	}
}
