package hooks

import (
	"testing"
	"time"
)

// BenchmarkBegin is what a become-leader hook waits for: its record on the disk.
func BenchmarkBegin(b *testing.B) {
	r, err := New(Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := <-r.journal.begin(Event{Kind: BecomeLeader, Time: time.Now(), Epoch: Epoch{Counter: 1, Owner: "a"}}, nil); err != nil {
			b.Fatal(err)
		}
	}
	r.backlog.wait(time.Minute)
}
