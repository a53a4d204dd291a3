package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// judge says what in a journal breaks a promise, or nil. The promises (README, Hooks):
//
//   - S6: on each node become, lose, become, lose…, one hook at a time and each
//     to its end, epochs rising; after a crash of the agent its guard runs the
//     lose hook, or the next start before anything else. A become hook that was
//     killed at once may have written nothing.
//   - S3: an epoch has one node, and one become hook.
//   - S2: from the begin of a become hook to the end of the lose hook, or the
//     death of the agent, no other node's become hook begins, and each
//     leadership has a higher epoch, by counter and owner, than the one before.
//     In available mode this holds while all hosts reach each other or one of
//     them is cut off; mayOverlap leaves it out.
//
// guarded asks for more, of a run whose agents have all been stopped in the end:
// the death of an agent ends no leadership, only its lose hook does, whoever runs
// it, and none is owed in the end. A host that was frozen as a whole is excepted.
func judge(records []record, mayOverlap, guarded bool) error {
	j := &judgement{nodes: make(map[string]*career), owners: make(map[string]string), mayOverlap: mayOverlap, guarded: guarded}
	for _, r := range records {
		j.look(r)
	}
	if guarded {
		j.lookAtEnd()
	}
	return errors.Join(j.found...)
}

// judgement is a walk along a journal.
type judgement struct {
	nodes      map[string]*career
	owners     map[string]string // epoch owner → node
	newest     record            // highest epoch that a become hook began with
	mayOverlap bool
	guarded    bool
	found      []error
}

// career is where one node is in (become lose)*.
type career struct {
	at      what   // its last hook line; "" before the first
	epoch   uint64 // of that line
	highest uint64 // epoch of its last become
	leads   bool   // as others must see it: become began, lose has not ended, the agent lives
	crashed bool   // killed since its last hook line
}

func (j *judgement) look(r record) {
	c := j.nodes[r.node]
	if c == nil {
		c = &career{}
		j.nodes[r.node] = c
	}
	switch r.what {
	case becomeBegin:
		j.lookAtOwner(r)
		j.lookAtOthers(r)
		j.lookAtBecome(r, c)
		c.highest, c.leads = max(c.highest, r.epoch), true
	case becomeEnd:
		j.expect(r, c.at == becomeBegin && c.epoch == r.epoch, "its begin is not the line before (%s, epoch %d)", c.at, c.epoch)
	case loseBegin:
		j.lookAtLose(r, c)
	case loseEnd:
		j.expect(r, c.at == loseBegin && c.epoch == r.epoch, "its begin is not the line before (%s, epoch %d)", c.at, c.epoch)
		c.leads = false
	case isKilled:
		c.leads, c.crashed = c.leads && j.guarded, true
		return
	case isFrozen:
		c.leads = false
		return
	default:
		return
	}
	c.at, c.epoch = r.what, r.epoch
	if r.what == loseBegin || r.what == becomeBegin {
		c.crashed = false
	}
}

func (j *judgement) lookAtEnd() {
	for _, name := range slices.Sorted(maps.Keys(j.nodes)) {
		c := j.nodes[name]
		j.expect(record{node: name, what: c.at, epoch: c.epoch}, c.at == "" || c.at == loseEnd, "it is the last line of this node")
	}
}

func (j *judgement) lookAtBecome(r record, c *career) {
	j.expect(r, c.at == "" || c.at == loseEnd, "the leadership of epoch %d has not ended on it (%s)", c.epoch, c.at)
	j.expect(r, r.epoch > c.highest, "it led epoch %d before", c.highest)
}

func (j *judgement) lookAtLose(r record, c *career) {
	if c.crashed && (r.cause == "unclean-restart" || r.cause == "agent-died") {
		j.expect(r, c.at != "" && c.at != loseEnd && c.epoch == r.epoch, "it had not led that epoch (%s, epoch %d)", c.at, c.epoch)
		return
	}
	j.expect(r, !c.crashed, "the agent crashed before: expected cause agent-died or unclean-restart")
	leads := (c.at == becomeBegin || c.at == becomeEnd || c.at == loseBegin) && c.epoch == r.epoch // loseBegin: it died, and is tried again
	wroteNothing := (c.at == "" || c.at == loseEnd) && r.epoch > c.highest
	j.expect(r, leads || wroteNothing, "it does not lead that epoch (%s, epoch %d)", c.at, c.epoch)
	c.highest = max(c.highest, r.epoch)
}

// lookAtOwner: S3.
func (j *judgement) lookAtOwner(r record) {
	node, known := j.owners[r.owner]
	j.owners[r.owner] = r.node
	j.expect(r, !known || node == r.node, "the epoch's owner %s is %s", r.owner, node)
}

// lookAtOthers: S2.
func (j *judgement) lookAtOthers(r record) {
	if j.mayOverlap {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(j.nodes)) {
		other := j.nodes[name]
		j.expect(r, name == r.node || !other.leads, "%s leads epoch %d", name, other.highest)
	}
	if n := j.newest; r.epoch < n.epoch || (r.epoch == n.epoch && r.owner <= n.owner) {
		j.expect(r, false, "epoch %d of %s was before", n.epoch, n.node)
		return
	}
	j.newest = r
}

func (j *judgement) expect(r record, holds bool, format string, args ...any) {
	if !holds {
		j.found = append(j.found, fmt.Errorf("%s %s epoch %d (%s): %s", r.node, r.what, r.epoch, r.cause, fmt.Sprintf(format, args...)))
	}
}

