package config

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-sockaddr/template"

	"github.com/bully-agent/bully-agent/agent"
	"github.com/bully-agent/bully-agent/internal/advertise"
	"github.com/bully-agent/bully-agent/internal/systemd"
	"github.com/bully-agent/bully-agent/internal/trust"
)

// host is what Load asks of the machine; tests give another one. Nothing here changes anything or sends a packet.
type host struct {
	root     bool
	hostname func() (string, error)
	workdir  func() (string, error)
	links    func() ([]link, error)
	outgoing func(v6 bool) netip.Addr     // source address of the default route; invalid without one
	template func(string) (string, error) // go-sockaddr
	unit     func(ctx context.Context, name string) (faults, warnings []string)
	trust    func(path string) error // nobody but root could have written the file; nil: root does not ask
}

// link is one network interface.
type link = advertise.Link

func thisHost() host {
	return host{
		root:     os.Geteuid() == 0,
		hostname: os.Hostname,
		workdir:  os.Getwd,
		links:    readLinks,
		outgoing: agent.OutgoingAddr,
		template: template.Parse,
		unit:     systemd.Check,
		trust:    trust.CheckPath,
	}
}

func readLinks() ([]link, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var links []link
	for _, i := range interfaces {
		const usable = net.FlagUp | net.FlagRunning
		addrs, err := i.Addrs()
		if err != nil { // an interface may vanish in between
			continue
		}
		l := link{Name: i.Name, Down: i.Flags&usable != usable}
		if master, err := os.Readlink("/sys/class/net/" + i.Name + "/master"); err == nil {
			l.Under = filepath.Base(master)
		}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				l.Addrs = append(l.Addrs, prefix.Addr().Unmap().WithZone(""))
			}
		}
		links = append(links, l)
	}
	return links, nil
}

// hasFamily reports whether another host could reach this one by that family.
func hasFamily(links []link, v6 bool) bool {
	return slices.ContainsFunc(links, func(l link) bool {
		return !l.IsLocalBridge() && slices.ContainsFunc(l.Addrs, func(a netip.Addr) bool { return a.Is6() == v6 && advertise.IsRoutable(a) })
	})
}

func isDown(links []link, name string) bool {
	return slices.ContainsFunc(links, func(l link) bool { return l.Name == name && l.Down })
}

// interfaceOf names the interface that has the address, or gives "".
func interfaceOf(links []link, addr netip.Addr) string {
	for _, l := range links {
		if slices.Contains(l.Addrs, addr) {
			return l.Name
		}
	}
	return ""
}
