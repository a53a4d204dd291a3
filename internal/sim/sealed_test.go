package sim

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// TestSealedSchedules: with sessions between the agents and the network all that is promised without them holds.
func TestSealedSchedules(t *testing.T) {
	count := uint64(10) // beside those of TestSchedules
	if isLong() {
		count = 60
	}
	first, count := number(t, "BULLY_SEED", 1), number(t, "BULLY_SCHEDULES", count)
	var total tally
	for seed := first; seed < first+count; seed++ {
		play(t, Options{Seed: seed, Port: SealedPort}, &total)
	}
	t.Logf("%d schedules, %.1f cluster-hours, %d violations", count, total.hours, total.failed)
}

// A quarter of the schedules draw it, say so in the first line of the trace, and repeat to the byte.
func TestAQuarterOfTheSchedulesIsSealed(t *testing.T) {
	sealed := 0
	const seeds = 400
	for seed := range uint64(seeds) {
		w := newWorld(&Options{Seed: seed})
		if w.ports.isSealed {
			sealed++
		}
		if w.ports.isSealed != strings.Contains(w.describe(), ", sealed") {
			t.Errorf("seed %d: sealed %t, and described as %s", seed, w.ports.isSealed, w.describe())
		}
		if old := newWorld(&Options{Seed: seed, Usual: true}); old.ports.isSealed {
			t.Errorf("seed %d: sealed in its usual form", seed)
		}
	}
	if sealed < seeds/5 || sealed > seeds*3/10 {
		t.Errorf("%d of %d schedules are sealed", sealed, seeds)
	}
}

// TestSealedSchedulesRepeat: the chance of handshakes is the seed's too.
func TestSealedSchedulesRepeat(t *testing.T) {
	count := uint64(2) // one of each attack
	if isLong() {
		count = 20
	}
	for seed := uint64(1); seed <= count; seed++ {
		o := Options{Seed: seed, Port: SealedPort, Attack: []Attack{NoAttack, Insider}[seed%2]}
		a, b := story(o, 1_000_000), story(o, 1_000_000)
		if a != b || len(a) < 1000 || !strings.Contains(a, ", sealed") {
			t.Fatalf("seed %d: two traces of %d and %d bytes differ, or tell nothing of the port", seed, len(a), len(b))
		}
		first, second := Run(o), Run(o)
		if first.Hash != second.Hash || first.Steps != second.Steps {
			t.Fatalf("seed %d: two runs differ: hash %x and %x", seed, first.Hash, second.Hash)
		}
	}
}

// The model of the curve changes nothing but the bytes of sealed datagrams: with X25519 the traces are the same, whoever attacks.
func TestTheModelOfTheCurveChangesNothing(t *testing.T) {
	for seed, attack := range []Attack{NoAttack, Forger, Insider} {
		o := Options{Seed: uint64(seed + 1), Port: SealedPort, Attack: attack, Beats: true}
		modelled := story(o, 1_000_000)
		o.x25519 = true
		if shipped := story(o, 1_000_000); shipped != modelled {
			t.Errorf("seed %d: the traces of %d and %d bytes differ", o.Seed, len(modelled), len(shipped))
		}
	}
}

// calmSealed is a group with sealed ports in which nothing goes wrong by itself, and all follow the last machine.
func calmSealed(t *testing.T, o Options) *World { return calmSealedOf(t, o, profiles[0]) }

// profile is a preset of heartbeat and lease.
type profile = struct{ heartbeat, lease, stop time.Duration }

func calmSealedOf(t *testing.T, o Options, p profile) *World {
	t.Helper()
	o.Port = SealedPort
	return calmOf(t, o, p)
}