// TestVerdict hands made-up journals to the judge, most of them bad.
func TestVerdict(t *testing.T) {
	const reign = "a become-leader.begin 1|a become-leader.end 1|"
	tests := []struct {
		name       string
		journal    string
		mayOverlap bool
		guarded    bool
		want       string // part of the verdict; "" if there is nothing to say
	}{
		{name: "nobody led", journal: ""},
		{name: "equal counters, rising owners", journal: reign + "a lose-leadership.begin 1|a lose-leadership.end 1|b become-leader.begin 1"},
		{name: "become killed before it wrote", journal: reign + "a lose-leadership.begin 1|a lose-leadership.end 1|a lose-leadership.begin 2|a lose-leadership.end 2|a become-leader.begin 3"},
		{name: "one reign after the other", journal: reign + "a lose-leadership.begin 1|a lose-leadership.end 1|b become-leader.begin 2|b become-leader.end 2"},
		{name: "become killed by its lose", journal: "a become-leader.begin 1|a lose-leadership.begin 1|a lose-leadership.end 1"},
		{name: "death ends a reign", journal: reign + "a killed|b become-leader.begin 2"},
		{name: "lose again after a crash in it", journal: reign + "a lose-leadership.begin 1|a killed|a lose-leadership.begin 1 unclean-restart|a lose-leadership.end 1|a become-leader.begin 2"},
		{name: "the guard runs the lose hook", journal: reign + "a killed|b become-leader.begin 2|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1|b become-leader.end 2"},
		{name: "the guard and the next start", journal: reign + "a killed|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1|a lose-leadership.begin 1 unclean-restart", want: "does not lead that epoch"},
		{name: "the guard of a frozen agent, and the agent", journal: reign + "a lose-leadership.begin 1 agent-died|a lose-leadership.end 1|a lose-leadership.begin 1 lease-expired", want: "does not lead that epoch"},
		{name: "before the guard has let go", journal: reign + "a killed|b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1", guarded: true, want: "a leads epoch 1"},
		{name: "after the guard has let go", journal: reign + "a killed|a lose-leadership.begin 1 agent-died|a lose-leadership.end 1|b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2", guarded: true},
		{name: "nobody can let go when all is frozen", journal: reign + "a frozen|b become-leader.begin 2|b lose-leadership.begin 2|b lose-leadership.end 2|a resumed|a lose-leadership.begin 1|a lose-leadership.end 1", guarded: true},
		{name: "a lose hook is owed", journal: reign, guarded: true, want: "it is the last line of this node"},
		{name: "two at once", journal: reign + "b become-leader.begin 2", want: "a leads epoch 1"},
		{name: "two at once where that may be", journal: reign + "b become-leader.begin 1", mayOverlap: true},
		{name: "before the lose hook ended", journal: reign + "a lose-leadership.begin 1|b become-leader.begin 2", want: "a leads epoch 1"},
		{name: "equal counters, falling owners", journal: "b become-leader.begin 1|b killed|a become-leader.begin 1", want: "epoch 1 of b was before"},
		{name: "a lower epoch", journal: "a become-leader.begin 5|a killed|b become-leader.begin 4", want: "epoch 5 of a was before"},
		{name: "become twice", journal: reign + "a become-leader.begin 2", want: "has not ended on it"},
		{name: "become twice for one epoch", journal: reign + "a lose-leadership.begin 1|a lose-leadership.end 1|a become-leader.begin 1", mayOverlap: true, want: "it led epoch 1 before"},
		{name: "become after a crash without lose", journal: reign + "a killed|a become-leader.begin 2", want: "has not ended on it"},
		{name: "lose of an old epoch without become", journal: reign + "a lose-leadership.begin 1|a lose-leadership.end 1|a become-leader.begin 3|a become-leader.end 3|a lose-leadership.begin 3|a lose-leadership.end 3|a lose-leadership.begin 2", want: "does not lead that epoch"},
		{name: "lose of another epoch", journal: reign + "a lose-leadership.begin 2", want: "does not lead that epoch"},
		{name: "lose twice", journal: reign + "a lose-leadership.begin 1|a lose-leadership.end 1|a lose-leadership.begin 1", want: "does not lead that epoch"},
		{name: "lose after a crash with another cause", journal: reign + "a killed|a lose-leadership.begin 1 lease-expired", want: "expected cause agent-died or unclean-restart"},
		{name: "two hooks at a time", journal: "a become-leader.begin 1|a lose-leadership.begin 1|a become-leader.end 1", want: "its begin is not the line before"},
		{name: "somebody else's epoch", journal: reign + "a killed|b become-leader.begin 2 x owner-of-a", want: "the epoch's owner owner-of-a is a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			verdict := judge(script(t, tt.journal), tt.mayOverlap, tt.guarded)
			switch {
			case tt.want == "" && verdict != nil:
				t.Errorf("found: %v", verdict)
			case tt.want != "" && (verdict == nil || !strings.Contains(verdict.Error(), tt.want)):
				t.Errorf("found: %v\nexpected: %s", verdict, tt.want)
			}
		})
	}
}

// script reads records of the form "node what epoch cause owner", from the end
// all may be left out but the first two.
func script(t *testing.T, text string) []record {
	t.Helper()
	var records []record
	for i, line := range strings.Split(text, "|") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		defaults := []string{"", "", "0", "x", "owner-of-" + f[0]}
		copy(defaults, f)
		r, err := parseRecord(fmt.Sprintf("%s %s %s %s %s %d", defaults[0], defaults[1], defaults[2], defaults[4], defaults[3], int64(i)*int64(time.Second)))
		must(t, err)
		records = append(records, r)
	}
	return records
}
