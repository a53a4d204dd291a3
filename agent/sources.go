package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/discovery"
	"github.com/bully-agent/bully-agent/membership"
)

// openSources makes what the entries of join are asked by.
func (a *agent) openSources() {
	a.sources = discovery.New(discovery.Config{Run: a.runProgram, Check: a.cfg.CheckSeed, Cluster: a.cfg.Cluster, Self: a.advertised()})
	a.sources.Set(a.cfg.Seeds)
}

// reopenSources has them begin anew where this host is now: those of mDNS ask and answer on the link of its address.
func (a *agent) reopenSources() {
	a.sources.Close()
	a.openSources()
}

// keeperPatience is how much longer than the program's own time the keeper's word on it may
// take: TERM, KILL, and what even that does not end at once.
const keeperPatience = 5 * time.Second

// runProgram lets the keeper run a program that names hosts: this process may have given up
// the right to.
func (a *agent) runProgram(ctx context.Context, program string) ([]byte, error) {
	ctx, end := context.WithTimeout(ctx, discovery.Timeout+keeperPatience)
	defer end()
	return a.runner.Ask(ctx, program)
}

// failingSeeds are the entries of join that do not give what they should, each in a line.
func failingSeeds(j membership.JoinState) (lines []string) {
	for _, f := range j.Failing {
		lines = append(lines, fmt.Sprintf("%s: %s; tried again in %s", f.Seed, f.Err, pause(f.Next.Sub(wallClock()))))
	}
	return lines
}

// pause is a time until another attempt, for people: of one that is shorter than reading of it takes the number means nothing.
func pause(d time.Duration) string {
	if d = d.Round(100 * time.Millisecond); d >= time.Second {
		return d.String()
	}
	return "less than a second"
}

// seedNotes are the same for status.
func seedNotes(j membership.JoinState) []string {
	notes := failingSeeds(j)
	for i := range notes {
		notes[i] = "join " + notes[i]
	}
	return notes
}
