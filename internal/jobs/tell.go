package jobs

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// tellAll tells all others, once it is on disk, what the ledger has of a job
// beside its runs, and the new versions of these.
func (s *Scheduler) tellAll(job string, runs ...Run) {
	s.mustSave = true
	e, _ := s.ledger.Entry(job)
	e.Runs = runs
	over := slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.Owner != s.cfg.Self || r.Phase != Ended })
	for _, r := range over {
		s.justOver = append(s.justOver, stray{job, r})
	}
	if s.diskFailed {
		// All that a host says whose disk fails is which of its own runs have ended. That is
		// so whether it is on the disk or not; for the next leader they would go on until
		// their timeout.
		if e = (Entry{Job: job, Runs: over}); len(over) == 0 {
			return
		}
	}
	l := Ledger{entries: []Entry{e}}
	m := Message{Kind: wire.JobRecord, Epoch: s.lead.Epoch, Owner: s.cfg.Self, Payload: l.mustAppend()}
	for _, to := range s.others() {
		s.after = append(s.after, Send{To: to, Message: m})
	}
}

// How fast new voters are told: a ledger can be hundreds of datagrams. Both are
// arbitrary.
const (
	tellAtOnce = 64
	tellAgain  = 10 * time.Millisecond
)

// tellVoters tells all voters all that is known: after two changes of the roster
// there need not be a voter left that witnessed what the roster before started.
func (s *Scheduler) tellVoters() {
	s.telling, s.mustSave = nil, true
	for _, part := range s.ledger.parts() {
		m := Message{Kind: wire.JobRecord, Epoch: s.lead.Epoch, Owner: s.cfg.Self, Payload: part.mustAppend()}
		for _, voter := range s.voters {
			if voter != s.cfg.Self {
				s.telling = append(s.telling, Send{To: voter, Message: m})
			}
		}
	}
	s.tellAt = s.now
}

// tellMore tells some of what is to be told.
func (s *Scheduler) tellMore() {
	if !s.isDue(s.tellAt) {
		return
	}
	n := min(len(s.telling), tellAtOnce)
	for _, e := range s.telling[:n] {
		s.send(e.To, e.Message)
	}
	if s.telling, s.tellAt = s.telling[n:], s.now.Add(tellAgain); len(s.telling) == 0 {
		s.telling, s.tellAt = nil, time.Time{}
	}
}

// others are the hosts that are told: those that can be reached, and the voters.
func (s *Scheduler) others() []wire.ID {
	all := slices.Concat(s.peers, s.voters)
	slices.SortFunc(all, wire.ID.Compare)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(id wire.ID) bool { return id == s.cfg.Self })
}

// send sends after the step's Save. A host whose disk fails says nothing, but for
// tellAll.
func (s *Scheduler) send(to wire.ID, m Message) {
	if !s.diskFailed {
		s.after = append(s.after, Send{To: to, Message: m})
	}
}

// takeIn merges what another host knows, except for what cannot be (credible). It
// reports whether that could be read.
func (s *Scheduler) takeIn(from wire.ID, who trusted, b []byte) bool {
	theirs, err := Parse(b)
	if err != nil {
		s.refuse(from, "ledger")
		return false
	}
	for i := range theirs.entries {
		s.learnTime(from, theirs.entries[i].activity())
	}
	was := s.ledger.edits
	told := s.credible(from, who, theirs)
	s.ledger.reopen(told, s.now)
	s.ledger.Merge(told)
	s.prune()
	s.strays = s.strays || s.ledger.edits != was
	return true
}
