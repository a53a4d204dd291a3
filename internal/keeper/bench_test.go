package keeper

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
)

// BenchmarkMessage is what an order costs on its way to a hook, the socket apart.
func BenchmarkMessage(b *testing.B) {
	ev := eventOf("a", hooks.BecomeLeader, 7)
	for range 5 {
		ev.Members = append(ev.Members, hooks.Member{ID: "236769eb-55ed-466a-b982-566e2ed806af", Name: "alpha", Addr: "192.168.1.11:7950", Status: "alive"})
	}
	for b.Loop() {
		if _, err := decodeOrder(encodeOrder(order{Number: 1, Do: toStart, Event: ev})); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOrderToExec is what lies between an order to a keeper's process and the running hook.
func BenchmarkOrderToExec(b *testing.B) {
	dir := b.TempDir()
	text, err := json.Marshal(Settings{Dir: dir, Hooks: hooks.Config{Timeout: patience, Commands: map[hooks.Kind]hooks.Command{
		hooks.BecomeLeader: {Argv: []string{"/bin/true"}}}}})
	if err == nil {
		err = os.WriteFile(dir+"/settings", text, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	c := New(Config{Dir: dir, Clock: clock, Environ: []string{"SETTINGS=" + dir + "/settings"}})
	if err := c.Recover(b.Context()); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Run(ctx) }()
	var toExec []time.Duration
	for epoch := uint64(1); b.Loop(); epoch++ {
		b.StopTimer()
		time.Sleep(250 * time.Millisecond) // no more than the keeper's rate
		b.StartTimer()
		begun := time.Now()
		c.Start(eventOf("a", hooks.BecomeLeader, epoch), time.Time{})
		res := <-c.Results()
		if !res.OK {
			b.Fatal(res.Err)
		}
		toExec = append(toExec, res.Started.Sub(begun.Round(0)))
	}
	slices.Sort(toExec) // on a busy host the mean says nothing
	b.ReportMetric(float64(toExec[len(toExec)/2].Microseconds()), "µs-to-exec-median")
	b.ReportMetric(float64(toExec[len(toExec)/10].Microseconds()), "µs-to-exec-decile")
	stop()
	<-ended
}
