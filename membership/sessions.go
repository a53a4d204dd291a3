package membership

import (
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// Sessions show who is there. Gossip says where to look: each member can say of each other whatever it likes, and answer a
// ping in another's place, since an answer bears a number and no name. What came in a life's own session is that life's.
//
// None of the methods waits. Membership calls all but IsKnown without its lock, and neither does Watch's function hold one of theirs.
type Sessions interface {
	// SetCard replaces what this host says of itself, in each session.
	SetCard(card []byte)
	// HasSaid reports whether each host that was heard a moment ago has the card.
	HasSaid() bool
	// Watch has f told of each host that is here: its card has come in its own session, has changed, or its address has.
	Watch(f func(session.Shown))
	// ShowAgain has f told anew of each life of an id that is heard from now on.
	ShowAgain(id wire.ID)
	// Ask has whoever is at an address say something, in a session, which is made if there is none.
	Ask(to netip.AddrPort)
	// IsKnown reports whether a host is none of those that are new: it is in the roster or the host list, or was met ten minutes ago.
	IsKnown(id wire.ID) bool
	// Heard says of a life with a session in which life of its host it is, where it is reached, and how long ago something last
	// came from it.
	Heard(id wire.ID, nonce uint32) (incarnation uint32, addr netip.AddrPort, ago time.Duration, ok bool)
}

// say shows this host's card as it is now. Two calls at a time show the newest last.
func (m *Membership) say() {
	m.saying.Lock()
	defer m.saying.Unlock()
	m.mu.Lock()
	card := appendCard(nil, m.self)
	m.mu.Unlock()
	m.sessions.SetCard(card)
}

// onShown takes what a session shows.
func (m *Membership) onShown(s session.Shown) {
	member, r := m.admit.card(s)
	if r != nil {
		m.notAdmitted(nodeName(member.ID, member.Nonce), s.Addr, r)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if m.lives.show(member, time.Now()) {
		m.signal()
	}
	m.arm()
}

// arm has turn called when lives has something to do. Its caller holds mu.
func (m *Membership) arm() {
	now := time.Now()
	at := m.lives.deadline(now)
	if m.closed || at.IsZero() {
		return
	}
	m.timer.Reset(max(at.Sub(now), 0))
}

// turn does what lives has to do.
func (m *Membership) turn() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	do := m.lives.due(time.Now())
	if do.lost {
		m.rejoin.lostMember()
	}
	if do.news || !m.first.isTold { // it may have an outcome now
		m.signal()
	}
	m.arm()
	m.mu.Unlock()
	for _, id := range do.show {
		m.sessions.ShowAgain(id)
	}
	for _, addr := range do.dial {
		m.sessions.Ask(addr)
	}
}

// told passes on what memberlist believes of a life. It is called with memberlist's lock held.
func (m *Membership) told(name string, member Member, note func(*lives, Member, time.Time) bool) {
	if name == m.name {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return // suspicion timers fire after Shutdown
	}
	if note(&m.lives, member, time.Now()) {
		m.signal()
	}
	m.arm()
}

// doubt is told that another host suspects a life: it is asked whether it lives.
func (m *Membership) doubt(name lifeName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed && m.lives.doubted(name, time.Now()) {
		m.arm()
	}
}
