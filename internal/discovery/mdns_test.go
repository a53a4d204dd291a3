package discovery

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

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
func TestAnswers(t *testing.T) {
	m := ofLab("10.0.0.1:7950")
	all := dnsmessage.Question{Name: dnsmessage.MustNewName(service), Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET}
	for _, c := range []struct {
		name  string
		spoil func(*announced)
		want  string
	}{
		{"beta", func(*announced) {}, "10.0.0.2:7950"},
		{"of another case", func(a *announced) { a.instance = dnsmessage.MustNewName(strings.ToUpper(a.instance.String())) }, "10.0.0.2:7950"},
		{"IPv6", func(a *announced) { a.addr = netip.MustParseAddrPort("[fd00::2]:7950") }, "[fd00::2]:7950"},
		{"IPv4 as IPv6", func(a *announced) { a.addr = netip.MustParseAddrPort("[::ffff:10.0.0.1]:7950") }, ""},
		{"link-local", func(a *announced) { a.addr = netip.MustParseAddrPort("[fe80::2]:7950") }, ""},
		{"multicast", func(a *announced) { a.addr = netip.MustParseAddrPort("224.0.0.251:7950") }, ""},
		{"unspecified", func(a *announced) { a.addr = netip.MustParseAddrPort("0.0.0.0:7950") }, ""},
		{"this host", func(a *announced) { a.addr = m.addr }, ""},
		{"another port of this host", func(a *announced) { a.addr = netip.MustParseAddrPort("10.0.0.1:7951") }, "10.0.0.1:7951"},
		{"another service", func(a *announced) { a.instance = dnsmessage.MustNewName("printer._ipp._tcp.local.") }, ""},
		{"another cluster", func(a *announced) { a.text = ofOther.text }, ""},
		{"no port", func(a *announced) { a.addr = netip.MustParseAddrPort("10.0.0.2:0") }, ""},
	} {
		of := ofLab("10.0.0.2:7950").announced
		c.spoil(&of)
		for _, isMulticast := range []bool{false, true} {
			if got := strings.Join(texts(m.hostsIn(of.all(7, all, isMulticast))), " "); got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
	}
}

func texts(hosts []netip.AddrPort) (all []string) {
	for _, h := range hosts {
		all = append(all, h.String())
	}
	return all
}

var ofOther = newMulticast(Config{Cluster: "other", Self: netip.MustParseAddrPort("10.0.0.1:7950")})

// Who asks for the service, for a host of it or for its address is answered, and nobody else.
func TestQuestions(t *testing.T) {
	m := ofLab("10.0.0.1:7950")
	for name, isOurs := range map[string]bool{service: true, "_BULLY-agent._udp.local.": true, m.instance.String(): true, m.host.String(): true,
		"_ipp._tcp.local.": false, ofOther.instance.String() + "x.": false, ".": false} {
		q := dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeALL, Class: dnsmessage.ClassINET}
		for head, isQuestion := range map[dnsmessage.Header]bool{{ID: 7}: true, {Response: true}: false, {OpCode: 1}: false, {RCode: 1}: false, {Truncated: true}: false} {
			asked, err := (&dnsmessage.Message{Header: head, Questions: []dnsmessage.Question{q}}).Pack()
			if err != nil {
				t.Fatal(err)
			}
			if got := m.answer(asked, 40000); (got != nil) != (isOurs && isQuestion) {
				t.Errorf("%s, %+v: answered %q", name, head, got)
			}
		}
	}
}

// Whatever a datagram is, it is read to an end, and answered by no more than this host's own words.
func FuzzDatagrams(f *testing.F) {
	m := ofLab("10.0.0.1:7950")
	asked := asksForAll()
	f.Add(asked)
	f.Add(m.answer(asked, 40000))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		datagram = datagram[:min(len(datagram), mostDatagram)]
		if n := len(m.answer(datagram, 40000)); n > 700 {
			t.Errorf("answered by %d bytes", n)
		}
		if n := len(m.hostsIn(datagram)); n > mostRecords*mostRecords {
			t.Errorf("%d hosts", n)
		}
	})
}

// What is announced names neither the cluster nor the host.
func TestWhatIsTold(t *testing.T) {
	m := ofLab("10.0.0.1:7950")
	if told := m.text + m.instance.String() + m.host.String(); strings.Contains(told, "lab") || m.text == ofOther.text || m.host == ofLab("10.0.0.1:7951").host {
		t.Errorf("told is %q", told)
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
