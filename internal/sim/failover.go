package sim

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/wire"
)

// Failover is what one fault-free failover of a large group took.
type Failover struct {
	Nodes     int
	Agreed    time.Duration // first agreement, from the start of all at once
	Took      time.Duration // the leader's host fails → all others follow one leader
	Datagrams uint64        // of the election in that time
	Detection uint64        // heartbeats, probes and their answers
	Steps     uint64
	Violation *Violation
}

// electionKinds are the datagrams that an election consists of.
var electionKinds = []wire.Kind{wire.Election, wire.Canvass, wire.Answer, wire.Coordinator, wire.CoordAck, wire.Nominate, wire.Resign, wire.ResignAck}

// Fail lets o.Nodes machines, which may be a thousand, start at once in calm
// weather, and switches the leader's host off. The mode is available unless o
// says quorum.
func Fail(o Options) Failover {
	w := newCalm(&o)
	w.populate()
	w.castAlike()
	w.record = newRecord(w.net.size)
	for _, m := range w.machines {
		w.boot(m)
	}
	f := Failover{Nodes: w.size}
	if w.agreeBy(int64(time.Minute), 20*time.Millisecond) {
		f.Agreed = time.Duration(w.now)
		w.runUntil(w.now+int64(3*time.Second), nil)
		w.failLeader(&f)
	} else {
		w.i12OneLeader(time.Minute)
	}
	f.Steps, f.Violation = w.steps, w.failure
	return f
}

// castAlike lets everybody stand, by number; in quorum mode the best of them, as
// many as a roster can hold, vote, and the others watch.
func (w *World) castAlike() {
	for i, m := range w.machines {
		m.cfg.Part, m.cfg.Priority = election.Voter, uint16(m.number)
		place := w.size - 1 - i
		if w.base.Algorithm == election.Smallest {
			place = i
		}
		if w.mode == Quorum {
			m.cfg.Expect = min(w.size, wire.MaxVoters)
		}
		if w.mode == Quorum && place >= wire.MaxVoters {
			m.cfg.Part = election.Observer
		}
	}
}

func (w *World) failLeader(f *Failover) {
	i := slices.IndexFunc(w.machines, w.acts)
	if i < 0 {
		w.i12OneLeader(3 * time.Second)
		return
	}
	w.net.sent = [len(w.net.sent)]uint64{}
	began := w.now
	w.kill(w.machines[i], PowerLoss)
	if !w.agreeBy(began+int64(time.Minute), time.Millisecond) {
		w.i12OneLeader(time.Minute)
		return
	}
	f.Took = time.Duration(w.now - began)
	for kind, count := range w.net.sent {
		if slices.Contains(electionKinds, wire.Kind(kind)) {
			f.Datagrams += count
		} else {
			f.Detection += count
		}
	}
}
