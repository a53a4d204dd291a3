package sealed

import (
	"net/netip"
	"time"

	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// SetCard replaces what this host says of itself in each session: at most session.MaxCard bytes. Until the first it is here for
// nobody. Renew forgets it: the next life says its own.
func (l *LAN) SetCard(card []byte) {
	l.locked(func(t *session.Table, now time.Time) { t.SetCard(now, card) })
}

// HasSaid reports whether each host that was heard a moment ago has the card.
func (l *LAN) HasSaid() (has bool) {
	l.locked(func(t *session.Table, now time.Time) { has = t.HasSaid(now) })
	return has
}

// Watch has f told of each host that is here, once it is heard next, and then of its changes: in their order, in the goroutine of
// ReadFrame and without the LAN's lock. f takes the place of the one before.
func (l *LAN) Watch(f func(session.Shown)) {
	l.locked(func(t *session.Table, _ time.Time) {
		l.watch = f
		t.ShowAgain(func(wire.ID) bool { return true })
	})
}

// ShowAgain has the watcher told anew of each life of an id that is heard from now on.
func (l *LAN) ShowAgain(id wire.ID) {
	l.locked(func(t *session.Table, _ time.Time) { t.ShowAgain(func(other wire.ID) bool { return other == id }) })
}

// Receipts are those that hosts have given this one to keep, if they are others than at a version; else none, and that version. Zero
// is no version.
func (l *LAN) Receipts(since uint64) (all []session.Receipt, version uint64) {
	l.locked(func(t *session.Table, _ time.Time) { all, version = t.Receipts(since) })
	return all, version
}

// IsKnown reports whether a host is none of those that are new: it is in the roster or the host list, or was met ten minutes ago.
func (l *LAN) IsKnown(id wire.ID) (is bool) {
	l.locked(func(t *session.Table, now time.Time) { is = t.IsKnown(now, id) })
	return is
}

// SetRoster names the hosts whose receipts make room for nobody's, and who have places of their own. The LAN keeps ids.
func (l *LAN) SetRoster(ids []wire.ID) {
	l.locked(func(t *session.Table, _ time.Time) { t.SetRoster(ids) })
}

// Ask has whoever is at an address say something, in a session, which is made if there is none.
func (l *LAN) Ask(to netip.AddrPort) {
	l.locked(func(t *session.Table, now time.Time) { t.Ask(now, unmap(to)) })
}

// onShown keeps who is here for the watcher. The lock is held.
func (l *LAN) onShown(s session.Shown) {
	if l.watch != nil {
		l.shown = append(l.shown, s)
	}
}
