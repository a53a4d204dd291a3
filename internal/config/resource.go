package config

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/agent"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/systemd"
	"github.com/bully-agent/bully-agent/internal/vip"
	"github.com/bully-agent/bully-agent/membership"
)

// Resource is one [[resource]]: what this host has while it leads. Of its Resource, Command stays zero.
type Resource struct {
	hooks.Resource
	Command Command

	address string   // as written
	several []string // likewise
	item
}

// IsAddress reports whether a resource is addresses.
func (r Resource) IsAddress() bool { return len(r.Addresses) > 0 }

// IsUnit reports whether a resource is a unit of systemd.
func (r Resource) IsUnit() bool { return r.Unit != "" }

const resourceName = "resource"

// Defaults of a resource, and its ranges.
const (
	resourceTimeout = 10 * time.Second
	resourceGrace   = 5 * time.Second
	longestResource = time.Hour
)

// resource is the one that is being read.
func (c *Config) resource() *Resource { return &c.Resources[len(c.Resources)-1] }

var resourceKeys = []itemKey{
	{name: "name", field: label(func(c *Config) *string { return &c.resource().Name })},
	{name: "address", field: anyText(func(c *Config) *string { return &c.resource().address }, "an address with its prefix, such as 192.168.1.50/24")},
	{name: "addresses", field: texts(func(c *Config) *[]string { return &c.resource().several }, "an array of addresses with their prefixes")},
	{name: "interface", field: device(func(c *Config) *string { return &c.resource().Interface }, anInterface)},
	{name: "reset", field: boolean(func(c *Config) *bool { return &c.resource().Reset })},
	{name: "unit", field: unit(func(c *Config) *string { return &c.resource().Unit })},
	{name: "command", field: command(func(c *Config) *Command { return &c.resource().Command })},
	{name: "on_fail", field: stays(func(c *Config) *bool { return &c.resource().Stays })},
	{name: "timeout", field: duration(func(c *Config) *time.Duration { return &c.resource().Timeout }, 100*time.Millisecond, longestResource)},
	{name: "grace", field: duration(func(c *Config) *time.Duration { return &c.resource().Grace }, 0, longestResource)},
}

// unit reads the name of a unit of systemd. Whether it is there is CheckHost's to find out.
func unit(at func(*Config) *string) field {
	return stringField(at, `the name of a unit, such as "haproxy.service"`, func(s string, _ value) (string, *Error) {
		if err := systemd.ParseUnit(s); err != nil {
			return "", wrong("%s", err)
		}
		return s, nil
	})
}

// stays reads what becomes of a leader whose resource has failed.
func stays(at func(*Config) *bool) field {
	const expected = `"hand-over" or "stay"`
	return field{
		parse: func(l *loader, v value) *Error {
			s, err := v.text(expected)
			if err == nil && s != "hand-over" && s != "stay" {
				err = wrong("%s is neither: expected %s", v.literal(s), expected)
			}
			*at(l.config) = s == "stay"
			return err
		},
		get: func(c *Config) any { return onFailOf(*at(c)) },
	}
}

func onFailOf(stays bool) string {
	if stays {
		return "stay"
	}
	return "hand-over"
}

// texts reads an array of strings that are judged later.
func texts(at func(*Config) *[]string, expected string) field {
	return field{
		parse: func(l *loader, v value) *Error {
			list, isList := v.data.([]any)
			if !isList {
				return wrong("%s: expected %s", v.found(), expected)
			}
			all := make([]string, len(list))
			for i, elem := range list {
				var err *Error
				if all[i], err = (value{place: v.elem(i), data: elem}).text("a string"); err != nil {
					return err
				}
			}
			*at(l.config) = all
			return nil
		},
		get: func(c *Config) any { return *at(c) },
	}
}

// applyResources reads the [[resource]] tables. What depends on other settings waits for deriveResources.
func (l *loader) applyResources(tables []arrayTable) {
	for i, t := range tables {
		if i == hooks.MaxResources {
			l.report(wrong("it is the %dth resource: expected at most %d", i+1, hooks.MaxResources).at(t.place, resourceName))
			return
		}
		l.config.Resources = append(l.config.Resources, Resource{Resource: hooks.Resource{Timeout: resourceTimeout, Grace: resourceGrace}, item: newItem(resourceName, t)})
		r := l.config.resource()
		l.applyItem(&r.item, resourceKeys, t.entries)
		l.checkResource(r)
	}
}

