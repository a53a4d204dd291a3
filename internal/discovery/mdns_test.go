package discovery

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/hashicorp/mdns"
	"go.uber.org/goleak"

	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

func TestMain(m *testing.M) {
	waiting.Together(4) // answers are waited for
	goleak.VerifyTestMain(m)
}

func ofLab(self string) *multicast {
	return newMulticast(Config{Cluster: "home-lab", Self: netip.MustParseAddrPort(self)})
}

// An answer counts if it is of the service and of the cluster, and of another than this host.
// Nobody has proved anything, so it is looked at as closely as it can be.
func TestAnswers(t *testing.T) {
	m := ofLab("10.0.0.1:7950")
	for _, c := range []struct {
		name  string
		spoil func(*mdns.ServiceEntry)
		want  string
	}{
		{"beta", func(*mdns.ServiceEntry) {}, "10.0.0.2:7950"},
		{"of another case", func(e *mdns.ServiceEntry) { e.Name = strings.ToUpper(e.Name) }, "10.0.0.2:7950"},
		{"both families", func(e *mdns.ServiceEntry) { e.AddrV6 = net.ParseIP("fd00::2") }, "10.0.0.2:7950 [fd00::2]:7950"},
		{"link-local", func(e *mdns.ServiceEntry) { e.AddrV4, e.AddrV6 = nil, net.ParseIP("fe80::2") }, ""},
		{"multicast", func(e *mdns.ServiceEntry) { e.AddrV4 = net.ParseIP("224.0.0.251") }, ""},
		{"unspecified", func(e *mdns.ServiceEntry) { e.AddrV4 = net.IPv4zero }, ""},
		{"an address of six bytes", func(e *mdns.ServiceEntry) { e.AddrV4 = net.IP{1, 2, 3, 4, 5, 6} }, ""},
		{"this host", func(e *mdns.ServiceEntry) { e.AddrV4 = net.ParseIP("10.0.0.1") }, ""},
		{"another port of this host", func(e *mdns.ServiceEntry) { e.AddrV4, e.Port = net.ParseIP("10.0.0.1"), 7951 }, "10.0.0.1:7951"},
		{"another service", func(e *mdns.ServiceEntry) { e.Name = "printer._ipp._tcp.local." }, ""},
		{"another cluster", func(e *mdns.ServiceEntry) { e.InfoFields = []string{ofOther.text} }, ""},
		{"no cluster", func(e *mdns.ServiceEntry) { e.InfoFields = nil }, ""},
		{"no port", func(e *mdns.ServiceEntry) { e.Port = 0 }, ""},
		{"a port that is none", func(e *mdns.ServiceEntry) { e.Port = 1 << 16 }, ""},
	} {
		e := &mdns.ServiceEntry{Name: "bully-agent-1._bully-agent._udp.local.", AddrV4: net.ParseIP("10.0.0.2"), Port: 7950, InfoFields: []string{m.text}}
		c.spoil(e)
		if got := strings.Join(m.hostsOf(e), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

var ofOther = newMulticast(Config{Cluster: "other", Self: netip.MustParseAddrPort("10.0.0.1:7950")})

// What is announced names neither the cluster nor the host.
func TestWhatIsTold(t *testing.T) {
	m := ofLab("10.0.0.1:7950")
	if strings.Contains(m.text+m.name, "lab") || m.text == ofOther.text || m.name == ofLab("10.0.0.1:7951").name {
		t.Errorf("told are %q and %q", m.text, m.name)
	}
}

// A host without a link for it is told so, by the link's name.
func TestLoopbackCarriesNoMulticast(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil || lo.Flags&net.FlagMulticast != 0 {
		t.Skip("skipped: there is no lo, or it carries multicast")
	}
	m := ofLab("127.0.0.1:7950")
	defer m.Close()
	_, err = m.Find(t.Context())
	if err == nil || err.Error() != "mDNS: lo, which has 127.0.0.1, carries no multicast or is down" {
		t.Errorf("the error is %v", err)
	}
}
