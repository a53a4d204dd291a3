package agent

import (
	"github.com/bully-agent/bully-agent/election"
)

// noteSecret tells the node which secret the keeper has by now, whose hash its frames announce
// (docs/protocol.md, M24).
func (s *seat) noteSecret() {
	if c := s.runner.Commitment(); c != s.entrusted {
		s.entrusted = c
		s.step(election.Entrusted{Commitment: c})
	}
}

// heed tells the host which wills would mean something to the node. All others end at the port.
func (s *seat) heed() {
	if known := s.node.Pledges(); known != s.heeded {
		s.heeded = known
		s.around.heed(known)
	}
}

// returnLease is called with each renewal: the last that somebody was told has ended, and
// nobody stays who hears of more.
func (s *seat) returnLease() {
	s.holders.giveBack(s.around.now(), s.runner.Return)
}

// noteHolders tells the node whether something beside the hooks acts on the lease. The
// loop calls it.
func (s *seat) noteHolders() {
	if some := s.holders.areThere(); some != s.hasHolders {
		s.hasHolders = some
		s.step(election.HoldersChanged{Some: some})
	}
}
