package agent

import (
	"slices"

	"github.com/bully-agent/bully-agent/hooks/resourcerun"
	"github.com/bully-agent/bully-agent/internal/control"
)

// controlResources is what this host has while it leads, as it is configured and as the keeper said last.
func (a *agent) controlResources() []control.Resource {
	all, states := a.commands.Load().Resources, a.runner.Resources()
	out := make([]control.Resource, 0, len(all))
	for _, r := range all {
		shown := control.Resource{Name: r.Name, What: r.String(), OnFail: "hand-over"}
		if r.Stays {
			shown.OnFail = "stay"
		}
		if i := slices.IndexFunc(states, func(s resourcerun.State) bool { return s.Name == r.Name }); i >= 0 {
			shown.Here, shown.Text = states[i].Has, states[i].Text
		}
		out = append(out, shown)
	}
	return out
}
