package hooks

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// questions is the part of Lanes that asks: checks of this host, and programs that name hosts to join. Of such a command an
// answer is wanted, and nothing else. Each has a lane of its own, of which the other lanes know nothing. Nothing of a
// leadership depends on it: it stands in no journal, and it ends with the agent.
//
// Invariant: the lanes of checks that a reload took away stand last, until nothing of them runs.
type questions struct {
	checks   []*checkLane
	hasBegun bool                    // checks have been set
	programs map[string]*programLane // by program, while something of it runs
	seq      uint64                  // of the last Consult
	isOver   bool                    // nothing is asked any more
}

// turn is what a lane of questions runs: one command at a time, also while one hangs.
type turn struct {
	lane    Lane
	seq     uint64    // of the command that is there; 0: none
	isHeard bool      // its answer was taken, or is not wanted: it is being ended, or hangs
	lateAt  time.Time // when it has not answered, though its time and that for its end have passed
	limit   ending.Limit
}

// questionGrace is between TERM and KILL of a command that took too long. Arbitrary: a question has nothing to clean up.
const questionGrace = 500 * time.Millisecond

// begin asks; c has the command.
func (q *questions) begin(now time.Time, t *turn, c Consult, timeout time.Duration) Consult {
	q.seq++
	t.seq, t.isHeard = q.seq, false
	t.limit = ending.Limit{Timeout: timeout, Grace: questionGrace}
	t.lateAt = now.Add(timeout + questionGrace + ending.Unkillable + startPatience)
	c.Lane, c.Seq, c.Limit = t.lane, t.seq, t.limit
	return c
}

// end has what runs end, of which nobody wants to hear any more.
func (t *turn) end(now time.Time, do func(LaneEffect)) {
	if t.seq == 0 || t.limit.Reason != nil {
		return
	}
	t.isHeard = true
	t.limit.Cut(now, ErrStopping, time.Time{})
	do(Bound{Lane: t.lane, Limit: t.limit})
}

// takes the end of what runs, and reports whether its answer counts.
func (t *turn) takes(e Consulted) (isNews bool) {
	if t.seq != e.Seq {
		return false
	}
	isNews = !t.isHeard
	if t.isHeard = true; !e.Hangs {
		t.seq = 0
	}
	return isNews
}

// isLate reports whether a command has not answered, and cannot any more.
func (t *turn) isLate(now time.Time) bool { return t.seq != 0 && !t.isHeard && !now.Before(t.lateAt) }

// dueAt is when isLate is to be asked; zero: never.
func (t *turn) dueAt() time.Time {
	if t.seq == 0 || t.isHeard {
		return time.Time{}
	}
	return t.lateAt
}

// errUnanswered is the end of a question whose command could not be started in its time.
var errUnanswered = fmt.Errorf("%w: it was not started, perhaps since the file system of its program does not answer", ending.ErrTimedOut)

// Reply is what a command has answered.
type Reply struct {
	Err  error  // why it does not count; nil: it exited with 0
	Said string // the last line that it printed, fit for one line of text; empty: none
	Text []byte // the beginning of its standard output, as far as Consult.Most asks for it
}

// Why says in one line why it does not count; empty if it does.
func (r Reply) Why() string {
	switch {
	case r.Err == nil:
		return ""
	case r.Said == "" || errors.Is(r.Err, ending.ErrTimedOut):
		return OneLine(r.Err.Error())
	}
	return OneLine(r.Err.Error()) + ": " + r.Said
}

// What Lanes have to know of questions.
type (
	// Checking: these are the checks of this host, each of another name, in the place of those before.
	Checking struct{ Checks []Check }

	// Inquired: the agent asks what a program prints that names hosts to join.
	Inquired struct {
		Program string        // an absolute path, run without arguments
		Timeout time.Duration // until TERM
		Most    int           // bytes of its standard output that are told
	}

	// Consulted: a command that was to answer a question has ended, or was not started.
	Consulted struct {
		Lane  Lane
		Seq   uint64 // of its Consult
		Reply Reply
		Hangs bool // something of it has had KILL and lives on: when that has ended, this comes once more
	}
)

// What they want done about these.
type (
	// Consult runs a command that answers a question, once it may be run, and forgets what it prints but for its Reply.
	// Consulted is its outcome. Bound shortens its time.
	Consult struct {
		Lane    Lane
		Seq     uint64
		Command Command
		About   []string // variables, "NAME=value", besides those that all commands have
		Limit   ending.Limit
		Most    int // bytes of its standard output that are wanted
	}

	// TellCheck is what has changed about a check.
	TellCheck struct{ Report CheckReport }

	// TellReply is what a program answered that names hosts to join.
	TellReply struct {
		Program string
		Reply   Reply
	}
)

func (Checking) laneEvent()  {}
func (Inquired) laneEvent()  {}
func (Consulted) laneEvent() {}

func (Consult) laneEffect()   {}
func (TellCheck) laneEffect() {}
func (TellReply) laneEffect() {}

// end asks nothing any more, and has all end that runs.
func (q *questions) end(now time.Time, do func(LaneEffect)) {
	q.isOver = true
	for t := range q.turns {
		t.end(now, do)
	}
}

// turns gives all, in a fixed order.
func (q *questions) turns(yield func(*turn) bool) {
	for _, c := range q.checks {
		if !yield(&c.turn) {
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.programs)) {
		if !yield(&q.programs[name].turn) {
			return
		}
	}
}

func (q *questions) onConsulted(now time.Time, e Consulted, do func(LaneEffect)) {
	for _, c := range q.checks {
		if c.lane == e.Lane && c.takes(e) {
			c.onReply(now, e.Reply, do)
		}
	}
	for _, p := range q.programs {
		if p.lane == e.Lane && p.takes(e) {
			do(TellReply{Program: p.program, Reply: e.Reply})
		}
	}
	q.forget()
}

// forget lets go of lanes that nothing is to be asked in, and nothing runs in.
func (q *questions) forget() {
	q.checks = slices.DeleteFunc(q.checks, func(c *checkLane) bool { return c.isFormer && c.seq == 0 })
	maps.DeleteFunc(q.programs, func(_ string, p *programLane) bool { return p.seq == 0 })
}

// advance asks what is due, and gives up what does not answer.
func (q *questions) advance(now time.Time, do func(LaneEffect)) {
	if q.isOver {
		return
	}
	for _, c := range q.checks {
		if c.isLate(now) {
			c.onReply(now, Reply{Err: errUnanswered}, do)
			c.end(now, do)
		}
		if c.isDue(now) {
			c.begun = now
			do(q.begin(now, &c.turn, Consult{Command: c.Command, About: []string{"BULLY_EVENT=check", "BULLY_CHECK=" + Safe(c.Name)}}, c.Timeout))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.programs)) {
		if p := q.programs[name]; p.isLate(now) {
			do(TellReply{Program: name, Reply: Reply{Err: errUnanswered}})
			p.end(now, do)
		}
	}
}

// deadline is when advance has something to do; zero: never.
func (q *questions) deadline() (at time.Time) {
	if q.isOver {
		return at
	}
	for t := range q.turns {
		at = earlier(at, t.dueAt())
	}
	for _, c := range q.checks {
		if c.seq == 0 {
			at = earlier(at, c.due)
		}
	}
	return at
}
