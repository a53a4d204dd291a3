package session

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/wire"
)

// rig is a few tables in virtual time, with a wire between that a test can read, lose
// from and put into.
type rig struct {
	t     testing.TB
	now   time.Time
	hosts []*host
	wire  []parcel // under way
	tape  []parcel // all that was ever sent
	lose  func(parcel) bool
	delay time.Duration
	rand  *rand.ChaCha8
	lives lives
	disks map[int][]Receipt // what each host's next life is begun with
}

// lives counts those of each host.
type lives map[int]uint32

func (l lives) next(n int) uint32 {
	l[n]++
	return l[n]
}

type parcel struct {
	from, to netip.AddrPort
	b        []byte
	at       time.Time // of its arrival
}

func (p parcel) typ() recordType { return recordType(p.b[2] & 0x0F) }

type host struct {
	*Table
	name string
	at   netip.AddrPort
	got  []string // what was opened: "from: text"
	said []Cause  // what people were told
	here []string // who has shown itself: "host at address: card"
	old  []uint32 // lives of its own that were proven to be later than the present one
	shut []bool   // what it was told of the gate
	off  bool
}

func testKey(n byte) key.Key {
	k := key.Key{Secret: sha256.Sum256([]byte{n})}
	k.ID = key.IDOf(k.Secret)
	return k
}

// testPrivate is the private key of a host.
func testPrivate(n int) identity.Private { return identity.FromBytes(testScalar(n)) }

func testScalar(n int) [keySize]byte { return [keySize]byte{1: byte(n), 31: 1} }

// testHosts are the keys of hosts 0 to 255, and names who has an id.
var testHosts, names = func() (all [256]hostKey, names map[wire.ID]string) {
	names = make(map[wire.ID]string)
	for n := range all {
		all[n] = newHostKey(X25519, testPrivate(n), 1, [8]byte{})
		names[all[n].life.ID] = fmt.Sprintf("n%d", n)
	}
	return all, names
}()

func testID(n int) wire.ID { return testHosts[n].life.ID }

func at(n int) netip.AddrPort { return netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:7950", n)) }

func newRig(t testing.TB, n int) *rig {
	r := &rig{t: t, now: time.Unix(1_000_000, 0), delay: 100 * time.Microsecond, rand: rand.NewChaCha8([32]byte{1}), lives: make(lives), disks: make(map[int][]Receipt)}
	for i := 1; i <= n; i++ {
		r.add(i, testKey(1))
	}
	return r
}

// add starts a host; one that was there before has ended.
func (r *rig) add(n int, keys ...key.Key) *host {
	h := &host{name: fmt.Sprintf("n%d", n), at: at(n)}
	var life [8]byte
	_, _ = r.rand.Read(life[:])
	key := testPrivate(n)
	h.Table = New(Config{Key: key, Incarnation: r.lives.next(n), Random: life, Addr: h.at, Cluster: "home", Rand: r.rand, Receipts: r.disks[n],
		Emit: func(to netip.AddrPort, b []byte) error {
			if !h.off {
				r.put(h.at, to, b)
			}
			return nil
		},
		Older: func(incarnation uint32) { h.old = append(h.old, incarnation) },
		Note:  func(n Trouble) { h.said = append(h.said, n.Cause) },
		Shown: func(s Shown) { h.here = append(h.here, fmt.Sprintf("%s at %v: %s", names[s.ID], s.Addr, s.Card)) },
		Shut:  func(isShut bool) { h.shut = append(h.shut, isShut) }})
	h.SetKeys(r.now, keys)
	for i, other := range r.hosts {
		if other.at == h.at {
			other.off = true
			r.hosts[i] = h
			return h
		}
	}
	r.hosts = append(r.hosts, h)
	return h
}

// asked is how long a life is held whose host has started again on this network (S17).
const asked = (clashAsks + 1) * callLeast

func (r *rig) put(from, to netip.AddrPort, b []byte) {
	p := parcel{from, to, bytes.Clone(b), r.now.Add(r.delay)}
	r.tape = append(r.tape, p)
	if r.lose == nil || !r.lose(p) {
		r.wire = append(r.wire, p)
	}
}

func (r *rig) host(n int) *host { return r.hosts[n-1] }

// run lets time pass: parcels arrive in order, and each table's tick is called when it asks.
func (r *rig) run(d time.Duration) {
	end := r.now.Add(d)
	for steps := 0; ; steps++ {
		if steps > 1_000_000 {
			r.t.Fatal("the tables never rest")
		}
		next, what := end.Add(1), func() {}
		if len(r.wire) > 0 && r.wire[0].at.Before(next) {
			next, what = r.wire[0].at, r.deliver
		}
		for _, h := range r.hosts {
			if !h.off && !h.due.IsZero() && h.due.Before(next) {
				next, what = h.due, func() { h.Tick(r.now) }
			}
		}
		if next.After(end) {
			r.now = end
			return
		}
		if next.After(r.now) {
			r.now = next
		}
		what()
	}
}

func (r *rig) deliver() {
	p := r.wire[0]
	r.wire = r.wire[1:]
	for _, h := range r.hosts {
		if h.at == p.to && !h.off {
			h.hear(r.now, p.from, p.b)
		}
	}
}

// hear gives a host a datagram, whoever sent it.
func (h *host) hear(now time.Time, from netip.AddrPort, b []byte) Cause {
	inner, p, cause := h.Receive(now, from, bytes.Clone(b))
	if inner != nil {
		h.got = append(h.got, fmt.Sprintf("%s: %s", names[p.ID], inner))
	}
	return cause
}

func (r *rig) say(from, to int, text string) {
	r.t.Helper()
	if err := r.host(from).Send(r.now, at(to), []byte(text)); err != nil {
		r.t.Fatalf("n%d says %q: %v", from, text, err)
	}
}

// expect checks what a host has opened since the last time, in any order.
func (r *rig) expect(n int, want ...string) {
	r.t.Helper()
	h := r.host(n)
	if fmt.Sprint(h.got) != fmt.Sprint(want) {
		r.t.Errorf("%s opened %q, expected %q", h.name, h.got, want)
	}
	h.got = nil
}

// meet makes a session of each pair.
func (r *rig) meet() {
	for i := range r.hosts {
		for j := range r.hosts {
			if i != j {
				r.say(i+1, j+1, "hello")
			}
		}
	}
	r.run(time.Second)
	for _, h := range r.hosts {
		if len(h.got) != len(r.hosts)-1 {
			r.t.Fatalf("%s opened %q: they have not met", h.name, h.got)
		}
		h.got = nil
	}
}
