package keeper

import (
	"testing"

	"github.com/bully-agent/bully-agent/hooks"
)

// BenchmarkMessage is what an order costs on its way to a hook, the socket apart.
func BenchmarkMessage(b *testing.B) {
	ev := eventOf("a", hooks.BecomeLeader, 7)
	for range 5 {
		ev.Members = append(ev.Members, hooks.Member{ID: "236769eb-55ed-466a-b982-566e2ed806af", Name: "alpha", Addr: "192.168.1.11:7950", Status: "alive"})
	}
	toKeeper, fromAgent := newEncoder(), newDecoder(maxZeros)
	for b.Loop() {
		var o order
		if err := fromAgent.decode(toKeeper.encode(order{Number: 1, Do: toStart, Event: ev}), &o); err != nil {
			b.Fatal(err)
		}
	}
}
