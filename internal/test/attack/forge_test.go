package attack

import (
	"net/netip"
	"testing"

	"github.com/bully-agent/bully-agent/internal/jobs"
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
		if life := f.Know.LifeOf(leader); life.Wire != version>>4 || life.Nonce != 70 {
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
	heard := []Packet{{From: alpha, To: beta, Payload: append([]byte{sealMagic0, sealMagic1, 0x13, 0, 1, 2, 3, 4}, make([]byte, 40)...)}}
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
	call := append([]byte{sealMagic0, sealMagic1, sealVersion<<4 | sealInit, 0, 5, 6, 7, 8}, make([]byte, sealHandshake-8)...)
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
	if b := f.Call(heard); len(b) != sealHandshake || [4]byte(b[4:8]) != [4]byte{5, 6, 7, 8} || b[3] != sealStream {
		t.Errorf("a stream begins with %x", b)
	}
	crowd := map[netip.Addr]bool{}
	for range 20_000 {
		crowd[f.Crowded(netip.MustParsePrefix("10.79.0.0/16"), heard).From.Addr()] = true
	}
	if len(crowd) != 1000 {
		t.Errorf("the crowd has %d addresses", len(crowd))
	}
}
