package lab

import (
	"context"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// board is what the page of a lab shows: the agents as their leader sees them, and what happened as the journal has it, all on
// one clock. It is a control.Backend as far as a page asks. Any goroutine may ask.
type board struct {
	control.Backend // nil: nobody asks a lab for the rest of it

	lab  *lab
	ring *control.Ring

	mu      sync.Mutex
	status  control.Status
	members []control.Member
	jobs    []control.Job
}

// lookEvery is how often the agents are asked on behalf of all who look. Arbitrary: shorter than the page's questions.
const lookEvery = 200 * time.Millisecond

func newBoard(l *lab) *board {
	b := &board{lab: l, ring: &control.Ring{}}
	b.status = b.ofNobody()
	return b
}

// run asks the agents until ctx ends.
func (b *board) run(ctx context.Context) {
	for sleep(ctx, lookEvery) == nil {
		b.look(ctx)
	}
}

// look asks the leader; if nobody leads, whoever answers first in the order of the nodes.
func (b *board) look(ctx context.Context) {
	var chosen *view
	views := ask(ctx, b.lab.awake())
	for i, v := range views {
		better := chosen == nil || v.status.LeaderIsSelf && (!chosen.status.LeaderIsSelf || v.status.Epoch.Counter > chosen.status.Epoch.Counter)
		if v.err == nil && better {
			chosen = &views[i]
		}
	}
	if chosen == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.status = b.ofNobody() // the members and jobs are those of the last look
		return
	}
	limit, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	members, err := chosen.node.client.Members(limit)
	if err != nil {
		return // it has just gone: the next look is soon
	}
	jobs, err := chosen.node.client.Jobs(limit, 1)
	if err != nil {
		return
	}
	status := chosen.status
	status.Cluster, status.Self.Incarnation = "lab", 0 // the events are the lab's, in one life
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status, b.members, b.jobs = status, members, jobs
}

// ofNobody is the status while no agent answers.
func (b *board) ofNobody() control.Status {
	return control.Status{Cluster: "lab", Mode: b.lab.Mode, Algorithm: b.lab.Algorithm, Preempt: b.lab.Preempt, Profile: b.lab.Profile,
		WhyNoLeader: "no agent of the lab answers", Promise: b.lab.title()}
}

// Status implements control.Backend.
func (b *board) Status() control.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

// Members implements control.Backend.
func (b *board) Members() []control.Member {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.members
}

// Jobs implements control.Backend.
func (b *board) Jobs(context.Context, int) ([]control.Job, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.jobs, nil
}

// Events implements control.Backend.
func (b *board) Events(since uint64) ([]control.Event, <-chan struct{}) { return b.ring.Events(since) }

// note makes an event of a record. The journal calls it in order.
func (b *board) note(r verdict.Record) {
	e := control.Event{Time: b.at(r.At), Member: r.Node, Cause: r.Cause, Text: r.Node + " " + r.What.String()}
	switch {
	case r.What.IsHook() || r.What == verdict.Agreed:
		e.Type = "transition"
		e.Epoch = &control.Epoch{Counter: r.Epoch.Counter, Owner: r.Epoch.Owner}
		if r.What == verdict.Became {
			e.Role, e.Leader = "leader", r.Node
		}
	case r.What == verdict.Started:
		e.Type = "start"
	case r.What == verdict.Exited:
		e.Type = "stop"
	default:
		e.Type = "fault"
	}
	b.ring.Append(e)
}

// at is the wall clock at a time of the journal.
func (b *board) at(since time.Duration) time.Time { return b.lab.journal.begun.Add(since) }

// History implements control.Backend. A leadership begins with its become hook. It ends with the fault that ended it, so
// that the time to the next one is the whole of a failover; without one, with its lose hook.
func (b *board) History() []control.Leadership {
	var all []control.Leadership
	faults := map[string]verdict.Record{} // node → what was done to it last while it led
	for _, r := range b.lab.journal.all() {
		last := len(all) - 1
		leads := last >= 0 && all[last].Leader.Name == r.Node && all[last].Ended == ""
		switch {
		case r.What == verdict.Became:
			if last >= 0 && all[last].Ended == "" {
				b.end(&all[last], r, faults[all[last].Leader.Name])
			}
			delete(faults, r.Node)
			all = append(all, control.Leadership{Epoch: control.Epoch{Counter: r.Epoch.Counter, Owner: r.Epoch.Owner},
				Leader: control.Node{ID: r.Epoch.Owner, Name: r.Node}, From: b.at(r.At), Began: r.Cause})
		case leads && r.What.IsFault():
			faults[r.Node] = r
		case leads && (r.What == verdict.Continued || r.What == verdict.Plugged):
			delete(faults, r.Node) // it came through
		case leads && (r.What == verdict.Losing || r.What == verdict.Exited):
			b.end(&all[last], r, faults[r.Node])
		}
	}
	return all
}

// end ends a leadership at the fault that ended it, if there was one, or as r tells.
func (b *board) end(l *control.Leadership, r, fault verdict.Record) {
	l.Ended, l.To = r.Cause, b.at(r.At)
	if r.What == verdict.Became || l.Ended == "" {
		l.Ended = "superseded"
	}
	if fault.What != 0 {
		l.Ended, l.To = fault.What.Token(), b.at(fault.At)
	}
}