// resourceKinds are the keys of which a resource has one.
var resourceKinds = []string{"address", "addresses", "unit", "command"}

// checkResource looks at the one that was read as a whole, and at those before it.
func (l *loader) checkResource(r *Resource) {
	has := slices.DeleteFunc(slices.Clone(resourceKinds), func(k string) bool { return !r.has(k) })
	switch {
	case len(has) == 0:
		l.report(wrong("it is nothing: expected one of %s", strings.Join(resourceKinds, ", ")).
			hint(`write a line such as address = "192.168.1.50/24"`).at(r.header, resourceName))
		return
	case len(has) > 1:
		l.reportItem(&r.item, has[1], wrong("it is %s as well: expected one of them", has[0]).hint("write a [[resource]] for each, in the order in which they begin"))
		return
	}
	l.checkAddresses(r)
	if has[0] == "command" {
		l.checkItemCommand(&r.item, r.Command)
	}
	if r.Name == "" && !r.failed["name"] {
		r.Name = r.defaultName()
	}
	for i := range l.config.Resources[:len(l.config.Resources)-1] {
		l.checkTwins(r, &l.config.Resources[i])
	}
}

// ofAddresses are the keys of addresses alone, each with what it would do for something else.
var ofAddresses = [][2]string{{"interface", "only addresses have an interface"}, {"reset", "only addresses have clients to reset"}}

// checkAddresses reads the addresses, which need an interface, and nothing else does.
func (l *loader) checkAddresses(r *Resource) {
	key, all := "address", []string{r.address}
	if r.has("addresses") {
		key, all = "addresses", r.several
	}
	isAddress := r.has(key)
	for _, of := range ofAddresses {
		if !isAddress && r.has(of[0]) {
			l.reportItem(&r.item, of[0], wrong("%s: expected an address as well", of[1]))
		}
	}
	switch {
	case !isAddress || r.failed[key]:
	case r.Interface == "" && !r.failed["interface"]:
		l.report(wrong(`interface is missing: expected a line such as interface = "eth0"`).at(r.header, resourceName))
	case len(all) == 0:
		l.reportItem(&r.item, key, wrong("it is empty: expected an address with its prefix"))
	default:
		addresses, err := vip.Parse(all)
		if err != nil {
			l.reportItem(&r.item, key, asError(err))
		}
		r.Addresses = addresses
	}
}

// asError gives a complaint of vip's.
func asError(err error) *Error {
	var c *vip.Complaint
	if !errors.As(err, &c) {
		return wrong("%s", err)
	}
	bad := wrong("%s", c.What)
	bad.passes = c.Class == vip.Host || c.Class == vip.Elsewhere
	if c.Remedy != "" {
		bad.hint("%s", strings.ReplaceAll(c.Remedy, ", and the interface comes last", ""))
	}
	return bad
}

// defaultName is what a resource is called that has no name.
func (r *Resource) defaultName() string {
	name := r.Unit
	switch {
	case name == "" && len(r.Addresses) == 0 && r.Command.IsZero(): // what it would be called after was refused
		return ""
	case len(r.Addresses) > 0:
		name = "address-" + strings.ReplaceAll(r.Addresses[0].Addr().String(), ":", "-")
	case len(r.Command.Argv) > 0:
		name = filepath.Base(r.Command.Argv[0])
	case name == "":
		name = "command"
	}
	name = strings.TrimRight(strings.TrimLeft(notInName.ReplaceAllString(name, "-"), "._-"), "._-")
	if name = name[:min(len(name), 63)]; membership.CheckName(name) != nil {
		return "resource"
	}
	return name
}

// checkTwins refuses a second resource of one name, one address twice, and one unit twice.
func (l *loader) checkTwins(r, twin *Resource) {
	switch isSame := twin.Name == r.Name && r.Name != ""; {
	case isSame && !r.has("name"):
		l.report(wrong("it would have the name %s, as the resource on line %d has", quote(r.Name), twin.header.line).
			hint(`give it its own: name = "…"`).at(r.header, resourceName))
	default:
		l.checkTwin(&r.item, r.Name, isSame, &twin.item)
	}
	if r.Unit != "" && r.Unit == twin.Unit {
		l.reportItem(&r.item, "unit", wrong("%s is the unit of two resources: also on line %d", quote(r.Unit), twin.place("unit").line).hint("remove one"))
	}
	for _, a := range r.Addresses {
		if slices.ContainsFunc(twin.Addresses, func(b netip.Prefix) bool { return a.Addr() == b.Addr() }) {
			l.reportItem(&r.item, r.addressKey(), wrong("%s is the address of two resources: also on line %d", a.Addr(), twin.place(twin.addressKey()).line).hint("remove one"))
		}
	}
}

