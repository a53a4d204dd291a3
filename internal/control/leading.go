package control

import "time"

// WhyNotLeading says why the agent may not act as the leader when this is read, age after
// it was asked for; "" if it may. It fails closed: the lease was measured in between, so to
// take the whole age off it errs on the safe side. The asker, or the whole machine, may have
// been stopped since.
func (s Status) WhyNotLeading(age time.Duration) string {
	switch {
	case !s.LeaderIsSelf && s.Leader == nil:
		return "no leader is known"
	case !s.LeaderIsSelf:
		return s.Leader.Name + " does"
	case !s.Ready:
		return "it leads, but its become-leader hook has not succeeded"
	case s.LeaseRemainMS == nil || time.Duration(*s.LeaseRemainMS)*time.Millisecond <= age:
		return "it leads no more: its lease has ended"
	}
	return ""
}
