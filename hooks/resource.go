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
	Unit      string         `json:"unit,omitempty"`      // "haproxy.service"
	Command   Command        `json:"command,omitzero"`
	// Stays says that a host whose resource has failed goes on leading (on_fail = "stay").
	Stays bool `json:"stays,omitempty"`
	// Timeout bounds its beginning, Grace its end where nothing else does: a command has it between
	// TERM and KILL, a unit for its stop.
	Timeout time.Duration `json:"timeout"`
	Grace   time.Duration `json:"grace"`
}

// MaxResources bounds how many there are. Arbitrary: each is watched.
const MaxResources = 256

// String says what it is, for people: "unit haproxy.service".
func (r Resource) String() string {
	switch {
	case len(r.Addresses) > 0:
		words := make([]string, len(r.Addresses))
		for i, a := range r.Addresses {
			words[i] = a.String()
		}
		return fmt.Sprintf("address %s on %s", strings.Join(words, " "), r.Interface)
	case r.Unit != "":
		return "unit " + r.Unit
	}
	return "command " + OneLine(r.Command.String())
}
