package agent

import (
	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
)

// apply carries out one effect. Only a Save can fail.
func (s *seat) apply(effect election.Effect) error {
	switch e := effect.(type) {
	case election.Save:
		return s.save(e.State)
	case election.Send:
		s.around.send(e.To, e.Frame)
	case election.Transition:
		s.onTransition(e)
	case election.LeaseUntil:
		s.onLease(e.Deadline)
	case election.StartHook:
		if !s.refuses(e) && !s.holdsUp(e) {
			s.startHook(e)
		}
	case election.HurryHook:
		s.hurryHook(e.Epoch, election.LeaseExpired, e.By)
	case election.StopHook:
		s.runner.Stop(e.Epoch.Counter)
	case election.Reply:
		done := s.replies[e.Token]
		delete(s.replies, e.Token)
		done(e.Err)
	case election.Departed:
		s.around.departed(e.ID, e.Nonce)
	case election.Tether:
		s.around.tether(e)
	case election.Will:
		s.runner.Will(e.To)
	case election.Reached:
		s.onReached(e.ID)
	case election.Counted:
		s.onCounted(e.What)
	default:
		panic("BUG: unknown effect " + effect.String())
	}
	return nil
}

// onCounted counts what was ignored. What a person can mend is also said, once
// a minute at most, and never as an error: it came from the network.
func (s *seat) onCounted(what string) {
	s.around.count("election_"+what, 1)
	switch what {
	case "other-mode", "config-mismatch", "counter-jump", "address-mismatch":
		s.around.warnRarely("frame ignored or doubtful", "cause", what)
	}
}

// warn tells people of something that they should mend.
func (s *seat) warn(cause, text string) {
	s.warnFirst(true, cause, text)
}

// warnFirst is warn for what is tried again and again: the keeper logs each attempt that fails, so the log has this once.
func (s *seat) warnFirst(isFirst bool, cause, text string) {
	if isFirst {
		s.log.Error(text, "cause", cause)
	}
	s.around.event(control.Event{Type: "warning", Cause: cause, Text: text})
}
