package mutants

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/sim"
)

// TestPlay is what a mutant's own process runs: it plays the schedules from the
// seed BULLY_PLAY on and says on which seeds an invariant broke. Whoever started
// it ends it when it has heard enough.
func TestPlay(t *testing.T) {
	first, last, ok := playRange(os.Getenv("BULLY_PLAY"))
	if !ok {
		t.Skip("started by TestMutants only")
	}
	o := sim.Options{}
	switch os.Getenv("BULLY_PLAY_MODE") {
	case "available":
		o.Mode = sim.Available
	case "quorum":
		o.Mode = sim.Quorum
	}
	for o.Seed = first; o.Seed <= last; o.Seed++ {
		if r := sim.Run(o); r.Violation != nil {
			fmt.Printf("broken %d %s\n", o.Seed, firstLine(r.Violation.Text))
			continue
		}
		fmt.Printf("held %d\n", o.Seed)
	}
}

// playRange reads "1-2000".
func playRange(text string) (first, last uint64, ok bool) {
	from, to, _ := strings.Cut(text, "-")
	first, err1 := strconv.ParseUint(from, 10, 64)
	last, err2 := strconv.ParseUint(to, 10, 64)
	return first, last, err1 == nil && err2 == nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