// calmOf is a group that has agreed in calm weather.
func calmOf(t *testing.T, o Options, p profile) *World {
	t.Helper()
	o.Usual, o.noJobs, o.Algorithm = true, true, election.Classic
	if o.Attack == AnyAttack {
		o.Attack = NoAttack
	}
	w := newCalm(&o)
	w.base.Heartbeat, w.base.Lease, w.base.StopBudget = p.heartbeat, p.lease, p.stop
	w.populate()
	w.castAlike()
	w.record = newRecord(w.net.size)
	w.raging = true
	for _, m := range w.machines {
		w.boot(m)
	}
	if !w.agreeBy(int64(time.Minute), 20*time.Millisecond) {
		t.Fatal("no agreement in calm weather")
	}
	w.runUntil(w.now+int64(3*time.Second), nil)
	return w
}

// tableOf is the sessions of a machine's life.
func tableOf(m *machine) *sealedPort { return m.lan.(*sealedPort) }

// hearsFrom counts the frames that come to m, in its own process.
func (w *World) hearsFrom(m *machine, for_ time.Duration) (frames int) {
	before := w.observer
	defer func() { w.observer = before }()
	w.observer = func(who *machine, _ time.Time, ev election.Event, step func() []election.Effect) []election.Effect {
		if _, isFrame := ev.(election.Received); isFrame && who == m {
			frames++
		}
		return step()
	}
	w.runUntil(w.now+int64(for_), nil)
	return frames
}

// The frame that a host begins a session with takes three ways: INIT, RESP, and then the frame. The next takes one.
func TestAHandshakeCostsARoundTrip(t *testing.T) {
	w := newCalm(&Options{Seed: 1, Nodes: 2, Port: SealedPort, Usual: true, noJobs: true, Attack: NoAttack})
	w.weather = weather{delay: time.Millisecond}
	w.populate()
	w.record = newRecord(w.net.size)
	a, b := w.machines[0], w.machines[1]
	for _, m := range w.machines {
		m.nonce = 1
		m.lan = w.newPort(m)
	}
	took := func() time.Duration {
		began := w.now
		f := wire.Frame{Kind: wire.Leave, Sender: a.id, Incarnation: a.disk.state.Incarnation, Nonce: a.nonce}
		a.lan.send(b.addr(), wire.Append(nil, &f))
		var at int64
		for w.now < began+int64(100*time.Millisecond) && at == 0 {
			p := w.timeline.next()
			w.now = p.at
			switch {
			case p.kind != arrival:
				p.do()
			default:
				if inner, _ := p.frame.to.lan.receive(p.frame); inner != nil {
					at = w.now
				}
			}
		}
		return time.Duration(at - began)
	}
	if first, second := took(), took(); first != 3*time.Millisecond || second != time.Millisecond {
		t.Errorf("the first frame took %v, the second %v", first, second)
	}
}

// A frame that names another host than the session's is dropped at the port (S11).
func TestThePortDropsFramesOfOthers(t *testing.T) {
	w := calmSealed(t, Options{Seed: 1, Nodes: 3})
	a, b, c := w.machines[0], w.machines[1], w.machines[2]
	opened := 0
	w.observer = func(m *machine, _ time.Time, ev election.Event, step func() []election.Effect) []election.Effect {
		if r, is := ev.(election.Received); is && m == b && r.Frame.Kind == wire.Leave {
			opened++
		}
		return step()
	}
	for _, sender := range []*machine{c, a} {
		f := wire.Frame{Kind: wire.Leave, Sender: sender.id, Incarnation: sender.disk.state.Incarnation, Nonce: sender.nonce}
		a.lan.send(b.addr(), wire.Append(nil, &f))
	}
	w.runUntil(w.now+int64(10*time.Millisecond), nil)
	if opened != 1 {
		t.Errorf("%d frames reached the agent, expected that of the sender alone", opened)
	}
}

