package election

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Every event, effect and status has one line of text, the same in logs, tests
// and panics. Members are named by the first eight characters of their ids.

func (Tick) String() string { return "tick" }

func (e Received) String() string {
	return fmt.Sprintf("received %v from %s", &e.Frame, e.Frame.Sender.Short())
}

func (e MemberChanged) String() string {
	m := e.Member
	return fmt.Sprintf("member %s %s life=%d priority=%d", m.ID.Short(), m.Status, m.Incarnation, m.Priority)
}

func (e LeaderReported) String() string { return fmt.Sprintf("leader reported epoch=%v", e.Epoch) }
func (e HealthChanged) String() string  { return fmt.Sprintf("health score=%d", e.Score) }
func (JoinEnded) String() string        { return "first join ended" }
func (SaveFailed) String() string       { return "save failed" }
func (SaveRecovered) String() string    { return "save recovered" }

func (e HookEnded) String() string {
	return fmt.Sprintf("%s hook ended epoch=%v ok=%t", e.Hook, e.Epoch, e.OK)
}

func (e Command) String() string {
	switch e.Verb {
	case Reprioritise:
		return fmt.Sprintf("command priority=%d", e.Priority)
	case StepDown:
		return fmt.Sprintf("command step-down for=%v%s", e.For, e.because())
	case Abdicate:
		return "command abdicate" + e.because()
	case Stand:
		return "command stand"
	case Maintain:
		return "command maintain" + map[bool]string{true: " force"}[e.Force]
	case HandOver:
		return "command handover to=" + e.To.Short()
	case Forget:
		return "command forget " + e.To.Short() + map[bool]string{true: " force"}[e.Force]
	}
	return "command leave"
}

func (e Command) because() string {
	if e.Cause == "" {
		return ""
	}
	return " cause=" + string(e.Cause)
}

func (e TetherLost) String() string { return "liveness stream lost to " + e.ID.Short() }
func (e Refused) String() string    { return "refused by " + e.ID.Short() }
func (e Entrusted) String() string {
	if e.Commitment.IsZero() {
		return "no keeper has a secret"
	}
	return "secret of the keeper " + e.Commitment.String()
}
func (e WillHeard) String() string { return "will " + e.Commitment.String() }
func (e HoldersChanged) String() string {
	return fmt.Sprintf("holders some=%t", e.Some)
}
func (e LinkChanged) String() string { return fmt.Sprintf("own link up=%t", e.Up) }
func (e Barred) String() string      { return fmt.Sprintf("barred %v=%t", e.Bar, e.On) }
func (e HostsChanged) String() string {
	return fmt.Sprintf("host list of %d digest=%016x", len(e.IDs), e.Digest)
}
func (e DiskTimed) String() string { return fmt.Sprintf("disk took %v", e.Took) }

// String gives memberlist's word.
func (p Presence) String() string {
	switch p {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	case Left:
		return "left"
	}
	return "unknown"
}

// String gives one line for a log or a transcript.
func (s Status) String() string {
	return fmt.Sprintf("%s since %v leader=%s epoch=%v cause=%s", s.State, s.Since.Format(time.RFC3339Nano), s.Leader.Short(), s.Epoch, s.Cause)
}

// String gives the hook's word.
func (h Hook) String() string {
	if h == Become {
		return "become"
	}
	return "lose"
}

func (e Save) String() string {
	s := fmt.Sprintf("save life=%d counter=%d promoted=%v", e.State.Incarnation, e.State.MaxCounter, e.State.Promoted)
	if !e.State.Vote.IsZero() {
		s += fmt.Sprintf(" vote=%v", e.State.Vote)
	}
	if e.State.Roster.Version > 0 {
		s += fmt.Sprintf(" roster=%d/%d", e.State.Roster.Version, len(e.State.Roster.IDs))
	}
	return s
}

func (e Send) String() string { return fmt.Sprintf("send %v to %v", &e.Frame, e.To) }

func (e Transition) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s → %s", e.From, e.To)
	if !e.Leader.IsZero() {
		fmt.Fprintf(&b, " leader=%s", e.Leader.Short())
	}
	if !e.Epoch.IsZero() {
		fmt.Fprintf(&b, " epoch=%v", e.Epoch)
	}
	fmt.Fprintf(&b, " cause=%s", e.Cause)
	return b.String()
}

func (e StartHook) String() string {
	s := fmt.Sprintf("%s hook epoch=%v cause=%s", e.Hook, e.Epoch, e.Cause)
	return s + by(e.By)
}

func (e HurryHook) String() string {
	return fmt.Sprintf("hurry hook epoch=%v", e.Epoch) + by(e.By)
}

func by(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " by=" + t.Format("15:04:05.000")
}

func (e StopHook) String() string { return fmt.Sprintf("stop hook epoch=%v", e.Epoch) }

func (e LeaseUntil) String() string {
	if e.Deadline.IsZero() {
		return "lease none"
	}
	return "lease until " + e.Deadline.Format("15:04:05.000")
}

func (e Reply) String() string {
	if e.Err != nil {
		return "reply " + e.Err.Error()
	}
	return "reply ok"
}

func (e Tether) String() string { return "liveness stream to " + e.ID.Short() }
func (e Will) String() string {
	names := make([]string, len(e.To))
	for i, to := range e.To {
		names[i] = to.String()
	}
	return fmt.Sprintf("will epoch=%v to=%s", e.Epoch, cmp.Or(strings.Join(names, ","), "nobody"))
}
func (e Reached) String() string { return "reached " + e.ID.Short() }
func (e Counted) String() string { return "ignored " + e.What }
func (e Departed) String() string {
	return fmt.Sprintf("departed %s life=%d", e.ID.Short(), e.Incarnation)
}
