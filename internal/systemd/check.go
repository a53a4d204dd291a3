package systemd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Check says of a unit, before any leader needs it, why it can never begin here (faults), and what may go wrong with it
// (warnings). It changes nothing.
func Check(ctx context.Context, name string) (faults, warnings []string) {
	return check(ctx, open, name)
}

func check(ctx context.Context, to dial, name string) (faults, warnings []string) {
	if err := ParseUnit(name); err != nil {
		return []string{err.Error()}, nil
	}
	u := &Unit{name: name, dial: to}
	b, err := to(ctx, newEar())
	if errors.Is(err, errNone) {
		return []string{fmt.Sprintf("unit %s: %v", name, err)}, nil
	}
	if err != nil {
		return nil, []string{fmt.Sprintf("unit %s could not be looked at: %v", name, err)}
	}
	defer b.close()
	f, err := b.look(ctx, name)
	if err != nil {
		return []string{u.explain(err).Error()}, nil
	}
	if err := f.isRefused(); err != nil {
		return []string{err.Error()}, nil
	}
	if by := b.startsAtBoot(ctx, f); by != "" {
		warnings = append(warnings, fmt.Sprintf("unit %s starts with %s, at boot, before any election: systemctl disable %s", f.name, by, disabled(f.name, by)))
	}
	if i := slices.IndexFunc(f.before, isAgent); i >= 0 {
		warnings = append(warnings, fmt.Sprintf("unit %s is ordered before %s, which stops it and cannot stop earlier itself: each would wait for the other; take the Before= or After= away", f.name, f.before[i]))
	}
	return nil, warnings
}

// isAgent reports whether a unit is one of an agent, as the packages name them.
func isAgent(name string) bool {
	stem, suffix := split(name)
	template, _, _ := strings.Cut(stem, "@")
	return template == "bully-agent" && suffix == "service"
}

// disabled is the unit whose links to take away: a socket or a timer that starts another is enabled itself.
func disabled(name, by string) string {
	switch _, suffix := split(by); suffix {
	case "socket", "timer", "path":
		return by
	}
	return name
}

// startsAtBoot names the unit by which one is started at boot; empty: it is not. systemd starts default.target then, and what
// that pulls in; so it is if one that pulls it in is.
func (b *bus) startsAtBoot(ctx context.Context, unit facts) (by string) {
	top, err := b.look(ctx, "default.target")
	if err != nil {
		return ""
	}
	type step struct {
		name string
		from string // the unit's own neighbour on the way
	}
	var way []step
	seen := map[string]bool{unit.name: true}
	climb := func(f facts, from string) {
		for _, up := range f.pulledBy {
			if seen[up] {
				continue
			}
			seen[up] = true
			way = append(way, step{up, orElse(from, up)})
		}
	}
	for climb(unit, ""); len(way) > 0 && len(seen) < maxUnits; way = way[1:] {
		if way[0].name == top.name {
			return way[0].from
		}
		if f, err := b.look(ctx, way[0].name); err == nil {
			climb(f, way[0].from)
		}
	}
	return ""
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
