package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/sim"
	"github.com/bully-agent/bully-agent/internal/sim/paper"
)

// simTablesCommand is a subcommand of sim.
func simTablesCommand() command {
	return command{
		name: "tables", usage: "count the messages of the papers' algorithms",
		about: `Runs the classic Bully, the enhanced Bully of Murshed and Allen, and the smallest-id algorithm of Kabashi, Zeqiri
			and Zabeli as their papers describe them. It counts their messages, and says by which convention the figures of the
			papers come about. No agent is needed, and the figures are the same each time.`,
		examples: []string{program + " sim tables", program + " sim tables --n 3,50,1000"},
		options:  []option{{name: "n", value: "N,…", usage: "sizes of the group, from 3 to 1000", fallback: "5,10,20"}},
		action: func(c *call) error {
			sizes, err := c.groupSizes("n", []int{5, 10, 20})
			if err != nil {
				return err
			}
			tables := append(paper.Tables(sizes), paper.Ours(sizes, ourRows(sizes)))
			return c.print(paper.Text(tables))
		},
	}
}

// simChartCommand is a subcommand of sim.
func simChartCommand() command {
	return command{
		name: "chart", usage: "draw messages against group size, as SVG",
		about: `Prints a picture of what an election costs in groups of 5 to 1000 nodes. It needs no other file, and
			follows the reader's light or dark colour scheme.`,
		examples: []string{program + " sim chart > messages.svg"},
		action: func(c *call) error {
			ours := paper.Line{Name: "This implementation, acknowledgements included"}
			for _, n := range paper.ChartSizes {
				if n <= ourLargest {
					ours.Points = append(ours.Points, paper.Point{N: n, Messages: int(ourCount(n, sim.Available, election.Classic).Sent)})
				}
			}
			return c.print(paper.SVG(append(paper.Lines(paper.ChartSizes), ours)))
		},
	}
}

// ourLargest bounds the groups in which the real code is run: a simulated second
// of a thousand nodes takes many real ones. "sim --nodes 1000" takes its time.
const ourLargest = 200

// ourRows is what this implementation sends when the leader's host fails and all
// others notice by themselves.
func ourRows(sizes []int) []paper.Row {
	rows := []struct {
		name, note string
		mode       sim.Mode
		algorithm  election.Algorithm
	}{
		{"Classic, available mode", "The best survivor claims first; COORDINATOR to each, and as many acknowledgements.", sim.Available, election.Classic},
		{"Enhanced, available mode", "The same: by rank stagger the best claims first.", sim.Available, election.Enhanced},
		{"Smallest, available mode", "The same for the lowest.", sim.Available, election.Smallest},
		{"Classic, quorum mode", "The question to the voters and its answers, claims and grants; at most 15 vote, and the others learn it by heartbeat.", sim.Quorum, election.Classic},
	}
	var out []paper.Row
	for _, r := range rows {
		row := paper.Row{Name: r.name, Note: r.note}
		for _, n := range sizes {
			row.Counts = append(row.Counts, ourCount(n, r.mode, r.algorithm))
		}
		out = append(out, row)
	}
	return out
}

func ourCount(n int, mode sim.Mode, algorithm election.Algorithm) paper.Count {
	if n > ourLargest {
		return paper.NotRun
	}
	sent := int(sim.Fail(sim.Options{Seed: 1, Nodes: n, Mode: mode, Algorithm: algorithm}).Datagrams)
	return paper.Count{Sent: sent, Live: sent, Broadcast: sent}
}

// groupSizes parses a flag's list, and puts it in order; fallback when it was
// not given.
func (c *call) groupSizes(flag string, fallback []int) ([]int, error) {
	if !c.IsSet(flag) {
		return fallback, nil
	}
	var sizes []int
	for word := range strings.SplitSeq(c.String(flag), ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < paper.MinSize || n > paper.MaxSize {
			return nil, usage("", "--%s has %s: expected numbers from %d to %d with commas between", flag, strconv.Quote(word), paper.MinSize, paper.MaxSize)
		}
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes), nil
}
