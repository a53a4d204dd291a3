package attack

import (
	"crypto/rand"
	"net/netip"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// eavesdropper has heard a leader (alpha, sequence number 41) and a follower.
func eavesdropper(t *testing.T, version byte) *Forger {
	t.Helper()
	k := NewKnowledge()
	leader := wire.Frame{Kind: wire.Heartbeat, Algo: wire.Algo(wire.Classic), Cluster: wire.ClusterHash("e2e"), ConfigHash: 9, Sender: wire.ID{1},
		Incarnation: 3, Nonce: 70, Seq: 41, Epoch: wire.Epoch{Counter: 5, Owner: wire.ID{1}}, Priority: 20, Lease: 400, Interval: 50}
	follower := wire.Frame{Kind: wire.HeartAck, Cluster: leader.Cluster, Sender: wire.ID{2}, Nonce: 71, Seq: 7}
	k.Hear(Packet{From: alpha, To: beta, Payload: speak(wire.Append(nil, &leader), version)})
	k.Hear(Packet{From: beta, To: alpha, Payload: speak(wire.Append(nil, &follower), version)})
	return &Forger{Know: k, Own: gamma, Targets: []netip.AddrPort{alpha, beta}, Random: NewRandom(1)}
}

func TestKnowledgeOfWhatWasHeard(t *testing.T) {
	for _, version := range []byte{0x10, 0x20, ourVersion} {
		f := eavesdropper(t, version)
		leader, beat, known := f.Know.Leader()
		if !known || leader.Addr != alpha || leader.seqs[seriesOf(beta, wire.Probe)] != 41 || beat.Epoch.Counter != 5 || len(f.Know.Peers()) != 2 {
			t.Errorf("version %#x: knows %+v, %v", version, leader, known)
		}
		if said := f.Know.Say(wire.Frame{Kind: wire.Query}); said[versionAt] != version {
			t.Errorf("speaks version %#x to those who speak %#x", said[versionAt], version)
		}
		if life := f.Know.LifeOf(leader); life.Nonce != 70 {
			t.Errorf("tells of life %+v", life)
		}
	}
}

func TestKnowledgeBeginsAnewWithALife(t *testing.T) {
	f := eavesdropper(t, ourVersion)
	restarted := wire.Frame{Kind: wire.Query, Sender: wire.ID{1}, Nonce: 99, Seq: 2}
	f.Know.Hear(Packet{From: alpha, To: gamma, Payload: wire.Append(nil, &restarted)})
	leader, _, _ := f.Know.Leader()
	for to, want := range map[netip.AddrPort]uint32{gamma: 3, beta: 1} { // each has numbers of its own
		if frame := f.As(leader, to, wire.Frame{}); frame.Seq != want || frame.Nonce != 99 {
			t.Errorf("the new life's next frame to %s is %d of %d, expected %d", to, frame.Seq, frame.Nonce, want)
		}
	}
	aboutJobs := wire.Frame{Kind: wire.LedgerQuery, Sender: wire.ID{1}, Nonce: 99, Seq: 500}
	f.Know.Hear(Packet{From: alpha, To: gamma, Payload: wire.Append(nil, &aboutJobs)})
	if frame := f.As(leader, gamma, wire.Frame{Seq: 1000}); frame.Seq != 1002 { // jobs have a series of their own
		t.Errorf("1000 ahead of 2 is %d", frame.Seq)
	}
}

// What is forged gets past the parser: an attacker whose frames were dropped there would show
// nothing. Every kind comes up, and from every address.
func TestForgedFramesParse(t *testing.T) {
	f := eavesdropper(t, ourVersion)
	kinds, sources := map[wire.Kind]int{}, map[netip.Addr]int{}
	var far, own int
	for range 20_000 {
		p := f.Frame()
		var frame wire.Frame
		if err := wire.Parse(p.Payload, &frame); err != nil {
			t.Fatalf("%v: % x", err, p.Payload)
		}
		if p.From.Addr() == p.To.Addr() {
			t.Fatal("the target's kernel drops what comes from itself")
		}
		kinds[frame.Kind]++
		sources[p.From.Addr()]++
		if frame.Epoch.Counter > 1<<20 {
			far++
		}
		if p.To == alpha && frame.Sender == (wire.ID{1}) && frame.Nonce != 70 {
			own++
		}
	}
	if len(kinds) != int(lastKind)+1 || len(sources) != 3 || far == 0 || own == 0 {
		t.Errorf("kinds %v, sources %v, %d far epochs, %d namesakes", kinds, sources, far, own)
	}
}

// A tame one is as internal/jobs writes it, so that what is refused of the others is refused for
// what it says.
func TestLedgerIsInTheFormatOfJobs(t *testing.T) {
	l := Ledger{Fence: 5, Jobs: []Job{{Name: "backup", Floor: 1_700_000_000, Slot: 1_700_000_000, Epoch: 5, Owner: wire.ID{1},
		Claimed: 1_700_000_000_000, Timeout: 60, Version: 2, IsPaused: true}}}
	parsed, err := jobs.Parse(l.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	e, known := parsed.Entry("backup")
	if !known || len(e.Runs) != 1 || e.Runs[0].Owner != (wire.ID{1}) || e.Runs[0].Epoch != 5 || e.Switch.Version != 2 || !e.Switch.Paused {
		t.Errorf("parsed %+v", e)
	}
	if _, err := jobs.Parse(Ledger{}.Bytes()); err != nil {
		t.Errorf("an empty one: %v", err)
	}
}

func TestFakesLookSealed(t *testing.T) {
	f := eavesdropper(t, ourVersion)
	heard := []Packet{{From: alpha, To: beta, Payload: append([]byte{sealMagic0, sealMagic1, 0x23, 0, 1, 2, 3, 4}, make([]byte, 40)...)}}
	copied := 0
	for range 1000 {
		p := f.Fake(heard)
		if !IsSealed(p.Payload) || p.From == p.To {
			t.Fatalf("%+v", p)
		}
		if [4]byte(p.Payload[4:8]) == [4]byte{1, 2, 3, 4} {
			copied++
		}
	}
	if copied < 100 {
		t.Errorf("the index that was heard came up %d times", copied)
	}
	// Of one that names a key most fakes of its type do, or their MAC is never looked at.
	call := append([]byte{sealMagic0, sealMagic1, sealVersion<<4 | sealInit, 0, 5, 6, 7, 8}, make([]byte, 140-8)...)
	heard = append(heard, Packet{From: alpha, To: beta, Payload: call})
	named, inits := 0, 0
	for range 1000 {
		if p := f.Fake(heard); p.Payload[2] == sealVersion<<4|sealInit {
			if inits++; [4]byte(p.Payload[4:8]) == [4]byte{5, 6, 7, 8} {
				named++
			}
		}
	}
	if named < inits/2 || inits < 100 {
		t.Errorf("%d of %d fake INITs name a key that was heard of", named, inits)
	}
	if b := f.Call(heard); len(b) != 140 || [4]byte(b[4:8]) != [4]byte{5, 6, 7, 8} || b[3] != sealStream {
		t.Errorf("a stream begins with %x", b)
	}
	if answers := f.Answers(heard[1]); len(answers) != 3 || len(f.Answers(heard[0])) > 0 {
		t.Errorf("%d answers to an INIT", len(answers))
	}
	crowd := map[netip.Addr]bool{}
	for range 20_000 {
		crowd[f.Crowded(netip.MustParsePrefix("10.79.0.0/16"), heard).From.Addr()] = true
	}
	if len(crowd) != 1000 {
		t.Errorf("the crowd has %d addresses", len(crowd))
	}
}

// target is a host that shares a key, and what it does not take.
type target struct {
	*session.Table
	causes map[session.Cause]int
}

func newTarget(t *testing.T, ring key.Ring) *target {
	t.Helper()
	private, err := identity.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	h := &target{causes: map[session.Cause]int{}}
	h.Table = session.New(session.Config{Key: private, Addr: beta, Cluster: "e2e", Rand: rand.Reader,
		Emit: func(netip.AddrPort, []byte) error { return nil }})
	h.SetKeys(time.Now(), ring)
	return h
}

func (h *target) hear(now time.Time, from netip.AddrPort, b []byte) {
	_, _, cause := h.Receive(now, from, b)
	h.causes[cause]++
}

// What is faked gets past version, type and length: else an attack by it would show nothing.
func TestFakesAreOfTheSealsForm(t *testing.T) {
	ring, f := key.Ring{key.Generate(time.Now(), nil)}, eavesdropper(t, ourVersion)
	private, err := identity.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	call := Packet{From: alpha, To: beta, Payload: Caller{"e2e", ring, private}.Init(beta)}
	h, now := newTarget(t, ring), time.Now()
	for range 5000 {
		h.hear(now, gamma, f.Fake([]Packet{call}).Payload)
	}
	for _, p := range f.Answers(call) {
		h.hear(now, p.From, p.Payload)
	}
	for _, not := range []session.Cause{session.CauseNone, session.CausePlain, session.CauseVersion, session.CauseType, session.CauseLength} {
		if h.causes[not] > 0 {
			t.Errorf("%d fakes are refused for their form: %v", h.causes[not], not)
		}
	}
	for _, expected := range []session.Cause{session.CauseKey, session.CauseMAC, session.CauseIndex} {
		if h.causes[expected] == 0 {
			t.Errorf("none is refused as %v", expected)
		}
	}
}

// A Caller's INITs are answered until the budget of curves is used up.
func TestCallersInitsAreRight(t *testing.T) {
	ring := key.Open()
	private, err := identity.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	h, now := newTarget(t, ring), time.Now()
	for range 50 {
		h.hear(now, gamma, Caller{"e2e", ring, private}.Init(beta))
	}
	if h.causes[session.CauseNone] == 0 || h.causes[session.CauseNone]+h.causes[session.CauseBudget]+h.causes[session.CauseCookie] != 50 {
		t.Errorf("50 INITs: %v", h.causes)
	}
}
