package e2e

import (
	"context"
	"crypto/rand"
	bigendian "encoding/binary"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/lab/netlab"
	"github.com/bully-agent/bully-agent/internal/sealed"
	"github.com/bully-agent/bully-agent/internal/sim"
	"github.com/bully-agent/bully-agent/internal/test/attack"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// insider is a program on the attacker's host that is a member: it has the key that the others have, be it the one that everybody
// has, and an id of its own. It observes, so that it learns who is there and never leads.
type insider struct {
	*attacker
	ring    key.Ring
	private identity.Private
	life    [8]byte
	seal    *sealed.LAN
	members *membership.Membership

	mu    sync.Mutex
	heard func(from netip.AddrPort, f wire.Frame)
}

// join makes the attacker a member too.
func (a *attacker) join() *insider {
	t := a.lan.t
	t.Helper()
	i := &insider{attacker: a, ring: key.Open()}
	var err error
	if !a.lan.insecure {
		i.ring, err = key.Read(a.lan.key())
		must(t, err)
	}
	i.private, err = identity.Generate(rand.Reader)
	must(t, err)
	_, _ = rand.Read(i.life[:])
	must(t, a.net.Within(i.open))
	ctx, leave := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(i.read)
	ended.Go(func() { _ = i.members.Rejoin(ctx) })
	t.Cleanup(func() {
		leave()
		_ = i.members.Shutdown() // the port as well
		ended.Wait()
	})
	a.inside = i
	return i
}

// open listens in the namespace of the calling thread.
func (i *insider) open() error {
	below, err := transport.Listen(transport.Config{Bind: i.own})
	if err != nil {
		return err
	}
	i.seal, err = sealed.Wrap(lodger{below, i.net}, sealed.Config{Cluster: clusterName, Key: i.private, Incarnation: 1, Life: i.life, Keys: i.ring})
	if err != nil {
		return err
	}
	var seeds []string
	for _, h := range i.lan.hosts {
		seeds = append(seeds, h.addr.String())
	}
	self := membership.Member{ID: i.id(), Name: attackerName, Incarnation: 1, Nonce: bigendian.BigEndian.Uint32(i.life[:]), Role: membership.Observer}
	i.members, err = membership.New(membership.Config{Self: self, Cluster: clusterName, Transport: i.seal, Seeds: seeds, Sessions: i.seal})
	return err
}

// lodger opens its streams on its host, whatever goroutine asks.
type lodger struct {
	*transport.Transport
	host *netlab.Host
}

func (l lodger) Dial(to netip.AddrPort, timeout time.Duration) (conn net.Conn, err error) {
	err = l.host.Within(func() (err error) {
		conn, err = l.Transport.Dial(to, timeout)
		return err
	})
	return conn, err
}

func (i *insider) id() wire.ID { return i.private.Public().ID() }

func (i *insider) read() {
	for b := make([]byte, wire.MaxFrame+1); ; {
		n, from, err := i.seal.ReadFrame(b)
		if err != nil {
			return
		}
		var f wire.Frame
		i.mu.Lock()
		if i.heard != nil && wire.Parse(b[:n], &f) == nil {
			i.heard(from, f)
		}
		i.mu.Unlock()
	}
}

// hears has each frame that comes from now on told to somebody.
func (i *insider) hears(tell func(from netip.AddrPort, f wire.Frame)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.heard = tell
}

// spies waits until the insider knows all hosts that run, and has the attacker know what it does.
func (i *insider) spies(hosts ...*host) {
	t := i.lan.t
	t.Helper()
	i.lan.eventually("the insider knows all", 20*time.Second, func() error {
		met := map[string]membership.Member{}
		for _, m := range i.members.Known() {
			met[m.Name] = m
		}
		for _, h := range hosts {
			m, known := met[h.name]
			if !known || m.Status != membership.Alive {
				return fmt.Errorf("it does not know %s", h)
			}
			i.learn(h, m)
		}
		return nil
	})
}

// itself is what the insider says of itself in frames of its own.
func (i *insider) itself() attack.Peer {
	p := i.forge.Stranger()
	p.Addr = i.own
	p.Frame.Sender, p.Frame.Incarnation, p.Frame.Nonce = i.id(), 1, bigendian.BigEndian.Uint32(i.life[:])
	return p
}

// tells says something in the insider's own sessions: a frame, or gossip. What no session carries is not said.
func (i *insider) tells(to netip.AddrPort, payload []byte) {
	if len(payload) > 1 && payload[0] == wire.Magic0 && payload[1] == wire.Magic1 {
		_ = i.seal.SendFrame(to, payload)
		return
	}
	_, _ = i.seal.WriteToAddress(payload, memberlist.Address{Addr: to.String()})
}

// impersonate says to h that it is the agent's other copy, as a frame of the insider's, and answers what h asks.
func (i *insider) impersonate(h *host, p attack.Peer) {
	i.lan.t.Helper()
	i.hears(func(from netip.AddrPort, f wire.Frame) {
		if from == h.addr && f.Kind == wire.Probe {
			reply := i.forge.As(p, from, wire.Frame{Kind: wire.ProbeAck, Seq: 2, Standing: wire.Following, Round: f.Round, EchoSeq: f.Seq})
			go i.tells(from, i.know.Say(reply))
		}
	})
	i.say(p, h, wire.Frame{Kind: wire.Probe, Purpose: wire.AskOpinion, Round: 1})
}

// Of an insider's campaign.
const (
	hearsayRate = 200 // a second, of frames in others' names and gossip about them
	slowCalls   = 10  // INITs a second
	fastCalls   = 1000
)

// campaign has the insider say what is false of others, in its own sessions, and begin sessions as from everywhere, now few and
// now many a second.
func (i *insider) campaign(ctx context.Context, d time.Duration) {
	i.lan.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { i.lie(ctx) })
	calls := 0
	for turn := 0; ctx.Err() == nil; turn++ {
		rate := slowCalls
		if turn%2 == 1 {
			rate = fastCalls
		}
		calls += i.call(ctx, rate, 2*time.Second)
	}
	all.Wait()
	i.lan.t.Logf("the insider began %d sessions; its port says %+v", calls, i.seal.Report().Dropped)
}

