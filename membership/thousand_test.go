package membership

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/internal/sealed"
	"github.com/bully-agent/bully-agent/wire"
)

// extra is a host of many: its sessions and its card are real, and of memberlist it has no more than the answers to pings.
type extra struct {
	Member
	host *sealed.LAN
}

func (s *site) extra(n int) extra {
	m := selfOf("host-" + string(rune('a'+n%26)) + string(rune('a'+n/26%26)) + string(rune('a'+n/676)))
	m.Addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, byte(n >> 8), byte(n)}), defaultPort)
	m.WireMin, m.WireMax = wire.Major, wire.Major
	seal := s.open(s.lan.Host(m.Name, m.Addr), m, "test")
	seal.SetCard(appendCard(nil, m))
	over := make(chan struct{})
	go readFrames(seal)
	go answerPings(seal, over)
	s.t.Cleanup(func() {
		close(over)
		_ = seal.Shutdown()
	})
	return extra{m, seal}
}

func answerPings(seal *sealed.LAN, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case p := <-seal.PacketCh():
			if number, is := pingNumber(p.Buf); is {
				_, _ = seal.WriteToAddress(packet(says(ackMsg, "SeqNo", number, "Payload", []byte{})), memberlist.Address{Addr: p.From.String()})
			}
		}
	}
}

// pingNumber reads the number of a ping, as msgpack has it.
func pingNumber(b []byte) (number uint32, is bool) {
	const field = "\xa5SeqNo"
	_, after, found := bytes.Cut(b, []byte(field))
	if !found || len(after) < 5 || !bytes.Contains(b, []byte("SourceAddr")) {
		return 0, false
	}
	switch after[0] {
	case 0xce:
		return binary.BigEndian.Uint32(after[1:]), true
	case 0xcd:
		return uint32(binary.BigEndian.Uint16(after[1:])), true
	case 0xcc:
		return uint32(after[1]), true
	}
	return uint32(after[0]), after[0] < 0x80
}

// A host is among many that are true, in the long tests (make schedules) among a thousand. Gossip tells it of all of them, and no
// bound refuses one. It meets each in a session of its own, and all stay members. Those that fall silent are gone within a minute and a
// half, and no other. Once it starts again all others call it at one instant. Its budget for handshakes is a hundred a second and as many
// with a cookie, so each is met within some seconds.
func TestAThousandHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of handshakes")
	}
	all, silent := 299, 30
	if os.Getenv("BULLY_SIM") == "long" {
		all, silent = 999, 100
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		hosts := make([]extra, all)
		for n := range hosts {
			hosts[n] = s.extra(n)
		}
		alpha := s.start("alpha")
		teller := s.port("teller")
		before := heap()
		begun := time.Now()
		for some := range slices.Chunk(hosts, 6) {
			var told [][]byte
			for _, h := range some {
				told = append(told, aliveOf(h.Member, 1))
			}
			if _, err := teller.WriteTo(packet(compoundOf(told...)), addrOf("alpha").String()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		s.within(15*time.Second, "alpha has met all", func() bool { return len(alpha.sees()) == all })
		t.Logf("all are met after %s", time.Since(begun))
		alpha.heard()
		time.Sleep(100 * time.Second) // each was asked, and gossip has pinged some
		alpha.hears()
		each := float64(heap()-before) / float64(all)
		t.Logf("%.1f KB for each of the others: here, and at its end of their session", each/1000)
		if each > 64_000 {
			t.Errorf("%.0f bytes for each", each)
		}
		if state := alpha.JoinState(); len(state.Refused)+len(state.Kept) > 0 {
			t.Errorf("alpha refused %v and %v", state.Refused, state.Kept)
		}
		for _, h := range hosts[:silent] {
			_ = h.host.Shutdown()
		}
		took := s.within(90*time.Second, "those that are silent are gone", func() bool { return len(alpha.sees()) <= all-silent })
		t.Logf("those that are silent are gone after %s", took)
		time.Sleep(time.Minute)
		if n := len(alpha.sees()); n != all-silent {
			t.Errorf("%d are there, want %d", n, all-silent)
		}
		alpha.kill()
		alpha = s.startWith("alpha", func(cfg *Config) { cfg.Self.Incarnation, cfg.Self.Nonce = 2, 0xcafe0002 })
		took = s.within(20*time.Second, "all have met alpha's next life", func() bool {
			for _, h := range hosts[silent:] {
				h.host.Ask(addrOf("alpha"))
			}
			return len(alpha.sees()) == all-silent
		})
		t.Logf("all have met alpha's next life after %s", took)
	})
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
