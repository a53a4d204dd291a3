package agent

import (
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/keeper"
	"github.com/bully-agent/bully-agent/wire"
)

// leaveWill gives the keeper the finished datagrams by which this leadership is resigned
// if this process dies (docs/protocol.md, M24).
func (s *seat) leaveWill(e election.Will) {
	s.fading = nil
	letters := make([]keeper.Letter, 0, len(e.Letters))
	for _, l := range e.Letters {
		b, fades := s.around.finish(l.To, wire.Append(nil, &l.Frame))
		if b != nil {
			letters = append(letters, keeper.Letter{To: l.To, Datagram: b})
		}
		if fades {
			s.fading = e.Letters
		}
	}
	s.runner.Will(letters)
}

// renewWill finishes the same letters once more: what is sealed in advance opens only
// while its number is among the newest of its session.
func (s *seat) renewWill() {
	if s.fading != nil {
		s.leaveWill(election.Will{Letters: s.fading})
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
