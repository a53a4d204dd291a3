package jobs

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Repetitions of a claim: lost datagrams cost this much time. Arbitrary, some
// round trips of a LAN; each wait is twice the one before.
const resendAfter = 100 * time.Millisecond

// claim is a wish to run a slot that waits for a majority (quorum mode).
type claim struct {
	Claim
	message  Message
	admitted []wire.ID // voters that have it on disk, this host included
	refused  []wire.ID // voters that will not
	token    uint64

	resendAt time.Time
	wait     time.Duration // before the next repetition
	until    time.Time     // zero: its Save may not be over
}

// claim does what a Start asks for. The record is in the ledger, as Claimed.
func (s *Scheduler) claim(d Decision, token uint64) {
	s.mine = append(s.mine, mine{job: *s.find(d.Job), key: d.Run.Key})
	c := &claim{Claim: d.Claim(), token: token, wait: resendAfter,
		resendAt: s.now.Add(resendAfter)}
	if !s.isQuorum() {
		s.win(c)
		return
	}
	s.round++
	c.message = Message{Kind: wire.JobClaim, Epoch: s.lead.Epoch, Owner: s.cfg.Self, Round: s.round,
		Payload: c.ledger().mustAppend()}
	s.claims = append(s.claims, c)
	s.mustSave = true
	c.take(s.cfg.Self, s.ledger.hasForgotten(c.Run.Slot)) // self is a voter
	s.sendClaim(c)
	s.count(c)
}

// sendClaim asks the voters that have not answered.
func (s *Scheduler) sendClaim(c *claim) {
	for _, voter := range s.voters {
		if voter != s.cfg.Self && !slices.Contains(c.admitted, voter) && !slices.Contains(c.refused, voter) {
			s.send(voter, c.message)
		}
	}
}

// onClaim witnesses a claim, or says why not. The answer follows the Save: what
// was said is never forgotten.
func (s *Scheduler) onClaim(from wire.ID, m *Message) {
	c, err := ParseClaim([]byte(m.Payload))
	if err != nil || from != m.Owner || c.Run.Owner != from || c.Run.Epoch != m.Epoch {
		s.refuse(from, "claim")
		return
	}
	s.learnTime(from, c.Run.Slot)
	s.vouch(from, c.Run.Claimed)
	why := ReasonFull
	if s.hasRoom(c.Job) {
		why = s.ledger.Admit(s.now, c)
		s.prune()
	}
	s.mustSave = s.mustSave || why == ReasonNone
	s.send(from, Message{Kind: wire.JobWitness, Epoch: m.Epoch, Owner: m.Owner, Round: m.Round, Why: why})
}

// onWitness takes a voter's answer.
func (s *Scheduler) onWitness(from wire.ID, m *Message) {
	i := slices.IndexFunc(s.claims, func(c *claim) bool {
		return m.Owner == s.cfg.Self && m.Epoch == c.message.Epoch && m.Round == c.message.Round
	})
	if i < 0 || slices.Contains(s.claims[i].admitted, from) {
		return // an answer that came late, or twice
	}
	c := s.claims[i]
	if m.Why == ReasonAhead {
		s.refuse(from, "claim-ahead") // this clock is ahead, or that one behind
	}
	c.take(from, m.Why)
	s.count(c)
}

// take notes a voter's word: its last one counts.
func (c *claim) take(voter wire.ID, why Reason) {
	c.refused = slices.DeleteFunc(c.refused, func(id wire.ID) bool { return id == voter })
	if why == ReasonNone {
		c.admitted = append(c.admitted, voter)
	} else {
		c.refused = append(c.refused, voter)
	}
}

// count looks whether a claim is decided.
func (s *Scheduler) count(c *claim) {
	admitted, refused := s.votersAmong(c.admitted), s.votersAmong(c.refused)
	switch {
	case !s.lead.owns(c.Run) || s.isDeposed(): // policy gives it up
	case admitted >= s.need:
		s.win(c)
	case len(s.voters)-refused < s.need:
		s.lose(c, ReasonNoMajority)
	}
}

func (s *Scheduler) votersAmong(ids []wire.ID) int {
	n := 0
	for _, id := range s.voters {
		if slices.Contains(ids, id) {
			n++
		}
	}
	return n
}

// win starts a run that is witnessed.
func (s *Scheduler) win(c *claim) {
	s.claims = slices.DeleteFunc(s.claims, func(other *claim) bool { return other == c })
	r := c.Run.Began(s.now)
	s.ledger.Put(c.Job, r)
	s.begin(c.Job, r)
	if c.token != 0 {
		s.reply(c.token, r, nil)
	}
}

// lose gives up a claim, such as one that too few will witness, or have in time.
func (s *Scheduler) lose(c *claim, why Reason) {
	r := c.Run.Refused(s.now)
	s.carryOut(Decision{Job: c.Job, Do: GiveUp, Why: why, Slot: r.Slot, Run: r}, 0)
}

// dropClaim forgets a claim whose run has ended before it began.
func (s *Scheduler) dropClaim(job string, k Key, why Reason) {
	i := slices.IndexFunc(s.claims, func(c *claim) bool { return c.Job == job && c.Run.Key == k })
	if i < 0 {
		return
	}
	c := s.claims[i]
	s.claims = slices.Delete(s.claims, i, i+1)
	if c.token == 0 {
		return
	}
	err := error(&NotRunError{Job: job, Why: why})
	if s.diskFailed { // whatever else: that is what a person can mend
		err = ErrDisk
	}
	s.reply(c.token, c.Run.Refused(s.now), err)
}

// timeClaims gives new claims their time, which begins when their Save has ended:
// that is before the next step.
func (s *Scheduler) timeClaims() {
	for _, c := range s.claims {
		if c.until.IsZero() {
			c.until = s.now.Add(s.cfg.ClaimTimeout)
		}
	}
}

// expireClaims repeats claims and gives up those whose time has ended.
func (s *Scheduler) expireClaims() {
	for _, c := range slices.Clone(s.claims) {
		switch {
		case s.isDue(c.until):
			s.lose(c, ReasonNoMajority)
		case s.isDue(c.resendAt):
			c.wait *= 2
			c.resendAt = s.now.Add(c.wait)
			s.sendClaim(c)
		}
	}
}
