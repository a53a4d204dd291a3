package attack

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/bully-agent/bully-agent/wire"
)

func tapeOf(n int) (tape []Packet) {
	for i := range n {
		tape = append(tape, Packet{From: alpha, To: beta, Payload: wire.Append(nil, &wire.Frame{Kind: wire.Query, Seq: uint32(i)})})
	}
	return tape
}

func TestTapeIsBounded(t *testing.T) {
	tape := NewTape(10)
	payload := []byte("12345")
	for range 3 {
		tape.Add(Packet{Payload: payload})
	}
	payload[0] = 'x'
	if kept := tape.Packets(); len(kept) != 2 || tape.Lost() != 1 || string(kept[0].Payload) != "12345" {
		t.Errorf("kept %v, lost %d", kept, tape.Lost())
	}
}

func TestReplayChangesWhereAndWhenButNotWhat(t *testing.T) {
	r, tape := NewRandom(1), tapeOf(50)
	hosts := []netip.AddrPort{alpha, beta, gamma}
	for name, changed := range map[string][]Packet{
		"shuffled": Shuffle(r, tape), "reflected": Reflect(tape), "diverted": Divert(r, tape, hosts), "relayed": Relay(tape, gamma),
	} {
		if len(changed) != len(tape) {
			t.Fatalf("%s: %d of %d", name, len(changed), len(tape))
		}
		for _, p := range changed {
			if !slices.ContainsFunc(tape, func(q Packet) bool { return bytes.Equal(p.Payload, q.Payload) }) {
				t.Errorf("%s: a payload that was not on the tape", name)
			}
		}
	}
	if p := Reflect(tape)[0]; p.From != beta || p.To != alpha {
		t.Errorf("reflected %+v", p)
	}
	if p := Relay(tape, gamma)[0]; p.From != gamma || p.To != beta {
		t.Errorf("relayed %+v", p)
	}
	if n := len(Repeat(tape, 10)); n != 500 {
		t.Errorf("ten times 50 are %d", n)
	}
	if n := len(Datagrams(append(tape, Packet{IsStream: true}))); n != 50 {
		t.Errorf("%d datagrams", n)
	}
	if n := len(Reachable([]Packet{{From: alpha, To: alpha}, {From: alpha, To: beta}})); n != 1 {
		t.Errorf("%d reachable", n)
	}
}

// Some of what is mutated gets past the checksum, and all of it differs from what was heard or is
// as short.
func TestMutantsGetPastTheChecksum(t *testing.T) {
	tape := tapeOf(2000)
	var parsed, changed int
	for i, p := range Mutate(NewRandom(1), tape) {
		var f wire.Frame
		if wire.Parse(p.Payload, &f) == nil {
			parsed++
		}
		if !bytes.Equal(p.Payload, tape[i].Payload) {
			changed++
		}
	}
	if parsed < 100 || changed < 1500 {
		t.Errorf("%d of %d parse, %d were changed", parsed, len(tape), changed)
	}
	if got := tapeOf(2000); !slices.EqualFunc(got, tape, func(a, b Packet) bool { return bytes.Equal(a.Payload, b.Payload) }) {
		t.Error("the tape itself was changed")
	}
}