// I16 and I17 bite: a datagram that opens, though a copy of it was opened or nobody has sealed it for this host, is a violation.
func TestWhatOpensIsJudged(t *testing.T) {
	for _, c := range []struct {
		name      string
		invariant int // 0: none is broken
		mar       func(p *packet)
	}{
		{"as it was sealed", 0, func(*packet) {}},
		{"the first of two copies", 0, func(p *packet) { p.twin = &twin{life: p.to.life - 1} }},
		{"the second copy", 16, func(p *packet) { p.twin = &twin{life: p.to.life} }},
		{"changed on its way, or for another", 17, func(p *packet) { p.nature = alien }},
	} {
		w := calmSealed(t, Options{Seed: 1, Nodes: 3})
		a, b := w.machines[0], w.machines[1]
		p := &packet{from: a, to: b, source: a.addr(), port: b.port, life: b.life}
		w.ports.tap = func(_ netip.AddrPort, bytes []byte) bool {
			p.bytes = slices.Clone(bytes)
			return true
		}
		f := wire.Frame{Kind: wire.Leave, Sender: a.id, Incarnation: a.disk.state.Incarnation, Nonce: a.nonce}
		a.lan.send(b.addr(), wire.Append(nil, &f))
		c.mar(p)
		if frame, _ := b.lan.receive(p); frame == nil {
			t.Errorf("%s: it does not open", c.name)
		}
		broken := 0
		if w.failure != nil {
			broken = w.failure.Invariant
		}
		if broken != c.invariant {
			t.Errorf("%s: I%d is broken, want I%d", c.name, broken, c.invariant)
		}
	}
}

// The oracle does what sessions do: it hands a frame over once, as it was sent, to the life that it is for.
func TestTheClearPortIsThePortsPromise(t *testing.T) {
	w := newCalm(&Options{Seed: 1, Nodes: 2, Usual: true, noJobs: true, Attack: NoAttack})
	w.populate()
	a, b := w.machines[0], w.machines[1]
	b.lan, b.life = w.newPort(b), 1
	var copies twin
	for _, c := range []struct {
		name string
		p    packet
		is   bool
	}{
		{"a frame", packet{}, true},
		{"the first of two copies", packet{twin: &copies}, true},
		{"the second copy, though the first was late", packet{twin: &copies}, false},
		{"damaged, or for another", packet{nature: alien}, false},
		{"for the life before", packet{life: -1}, false},
	} {
		p := c.p
		p.bytes, p.from, p.to, p.source, p.life = wire.Append(nil, &wire.Frame{Kind: wire.Leave, Sender: a.id}), a, b, a.addr(), p.life+b.life
		if frame, _ := b.lan.receive(&p); (frame != nil) != c.is {
			t.Errorf("%s: taken %t", c.name, frame != nil)
		}
	}
}

// A process that was stopped reads its socket when it goes on, and time has passed for its sessions.
func TestAStoppedProcessReadsLater(t *testing.T) {
	w := calmSealed(t, Options{Seed: 1, Nodes: 3})
	m := w.machines[0]
	w.freeze(m, Freeze, 100*time.Millisecond)
	if n := w.hearsFrom(m, 90*time.Millisecond); n != 0 || len(tableOf(m).unread) == 0 {
		t.Errorf("%d frames reached a process that is stopped, and %d lie in its socket", n, len(tableOf(m).unread))
	}
	if n := w.hearsFrom(m, 20*time.Millisecond); n == 0 || len(tableOf(m).unread) != 0 {
		t.Errorf("%d frames reached it afterwards, and %d lie in its socket", n, len(tableOf(m).unread))
	}
}

// Commands of jobs begin in schedules with sealed ports: their frames get through.
func TestJobsGoThroughSessions(t *testing.T) {
	var frames, starts uint64
	for seed := uint64(1); seed <= 20 && (frames == 0 || starts == 0); seed++ {
		r := Run(Options{Seed: seed, Port: SealedPort, Mode: Quorum, Attack: NoAttack})
		frames, starts = frames+r.Jobs.Frames, starts+r.Jobs.Starts
	}
	if frames == 0 || starts == 0 {
		t.Errorf("%d frames of jobs, %d commands", frames, starts)
	}
}
