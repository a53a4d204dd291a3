package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// A host is told to join a name that nobody can resolve yet. It does not give
// up, nor end; it leads its own part, and joins when the name appears.
func TestNameThatResolvesLater(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	l.mayOverlap("available mode: until they find each other, each host is a part of its own")
	a, b := l.hosts[0], l.hosts[1]
	a.join = []string{}
	b.join = []string{"alpha.e2e.test"}
	b.usesResolver(l.gateway())
	l.start()
	l.agreeOn(a, a)
	l.agreeOn(b, b)
	s, err := b.status()
	must(t, err)
	t.Logf("%s notes %q", b, s.Notes)
	if len(s.Notes) == 0 {
		t.Errorf("the status of %s does not say that it joined nobody", b)
	}

	l.serveName("alpha.e2e.test.", a.addr.Addr())
	l.agreeOn(b)
}

// usesResolver makes server the only one that h asks for names.
func (h *host) usesResolver(server netip.Addr) {
	h.lan.t.Helper()
	dir := filepath.Join(netnsConfig, string(h.net.Namespace))
	must(h.lan.t, os.MkdirAll(dir, 0o755))
	for file, text := range map[string]string{
		"resolv.conf":   fmt.Sprintf("nameserver %s\noptions timeout:1 attempts:1\n", server),
		"nsswitch.conf": "hosts: files dns\n",
		"hosts":         "127.0.0.1 localhost\n",
	} {
		if _, err := os.Stat(filepath.Join("/etc", file)); err != nil {
			continue // there is nothing that it could be put over
		}
		must(h.lan.t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
}

// serveName runs a name server at the switch that knows one name, until the end
// of the test.
func (l *lan) serveName(name string, addr netip.Addr) {
	l.t.Helper()
	var server net.PacketConn
	must(l.t, l.net.Switch().Within(func() (err error) {
		server, err = net.ListenPacket("udp", netip.AddrPortFrom(l.gateway(), 53).String())
		return err
	}))
	done := make(chan struct{})
	l.t.Cleanup(func() {
		server.Close()
		<-done
	})
	go func() {
		defer close(done)
		query := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			if answer, err := answerName(query[:n], name, addr.As4()); err == nil {
				_, _ = server.WriteTo(answer, from)
			}
		}
	}()
}

// answerName answers one query: with the address if it is for name, with
// nothing for its other records, and that there is no such name otherwise.
func answerName(query []byte, name string, addr [4]byte) ([]byte, error) {
	var in dnsmessage.Message
	if err := in.Unpack(query); err != nil {
		return nil, err
	}
	if len(in.Questions) != 1 {
		return nil, fmt.Errorf("%d questions", len(in.Questions))
	}
	asked := in.Questions[0]
	out := dnsmessage.Message{Questions: in.Questions,
		Header: dnsmessage.Header{ID: in.ID, Response: true, Authoritative: true, RCode: dnsmessage.RCodeNameError}}
	if asked.Name.String() == name {
		out.RCode = dnsmessage.RCodeSuccess
		if asked.Type == dnsmessage.TypeA {
			out.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: asked.Name, Type: asked.Type, Class: asked.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: addr},
			}}
		}
	}
	return out.Pack()
}
