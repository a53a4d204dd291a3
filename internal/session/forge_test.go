package session

import (
	"bytes"
	"io"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/wire"
)

// counted counts the bytes that are drawn: a curve is never computed without an
// ephemeral key of 32.
type counted struct {
	io.Reader
	drawn int
}

func (c *counted) Read(b []byte) (int, error) {
	c.drawn += len(b)
	return c.Reader.Read(b)
}

// watch makes a host's random bytes countable.
func watch(h *host) *counted {
	c := &counted{Reader: h.rand}
	h.rand = c
	return c
}

// last is the newest datagram of a type on the wire.
func (r *rig) last(typ recordType) parcel {
	r.t.Helper()
	for i := len(r.tape) - 1; i >= 0; i-- {
		if r.tape[i].typ() == typ {
			return r.tape[i]
		}
	}
	r.t.Fatalf("no datagram of type %d was ever sent", typ)
	return parcel{}
}

// quietly runs f and checks that a host has sent nothing, opened nothing and computed
// no curve because of it.
func (r *rig) quietly(n int, f func(h *host)) {
	r.t.Helper()
	h := r.host(n)
	random, sent, got := watch(h), len(r.tape), len(h.got)
	f(h)
	if random.drawn > 0 {
		r.t.Errorf("%s drew %d random bytes: it computed a curve", h.name, random.drawn)
	}
	if len(r.tape) != sent || len(h.got) != got {
		r.t.Errorf("%s sent %d datagrams and opened %q", h.name, len(r.tape)-sent, h.got[got:])
	}
	h.rand = random.Reader
}

func TestAnotherClusterWithTheSameKeyCase3(t *testing.T) {
	r := newRig(t, 2)
	r.host(2).cluster = "other"
	r.say(1, 2, "one")
	r.say(2, 1, "two")
	r.run(5 * time.Second)
	r.expect(1)
	r.expect(2)
	for _, h := range r.hosts {
		if h.count[CausePrologue] == 0 || len(h.said) == 0 || h.said[0] != CausePrologue {
			t.Errorf("%s counted %d and told %v", h.name, h.count[CausePrologue], h.said)
		}
	}
}

func TestPlainFrameCase4(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	f := wire.Frame{Kind: wire.Heartbeat, Sender: testID(1)}
	r.quietly(2, func(h *host) {
		if cause := h.hear(r.now, at(1), wire.Append(nil, &f)); cause != CausePlain {
			t.Errorf("a plain frame: %v", cause)
		}
	})
}

func TestEveryBitOfInitCase12(t *testing.T) {
	r := newRig(t, 2)
	r.say(1, 2, "hello")
	init := r.last(typeInit).b
	r.quietly(2, func(h *host) {
		for bit := range (len(init) - cookieSize) * 8 { // nobody has asked for a cookie
			b := bytes.Clone(init)
			b[bit/8] ^= 1 << (bit % 8)
			if cause := h.hear(r.now, at(1), b); cause == CauseNone {
				t.Errorf("bit %d flipped: taken", bit)
			}
		}
		r.tape = r.tape[:1] // except for UNKNOWN, where the key's id was hit
	})
	r.run(time.Second)
	r.expect(2, "n1: hello")
}

func TestEveryBitOfDataCase13(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	r.lose = func(parcel) bool { return true }
	r.say(1, 2, "the truth")
	data := r.last(typeData).b
	h := r.host(2)
	p := h.only(t)
	r.quietly(2, func(*host) {
		before := p.cur.window
		for bit := range len(data) * 8 {
			b := bytes.Clone(data)
			b[bit/8] ^= 1 << (bit % 8)
			if cause := h.hear(r.now, at(1), b); cause == CauseNone {
				t.Errorf("bit %d flipped: taken", bit)
			}
		}
		if p.cur.window != before {
			t.Error("the window has moved")
		}
	})
	h.hear(r.now, at(1), data)
	r.expect(2, "n1: the truth")
}

// only is the host's one peer.
func (h *host) only(t testing.TB) *peer {
	t.Helper()
	if len(h.peers) != 1 {
		t.Fatalf("%s has %d peers, expected one", h.name, len(h.peers))
	}
	for _, p := range h.peers {
		return p
	}
	return nil
}

func TestEveryLengthCase14(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	r.lose = func(parcel) bool { return true }
	r.say(1, 2, "the truth")
	from := at(1)
	for _, typ := range []recordType{typeInit, typeResp, typeData} {
		whole := r.last(typ).b
		long := append(bytes.Clone(whole), make([]byte, 65507-len(whole))...)
		r.quietly(2, func(h *host) {
			for n := range long {
				if n == len(whole) {
					continue
				}
				b := long[:n]
				if n <= MaxDatagram {
					b = bytes.Clone(b) // what is decrypted is overwritten
				}
				if inner, _, cause := h.Receive(r.now, from, b); inner != nil || cause == CauseNone {
					t.Errorf("type %d with %d bytes: taken", typ, n)
				}
			}
		})
	}
}