// lie tells everybody what is false of the others until ctx ends.
func (i *insider) lie(ctx context.Context) {
	liar := attack.Forger{Know: i.know, Own: i.own, Targets: i.forge.Targets, Random: attack.NewRandom(mathrand.Uint64())}
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second / hearsayRate):
		}
		p := liar.Whisper(attack.Gossip{Cluster: clusterName})
		if n%2 == 0 {
			p = liar.Frame()
		}
		i.tells(p.To, p.Payload)
	}
}

// call sends INITs that are right, from the insider's own address, from its hosts' and from nowhere, and gives how many.
func (i *insider) call(ctx context.Context, rate int, d time.Duration) (calls int) {
	gun, err := i.newGun()
	must(i.lan.t, err)
	defer gun.Close()
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	caller := attack.Caller{Cluster: clusterName, Ring: i.ring, Key: i.private}
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for ; ; calls++ {
		select {
		case <-ctx.Done():
			return calls
		case <-tick.C:
		}
		to := i.lan.hosts[mathrand.IntN(len(i.lan.hosts))].addr
		if err := gun.Fire(attack.Packet{From: i.anywhere(to), To: to, Payload: caller.Init(to)}); err != nil {
			i.lan.t.Error(err)
			return calls
		}
	}
}

// anywhere is an address other than to.
func (i *insider) anywhere(to netip.AddrPort) netip.AddrPort {
	nowhere := crowd.Addr().As4()
	nowhere[3] = byte(1 + mathrand.IntN(254))
	all := []netip.AddrPort{i.own, netip.AddrPortFrom(netip.AddrFrom4(nowhere), port)}
	for _, h := range i.lan.hosts {
		if h.addr != to {
			all = append(all, h.addr)
		}
	}
	return all[mathrand.IntN(len(all))]
}

