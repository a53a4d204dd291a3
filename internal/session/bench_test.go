package session

import (
	"net/netip"
	"testing"

	"github.com/bully-agent/bully-agent/wire"
)

// heartbeat is as long as the real one, with its magic.
func heartbeat() []byte {
	f := wire.Frame{Kind: wire.Heartbeat, Sender: testID(1)}
	return wire.Append(nil, &f)
}

// The whole way of a heartbeat through the table, and not its cipher alone.
func BenchmarkSealHeartbeat(b *testing.B) {
	r := newRig(b, 2)
	r.meet()
	h, to, frame := r.host(1), at(2), heartbeat()
	h.emit = func(netip.AddrPort, []byte) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Send(r.now, to, frame); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenHeartbeat(b *testing.B) {
	const many = 1000
	r := newRig(b, 2)
	r.meet()
	h, from, to, frame := r.host(2), at(1), at(2), heartbeat()
	var sent [][]byte
	r.host(1).emit = func(_ netip.AddrPort, p []byte) error {
		sent = append(sent, append([]byte(nil), p...))
		return nil
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%many == 0 {
			b.StopTimer()
			sent = sent[:0]
			for range many {
				_ = r.host(1).Send(r.now, to, frame)
			}
			b.StartTimer()
		}
		if inner, _, cause := h.Receive(r.now, from, sent[i%many]); inner == nil {
			b.Fatal(cause)
		}
	}
}

// What one handshake costs the one who is asked for it, curves and all.
func BenchmarkAnswerInit(b *testing.B) {
	r := newRig(b, 1)
	h := r.host(1)
	h.emit = func(netip.AddrPort, []byte) error { return nil }
	k := newSecret(testKey(1))
	number := h.number
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		number++
		r.now = r.now.Add(perSecond)
		h.door.bare = budget{}
		init, _, _ := newCall(nil, r.rand, k, scope{"home", h.at}, kindDatagrams, number, testHosts[9], cookie{})
		b.StartTimer()
		if _, _, cause := h.Receive(r.now, at(9), init); cause != CauseNone {
			b.Fatal(cause)
		}
	}
}

// What an attacker without a key costs with each INIT.
func BenchmarkForgedInit(b *testing.B) {
	r := newRig(b, 1)
	init, _, _ := newCall(nil, r.rand, newSecret(testKey(1)), scope{"home", at(1)}, kindDatagrams, 1<<61, testHosts[9], cookie{})
	init[handshakeSize-1] ^= 1
	b.ReportAllocs()
	for b.Loop() {
		if _, _, cause := r.host(1).Receive(r.now, at(9), init); cause != CauseMAC {
			b.Fatal(cause)
		}
	}
}

// The same with one that was captured: its MAC is right, and it was there before.
func BenchmarkRepeatedInit(b *testing.B) {
	r := newRig(b, 1)
	init, _, _ := newCall(nil, r.rand, newSecret(testKey(1)), scope{"home", at(1)}, kindDatagrams, 1<<61, testHosts[9], cookie{})
	r.host(1).Receive(r.now, at(9), append([]byte(nil), init...))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, cause := r.host(1).Receive(r.now, at(9), init); cause != CauseRepeated {
			b.Fatal(cause)
		}
	}
}

// To seal and to open a heartbeat allocates nothing.
func TestAHeartbeatAllocatesNothing(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	frame := heartbeat()
	var sealed []byte
	r.host(1).emit = func(_ netip.AddrPort, b []byte) error { sealed = append(sealed[:0], b...); return nil }
	r.say(1, 2, string(frame)) // makes room
	from, to, cause := at(1), at(2), CauseNone
	allocs := testing.AllocsPerRun(1000, func() {
		_ = r.host(1).Send(r.now, to, frame)
		_, _, cause = r.host(2).Receive(r.now, from, sealed)
	})
	if allocs != 0 || cause != CauseNone {
		t.Errorf("%v allocations, %v", allocs, cause)
	}
}
