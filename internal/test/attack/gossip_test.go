package attack

import (
	"bytes"
	"compress/lzw"
	"io"
	"log"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/wire"
)

// memberlist itself takes the messages for its own.
func TestGossipIsMemberlists(t *testing.T) {
	var network memberlist.MockNetwork
	c := memberlist.DefaultLocalConfig()
	c.Name, c.Label, c.Transport = "victim", "e2e", network.NewTransport("victim")
	c.ProbeInterval, c.Logger = time.Hour, log.New(io.Discard, "", 0)
	m, err := memberlist.Create(c)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Shutdown()
	ip, port, err := c.Transport.FinalAdvertiseAddr("", 0)
	if err != nil {
		t.Fatal(err)
	}
	attacker, to := network.NewTransport("attacker"), (&memberlist.Node{Addr: ip, Port: uint16(port)}).Address()
	members := func(n int) {
		t.Helper()
		for range 100 {
			if m.NumMembers() == n {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("memberlist has %d members, expected %d", m.NumMembers(), n)
	}
	g := Gossip{"e2e"}
	say := func(b []byte) {
		t.Helper()
		if _, err := attacker.WriteTo(b, to); err != nil {
			t.Fatal(err)
		}
	}
	one, two := Life{ID: wire.ID{1}, Addr: alpha, Gossip: 1}, Life{ID: wire.ID{2}, Addr: beta, Gossip: 1}
	say(g.Datagram(one.Alive()))
	members(2)
	say(g.Datagram(one.Suspect(), two.Alive()))
	members(3)
	say(g.Datagram(Nested(3, two.Dead())))
	members(2)
}

func TestBombUnpacksToWhatItSays(t *testing.T) {
	const size = 4 << 20
	bomb := Bomb(size)
	at := bytes.Index(bomb, []byte("Buf")) + 3 + 3 // the name, and the length of what follows
	n, err := io.Copy(io.Discard, lzw.NewReader(bytes.NewReader(bomb[at:]), lzw.LSB, 8))
	if err != nil || n != size+1 {
		t.Errorf("unpacks to %d bytes, %v", n, err)
	}
	if largest := Bomb(bombUnpacked); len(largest) > maxPayload {
		t.Errorf("a bomb of %d MiB has %d bytes, more than a datagram", bombUnpacked>>20, len(largest))
	}
}