// Whoever is a member in its own right, by the cluster's key or in a cluster without one, lies about the others and begins
// sessions from everywhere. Nobody leads, follows or joins for that, no hook runs, nothing false comes on a disk, and jobs run on.
func TestUnderAttackFromInside(t *testing.T) {
	needsLAN(t)
	for _, open := range []bool{false, true} {
		t.Run(keyWords(open), func(t *testing.T) {
			l := newLAN(t, 5, "--log-level", "info")
			l.insecure = open
			starts := l.withJobs(jobTable)
			a := l.invade()
			l.start()
			best := l.best()
			l.agreeOn(best)
			i := a.join()
			i.spies(l.hosts...)
			time.Sleep(2 * time.Second) // what follows a start has been told
			was, hooks := changes(l.hosts), l.journal.read()
			l.withstand(func() { i.campaign(context.Background(), attackLength()) })
			if now := changes(l.hosts); !maps.Equal(now, was) {
				t.Errorf("changes before: %v; after: %v; of those told last: %q", was, now, transitions(l.hosts))
			}
			if now := l.journal.read(); len(now) != len(hooks) {
				t.Errorf("hooks ran:\n%s", timeline(now[len(hooks):]))
			}
			l.agreeOn(best)
			l.led(best)
			for _, h := range l.hosts {
				s, err := h.status()
				must(t, err)
				t.Logf("%s counted %v", h, s.Counters)
				if s.Counters["seal_dropped_sender"] == 0 {
					t.Errorf("%s has dropped no frame in another's name: this test tests nothing", h)
				}
			}
			l.eventually("all know each other as before", 20*time.Second, l.allAreThere)
			l.eventually("a job runs", 30*time.Second, l.aJobRuns(starts))
			for _, h := range l.hosts {
				h.stop()
			}
			for _, h := range l.hosts {
				for _, lie := range h.lies("skip", "once", "all", "long") {
					t.Errorf("on the disk of %s: %s", h, lie)
				}
			}
		})
	}
}

func keyWords(open bool) string {
	if open {
		return "without a key"
	}
	return "with a key"
}

// allAreThere is nil if each host takes each other one for alive and at its address.
func (l *lan) allAreThere() error {
	for _, h := range l.hosts {
		alive := map[string]bool{}
		for _, m := range h.members() {
			if m.Name == attackerName {
				continue
			}
			if at := l.addressOf(m.Name); m.Status == "alive" && m.Addr != at {
				return fmt.Errorf("%s takes %s for alive at %s, and it is at %s", h, m.Name, m.Addr, at)
			}
			alive[m.Name] = m.Status == "alive"
		}
		for _, other := range l.except(h) {
			if !alive[other.name] {
				return fmt.Errorf("%s does not take %s for alive", h, other)
			}
		}
	}
	return nil
}

// ploy is what somebody did with the cluster's key, a bound program and one host, when that was enough to be any host.
type ploy struct {
	name    string
	options []string
	late    bool // the best host starts meanwhile
	play    func(i *insider, victim *host, until <-chan struct{})
}

var ploys = []ploy{
	{name: "a later life of the leader, said once", play: func(i *insider, victim *host, _ <-chan struct{}) {
		life := i.lifeOf(victim)
		life.Nonce, life.Incarnation = 0x5ec5ec01, 1<<32-1
		i.gossip(i.lan.hosts[0], life.Alive())
	}},
	{name: "the next life of the leader, again and again", play: func(i *insider, victim *host, until <-chan struct{}) {
		life := i.lifeOf(victim)
		life.Incarnation++
		every(100*time.Millisecond, until, func() {
			life.Nonce, life.Gossip = life.Nonce+1, life.Gossip+1
			i.gossip(i.lan.hosts[0], life.Alive())
		})
	}},
	{name: "a member that is not there, made up", late: true, play: func(i *insider, victim *host, until <-chan struct{}) {
		life := i.lifeOf(i.lan.hosts[0])
		life.ID, life.Nonce, life.Addr = wire.ID{0: 0xdd, 6: 0x40, 8: 0x80}, 5, i.own
		every(50*time.Millisecond, until, func() {
			life.Gossip++
			i.gossip(i.lan.hosts[0], life.Alive())
			i.gossip(victim, life.Alive())
		})
	}},
	{name: "a namesake at the leader's own address", play: func(i *insider, victim *host, until <-chan struct{}) {
		posing := i.poses(victim)
		p := i.peer(victim)
		every(100*time.Millisecond, until, func() {
			for _, h := range i.lan.except(victim) {
				frame := i.forge.As(p, h.addr, wire.Frame{Kind: wire.ResignAck})
				_ = posing.SendFrame(h.addr, i.know.Say(frame))
				frame.Sender = i.id()
				_ = posing.SendFrame(h.addr, i.know.Say(frame)) // which would prove that the insider is at that address
			}
		})
	}},
	{name: "a voter that grants whatever one asks", options: []string{"--expect", "3"}, play: func(i *insider, victim *host, until <-chan struct{}) {
		seduced, voter := i.lan.hosts[0], i.lan.hosts[1]
		p := i.peer(voter)
		i.hears(func(from netip.AddrPort, f wire.Frame) {
			if answer, ok := sim.Granted(&f); ok && from == seduced.addr {
				go i.tells(from, i.know.Say(i.forge.As(p, from, answer)))
			}
		})
		leader, beat, _ := i.know.Leader()
		every(100*time.Millisecond, until, func() {
			i.say(leader, seduced, wire.Frame{Kind: wire.Resign, Epoch: beat.Epoch, Reason: wire.Transfer, Successor: i.peer(seduced).Frame.Sender})
			i.say(p, seduced, wire.Frame{Kind: wire.Query, Flags: wire.AckReq})
		})
	}},
	{name: "an epoch far ahead, as a leader of its own", options: []string{"--expect", "3"}, play: func(i *insider, _ *host, until <-chan struct{}) {
		_, beat, _ := i.know.Leader()
		far, seq := wire.Epoch{Counter: beat.Epoch.Counter + 1<<20, Owner: i.id()}, uint32(0)
		every(20*time.Millisecond, until, func() {
			seq++
			i.sayAll(i.itself(), i.lan.hosts, wire.Frame{Kind: wire.Heartbeat, Seq: seq, Flags: wire.Active, Epoch: far, Lease: 400, Interval: 50})
		})
	}},
}