func (r *Resource) addressKey() string {
	if r.has("addresses") {
		return "addresses"
	}
	return "address"
}

// deriveResources holds the resources against other settings.
func (l *loader) deriveResources() {
	side := l.config.Hooks.Timeout + l.config.Hooks.Grace
	for i := range l.config.Resources {
		r := &l.config.Resources[i]
		if !r.has("grace") {
			r.Grace = min(r.Grace, side)
		}
		if r.Grace > side && !l.failed["hooks.timeout"] && !l.failed["hooks.grace"] {
			l.reportItem(&r.item, "grace", wrong("grace %s is longer than what the lose side has, which is hooks.timeout %s and hooks.grace %s together",
				shortDuration(r.Grace), shortDuration(l.config.Hooks.Timeout), shortDuration(l.config.Hooks.Grace)).hint("raise hooks.timeout or lower grace"))
		}
		for _, a := range r.Addresses {
			if a.Addr() == l.config.Network.Bind.Addr() || a.Addr() == l.config.Network.Advertise.Addr() {
				l.reportItem(&r.item, r.addressKey(), wrong("%s is this host's own, at which the others reach it: expected one that goes with the leadership", a.Addr()))
			}
			if slices.ContainsFunc(l.config.Network.Join, func(seed string) bool { return isAt(seed, a.Addr()) }) {
				l.reportItem(&r.item, r.addressKey(), wrong("%s is in network.join: expected one that goes with the leadership, and no member's own", a.Addr()))
			}
		}
	}
}

// isAt reports whether an entry of network.join is that address, with a port or without.
func isAt(seed string, addr netip.Addr) bool {
	if at, err := netip.ParseAddrPort(seed); err == nil {
		return at.Addr() == addr
	}
	at, err := netip.ParseAddr(seed)
	return err == nil && at == addr
}

// checkResources compares the resources with the host. Warnings are notes, and so is at a start what may pass: a VLAN or a bridge
// often comes later than the agent.
func (c *Config) checkResources(h host) (problems []*Error) {
	for i := range c.Resources {
		r := &c.Resources[i]
		bad := func(key string, err *Error) {
			switch {
			case err == nil:
			case c.Look.IsStart && err.passes:
				c.Passing = append(c.Passing, err.at(r.place(key), resourceName+"."+key).Error())
			default:
				problems = append(problems, err.at(r.place(key), resourceName+"."+key))
			}
		}
		bad("command", c.checkCommand(r.Command))
		if err := checkDevice(r.Interface, h); err != nil {
			err.passes = true
			bad("interface", err)
		}
		if err := vip.Spare(r.Addresses, c.Look.Owners); err != nil {
			bad(r.addressKey(), asError(err))
		}
		bound := agent.LeaseBound(c.Election.Lease, c.Election.TakeoverDelay)
		for _, err := range vip.Fits(r.Addresses, r.Interface, bound) {
			bad(r.addressKey(), asError(err))
		}
		for _, err := range vip.Astray(r.Addresses, r.Interface, bound) {
			c.Passing = append(c.Passing, asError(err).at(r.place(r.addressKey()), resourceName+"."+r.addressKey()).Error())
		}
		if r.Unit != "" && h.unit != nil {
			ctx, cancel := context.WithTimeout(context.Background(), unitPatience)
			faults, warnings := h.unit(ctx, r.Unit)
			cancel()
			for _, f := range faults {
				bad("unit", wrong("%s", f))
			}
			c.Passing = append(c.Passing, warnings...)
			if c.Look.IsStart && !h.root && len(faults) == 0 {
				c.Passing = append(c.Passing, wrong("systemd takes orders of root, and of this user only if a rule of polkit lets it").
					hint("run the agent with root-hooks.conf, or allow it org.freedesktop.systemd1.manage-units").at(r.place("unit"), resourceName+".unit").Error())
			}
		}
	}
	return problems
}

// unitPatience bounds what systemd may take to answer. Arbitrary.
const unitPatience = 5 * time.Second
