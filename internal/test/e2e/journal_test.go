package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// journal is the file that the hooks of one LAN and the test itself write to,
// one line for each thing that happened. The kernel appends lines one after the
// other, so their order is the true one, whichever host they come from.
type journal struct {
	t    *testing.T
	path string
}

// what says what a record tells. The first four come from hooks, in whose
// lines they are made of BULLY_EVENT and begin or end.
type what string

const (
	becomeBegin what = "become-leader.begin"
	becomeEnd   what = "become-leader.end"
	loseBegin   what = "lose-leadership.begin"
	loseEnd     what = "lose-leadership.end"

	isStarted what = "started" // the test started the agent
	isKilled  what = "killed"
	isStopped what = "stopped" // SIGTERM
	isPaused  what = "paused"
	isFrozen  what = "frozen" // the whole host, its guards too
	isResumed what = "resumed"
	isCut     what = "cut"
	isSplit   what = "split" // moved to the other switch
	isPlugged what = "plugged"
)

// record is one line of the journal.
type record struct {
	node  string
	what  what
	epoch uint64
	owner string // id of the node whose epoch it is
	cause string
	at    time.Time // for durations that people read; the order is that of the lines
}

func newJournal(t *testing.T, path string) *journal {
	t.Helper()
	must(t, os.WriteFile(path, nil, 0o600))
	return &journal{t: t, path: path}
}

// hook is a hook that writes one line when it begins, does body, and writes
// another. One date each reads the clock, forms the line and appends it.
func (j *journal) hook(body string) string {
	line := func(phase string) string {
		return `date "+$BULLY_NODE $BULLY_EVENT.` + phase + ` $BULLY_EPOCH $BULLY_EPOCH_OWNER $BULLY_CAUSE %s%N" >>` + j.path
	}
	if body == "" {
		body = ":"
	}
	return line("begin") + "; " + body + "; " + line("end")
}

// note writes down what the test does to h, before it does it.
func (j *journal) note(h *host, what what) {
	j.t.Helper()
	file, err := os.OpenFile(j.path, os.O_APPEND|os.O_WRONLY, 0)
	must(j.t, err)
	defer file.Close()
	_, err = fmt.Fprintf(file, "%s %s 0 - - %d\n", h, what, time.Now().UnixNano())
	must(j.t, err)
}

// read gives all records so far. A line that makes no sense fails the test.
func (j *journal) read() []record {
	text, err := os.ReadFile(j.path)
	if err != nil {
		j.t.Errorf("read the journal: %v", err)
	}
	var records []record
	for line := range strings.Lines(string(text)) {
		r, err := parseRecord(line)
		if err != nil {
			j.t.Errorf("read the journal: %v", err)
			continue
		}
		records = append(records, r)
	}
	return records
}

func parseRecord(line string) (record, error) {
	f := strings.Fields(line)
	if len(f) != 6 {
		return record{}, fmt.Errorf("line %q has %d words, expected 6", line, len(f))
	}
	counter, err := strconv.ParseUint(f[2], 10, 64)
	if err != nil {
		return record{}, fmt.Errorf("line %q: epoch: %w", line, err)
	}
	ns, err := strconv.ParseInt(f[5], 10, 64)
	if err != nil {
		return record{}, fmt.Errorf("line %q: time: %w", line, err)
	}
	return record{node: f[0], what: what(f[1]), epoch: counter, owner: f[3], cause: f[4], at: time.Unix(0, ns)}, nil
}

// becomes gives the nodes whose become hooks began, in order.
func (j *journal) becomes() []string {
	var nodes []string
	for _, r := range j.read() {
		if r.what == becomeBegin {
			nodes = append(nodes, r.node)
		}
	}
	return nodes
}

// last gives the newest record of what on h, or the zero record.
func (j *journal) last(h *host, what what) record {
	for _, r := range slices.Backward(j.read()) {
		if r.node == h.name && r.what == what {
			return r
		}
	}
	return record{}
}

// order fails the test unless the journal has records of these kinds and nodes
// in this order; others may be between.
func (j *journal) order(steps ...step) {
	j.t.Helper()
	rest := steps
	for _, r := range j.read() {
		if len(rest) > 0 && rest[0].node == r.node && rest[0].what == r.what && (rest[0].cause == "" || rest[0].cause == r.cause) {
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		j.t.Errorf("hooks: missing %v, expected in this order: %v", rest[0], steps)
	}
}

// step is one record as a test expects it; an empty cause is any.
type step struct {
	node  string
	what  what
	cause string
}

func on(h *host, what what) step { return step{node: h.name, what: what} }

func (s step) because(cause string) step {
	s.cause = cause
	return s
}

// timeline prints records for people, with times since the first.
func timeline(records []record) string {
	var out strings.Builder
	for _, r := range records {
		fmt.Fprintf(&out, "%9.3f s  %-4s %s", r.at.Sub(records[0].at).Seconds(), r.node, r.what)
		if r.epoch != 0 {
			fmt.Fprintf(&out, "  epoch %d of %.8s (%s)", r.epoch, r.owner, r.cause)
		}
		out.WriteByte('\n')
	}
	return out.String()
}
