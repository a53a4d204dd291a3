package lab

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// agentMemory is what one agent takes that it shares with no other, its hooks and guard included: 8 to 10 MB as measured
// with 60 to 100 agents, and some for the kernel.
const agentMemory = 12 << 20

// fewAgents is up to how many of them are started without a word about what they take. Arbitrary.
const fewAgents = 10

// hasRoom refuses as many agents as this host has no memory for: it would end some of them, and others.
func hasRoom(nodes int, available int64) error {
	if most := available / agentMemory; int64(nodes) > most {
		return usage("--nodes %d: that many agents take about %s of memory, and %s are available: expected at most %d",
			nodes, megabytes(int64(nodes)*agentMemory), megabytes(available), max(most, 1))
	}
	return nil
}

// announce says what a large lab takes, before it takes it.
func (l *lab) announce() {
	if l.Nodes > fewAgents {
		l.progress("starting %d agents, which take about %s of memory; the first election is after %v\n",
			l.Nodes, megabytes(int64(l.Nodes)*agentMemory), l.Settle)
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%d MB", n>>20) }

// memoryAvailable is what the kernel says could be used without swapping; without an answer, more than any lab takes.
func memoryAvailable() int64 {
	const plenty = 1 << 40
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return plenty
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || words[0] != "MemAvailable:" {
			continue
		}
		if kilobytes, err := strconv.ParseInt(words[1], 10, 64); err == nil {
			return kilobytes << 10
		}
	}
	return plenty
}
