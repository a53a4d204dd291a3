package config

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
)

// Beside compares the configuration, which is from the file at path, with those of this host's other agents, files by the
// names of their instances, and gives a line for each thing that only one of them can have. A file need not have an agent,
// so that none of it is an error here.
//
// A file that cannot be loaded, or sets nothing, as the package's agent.toml, says nothing; nor does this agent's own.
func (c *Config) Beside(path string, files map[string]string) []string {
	h := thisHost()
	h.root = true // the service's manager starts them, with root's places
	return c.beside(path, files, h)
}

func (c *Config) beside(path string, files map[string]string, h host) (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == c.Instance || isSameFile(files[name], path) || SetsNothing(files[name]) {
			continue
		}
		other, err := load(Source{Path: files[name], Instance: name}, h)
		if err != nil {
			continue
		}
		for _, shared := range c.sharedWith(other) {
			notes = append(notes, fmt.Sprintf("%s has %s: give one of the two another, or only one of them can run", files[name], shared))
		}
	}
	return notes
}

func isSameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// sharedWith is what both would use.
func (c *Config) sharedWith(other *Config) (shared []string) {
	if collide(c.Network.Bind, other.Network.Bind) {
		shared = append(shared, fmt.Sprintf("this port as well, %d (bind)", c.Network.Bind.Port()))
	}
	for _, tcp := range []struct {
		mine, its netip.AddrPort
		where     string
	}{
		{c.HTTP.Listen, other.HTTP.Listen, "listen under [http]"},
		{c.HTTP.Listen, other.Network.Bind, "bind there, listen under [http] here"},
		{c.Network.Bind, other.HTTP.Listen, "listen under [http] there, bind here"},
	} {
		if collide(tcp.mine, tcp.its) {
			shared = append(shared, fmt.Sprintf("this port as well, %d (%s)", tcp.mine.Port(), tcp.where))
		}
	}
	if c.Node.StateDir == other.Node.StateDir {
		shared = append(shared, fmt.Sprintf("this state directory as well, %s (state_dir)", c.Node.StateDir))
	}
	if c.Control.Socket == other.Control.Socket {
		shared = append(shared, fmt.Sprintf("this socket as well, %s (socket)", c.Control.Socket))
	}
	return shared
}

// collide reports whether not both can be listened at. The zero AddrPort is none.
func collide(a, b netip.AddrPort) bool {
	return a.IsValid() && b.IsValid() && a.Port() == b.Port() && (a.Addr() == b.Addr() || covers(a.Addr(), b.Addr()) || covers(b.Addr(), a.Addr()))
}

// covers: whoever listens at all has the other too. [::] is all of both families, and 0.0.0.0 of its own.
func covers(all, one netip.Addr) bool { return all.IsUnspecified() && (all.Is6() || one.Is4()) }
