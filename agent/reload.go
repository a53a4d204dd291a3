package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
)

// Reload implements control.Backend: the configuration is read and checked
// whole before anything of it is taken.
func (a *agent) Reload(ctx context.Context, drops bool) error {
	if a.cfg.Reload == nil {
		return control.ErrUnsupported
	}
	select {
	case a.reloading <- struct{}{}:
		defer func() { <-a.reloading }()
	case <-ctx.Done():
		return errGone
	}
	next, bad := a.cfg.Reload()
	_, err := ask(ctx, a, func() (none struct{}, _ error) { return none, a.onReload(next, bad, drops) })
	if err = cmp.Or(bad, err); err != nil {
		a.log.Error("configuration not reloaded; nothing was changed", "err", err)
		if told := (*control.APIError)(nil); errors.As(err, &told) {
			return told
		}
		return &control.APIError{Status: 422, Message: "nothing was changed: " + err.Error(), Code: "invalid"}
	}
	if a.feed != nil {
		_ = a.feed.Renew() // said in the log; what can be told before has been, by the check of the configuration
	}
	return nil
}

// onReload takes what a reload has read, if that is not bad, and notes what came of it. It runs in the loop: what arrives meanwhile finds
// the old configuration or the new one.
func (a *agent) onReload(next Reloaded, bad error, drops bool) error {
	if bad == nil {
		bad = a.takeUp(next, drops)
	}
	a.refused = bad
	a.seat.publish()
	return bad
}

// refusedNotes are for status: a person who reloads by a signal sees no answer.
func (a *agent) refusedNotes() []string {
	if a.refused == nil {
		return nil
	}
	first, more := control.FirstLine(a.refused.Error())
	return []string{"the last reload was refused, and nothing was changed: " + first + more}
}

// takeUp takes what a reload has read, or nothing of it.
func (a *agent) takeUp(next Reloaded, drops bool) error {
	if err := a.spares(next.Hooks.Resources); err != nil {
		return err
	}
	if err := a.setHosts(next.Hosts, drops); err != nil {
		return err
	}
	a.reload(next)
	return nil
}

// reloads serves the signal; reading the file is not the loop's work.
func (a *agent) reloads(ctx context.Context) {
	for {
		select {
		case <-a.cfg.Reloads:
			_ = a.Reload(ctx, false) // said in the log
		case <-ctx.Done():
			return
		}
	}
}

func (a *agent) reload(next Reloaded) {
	a.runner.SetConfig(a.hooksConfig(next.Hooks))
	a.view.self.Jobs = a.seat.reload(next.Jobs, next.Hooks.Grace)
	a.members().SetJobs(a.view.self.Jobs)
	a.cfg.Seeds = next.Seeds
	a.sources.Set(next.Seeds)
	a.members().SetSeeds(next.Seeds)
	a.log.SetLevel(next.LogLevel)
	a.checks.priority = next.Priority
	a.setChecks(next.Checks, hooks.CheckPasses) // this host has led without a new one
	a.waiting, a.cfg.Notes = append(next.Waiting, a.takeKeys(keyring{file: next.KeyFile, ring: next.Keys})...), next.Notes
	if len(a.waiting) > 0 {
		a.log.Warn("some changed settings need a restart", "settings", strings.Join(namesOfWaiting(a.waiting), ", "))
	}
	for _, doubt := range next.Doubts {
		a.log.Warn("configuration doubtful", "note", doubt)
	}
	a.log.Info("configuration reloaded")
}

// spares refuses a resource that is a host's own address: a leader could not begin it, and would hand over.
func (a *agent) spares(all []hooks.Resource) error {
	for _, r := range all {
		for _, m := range a.view.all() {
			if slices.ContainsFunc(r.Addresses, func(p netip.Prefix) bool { return p.Addr() == m.Addr.Addr() }) {
				return fmt.Errorf("resource %s: %s is the own address of %s, at which the other agents reach it: expected one that goes with the leadership",
					r.Name, m.Addr.Addr(), m.Name)
			}
		}
	}
	return nil
}

func namesOfWaiting(waiting []control.Waiting) []string {
	names := make([]string, len(waiting))
	for i, w := range waiting {
		names[i] = w.Setting
	}
	return names
}

// dump puts the whole state into the log.
func (a *agent) dump() {
	a.log.Info("state", "status", a.seat.status())
	for _, m := range a.view.all() {
		a.log.Info("state: member", "member", m.Name, "addr", m.Addr, "status", m.Status, "priority", m.Priority,
			"incarnation", m.Incarnation, "id", m.ID, "rtt", m.RTT)
	}
	a.seat.dumpJobs()
	counts := a.counts()
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		a.log.Info("state: counter", "name", name, "count", counts[name])
	}
}
