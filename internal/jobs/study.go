package jobs

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// A new leader asks every host that counts what it knows: the voters in quorum
// mode, all that can be reached else. Each is asked for one part of its ledger
// after the other, and again where nothing comes. A host whose ledger changes
// meanwhile is asked from the beginning, so that what was told in the end is
// what one ledger held at one time.
type study struct {
	round   uint32
	tellers []teller
}

// teller is a host that is asked.
type teller struct {
	id     wire.ID
	told   bool
	place  uint16 // of the part that is asked for
	digest uint64 // of the ledger that its parts so far are from
	askAt  time.Time
	wait   time.Duration // before it is asked again
	left   int           // how often it is asked again
}

const (
	askAgainAfter = 200 * time.Millisecond // at first; each wait is twice the one before
	maxAskAgain   = 2 * time.Second
	maxAsks       = 8 // of a host whose answer nobody waits for; the three are arbitrary
)

// beginStudy asks everybody, once this leadership's fence is on disk.
func (s *Scheduler) beginStudy() {
	s.round++
	s.study = study{round: s.round}
	s.widenStudy()
}

// widenStudy asks voters that were not asked yet.
func (s *Scheduler) widenStudy() {
	hosts := s.voters
	if !s.isQuorum() {
		hosts = s.peers
	}
	for _, id := range hosts {
		isAsked := func(t teller) bool { return t.id == id }
		if id != s.cfg.Self && !slices.ContainsFunc(s.study.tellers, isAsked) {
			t := teller{id: id, wait: askAgainAfter, left: maxAsks}
			s.query(&t)
			s.study.tellers = append(s.study.tellers, t)
		}
	}
}

// isDone reports whether a majority has told, this host included.
func (y *study) isDone(s *Scheduler) bool {
	told := []wire.ID{s.cfg.Self}
	for _, t := range y.tellers {
		if t.told {
			told = append(told, t.id)
		}
	}
	return s.votersAmong(told) >= s.need
}

// query asks for a part.
func (s *Scheduler) query(t *teller) {
	t.askAt = s.now.Add(t.wait)
	m := Message{Kind: wire.LedgerQuery, Epoch: s.lead.Epoch, Owner: s.cfg.Self, Round: s.study.round, Place: t.place}
	if t.place == 0 {
		m.Digest = s.ledger.digest()
	}
	s.send(t.id, m)
}

// onQuery tells what this host knows. From then on it witnesses no claim of an
// earlier leader, so that the asker knows all that those can have started.
func (s *Scheduler) onQuery(from wire.ID, m *Message) {
	if from != m.Owner || m.Epoch < s.ledger.fence || m.Epoch > maxEpoch {
		s.refuse(from, "query")
		return
	}
	s.ledger.raiseFence(m.Epoch)
	s.mustSave = true
	answer := Message{Kind: wire.LedgerPart, Epoch: m.Epoch, Owner: m.Owner, Round: m.Round, Place: m.Place,
		Digest: s.ledger.digest()}
	if answer.Digest != m.Digest {
		parts := s.ledger.parts()
		if int(answer.Place) >= len(parts) { // the ledger has shrunk
			answer.Place = 0
		}
		answer.Count, answer.Payload = uint16(len(parts)), parts[answer.Place].mustAppend()
	}
	s.send(from, answer)
}

// onPart takes an answer and asks for the next part.
func (s *Scheduler) onPart(from wire.ID, m *Message) {
	i := slices.IndexFunc(s.study.tellers, func(t teller) bool { return t.id == from })
	if i < 0 || m.Owner != s.cfg.Self || m.Epoch != s.lead.Epoch || m.Round != s.study.round || s.study.tellers[i].told {
		return // an answer that came late
	}
	t := &s.study.tellers[i]
	switch {
	case m.Count == 0:
		t.finish()
		return
	case m.Count > maxParts || m.Place >= m.Count:
		s.refuse(from, "part")
		return
	case m.Place == 0:
		t.digest = m.Digest
	case m.Digest != t.digest:
		t.place = 0
		s.query(t)
		return
	}
	if m.Place == t.place || m.Place == 0 {
		s.takePart(t, m)
	}
}

func (s *Scheduler) takePart(t *teller, m *Message) {
	if !s.takeIn(t.id, leader, []byte(m.Payload)) {
		return // it is asked again later
	}
	t.place, t.wait = m.Place+1, askAgainAfter
	if t.place == m.Count {
		t.finish()
		return
	}
	s.query(t)
}

func (t *teller) finish() { t.told, t.askAt = true, time.Time{} }

// expireStudy asks again where nothing came. Those whose answer is waited for
// are asked as long as this host leads.
func (s *Scheduler) expireStudy() {
	isWaiting := s.isQuorum() && !s.study.isDone(s)
	for i := range s.study.tellers {
		t := &s.study.tellers[i]
		if !s.isDue(t.askAt) {
			continue
		}
		if t.left--; t.left < 0 && !isWaiting {
			t.askAt = time.Time{}
			continue
		}
		t.wait = min(2*t.wait, maxAskAgain)
		s.query(t)
	}
}
