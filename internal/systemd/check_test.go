package systemd

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	r := newRig(t)
	r.add("default.target", "Id", "graphical.target", "Wants", []string{"multi-user.target"})
	r.add("multi-user.target", "RequiredBy", []string{"graphical.target"}, "WantedBy", []string{"loop.target"})
	r.add("loop.target", "WantedBy", []string{"multi-user.target"})
	r.add("sockets.target", "WantedBy", []string{"multi-user.target"})
	r.add("good.service", "WantedBy", []string{"bully-leader.target"})
	r.add("bully-leader.target")
	r.add("enabled.service", "WantedBy", []string{"bully-leader.target", "multi-user.target"})
	r.add("inner.service", "RequiredBy", []string{"enabled.service"})
	r.add("lazy.service", "TriggeredBy", []string{"lazy.socket"})
	r.add("lazy.socket", "WantedBy", []string{"sockets.target"})
	r.add("early.service", "Before", []string{"shutdown.target", "bully-agent@web.service"})
	r.add("late.service", "After", []string{"bully-agent.service"}, "Before", []string{"bully-agent.target", "not-bully-agent.service"})
	r.add("masked.service", "LoadState", "masked")
	for name, want := range map[string]string{
		"good.service":        "",
		"bully-leader.target": "",
		"enabled.service":     "warning: unit enabled.service starts with multi-user.target, at boot, before any election: systemctl disable enabled.service",
		"inner.service":       "warning: unit inner.service starts with enabled.service, at boot, before any election: systemctl disable inner.service",
		"lazy.service":        "warning: unit lazy.service starts with lazy.socket, at boot, before any election: systemctl disable lazy.socket",
		"late.service":        "",
		"early.service":       "warning: unit early.service is ordered before bully-agent@web.service, which stops it and cannot stop earlier itself: each would wait for the other; take the Before= or After= away",
		"masked.service":      "fault: unit masked.service is masked: systemctl unmask masked.service lets it start",
		"none.service":        "fault: unit none.service is not there: systemd finds no file of that name",
		"/none.service":       `fault: "/none.service" is a path: expected the name of a unit, such as "haproxy.service"`,
		"getty@.service":      `fault: "getty@.service" is a template: expected an instance of it, such as "getty@main.service"`,
	} {
		is(t, name, checked(r.ctx(), r.dial, name), want)
	}
	is(t, "orders", r.ordered(), "")
	away := func(context.Context, *ear) (*bus, error) {
		return nil, errors.New("no connection with systemd: refused")
	}
	is(t, "without D-Bus", checked(r.ctx(), away, "good.service"), "warning: unit good.service could not be looked at: no connection with systemd: refused")
}

// checked is all that Check says, a line each.
func checked(ctx context.Context, to dial, name string) string {
	faults, warnings := check(ctx, to, name)
	var lines []string
	for _, f := range faults {
		lines = append(lines, "fault: "+f)
	}
	for _, w := range warnings {
		lines = append(lines, "warning: "+w)
	}
	return strings.Join(lines, "\n")
}