// every does something now and then until it is time to end.
func every(d time.Duration, until <-chan struct{}, do func()) {
	for {
		do()
		select {
		case <-until:
			return
		case <-time.After(d):
		}
	}
}

// lifeOf is what gossip says of the agent on h.
func (i *insider) lifeOf(h *host) attack.Life {
	return i.know.LifeOf(i.peer(h))
}

// poses opens another port of the insider's, which says to be at a host's address.
func (i *insider) poses(as *host) *sealed.LAN {
	i.lan.t.Helper()
	var below *transport.Transport
	must(i.lan.t, i.net.Within(func() (err error) {
		below, err = transport.Listen(transport.Config{Bind: netip.AddrPortFrom(i.own.Addr(), port+1)})
		return err
	}))
	posing, err := sealed.Wrap(lodger{below, i.net}, sealed.Config{Cluster: clusterName, Key: i.private, Incarnation: 2, Life: [8]byte{9}, Keys: i.ring, Advertise: as.addr})
	must(i.lan.t, err)
	var ended sync.WaitGroup
	ended.Go(func() {
		for b := make([]byte, wire.MaxFrame+1); ; {
			if _, _, err := posing.ReadFrame(b); err != nil {
				return
			}
		}
	})
	i.lan.t.Cleanup(func() {
		_ = posing.Shutdown()
		ended.Wait()
	})
	return posing
}

// A holder of the key could once play any host: have two lead in quorum mode, lock a member out by one datagram, and end who starts.
// Now it is a member with an id of its own. While it plays, the best leads on, and after that each host can be restarted.
func TestAnInsidersPloysFail(t *testing.T) {
	needsLAN(t)
	for _, p := range ploys {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3, append(p.options, "--log-level", "info")...)
			i := l.invade().join()
			best, start := l.best(), l.hosts
			if p.late {
				start = start[:2]
			}
			l.start(start...)
			l.agreeOn(start[len(start)-1])
			i.spies(start...)
			time.Sleep(time.Second) // what follows a start has been told
			was := len(l.journal.becomes())
			until, over := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(over)
				p.play(i, best, until)
			}()
			if p.late {
				time.Sleep(time.Second)
				best.start()
				l.agreeOn(best)
				was++
			}
			l.steady(best, 6*time.Second)
			if now := l.journal.becomes(); len(now) != was {
				t.Errorf("%v began to lead", now)
			}
			must(t, l.allAreThere())
			close(until)
			<-over
			for _, h := range l.hosts {
				h.stop()
				h.start()
				l.agreeOn(best)
				l.eventually("all know each other", 20*time.Second, l.allAreThere) // or a hand-over could be to a host that a third has not met
			}
			for _, h := range l.hosts {
				if s, err := h.status(); err != nil || s.Epoch.Counter > 100 {
					t.Errorf("%s is at epoch %d (%v)", h, s.Epoch.Counter, err)
				}
			}
		})
	}
}
