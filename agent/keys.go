package agent

import (
	"os"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/discovery"
	"github.com/bully-agent/bully-agent/internal/key"
)

// keyring is what the agent has of keys now. It is never changed after it was published.
type keyring struct {
	file string // that they were read from
	ring key.Ring
}

const (
	openToAll      = "none: each host that reaches the port can join"
	openAsWished   = "none (--insecure)"
	warnOpenToAll  = "no key: each host that reaches the port can join"
	warnOpenWished = warnOpenToAll + " (--insecure)"
)

// hasKey: this host shares a key with others, which keeps all others out.
func (a *agent) hasKey() bool { return len(a.keys.Load().ring) > 0 }

// open is what keeps others out of a cluster without a key, in words.
func (a *agent) open() string {
	if a.cfg.Insecure {
		return openAsWished
	}
	return openToAll
}

// seals is the ring that the port is sealed with.
func (k *keyring) seals() key.Ring {
	if len(k.ring) == 0 {
		return key.Open()
	}
	return k.ring
}

// takeKeys takes up what a reload has read. Whether there are keys at all is settled at the
// start, since it makes the LAN: a change of that waits.
func (a *agent) takeKeys(next keyring) (waiting []control.Waiting) {
	now := a.keys.Load()
	if (len(now.ring) == 0) != (len(next.ring) == 0) {
		return []control.Waiting{{Setting: "network.key", Now: now.text(), Then: next.text()}}
	}
	a.keys.Store(&next)
	if now.ring.Equal(next.ring) {
		return nil
	}
	a.seal.SetKeys(next.seals())
	a.log.Info("keys taken up", "keys", next.text())
	a.event(control.Event{Type: "keys", Text: "keys taken up: " + next.text()})
	return nil
}

// text names the keys, and so none of them.
func (k *keyring) text() string {
	return strings.Join(hexIDs(k.seals().IDs()), " ")
}

func hexIDs(ids []key.ID) []string {
	text := make([]string, len(ids))
	for i, id := range ids {
		text[i] = id.String()
	}
	return text
}

// logSeal says at the start what protects the traffic.
func (a *agent) logSeal() {
	switch {
	case a.hasKey():
		a.log.Info("traffic is sealed", "keys", a.keys.Load().text())
	case a.cfg.Insecure:
		a.log.Warn(warnOpenWished)
	default:
		a.log.Warn(warnOpenToAll)
	}
}

// hostKeys gives what each member says to have, this one first, then by name.
func (a *agent) hostKeys(members []control.Member) []control.HostKeys {
	type peer struct{ has, uses []key.ID }
	peers := map[string]peer{}
	if !a.hasKey() {
		members = nil
	}
	for _, said := range a.seal.Report().Peers {
		p := peers[said.ID.String()]
		if said.Keys != nil {
			p.has = said.Keys
		}
		p.uses = append(slices.Clone(p.uses), said.InUse...)
		peers[said.ID.String()] = p
	}
	var hosts []control.HostKeys
	for _, m := range members {
		if m.Status == "left" || m.Status == "told" {
			continue
		}
		p := peers[m.ID]
		if m.Self {
			p = peer{has: a.keys.Load().ring.IDs()}
		}
		hosts = append(hosts, control.HostKeys{ID: m.ID, Name: m.Name, Addr: m.Addr, Status: m.Status, Self: m.Self, Listed: a.isListed(m.ID), Keys: hexIDs(p.has), Uses: hexIDs(p.uses)})
	}
	slices.SortStableFunc(hosts, func(x, y control.HostKeys) int {
		switch {
		case x.Self != y.Self && x.Self:
			return -1
		case x.Self != y.Self:
			return 1
		}
		return strings.Compare(x.Name, y.Name)
	})
	return hosts
}

// Keys implements control.Backend.
func (a *agent) Keys() control.Keys {
	k := a.keys.Load()
	return control.Keys{File: k.file, UID: os.Geteuid(), Insecure: a.cfg.Insecure, Sealed: a.hasKey(), Keys: hexIDs(k.ring.IDs()),
		Join:  slices.DeleteFunc(slices.Clone(a.members().JoinState().Seeds), discovery.IsSource),
		Hosts: a.hostKeys(a.shown.Load().members)}
}

// noteLacking says of each member which of this host's keys it lacks, if it has said which it has.
func (a *agent) noteLacking(members []control.Member) {
	ring := a.keys.Load().ring
	if len(ring) < 2 {
		return // or there would be no session with it
	}
	for _, h := range a.hostKeys(members) {
		i := slices.IndexFunc(members, func(m control.Member) bool { return m.ID == h.ID })
		for _, id := range hexIDs(ring.IDs()) {
			if len(h.Keys) > 0 && !slices.Contains(h.Keys, id) {
				members[i].LacksKeys = append(members[i].LacksKeys, id)
			}
		}
	}
}
