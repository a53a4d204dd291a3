package sealed

import (
	"time"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// SetHosts replaces the host list (S20). A host that it leaves out is told so, and counts no more, the leader after it had time to part.
// Unless drops, nothing is changed where a host would be left out that is here; these are given.
func (l *LAN) SetHosts(hosts identity.Hosts, leader wire.ID, parts time.Duration, drops bool) (leaves []session.Sender) {
	l.locked(func(t *session.Table, now time.Time) {
		if leaves = t.SetHosts(now, hosts, leader, parts, drops); drops || len(leaves) == 0 {
			l.cfg.Hosts = hosts
		}
	})
	return leaves
}

// WatchShut has f told when this host may stand no more, since others leave it out, and when it may again: in the goroutine that
// has found it out, without the LAN's lock. It is told at once if it may not now.
func (l *LAN) WatchShut(f func(isShut bool)) {
	l.locked(func(*session.Table, time.Time) {
		if l.onShut = f; l.isShut {
			l.shuts = append(l.shuts, true)
		}
	})
}

// noteShut keeps what is to be told. The lock is held.
func (l *LAN) noteShut(isShut bool) {
	if l.isShut = isShut; l.onShut != nil {
		l.shuts = append(l.shuts, isShut)
	}
}
