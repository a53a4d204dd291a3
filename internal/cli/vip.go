package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/trust"
	"github.com/bully-agent/bully-agent/internal/vip"
)

// vipExitCodes is what both pages of help end with.
const vipExitCodes = `Exit codes: 0 done, also where nothing had to be done; 1 the interface is missing or down, or a right is missing;
	2 usage; 6 refused. Refused is an address of somebody else's, of another interface, or of a host itself. Where the code is
	not 0, %s.`

var vipCommand = command{
	name: "vip", usage: "put addresses on an interface, and tell neighbours",
	subcommands: []command{vipAddCommand, vipDelCommand},
}

var vipAddCommand = command{
	name: "add", usage: "have this host answer for addresses",
	args: "ADDRESS/PREFIX... INTERFACE", maxArgs: math.MaxInt,
	about: `For a become-leader hook. Puts the addresses on the interface, IPv4 and IPv6, and tells the neighbours whose they are
		now, by gratuitous ARP and unsolicited neighbour advertisements. It tells them once at once, five times within 200 ms, again each
		second for 5 s, and in a become-leader hook every 30 s from then on. A process of its own does that after the first
		time, and is ended before the lose-leadership hook starts. It tells of an address only
		while that is on the interface. An address that is there already stays, and is told again.

		In a hook that process begins anew when the carrier comes back or a member joins: neighbours may have learnt another
		host meanwhile. It answers another host's claim of an address, once in 10 s. No port gets more than 50 frames a second,
		after 20 at once: many addresses take turns until all have been told.

		An IPv6 address is there without duplicate address detection, and deprecated: this host answers for it, and does not
		choose it to send from.

		It asks this host's agent, if there is one, for the members' own addresses, and refuses those.

		With --probe it asks first, for 250 ms, and refuses an address for which somebody else answers. After a kill -9 of the
		old leader's agent that may be so for a moment.

		` + fmt.Sprintf(vipExitCodes, "nothing has changed"),
	examples: []string{
		program + " vip add 192.168.1.50/32 eth0",
		program + " vip add --probe 192.168.1.50/32 2001:db8::50/128 eth0",
	},
	options: []option{{name: "probe", usage: "refuse an address for which somebody else answers"}, socketOption},
	action: func(c *call) error {
		addresses, name, err := c.addressesAndInterface(vip.Parse)
		if err == nil {
			err = vip.Spare(addresses, append(toldOwner(), owners(c.socketPath())...))
		}
		if err == nil {
			err = vip.Add(addresses, name, c.Bool("probe"), c.vipNote)
		}
		return vipFailure(err)
	},
}

var vipDelCommand = command{
	name: "del", usage: "have this host answer for addresses no more",
	args: "ADDRESS[/PREFIX]... INTERFACE", maxArgs: math.MaxInt,
	about: `For a lose-leadership hook. Takes the addresses off the interface. A missing address is as good as a removed
		one. So is a missing interface, except where another one has the address. An address with a shorter prefix than the one
		given is taken for this host's own, and stays; without a prefix it is removed whatever it has.

		The address at which this host's agent is reached is refused. A hook is told it; elsewhere the agent is asked, if there
		is one.

		` + fmt.Sprintf(vipExitCodes, "an address may still be there"),
	examples: []string{
		program + " vip del 192.168.1.50/32 eth0",
		program + " vip del 192.168.1.50 2001:db8::50 eth0",
	},
	options: []option{socketOption},
	action: func(c *call) error {
		addresses, name, err := c.addressesAndInterface(vip.ParseBare)
		if err == nil {
			err = vip.Spare(addresses, c.ownOwner())
		}
		if err == nil {
			err = vip.Remove(addresses, name, c.vipNote)
		}
		return vipFailure(err)
	},
}

// addressesAndInterface takes the arguments apart: the interface is the last.
func (c *call) addressesAndInterface(parse func([]string) ([]netip.Prefix, error)) ([]netip.Prefix, string, error) {
	words := c.Args().Slice()
	if len(words) == 0 {
		return nil, "", usage("see "+c.path+" --help", "addresses and an interface are missing: %s", c.takes())
	}
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") }); i >= 0 {
		return nil, "", usage("flags come before arguments", "unexpected argument %s: %s", strconv.Quote(words[i]), c.takes())
	}
	last := words[len(words)-1]
	if last == "" { // "$IFACE" that is not set
		return nil, "", usage("name the interface last, such as eth0", "the interface is empty: %s", c.takes())
	}
	if _, err := parse([]string{last}); err == nil {
		return nil, "", usage("name the interface last: "+c.path+" "+last+" eth0", "the interface is missing after %s: %s", last, c.takes())
	}
	addresses, err := parse(words[:len(words)-1])
	return addresses, last, err
}

// toldOwner is this host as its hooks are told of it; elsewhere nobody.
func toldOwner() []vip.Owner {
	own, err := netip.ParseAddrPort(os.Getenv("BULLY_NODE_ADDR"))
	if err != nil {
		return nil
	}
	return []vip.Owner{{Addr: own.Addr()}}
}

// ownOwner is this host. A hook asks nobody: a lose hook may run because the agent died, and clients wait for its end.
func (c *call) ownOwner() []vip.Owner {
	if told := toldOwner(); told != nil {
		return told
	}
	return slices.DeleteFunc(owners(c.socketPath()), func(o vip.Owner) bool { return o.Name != "" })
}

// ownersPatience bounds the wait for the agent's list of members, while clients wait for an address. Arbitrary.
const ownersPatience = 250 * time.Millisecond

// owners asks the agent at a socket for the addresses of all its cluster's hosts. It gives none where no agent says so in time.
func owners(socket string) (all []vip.Owner) {
	ctx, cancel := context.WithTimeout(context.Background(), ownersPatience)
	defer cancel()
	members, err := control.Dial(socket).Members(ctx)
	if err != nil {
		return nil
	}
	for _, m := range members {
		at, err := netip.ParseAddrPort(m.Addr)
		if err != nil || at.Addr().IsLoopback() {
			continue
		}
		o := vip.Owner{Addr: at.Addr(), Name: m.Name}
		if m.Self {
			o.Name = ""
		}
		all = append(all, o)
	}
	return all
}

// sparesOwners refuses a hook that would add the own address of a host of the cluster.
func sparesOwners(cmd hooks.Command, owners []vip.Owner) error {
	for _, words := range trust.Arguments(cmd, "vip", "add") {
		for _, word := range words {
			addresses, err := vip.Parse([]string{word})
			if err != nil {
				continue // an option, the interface, or a slip that vip add names
			}
			if err := vip.Spare(addresses, owners); err != nil {
				return fmt.Errorf("%w: expected an address that no host has of its own", err)
			}
		}
	}
	return nil
}

// vipNote tells whoever reads the hook's output.
func (c *call) vipNote(line string) {
	_, _ = fmt.Fprintln(c.err, "note:", line) // there is nobody else to tell
}

// vipFailure gives a complaint its exit code.
func vipFailure(err error) error {
	var wrong *vip.Complaint
	if !errors.As(err, &wrong) {
		return err
	}
	code := exitNo
	switch wrong.Class {
	case vip.Words:
		code = exitUsage
	case vip.Refused, vip.Elsewhere:
		code = exitRefused
	}
	return &failure{code: code, err: err, hint: wrong.Remedy}
}