func TestUnknownIndexIsOneLookUpCase15(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	b := appendHeader(nil, header{typ: typeData, index: 0x01020304})
	b = append(b, make([]byte, 200)...)
	r.quietly(2, func(h *host) {
		from := at(9)
		allocs := testing.AllocsPerRun(20_000, func() { h.Receive(r.now, from, b) })
		if allocs != 0 || h.count[CauseIndex] != 20_001 {
			t.Errorf("%v allocations, %d counted", allocs, h.count[CauseIndex])
		}
	})
	r.say(1, 2, "still here")
	r.run(time.Second)
	r.expect(2, "n1: still here")
}

func TestForgedInitIsOneMACCase16(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	init := bytes.Clone(r.last(typeInit).b)
	r.quietly(2, func(h *host) {
		before := usedTime(t)
		for i := range 20_000 {
			init[20], init[21] = byte(i), byte(i>>8)
			init[100]++
			h.hear(r.now, at(9), init)
		}
		const tenth = time.Second / 10                                      // of a core, for those of a second
		if used := usedTime(t) - before; used > tenth && !testing.Short() { // as the race detector is run, which takes most of it
			t.Errorf("20,000 took %v of a processor, and may take %v", used, tenth)
		}
		if h.count[CauseMAC] != 20_000 {
			t.Errorf("%d counted, expected 20,000", h.count[CauseMAC])
		}
	})
}

// usedTime is what this process has had of the processors: others on the machine add
// nothing to it.
func usedTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// No answer is longer than what it answers, whatever comes.
func TestReplyIsNeverLongerCase17(t *testing.T) {
	r := newRig(t, 2)
	r.add(3, testKey(2), testKey(3), testKey(4), testKey(5)) // knows none of the others' keys
	r.meetAll(1, 2)
	r.say(1, 3, "hello")
	r.run(3 * time.Second)
	answers := 0
	for i, p := range r.tape {
		if typ := p.typ(); typ != typeResp && typ != typeUnknown {
			continue
		}
		answers++
		asked := false
		for _, q := range r.tape[:i] {
			asked = asked || q.from == p.to && q.to == p.from && q.typ() == typeInit && len(q.b) >= len(p.b)
		}
		if !asked {
			t.Errorf("%d bytes to %s, who asked for none", len(p.b), p.to)
		}
	}
	if answers < 3 {
		t.Errorf("%d answers: this test saw too few", answers)
	}
}

// A holder of the key, or who replays what it captured, floods from 1,000 addresses: the
// curves are bounded, and sessions go on.
func TestFloodFromAThousandSourcesCase18(t *testing.T) {
	r := newRig(t, 2)
	r.meet()
	h := r.host(2)
	k := newSecret(testKey(1))
	number := uint64(r.now.UnixNano()) + 1<<40
	for range 3 { // seconds
		for i := range 2000 {
			number++
			init, _, _ := newCall(nil, r.rand, k, scope{"home", at(2)}, kindDatagrams, number, testHosts[i%200], cookie{})
			from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i % 1000 >> 8), byte(i % 1000)}), 7950)
			h.hear(r.now, from, init)
		}
		r.say(1, 2, "still here")
		r.run(time.Second)
		r.expect(2, "n1: still here")
	}
	answered := 0
	for _, p := range r.tape {
		if p.from == at(2) && p.typ() == typeResp {
			answered++
		}
	}
	if answered > 3*perSecond+1 || answered < perSecond {
		t.Errorf("%d INITs without a cookie answered in three seconds, expected at most %d a second", answered, perSecond)
	}
	r.run(time.Minute)
	if len(h.peers) != 1 {
		t.Errorf("%d peers a minute later, expected one: nobody else was proven", len(h.peers))
	}
}

func TestRespWithoutInitCase19(t *testing.T) {
	r := newRig(t, 2)
	r.say(1, 2, "hello")
	r.run(time.Second)
	resp := r.last(typeResp).b
	r.quietly(1, func(h *host) {
		if cause := h.hear(r.now, at(2), resp); cause != CauseIndex {
			t.Errorf("RESP that nobody waits for: %v", cause)
		}
	})
	// One that answers another INIT does not fit the one that waits, index and number apart.
	r.lose = func(parcel) bool { return true }
	r.say(1, 9, "hello")
	other := bytes.Clone(resp)
	copy(other[4:], r.last(typeInit).b[headerSize:headerSize+4])
	copy(other[8:16], r.last(typeInit).b[8:16])
	r.quietly(1, func(h *host) {
		if cause := h.hear(r.now, at(2), other); cause != CauseMAC {
			t.Errorf("RESP to another INIT: %v", cause)
		}
	})
}

// meetAll makes a session of each pair of the hosts named.
func (r *rig) meetAll(ns ...int) {
	for _, i := range ns {
		for _, j := range ns {
			if i != j {
				r.say(i, j, "hello")
			}
		}
	}
	r.run(time.Second)
	for _, h := range r.hosts {
		h.got = nil
	}
}
