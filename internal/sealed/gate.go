package sealed

import (
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// SetHosts replaces the host list (S20). A host that it leaves out is told so, and counts no more, the leader after it had time to part.
// Its tethers end. Unless drops, nothing is changed where a host would be left out that is here; these are given.
func (l *LAN) SetHosts(hosts identity.Hosts, leader wire.ID, parts time.Duration, drops bool) (leaves []session.Sender) {
	var out []*stream
	l.locked(func(t *session.Table, now time.Time) {
		if leaves = t.SetHosts(now, hosts, leader, parts, drops); len(leaves) > 0 && !drops {
			return
		}
		l.cfg.Hosts = hosts
		out = l.tethersOf(func(held tether) bool { return !held.isOurs && !hosts.Admits(held.whose) })
	})
	closeAll(out)
	return leaves
}

// WatchShut has f called when IsShut has changed, and at once: in the goroutine that has found it out, without the LAN's lock. Two
// changes may be told in any order, so f asks what is true now.
func (l *LAN) WatchShut(f func()) {
	l.locked(func(*session.Table, time.Time) { l.onShut, l.hasShut = f, true })
}

// IsShut reports whether this host may not stand, since others leave it out.
func (l *LAN) IsShut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isShut
}

// noteShut keeps that there is something to tell. The lock is held.
func (l *LAN) noteShut(isShut bool) { l.isShut, l.hasShut = isShut, true }
