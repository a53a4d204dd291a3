package membership

import "time"

const (
	// maxMembers bounds how many lives of other members may be believed alive at once.
	// Any member can make others up; each costs memory here and a
	// probe in every round. It is above what the protocol was designed for (1,000).
	maxMembers = 2000

	// maxLives bounds those of one id: a member that restarts leaves some behind, until
	// memberlist finds them dead seconds later, and may have been cloned.
	maxLives = 8

	// memberlist remembers a name for half a minute after its end and for a round of
	// probes more, and there is no way to have it forget one. So names that it has not
	// had before come at a bounded rate: as many as a group has that starts at once,
	// and then these for each second. Members that once answered have their own, each
	// and together, so that made-up ones do not keep them from coming back.
	newNames, newNamesASecond       = maxMembers, 2
	ownNames, ownNamesASecond       = 16, 1
	provenNames, provenNamesASecond = maxMembers, 20
)

// budget is used up and comes back with time. The zero value is full.
type budget struct {
	used float64
	at   time.Time
}

// spend takes one of most that come back at a rate for each second, if there is
// one.
func (b *budget) spend(now time.Time, most, rate float64) bool {
	b.used = max(b.used-now.Sub(b.at).Seconds()*rate, 0)
	b.at = now
	if b.used+1 > most {
		return false
	}
	b.used++
	return true
}

// admit decides whether a life that memberlist hears of may come in. Those that are
// there stay, whatever others say.
func (l *lives) admit(m Member, now time.Time) *refusal {
	r := l.byID[m.ID]
	if r != nil && sameLife(r.now, m) {
		return r.admitAgain(m)
	}
	proven := r != nil && !r.heard.IsZero()
	switch {
	case r != nil && r.present[m.Nonce]:
		return nil
	case r != nil && len(r.present) >= maxLives:
		return refuse("lives", "%d lives of it are believed alive", maxLives)
	case !proven && l.present >= maxMembers:
		return refuse("full", "%d members are alive already", maxMembers)
	case r != nil && !r.names.spend(now, ownNames, ownNamesASecond),
		!proven && !l.names.spend(now, newNames, newNamesASecond),
		proven && !l.proven.spend(now, provenNames, provenNamesASecond):
		return refuse("rate", "too many new names")
	}
	return nil
}

// admitAgain is about the newest life that is known. It keeps its address as long as
// it lives (Membership.self), so who says another is a copy of it or made up: of one
// that memberlist believes alive it reports the copy, and would follow it once it has
// ended the life, which any member can say.
func (r *record) admitAgain(m Member) *refusal {
	if !r.present[m.Nonce] && r.now.Addr != m.Addr {
		return refuse("moved", "address is %s, it was %s before", m.Addr, r.now.Addr)
	}
	return nil
}
