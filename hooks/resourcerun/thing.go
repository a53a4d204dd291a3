package resourcerun

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/systemd"
	"github.com/bully-agent/bully-agent/internal/vip"
)

// thing is what a resource is made of. Its tenant calls Begin, Keep and End one at a time, Pause and
// State at any time. All of them obey their context, as far as the system lets them.
type thing interface {
	// Begin has this host have it, which may be so already.
	Begin(ctx context.Context) error
	// Keep sees to it that it stays, until ctx ends: nil. Else it gives the reason why it cannot.
	Keep(ctx context.Context) error
	// Pause has Keep put nothing back any more, at once, until the next Begin.
	Pause()
	// End leaves nothing of it here, whoever has begun it. Of what is not there nothing is left.
	End(ctx context.Context) error
	// State says how it is, in one line; empty: nothing is worth a word.
	State() string
}

// owners are the hosts of the cluster, by the addresses at which the others reach them.
func owners(ev hooks.Event) (all []vip.Owner) {
	for _, m := range ev.Members {
		if at, err := netip.ParseAddrPort(m.Addr); err == nil {
			all = append(all, vip.Owner{Addr: at.Addr(), Name: m.Name})
		}
	}
	return all
}

// newThing makes the thing of a resource in a leadership; a become-leader without an epoch is for
// ending alone.
func (h *Hands) newThing(r hooks.Resource, ev hooks.Event) (thing, error) {
	note := func(text string) { h.cfg.Logger.Warn(text, "resource", r.Name) }
	switch {
	case len(r.Addresses) > 0:
		if err := vip.Spare(r.Addresses, owners(ev)); err != nil {
			return nil, err
		}
		return vip.NewKept(r.Addresses, r.Interface, h.cfg.Bound, h.holds, note), nil
	case !r.Command.IsZero():
		return h.newCommand(r, ev), nil
	case r.Unit != "":
		return systemd.NewUnit(r.Unit, note), nil
	}
	return nil, fmt.Errorf("resource %s is nothing", r.Name)
}
