package hooks

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Resource is something that a host has while it leads, and at no other time: addresses of an
// interface, a unit of systemd, or a command that is kept running. Exactly one of Addresses, Unit
// and Command is set.
type Resource struct {
	Name      string         `json:"name"`
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	Interface string         `json:"interface,omitempty"` // that the addresses are kept on
	// Reset says that a new leader ends the connections that the last one had to the addresses, also where the whole host was killed.
	Reset   bool    `json:"reset,omitempty"`
	Unit    string  `json:"unit,omitempty"` // "haproxy.service"
	Command Command `json:"command,omitzero"`
	// Stays says that a host whose resource has failed goes on leading (on_fail = "stay").
	Stays bool `json:"stays,omitempty"`
	// Timeout bounds its beginning, Grace its end where nothing else does: a command has it between
	// TERM and KILL, a unit for its stop.
	Timeout time.Duration `json:"timeout"`
	Grace   time.Duration `json:"grace"`
}

// MaxResources bounds how many there are. Arbitrary: each is watched.
const MaxResources = 256

// mostNamed is how many addresses people are told by name. Arbitrary.
const mostNamed = 4

// String says what it is, for people: "unit haproxy.service".
func (r Resource) String() string {
	switch n := len(r.Addresses); {
	case n > 0:
		var words []string
		for _, a := range r.Addresses[:min(n, mostNamed)] {
			words = append(words, a.String())
		}
		if n > mostNamed {
			words = append(words, fmt.Sprintf("and %d more", n-mostNamed))
		}
		return fmt.Sprintf("address %s on %s", strings.Join(words, " "), r.Interface)
	case r.Unit != "":
		return "unit " + r.Unit
	}
	return "command " + OneLine(r.Command.String())
}
