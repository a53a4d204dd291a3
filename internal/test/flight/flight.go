// Package flight makes records for tests: hosts that elect a leader in virtual time, each
// by a clock of its own, with a flight recorder each.
package flight

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/record"
	"github.com/bully-agent/bully-agent/wire"
)

// What becomes of the hosts. All are the same in each flight.
const (
	latency = time.Millisecond
	memory  = 256 << 10 // of a ring: a few segments, and none is lost
	// Death is when the best host, the last, dies: by then it leads.
	Death = 4 * time.Second
	// Landing is when the records are taken.
	Landing = 40 * time.Second
	// Cluster is theirs.
	Cluster = "flight"
)

// Begin is true time at the beginning.
var Begin = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// Flight is some hosts in virtual time.
type Flight struct {
	now    time.Duration // true time since Begin
	hosts  []*host
	coming []arrival
	order  int
}

type host struct {
	name   string
	id     wire.ID
	addr   netip.AddrPort
	ahead  time.Duration // of its clock, and its wall clock
	nonce  uint32
	chance *rand.PCG
	node   *election.Node // nil: dead
	ring   *record.Ring
	taken  []byte // its record
}

type arrival struct {
	at    time.Duration
	order int
	to    *host
	ev    election.Event
}

// Records are those of one host for each clock, which is that far ahead of true time:
// alpha, beta, gamma and so on. The last of them, the best, leads and dies.
func Records(clocks ...time.Duration) [][]byte {
	f := &Flight{}
	for i, ahead := range clocks {
		f.hosts = append(f.hosts, newHost(i, ahead))
	}
	for _, h := range f.hosts {
		for _, other := range f.hosts {
			if h != other {
				f.after(100*time.Millisecond, h, election.MemberChanged{Member: election.Member{ID: other.id, Addr: other.addr, Incarnation: 1,
					Nonce: other.nonce, Priority: uint16(other.id[0]), Status: election.Alive}})
			}
		}
	}
	best := f.hosts[len(f.hosts)-1]
	f.until(Death)
	best.taken, best.node = f.take(best), nil
	f.until(Landing)
	var files [][]byte
	for _, h := range f.hosts {
		if h.taken == nil {
			h.taken = f.take(h)
		}
		files = append(files, h.taken)
	}
	return files
}

func newHost(i int, ahead time.Duration) *host {
	h := &host{name: [...]string{"alpha", "beta", "gamma", "delta"}[i], id: wire.ID{byte(i + 1), 6: 0x40, 8: 0x80}, ahead: ahead,
		addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 7950), nonce: uint32(1000 + i), chance: rand.NewPCG(1, uint64(i))}
	cfg := election.Config{ID: h.id, Nonce: h.nonce, Cluster: wire.ClusterHash(Cluster), Priority: uint16(h.id[0]), Settle: time.Second,
		Rand: rand.New(h.chance)}
	node, err := election.New(cfg, election.Saved{Incarnation: 1}, Begin.Add(ahead))
	if err != nil {
		panic(err)
	}
	h.node, h.ring = node, record.NewRing(make([]byte, memory))
	return h
}

func (f *Flight) clock(h *host) time.Time { return Begin.Add(f.now + h.ahead) }

func (f *Flight) after(d time.Duration, to *host, ev election.Event) {
	f.order++
	f.coming = append(f.coming, arrival{f.now + d, f.order, to, ev})
}

// until plays on.
func (f *Flight) until(end time.Duration) {
	for {
		next := arrival{at: end, order: math.MaxInt}
		for _, a := range f.coming {
			if cmp.Or(cmp.Compare(a.at, next.at), cmp.Compare(a.order, next.order)) < 0 {
				next = a
			}
		}
		for i, h := range f.hosts {
			if h.node == nil || h.node.Deadline().IsZero() {
				continue
			}
			if at := max(h.node.Deadline().Sub(Begin)-h.ahead, f.now); at < next.at {
				next = arrival{at: at, order: -1 - i, to: h, ev: election.Tick{}}
			}
		}
		f.now = next.at
		if next.to == nil {
			return
		}
		f.coming = slices.DeleteFunc(f.coming, func(a arrival) bool { return a.order == next.order })
		f.step(next.to, next.ev)
	}
}

func (f *Flight) step(h *host, ev election.Event) {
	if h.node == nil {
		return
	}
	now := f.clock(h)
	if h.ring.IsDue(ev) {
		chance, _ := h.chance.MarshalBinary()
		h.ring.Begin(now, now, chance, h.node.AppendPicture(nil))
	}
	effects := h.node.Step(now, ev)
	h.ring.Note(now, ev, effects)
	for _, e := range slices.Clone(effects) {
		f.apply(h, e)
	}
}

func (f *Flight) apply(h *host, e election.Effect) {
	switch e := e.(type) {
	case election.Send:
		for _, to := range f.hosts {
			if to.addr == e.To {
				f.after(latency, to, election.Received{From: h.addr, Frame: e.Frame})
			}
		}
	case election.StartHook:
		f.after(latency, h, election.HookEnded{Hook: e.Hook, Epoch: e.Epoch, OK: true})
	}
}

// take takes a host's record.
func (f *Flight) take(h *host) []byte {
	head := record.Header{Version: "v1.0.0", Schema: record.Schema(), Cluster: Cluster, Self: h.called(), Incarnation: 1, Nonce: h.nonce,
		Now: f.clock(h), Wall: f.clock(h)}
	for _, other := range f.hosts {
		if other != h {
			head.Members = append(head.Members, other.called())
		}
	}
	file := record.AppendHeader(nil, &head)
	first, end := h.ring.Segments()
	for number := first; number < end; number++ {
		var isThere bool
		if file, isThere = h.ring.AppendSegment(file, number); !isThere {
			panic(fmt.Sprint("BUG: no segment ", number))
		}
	}
	return record.AppendEnd(file, end-first)
}

func (h *host) called() record.Name {
	return record.Name{ID: h.id.String(), Name: h.name, Addr: h.addr}
}
