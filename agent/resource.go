package agent

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
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
		if i := slices.IndexFunc(states, isSame(resourcerun.State{Name: r.Name, What: shown.What})); i >= 0 {
			shown.Here, shown.Text = states[i].Has, cmp.Or(states[i].Why, states[i].Text)
		} else {
			shown.Text = a.strays.told[r.Name]
		}
		out = append(out, shown)
	}
	return out
}

// strays are addresses of resources that this host has though it has begun none of them, by the name of the resource: somebody has
// put them here. Two hosts have such an address then, and this one could not begin it.
type strays struct {
	seen map[string]string // by the last look
	told map[string]string // by the last two: what this host ends goes between two looks
}

// lookForStrays is called once a second.
func (a *agent) lookForStrays() {
	was := a.strays
	a.strays = strays{seen: a.straysNow(), told: map[string]string{}}
	for name, text := range a.strays.seen {
		if was.seen[name] == text {
			a.strays.told[name] = text
		}
	}
	if !maps.Equal(was.told, a.strays.told) {
		a.seat.publish()
	}
}

// straysNow finds them in what the kernel has shown last. What the last life has left is here until its end, which the keeper says of
// no resource before it ends that.
func (a *agent) straysNow() map[string]string {
	found, states := map[string]string{}, a.runner.Resources()
	if a.seat.beside {
		return found
	}
	for _, r := range a.commands.Load().Resources {
		if slices.ContainsFunc(states, func(s resourcerun.State) bool { return s.Name == r.Name }) {
			continue
		}
		for _, p := range r.Addresses {
			for _, l := range a.where.sight.Links {
				if i := slices.IndexFunc(l.Networks, func(n netip.Prefix) bool { return n.Addr() == p.Addr() }); i >= 0 {
					found[r.Name] = strayNote(l.Name, l.Networks[i])
				}
			}
		}
	}
	return found
}

// strayNote has the words with which a leader does not begin such an address (vip), and the prefix that ip asks for.
func strayNote(link string, has netip.Prefix) string {
	return fmt.Sprintf("but %s has %s already, and not by this agent: stop what put it there, such as keepalived, or, if nothing needs it, ip addr del %s dev %s",
		link, has, has, link)
}

// leads gives the addresses that this host has while it leads, without their prefixes, in order, each once, between blanks;
// noAddresses: none; "": it never leads, or they are too many to say.
func (a *agent) leads() string {
	if a.cfg.Election.Part != election.Voter {
		return ""
	}
	var all []netip.Addr
	for _, r := range a.commands.Load().Resources {
		for _, p := range r.Addresses {
			all = append(all, p.Addr())
		}
	}
	if len(all) == 0 {
		return noAddresses
	}
	slices.SortFunc(all, netip.Addr.Compare)
	text := strings.Trim(fmt.Sprint(slices.Compact(all)), "[]")
	if len(text) > maxAddresses {
		return ""
	}
	return text
}

// devices are the interfaces that its resources name, in order, each once.
func (a *agent) devices() (names []string) {
	for _, r := range a.commands.Load().Resources {
		if r.Interface != "" {
			names = append(names, r.Interface)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// onClients has the followers told who is connected to what this host has.
func (a *agent) onClients() {
	if clients, isNew := a.runner.Clients(); isNew {
		a.seat.tellClients(clients)
	}
}

// isSame finds what is known of a resource. Of one name there may be two, while one is to end that a reload has changed.
func isSame(s resourcerun.State) func(resourcerun.State) bool {
	return func(other resourcerun.State) bool { return other.Name == s.Name && other.What == s.What }
}

// onResources tells people what the keeper says of resources, if that is news. One that begins or ends is none: what comes of it is.
func (a *agent) onResources() {
	before, states := a.has, a.runner.Resources()
	if slices.Equal(before, states) {
		return
	}
	before, a.has = slices.Clone(before), nil
	for _, is := range states {
		was := resourcerun.State{}
		if i := slices.IndexFunc(before, isSame(is)); i >= 0 {
			was = before[i]
			before = slices.Delete(before, i, i+1)
		}
		if told := a.tellResource(was, is); told != (resourcerun.State{}) {
			a.has = append(a.has, told)
		}
	}
	for _, gone := range before {
		a.resourceEvent("ended", gone.Name+" has ended")
	}
}

// tellResource tells what has changed about one, and gives what is told of it now. What goes on without an end, another host's claims
// say, would soon be all that is left of the events: it is told once a minute.
func (a *agent) tellResource(was, is resourcerun.State) (told resourcerun.State) {
	switch {
	case is.Why != "" && is.Why != was.Why:
		a.resourceEvent("failed", is.Name+" "+is.Why)
	case is.Why != "":
	case !is.Has:
		return was
	case !was.Has:
		a.resourceEvent("begun", withMore(is.Name+" has begun", is.Text))
	case is.Text == was.Text:
	case !a.isRare("resource changed", is.Name):
		return was
	default:
		a.resourceEvent("changed", withMore(is.Name, is.Text))
	}
	return is
}

// noteFailure tells of a resource that failed, if the keeper had nothing to say of it but that: it refuses some before they begin.
func (a *agent) noteFailure(r hooks.Result) {
	isTold := func(s resourcerun.State) bool { return s.Name == r.Resource && s.Why != "" }
	if r.Resource != "" && r.Err != nil && !slices.ContainsFunc(a.has, isTold) {
		a.resourceEvent("failed", r.Err.Error())
	}
}

func (a *agent) resourceEvent(cause, text string) {
	a.event(control.Event{Type: "resource", Cause: cause, Text: "resource " + text})
}

// withMore is a text and what is known besides.
func withMore(text, more string) string {
	if more == "" {
		return text
	}
	return fmt.Sprintf("%s: %s", text, more)
}

// staysWithout says of resources that failed and that a leader is to do without why they are not here.
func (a *agent) staysWithout() (all []string) {
	for _, r := range a.commands.Load().Resources {
		i := slices.IndexFunc(a.has, isSame(resourcerun.State{Name: r.Name, What: r.String()}))
		if r.Stays && i >= 0 && a.has[i].Why != "" {
			all = append(all, fmt.Sprintf(`resource %s %s; this host leads on without it (on_fail = "stay"), and begins it again and again`, r.Name, a.has[i].Why))
		}
	}
	return all
}
