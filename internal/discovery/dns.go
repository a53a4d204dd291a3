package discovery

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// What hosts say to each other by mDNS: one question, and one datagram that answers it (RFC 6762, 6763).

const (
	// service is what hosts are announced as.
	service = "_bully-agent._udp.local."

	// mostRecords bounds what is read of a datagram. Arbitrary: a host's answer has five.
	mostRecords = 64

	// mdnsPort is where questions of mDNS come from. Those from another port are legacy ones (RFC 6762, 6.7), and are answered as a name
	// server would.
	mdnsPort = 5353

	answerTTL = 120 // seconds, which RFC 6762 (10) recommends for what names an address
)

// announced is what a host says of itself.
type announced struct {
	instance, host dnsmessage.Name
	text           string // what tells the clusters on one link apart
	addr           netip.AddrPort
}

// asksForAll asks who is there.
func asksForAll() []byte {
	name := dnsmessage.MustNewName(service)
	m := dnsmessage.Message{Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET}}}
	b, err := m.Pack()
	if err != nil {
		panic("BUG: a question that is fixed: " + err.Error())
	}
	return b
}

// answer gives what is said to a datagram that asks for this host; nil: it does not.
func (a announced) answer(datagram []byte, port uint16) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(datagram)
	if err != nil || head.Response || head.OpCode != 0 || head.RCode != 0 || head.Truncated {
		return nil
	}
	for range mostRecords {
		q, err := p.Question()
		if err != nil {
			return nil
		}
		if slices.ContainsFunc([]string{service, a.instance.String(), a.host.String()}, func(of string) bool { return strings.EqualFold(q.Name.String(), of) }) {
			return a.all(head.ID, q, port == mdnsPort)
		}
	}
	return nil
}

// all is the answer that has all, to whatever was asked.
func (a announced) all(id uint16, q dnsmessage.Question, isMulticast bool) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{Response: true, Authoritative: true}}
	if !isMulticast {
		m.ID, m.Questions = id, []dnsmessage.Question{q}
	}
	say := func(name dnsmessage.Name, body dnsmessage.ResourceBody) {
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: answerTTL}, Body: body})
	}
	say(dnsmessage.MustNewName(service), &dnsmessage.PTRResource{PTR: a.instance})
	say(a.instance, &dnsmessage.SRVResource{Target: a.host, Port: a.addr.Port()})
	say(a.instance, &dnsmessage.TXTResource{TXT: []string{a.text}})
	if a.addr.Addr().Is4() {
		say(a.host, &dnsmessage.AResource{A: a.addr.Addr().As4()})
	} else {
		say(a.host, &dnsmessage.AAAAResource{AAAA: a.addr.Addr().As16()})
	}
	b, err := m.Pack()
	if err != nil {
		return nil // of a question that cannot be said again
	}
	return b
}

// hostsIn gives the hosts of this cluster that a datagram names, without this one. Nobody has proved anything, so it is looked at as
// closely as it can be.
func (a announced) hostsIn(datagram []byte) (hosts []netip.AddrPort) {
	var p dnsmessage.Parser
	if head, err := p.Start(datagram); err != nil || !head.Response || p.SkipAllQuestions() != nil {
		return nil
	}
	isOurs, ports, addrs := map[string]bool{}, map[string]dnsmessage.SRVResource{}, map[string][]netip.Addr{}
	for range mostRecords {
		r, err := p.Answer()
		if err != nil {
			break
		}
		name := strings.ToLower(r.Header.Name.String())
		switch body := r.Body.(type) {
		case *dnsmessage.TXTResource:
			isOurs[name] = slices.Contains(body.TXT, a.text)
		case *dnsmessage.SRVResource:
			ports[name] = *body
		case *dnsmessage.AResource:
			addrs[name] = append(addrs[name], netip.AddrFrom4(body.A))
		case *dnsmessage.AAAAResource:
			addrs[name] = append(addrs[name], netip.AddrFrom16(body.AAAA).Unmap())
		}
	}
	for name, at := range ports {
		if !isOurs[name] || at.Port == 0 || !strings.HasSuffix(name, "."+service) {
			continue
		}
		for _, addr := range addrs[strings.ToLower(at.Target.String())] {
			if host := netip.AddrPortFrom(addr, at.Port); isPlain(addr) && host != a.addr {
				hosts = append(hosts, host)
			}
		}
	}
	slices.SortFunc(hosts, netip.AddrPort.Compare)
	return hosts
}

// isPlain reports whether an address can be that of a host.
func isPlain(a netip.Addr) bool {
	return !a.IsLinkLocalUnicast() && !a.IsMulticast() && !a.IsUnspecified() && !a.IsLoopback()
}
