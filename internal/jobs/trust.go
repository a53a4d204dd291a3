package jobs

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// What a host that lies, or whose clock is wrong, can say is held against what the
// protocol can produce, and the rest is not taken:
//
//   - times: the present and Tolerance, but for the end of a run that is known
//     here to be of the future (Ledger.past). So nothing that is told blocks a job by its time alone, however
//     often it is told: it is a matter of a minute;
//   - timeouts of what others run: where nobody proves who they are, by the table's own.
//     With proof they are believed, at most MaxTimeout;
//   - pauses: whose time is the later, so that no version is beyond a person's next word;
//   - fences: the epochs of claims and questions, by what the election has accepted;
//   - jobs that are in no table here: only from the leader, or from who is asked by this
//     one, and only where there is room, which is not made for them;
//   - versions of a run that is open here: only that it is lost, once its command's
//     time has ended.
//
// What was refused once comes again, from who has reason to say it, so a bound that
// is hit in good faith costs time, and a Refused names it.

// trusted is who another host is for what it tells.
type trusted uint8

const (
	hearsay trusted = iota // anybody's word of anybody
	leader                 // the leader's record, or an answer to this leader
)

// idleRoom is for how long nothing was heard of a job in no table before another that
// this host does not know may have its place. Arbitrary: more than a roll-out of a
// table takes, less than KeepJob.
const idleRoom = 24 * time.Hour

// credible is what this host takes of another's ledger: a part of it that shares
// nothing with it.
func (s *Scheduler) credible(from wire.ID, who trusted, theirs *Ledger) *Ledger {
	l, isCut := theirs.past(s.now, s.ledger)
	if isCut {
		s.refuse(from, "ahead")
	}
	room := s.room()
	l.entries = slices.DeleteFunc(l.entries, func(e Entry) bool {
		if _, known := s.ledger.find(e.Job); known || s.find(e.Job) != nil {
			return false
		}
		switch {
		case who == hearsay:
			s.refuse(from, "unknown-job")
			return true
		case room == 0:
			s.refuse(from, "full")
			return true
		}
		room--
		return false
	})
	for i := range l.entries {
		e := &l.entries[i]
		was := len(e.Runs)
		e.Runs = slices.DeleteFunc(e.Runs, func(r Run) bool { return s.contradicts(e.Job, r) })
		if len(e.Runs) < was {
			s.refuse(from, "own-run")
		}
	}
	return l
}

// contradicts reports whether a record says of a run that is open here what only this
// host can know. Others wait for longer than this host until they count a run as lost
// (view.over), unless clocks differ by more than J3 allows for.
func (s *Scheduler) contradicts(job string, r Run) bool {
	m := s.open(job, r.Key)
	if m == nil {
		return false
	}
	own, known := s.ledger.run(job, r.Key)
	if !known || r.compare(own) <= 0 {
		return false // says nothing new
	}
	return r.Phase != Lost || m.runs && s.now.Before(m.dueAt)
}

// room is how many jobs may come that neither the table nor the ledger has.
func (s *Scheduler) room() int {
	free := max(MaxJobs-len(s.ledger.entries), 0)
	for i := range s.ledger.entries {
		if e := &s.ledger.entries[i]; s.find(e.Job) == nil && e.activity() < SlotOf(s.now.Add(-idleRoom)) {
			free++
		}
	}
	return free
}

// hasRoom reports whether a claim's job may be witnessed: a witness must keep what it
// has said.
func (s *Scheduler) hasRoom(job string) bool {
	_, known := s.ledger.find(job)
	return known || s.find(job) != nil || s.room() > 0
}
