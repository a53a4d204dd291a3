package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// journal is the file that the hooks of one LAN and the test itself write to,
// one line for each thing that happened. The kernel appends lines one after the
// other, so their order is the true one, whichever host they come from.
type journal struct {
	t     *testing.T
	path  string
	begun time.Time
}

// The records of a journal: first those that hooks write.
const (
	becomeBegin = verdict.Became
	becomeEnd   = verdict.Succeeded
	loseBegin   = verdict.Losing
	loseEnd     = verdict.Lost

	isStarted    = verdict.Started // the test starts the agent
	isKilled     = verdict.Killed
	isKeeperGone = verdict.KeeperGone
	isStopped    = verdict.Stopped
	isOrdered    = verdict.Ordered
	isPaused     = verdict.Paused
	isFrozen     = verdict.Frozen
	isResumed    = verdict.Continued
	isCut        = verdict.Cut
	isSplit      = verdict.Split
	isPlugged    = verdict.Plugged

	isAlive    = verdict.Acting // written by a command under exec or hold
	isReleased = verdict.Released
)

func newJournal(t *testing.T, path string) *journal {
	t.Helper()
	must(t, os.WriteFile(path, nil, 0o600))
	return &journal{t: t, path: path, begun: time.Now().Round(0)}
}

// hook is a hook that writes one line when it begins, does body, and writes
// another. One date each reads the clock, forms the line and appends it.
func (j *journal) hook(body string) string {
	line := func(phase verdict.Phase) string {
		return `date "+` + verdict.HookWords(phase) + ` %s%N" >>` + j.path
	}
	if body == "" {
		body = ":"
	}
	return line(verdict.Begin) + "; " + body + "; " + line(verdict.End)
}

// note writes down what the test does to h, before it does it.
func (j *journal) note(h *host, what verdict.What) {
	j.t.Helper()
	file, err := os.OpenFile(j.path, os.O_APPEND|os.O_WRONLY, 0)
	must(j.t, err)
	defer file.Close()
	_, err = fmt.Fprintf(file, "%s %d\n", verdict.NoteWords(h.name, what, ""), time.Now().UnixNano())
	must(j.t, err)
}

// read gives all records so far. A line that makes no sense fails the test.
func (j *journal) read() []verdict.Record {
	text, err := os.ReadFile(j.path)
	if err != nil {
		j.t.Errorf("read the journal: %v", err)
	}
	var records []verdict.Record
	for line := range strings.Lines(string(text)) {
		r, err := j.parse(line)
		if err != nil {
			j.t.Errorf("read the journal: %v", err)
			continue
		}
		records = append(records, r)
	}
	return records
}

// parse reads a line. Its last word is the time, for durations that people read; the order is that of the lines.
func (j *journal) parse(line string) (verdict.Record, error) {
	r, last, err := verdict.ParseLine(line)
	if err != nil {
		return r, err
	}
	ns, err := strconv.ParseInt(last, 10, 64)
	if err != nil {
		return r, fmt.Errorf("line %q: time: %w", line, err)
	}
	r.At = time.Unix(0, ns).Sub(j.begun)
	return r, nil
}

// when is the time of a record.
func (j *journal) when(r verdict.Record) time.Time { return j.begun.Add(r.At) }

// becomes gives the nodes whose become hooks began, in order.
func (j *journal) becomes() []string {
	var nodes []string
	for _, r := range j.read() {
		if r.What == becomeBegin {
			nodes = append(nodes, r.Node)
		}
	}
	return nodes
}

// last gives the newest record of what on h, or the zero record.
func (j *journal) last(h *host, what verdict.What) verdict.Record {
	for _, r := range slices.Backward(j.read()) {
		if r.Node == h.name && r.What == what {
			return r
		}
	}
	return verdict.Record{}
}

// order fails the test unless the journal has records of these kinds and nodes
// in this order; others may be between.
func (j *journal) order(steps ...step) {
	j.t.Helper()
	rest := steps
	for _, r := range j.read() {
		if len(rest) > 0 && rest[0].node == r.Node && rest[0].what == r.What && (rest[0].cause == "" || rest[0].cause == r.Cause) {
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
	what  verdict.What
	cause string
}

func on(h *host, what verdict.What) step { return step{node: h.name, what: what} }

func (s step) because(cause string) step {
	s.cause = cause
	return s
}

// timeline prints records for people.
func timeline(records []verdict.Record) string {
	var out strings.Builder
	for _, r := range records {
		fmt.Fprintln(&out, r)
	}
	return out.String()
}
