package reader

import (
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// stillAfter is when an agent is said to stand still: it is to show itself every second, and so was missed three times,
// as its own loop is (agent).
const stillAfter = 3 * showEvery

// aged is a status as the agent would give it now, if nothing has changed since it gave it, so long ago. Until when it leads it
// does not say itself: the lease goes on for so long, or has ended. Whoever acts on it is told of no leadership that has ended.
func aged(s control.Status, by, lease time.Duration) control.Status {
	s.Uptime += by.Seconds()
	s.HoldDownMS = max(s.HoldDownMS-by.Milliseconds(), 0)
	loop := time.Duration(s.LoopAgeMS)*time.Millisecond + by
	s.LoopAgeMS = loop.Milliseconds()
	if s.LeaderIsSelf {
		if lease > 0 {
			left := lease.Milliseconds()
			s.LeaseRemainMS = &left
		} else {
			s.LeaderIsSelf, s.Ready, s.Degraded = false, false, false
			s.Leader, s.LeaseRemainMS = nil, nil
		}
	}
	if by < stillAfter {
		return s
	}
	if s.Standstill == "" {
		s.Standstill = fmt.Sprintf("the agent has stood still for %v", loop.Truncate(time.Second))
	}
	s.Ready = false
	if !s.LeaderIsSelf {
		s.Leader, s.WhyNoLeader = nil, s.Standstill
	}
	return s
}
