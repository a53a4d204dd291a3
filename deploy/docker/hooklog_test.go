package docker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hookLine is a line that one of the scripts in hooks wrote:
//
//	2026-11-21T03:16:47.487085939Z agent3 become-leader epoch=3 cause=handed-over
type hookLine struct {
	at    time.Time // of the event, by the agent's clock; all containers have the engine's
	node  string
	event string
	epoch uint64
	cause string
}

func (l hookLine) String() string { return l.node + " " + l.event + " " + l.cause }

func text(lines []hookLine) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s %v epoch %d\n", l.at.Format("15:04:05.000"), l, l.epoch)
	}
	return b.String()
}

// parseHookLog reads whole lines; a last one without its end is still being written.
func parseHookLog(log string) ([]hookLine, error) {
	var lines []hookLine
	for {
		raw, rest, whole := strings.Cut(log, "\n")
		if !whole {
			return lines, nil
		}
		l, err := parseHookLine(raw)
		if err != nil {
			return nil, fmt.Errorf("hook line %q: %w", raw, err)
		}
		lines, log = append(lines, l), rest
	}
}

func parseHookLine(raw string) (l hookLine, err error) {
	word := strings.Fields(raw)
	if len(word) != 5 {
		return l, fmt.Errorf("%d words, expected 5", len(word))
	}
	if l.at, err = time.Parse(time.RFC3339Nano, word[0]); err != nil {
		return l, err
	}
	l.node, l.event, l.cause = word[1], word[2], strings.TrimPrefix(word[4], "cause=")
	l.epoch, err = strconv.ParseUint(strings.TrimPrefix(word[3], "epoch="), 10, 64)
	return l, err
}

// leading are the nodes that lead after the last line, the newest last.
func leading(lines []hookLine) (nodes []string) {
	for _, l := range lines {
		nodes = slices.DeleteFunc(nodes, func(node string) bool { return node == l.node })
		if l.event == "become-leader" {
			nodes = append(nodes, l.node)
		}
	}
	return nodes
}

// mostLeaders is the largest number of nodes that led together.
func mostLeaders(lines []hookLine) (most int) {
	for i := range lines {
		most = max(most, len(leading(lines[:i+1])))
	}
	return most
}

// disorder checks what docs/hooks.md promises of each node, whatever happened: (become lose)*, epochs rising.
func disorder(lines []hookLine) (complaints []string) {
	last := map[string]hookLine{}
	for i, l := range lines {
		before, known := last[l.node]
		switch {
		case l.event == "become-leader" && known && before.event == "become-leader":
			complaints = append(complaints, fmt.Sprintf("line %d: %v without a lose-leadership since %v", i+1, l, before))
		case l.event == "become-leader" && known && l.epoch <= before.epoch:
			complaints = append(complaints, fmt.Sprintf("line %d: %v has epoch %d after %d", i+1, l, l.epoch, before.epoch))
		case l.event == "lose-leadership" && (before.event != "become-leader" || l.epoch != before.epoch):
			complaints = append(complaints, fmt.Sprintf("line %d: %v of epoch %d has no become-leader", i+1, l, l.epoch))
		}
		last[l.node] = l
	}
	return complaints
}

// The checker itself must be able to complain.
func TestDisorderIsFound(t *testing.T) {
	const (
		a1  = "2026-01-01T00:00:01.000000000Z a become-leader epoch=1 cause=boot\n"
		l1  = "2026-01-01T00:00:02.000000000Z a lose-leadership epoch=1 cause=stopped\n"
		a2  = "2026-01-01T00:00:03.000000000Z a become-leader epoch=2 cause=boot\n"
		b2  = "2026-01-01T00:00:04.000000000Z b become-leader epoch=2 cause=leader-failed\n"
		cut = "2026-01-01T00:00:05.0"
	)
	for name, c := range map[string]struct {
		log        string
		complaints int
		leaders    int
	}{
		"nothing":                     {"", 0, 0},
		"one leadership":              {a1 + l1, 0, 1},
		"two in order":                {a1 + l1 + b2, 0, 1},
		"two hosts at once":           {a1 + b2, 0, 2},
		"a line half written":         {a1 + cut, 0, 1},
		"become twice":                {a1 + a2, 1, 1},
		"lose without become":         {l1, 1, 0},
		"the same epoch again":        {a1 + l1 + a1, 1, 1},
		"an older epoch":              {a2 + strings.Replace(l1, "=1", "=2", 1) + a1, 1, 1},
		"lose of another leadership":  {a2 + l1, 1, 1},
		"each host has its own count": {a1 + l1 + b2 + a2, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			lines, err := parseHookLog(c.log)
			if err != nil {
				t.Fatal(err)
			}
			if got := disorder(lines); len(got) != c.complaints {
				t.Errorf("%d complaints, expected %d: %q", len(got), c.complaints, got)
			}
			if got := mostLeaders(lines); got != c.leaders {
				t.Errorf("%d led together, expected %d", got, c.leaders)
			}
		})
	}
	if _, err := parseHookLog("something else\n"); err == nil {
		t.Error("a line of something else was taken")
	}
}
