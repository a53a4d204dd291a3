package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/sealed"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// sealing is what the agent asks of a LAN that encrypts and authenticates. All methods may
// be called from any goroutine.
type sealing interface {
	// SetKeys replaces the ring, which is not empty. Sessions under a key that is not in
	// it any more end within a second.
	SetKeys(key.Ring)
	// KeepWarm replaces the addresses with which a session is kept ready.
	KeepWarm([]netip.AddrPort)
	// Renew forgets all sessions: a new life begins, at another address.
	Renew(incarnation uint32, life [8]byte, advertise netip.AddrPort)
	// SetHosts replaces the host list; see there.
	SetHosts(hosts identity.Hosts, leader wire.ID, parts time.Duration, drops bool) (leaves []session.Sender)
	// WatchShut has f called when IsShut has changed, on any goroutine, and at once.
	WatchShut(f func())
	// IsShut reports whether this host may not stand, since others leave it out.
	IsShut() bool
	Report() sealed.Report
	// Receipts are those that hosts have given this one to keep, if they are others than at a version.
	Receipts(since uint64) ([]session.Receipt, uint64)
	// IsKnown reports whether a host is none of those that are new, of which there may be any number.
	IsKnown(wire.ID) bool
	// SetRoster names the hosts whose receipts make room for nobody's, and who have places of their own. It keeps ids.
	SetRoster(ids []wire.ID)
	membership.Sessions
}

var _ sealing = (*sealed.LAN)(nil)

// sealPort has all that goes over the LAN sealed. Nothing has been sent or read before.
func (a *agent) sealPort() error {
	incarnation := a.seat.state.saved.Incarnation + 1 // which this life puts on disk before it says anything
	before := readReceipts(a.home.dir, a.log)
	a.seat.knowsOthers = a.seat.knowsOthers || areOfOthers(before, a.seat.state.ID)
	seal, err := sealed.Wrap(a.below, sealed.Config{Cluster: a.cfg.Cluster, Key: a.seat.state.private, Incarnation: incarnation, Life: a.life,
		Keys: a.keys.Load().seals(), Hosts: *a.roll.hosts.Load(), Advertise: a.advertised(), Now: a.cfg.Now, Logger: a.log.Named("seal"),
		Receipts: before, Older: a.onOlder})
	if err != nil {
		return fmt.Errorf("seal the port: %w", err)
	}
	a.lan, a.seal = seal, seal
	a.receipts = newReceiptFile(a.home.dir, seal, a.log)
	return nil
}

// advertised is where others are told to send to.
func (a *agent) advertised() netip.AddrPort {
	if a.cfg.Advertise.IsValid() {
		return a.cfg.Advertise
	}
	return a.below.Addr()
}

// keepWarm has sessions ready with all who lead or vote, so that a claim and its grants
// wait for no handshake. It runs in the loop.
func (a *agent) keepWarm() {
	if a.view.self.Role == membership.Observer {
		return
	}
	var warm []netip.AddrPort
	if a.tie != nil {
		warm = append(warm, a.tie.Addr) // the leader's, which is called first
	}
	for _, isVoter := range []bool{true, false} { // the roster's are called before others
		for _, m := range a.view.others {
			isWanted := m.Status == membership.Alive && m.Role != membership.Observer && slices.Contains(a.view.roster.IDs, m.ID) == isVoter
			if isWanted && !slices.Contains(warm, m.Addr) {
				warm = append(warm, m.Addr)
			}
		}
	}
	if !slices.Equal(warm, a.warm) {
		a.warm = warm
		a.seal.KeepWarm(warm)
	}
}

// encryption says in words what protects the port: which key begins, and with how many
// of the living hosts, this one included, there is a session.
func (a *agent) encryption(members []control.Member) string {
	if !a.hasKey() {
		return a.open()
	}
	proven := make(map[string]bool)
	for _, p := range a.seal.Report().Peers {
		proven[p.ID.String()] = true
	}
	here, with := 0, 0
	for _, m := range members {
		if m.Status != "alive" {
			continue
		}
		here++
		if m.Self || proven[m.ID] {
			with++
		}
	}
	ring := a.keys.Load().ring
	return fmt.Sprintf("sealed, key %s (1 of %d), %d of %d hosts", ring[0], len(ring), with, here)
}

// countSeal adds what the seal counts.
func (a *agent) countSeal(out map[string]uint64) {
	r := a.seal.Report()
	out["seal_sessions"], out["seal_begun"], out["seal_out"], out["seal_in"] = uint64(r.Sessions), r.Begun, r.Sealed, r.Opened
	for cause, n := range r.Dropped {
		out["seal_dropped_"+cause] = n
	}
}

// strangers are hosts that share no key with this one, and what they say to have. Anybody
// can send such a record: people are told, and nothing else comes of it.
func (a *agent) strangers() (all []control.Odd) {
	for _, s := range a.seal.Report().Odd {
		where := s.Addr.String()
		if s.Addr.Port() == 0 {
			where = s.Addr.Addr().String()
		}
		all = append(all, control.Odd{Name: where, Differ: strings.Join(hexIDs(s.Keys), " ")})
	}
	return all
}

// maxStrangerNotes bounds what strangers can put into status.
const maxStrangerNotes = 3

// strangerNotes name them in status.
func (a *agent) strangerNotes() (notes []string) {
	all := a.strangers()
	for i, s := range all {
		if i == maxStrangerNotes {
			return append(notes, fmt.Sprintf("%d more %s: see bully-agent doctor", len(all)-i, plural(len(all)-i, "host has another key", "hosts have other keys")))
		}
		notes = append(notes, s.AgainstKeys(a.keys.Load().text())+": "+key.OneForAll(a.keys.Load().file))
	}
	return notes
}
