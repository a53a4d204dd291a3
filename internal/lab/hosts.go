package lab

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

const (
	lanKind = "bl" // begins the names of labs' namespaces
	labPort = 7950
)

// mayUseNamespaces says what is missing for --netns.
func mayUseNamespaces() error {
	if os.Geteuid() != 0 {
		return usage("--netns needs root, to make network namespaces: run it with sudo, or leave --netns out")
	}
	return nil
}

// openLAN makes a LAN of n hosts. What dead labs have left is swept away first. On an error nothing remains.
func openLAN(n int, sky netlab.Weather) (*netlab.LAN, []*netlab.Host, error) {
	for _, orphan := range netlab.Orphans(lanKind) {
		orphan.Remove()
	}
	lan, err := netlab.New(fmt.Sprintf("%s%d", lanKind, os.Getpid()), sky)
	if err != nil {
		return nil, nil, err
	}
	var hosts []*netlab.Host
	for k := 1; k <= n; k++ {
		h, err := lan.AddHost(nodeName(k), netip.PrefixFrom(hostAddr(k), 24))
		if err != nil {
			lan.Close()
			return nil, nil, err
		}
		hosts = append(hosts, h)
	}
	return lan, hosts, nil
}

// hostAddr is the address of the kth host.
func hostAddr(k int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(k)}) }
