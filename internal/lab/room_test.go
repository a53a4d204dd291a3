package lab

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

// What the host has no memory for is refused in one line, with what it has room for.
func TestHasRoom(t *testing.T) {
	if err := hasRoom(100, 1200<<20); err != nil {
		t.Error(err)
	}
	err := hasRoom(100, 600<<20)
	const want = "--nodes 100: that many agents take about 1200 MB of memory, and 600 MB are available: expected at most 50"
	var coded *exitError
	if !errors.As(err, &coded) || coded.code != exitUsage || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if n := memoryAvailable(); n < 1<<20 {
		t.Errorf("%d bytes are available to this test", n)
	}
}

func TestALargeLabSaysWhatItTakes(t *testing.T) {
	for nodes, want := range map[int]string{
		10:  "",
		100: "starting 100 agents, which take about 1200 MB of memory; the first election is after 5s\n",
	} {
		var said bytes.Buffer
		(&lab{Options: Options{Nodes: nodes, Settle: 5 * time.Second, Err: &said}}).announce()
		if said.String() != want {
			t.Errorf("%d agents: %q, want %q", nodes, said.String(), want)
		}
	}
}
