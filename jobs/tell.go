package jobs

import "slices"

// tellAll tells all others, once it is on disk, what the ledger has of a job
// beside its runs, and the new versions of these.
func (s *Scheduler) tellAll(job string, runs ...Run) {
	s.mustSave = true
	e, _ := s.ledger.Entry(job)
	e.Runs = runs
	l := Ledger{entries: []Entry{e}}
	m := Message{Kind: RecordMessage, Epoch: s.lead.Epoch, Owner: s.cfg.Self, Payload: l.mustAppend()}
	for _, to := range s.others() {
		s.send(to, m)
	}
}

// others are the hosts that are told: those that can be reached, and the voters.
func (s *Scheduler) others() []ID {
	all := slices.Concat(s.peers, s.voters)
	slices.SortFunc(all, compareID)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(id ID) bool { return id == s.cfg.Self })
}

// send sends after the step's Save. A host whose disk fails says nothing.
func (s *Scheduler) send(to ID, m Message) {
	if !s.diskFailed {
		s.after = append(s.after, Send{To: to, Message: m})
	}
}

// takeIn merges what another host knows.
func (s *Scheduler) takeIn(from ID, b []byte) bool {
	theirs, err := Parse(b)
	if err != nil {
		s.refuse(from, "ledger")
		return false
	}
	if _, ahead := theirs.Ahead(s.now); ahead {
		s.refuse(from, "ahead")
		return false
	}
	was := s.ledger.edits
	s.ledger.Merge(theirs)
	s.ledger.Prune(s.now, s.cfg.Table)
	s.strays = s.strays || s.ledger.edits != was
	return true
}
