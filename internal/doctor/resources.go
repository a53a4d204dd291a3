package doctor

import (
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/internal/control"
)

// resources holds the addresses that this host has while it leads against those of the others. Hosts may have different
// resources, so a difference is no failure; mostly it is a slip, which shows when the leadership moves.
func (j *judge) resources() {
	if j.Addresses == "" {
		return
	}
	others := slices.DeleteFunc(slices.Clone(j.answered), func(p control.Sight) bool { return p.Addresses == "" })
	all := addressesOf(j.Addresses)
	for _, p := range others {
		all = append(all, addressesOf(p.Addresses)...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	const do = "give all hosts the same addresses in [[resource]], and reload; leave it so if it is meant"
	before := len(j.lines)
	for _, address := range all {
		lacking := who(others, func(p control.Sight) bool { return !slices.Contains(addressesOf(p.Addresses), address) })
		isOurs := slices.Contains(addressesOf(j.Addresses), address)
		switch {
		case !isOurs:
			having := who(others, func(p control.Sight) bool { return slices.Contains(addressesOf(p.Addresses), address) })
			j.say(Warn, "resources", do, "%s goes with the leadership of %s, and not with that of this host", address, list(having))
		case len(lacking) > 0:
			j.say(Warn, "resources", do, "%s goes with the leadership of this host, and not with that of %s", address, list(lacking))
		}
	}
	if len(all) > 0 && len(j.lines) == before {
		j.say(OK, "resources", "", "%s", list(all))
	}
}

// addressesOf splits what an agent says of its addresses.
func addressesOf(said string) []string {
	if said == "none" {
		return nil
	}
	return strings.Fields(said)
}

// Device judges an interface that a resource names: trouble is why an address could not come to it, and remedy which are there.
func Device(trouble, remedy string) Line {
	return Line{Level: Fail, Check: "resources", Text: trouble + ": this host would hand over what it leads", Do: remedy +
		": name one of them in [[resource]], and reload"}
}
