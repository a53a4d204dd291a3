package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/membership"
)

// hostsKey is the one setting whose value is a table.
const hostsKey = "network.hosts"

// hostsExpected is what a value of it is.
const hostsExpected = `a table of names and ids: { alpha = "cc9c68df-…" }`

// hostsField reads the host list: a table in the file, name=id elsewhere.
var hostsField = field{
	parse: func(l *loader, v value) *Error {
		lines, err := hostLines(v)
		if err != nil {
			return err
		}
		var all []identity.Host
		for _, line := range lines {
			h, err := line.host()
			if err != nil {
				return err.at(line.place, "")
			}
			all = append(all, h)
		}
		list, bad := identity.MakeHosts(all)
		switch {
		case errors.Is(bad, identity.ErrTwice):
			return wrong("%s", bad).hint("each host has an id of its own: bully-agent id prints it there").at(lines.last(all), "")
		case bad != nil:
			return wrong("%s", bad)
		}
		l.config.Network.Hosts = list.At(v.place.String() + ": " + hostsKey)
		return nil
	},
	get: func(c *Config) any { return hostTable(c.Network.Hosts.All()) },
}

// hostTable is a host list as people write it, by name.
type hostTable []identity.Host

func (t hostTable) words() (words []string) {
	for _, h := range t {
		words = append(words, h.Name+"="+h.ID.String())
	}
	return words
}

// hostLine is one line of the list, as it was found.
type hostLine struct {
	name  string
	id    value
	place place
}

type hostList []hostLine

// last is where the last line stands that has the id of another.
func (list hostList) last(all []identity.Host) place {
	for i, h := range slices.Backward(all) {
		if slices.ContainsFunc(all[:i], func(o identity.Host) bool { return o.ID == h.ID }) {
			return list[i].place
		}
	}
	return place{}
}

// hostLines are the lines in their order; of a table that of the file.
func hostLines(v value) (lines hostList, err *Error) {
	switch d := v.data.(type) {
	case map[string]any:
		if len(v.names) == 0 {
			return nil, wrong("it names no host: expected this host at least").hint("without hosts each host that has the key may join: if that is meant, leave it out")
		}
		for i, name := range v.names {
			lines = append(lines, hostLine{name, value{place: v.elem(i), data: d[name]}, v.elem(i)})
		}
		return lines, nil
	case []string:
		for _, word := range d {
			name, id, found := strings.Cut(word, "=")
			if !found {
				return nil, wrong("%s: expected NAME=ID", quote(word))
			}
			lines = append(lines, hostLine{strings.TrimSpace(name), value{place: v.place, data: strings.TrimSpace(id)}, v.place})
		}
		for i, line := range lines {
			if slices.ContainsFunc(lines[:i], func(o hostLine) bool { return o.name == line.name }) {
				return nil, wrong("%s is there twice: expected each name once", quote(line.name))
			}
		}
		return lines, nil
	}
	return nil, wrong("%s: expected %s", v.found(), hostsExpected)
}

// host is what the line says.
func (h hostLine) host() (identity.Host, *Error) {
	if membership.CheckName(h.name) != nil {
		return identity.Host{}, wrong("%s is not a name: expected %s", quote(h.name), labelExpected)
	}
	text, err := h.id.text("the id of " + h.name + ", as bully-agent id prints it there")
	if err != nil {
		if _, isTable := h.id.data.(map[string]any); isTable {
			err.hint("a name with dots goes in quotes")
		}
		return identity.Host{}, err
	}
	id, bad := identity.ParseHost(text)
	if bad != nil {
		return identity.Host{}, wrong("%s of %s: %s", quote(text), h.name, bad).hint("bully-agent id prints it on %s, 36 characters", h.name)
	}
	return identity.Host{Name: h.name, ID: id}, nil
}
