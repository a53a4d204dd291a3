package examples

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// pair is the example on two hosts, and a client that asks them all the time.
type pair struct {
	t      *testing.T
	agents []*agent
	client *netlab.Host
	socket net.PacketConn // the client's, for DHCP

	mu      sync.Mutex
	asked   []time.Time // by the number of the question, which is its xid
	answers []answer
}

// answer is one of a DHCP server.
type answer struct {
	question int
	by       netip.Addr // the host
	isAck    bool       // else an offer
}

// What the messages of RFC 2132, 9.6, are.
const (
	dhcpDiscover = 1
	dhcpRequest  = 3
	dhcpAck      = 5
)

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{t: t}
	dnsmasq, net := tool(t, "dnsmasq"), newLAN(t)
	for i, name := range []string{"alpha", "beta"} {
		addr := fmt.Sprintf("192.168.1.%d", 11+i)
		a := net.install(name, addr+"/24", "dhcp-dns/agent.toml", func(text string) string {
			command := `["` + strings.Join(p.command(dnsmasq, addr), `", "`) + `"]`
			return strings.Replace(text, `unit = "dnsmasq.service"`, "command = "+command, 1)
		})
		p.agents = append(p.agents, a)
	}
	p.client = net.plug("client", "192.168.1.99/24")
	p.ask()
	return p
}

// command stands for the unit: there is no systemd here. Its answers say on which host it runs, and none waits for a ping.
func (p *pair) command(dnsmasq, addr string) []string {
	return []string{dnsmasq, "--keep-in-foreground", "--user=root", "--no-ping", "--no-hosts", "--log-facility=-",
		"--conf-file=" + absolute(p.t, "dhcp-dns", "dnsmasq.conf"), "--dhcp-leasefile=" + filepath.Join(p.t.TempDir(), "leases"),
		"--host-record=who.test," + addr, "--dhcp-boot=none,," + addr}
}

// ask begins to send DHCPDISCOVER, as a client without an address does, until the end of the test.
func (p *pair) ask() {
	p.t.Helper()
	err := p.client.Within(func() (err error) {
		p.socket, err = net.ListenPacket("udp4", ":68")
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	var running sync.WaitGroup
	done := make(chan struct{})
	running.Go(func() {
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			p.question(dhcpDiscover)
			select {
			case <-tick.C:
			case <-done:
				tick.Stop()
				return
			}
		}
	})
	running.Go(p.listen)
	p.t.Cleanup(func() {
		close(done)
		_ = p.socket.Close()
		running.Wait()
	})
}

// question sends one message, RFC 2131, figure 1. The answer shall be a broadcast.
func (p *pair) question(kind byte, options ...byte) {
	p.mu.Lock()
	xid := len(p.asked)
	p.asked = append(p.asked, time.Now())
	p.mu.Unlock()
	b := make([]byte, 300)
	copy(b, []byte{1, 1, 6})
	binary.BigEndian.PutUint32(b[4:], uint32(xid))
	b[10] = 0x80
	copy(b[28:], []byte{2, 0, 0, 0, 0, 99})
	copy(b[236:], append(append([]byte{99, 130, 83, 99, 53, 1, kind}, options...), 255))
	// What is lost is lost, and the next is under way.
	_, _ = p.socket.WriteTo(b, &net.UDPAddr{IP: net.IPv4(192, 168, 1, 255), Port: 67})
}

// listen notes the answers, until the socket is closed.
func (p *pair) listen() {
	for b := make([]byte, 1500); ; {
		n, _, err := p.socket.ReadFrom(b)
		if err != nil {
			return
		}
		if n < 243 || b[0] != 2 {
			continue
		}
		if !bytes.Contains(b[240:n], []byte{54, 4, 192, 168, 1, 53}) {
			p.t.Errorf("a server answers that is not 192.168.1.53: % x", b[240:n])
		}
		a := answer{int(binary.BigEndian.Uint32(b[4:])), netip.AddrFrom4([4]byte(b[20:24])), b[242] == dhcpAck}
		p.mu.Lock()
		p.answers = append(p.answers, a)
		p.mu.Unlock()
	}
}

// keeps asks for an address that the client has, from a server that knows nothing of it, until that agrees.
func (p *pair) keeps(addr netip.Addr) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("the client keeps %s", addr), func() bool {
		p.question(dhcpRequest, append([]byte{50, 4}, addr.AsSlice()...)...)
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.ContainsFunc(p.answers, func(a answer) bool { return a.isAck })
	})
}

// who is the host that answers at the leader's address now, by DNS.
func (p *pair) who() string {
	asks := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialFrom(p.client)(ctx, network, "192.168.1.53:53")
	}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	found, err := asks.LookupNetIP(ctx, "ip4", "who.test.")
	if err != nil || len(found) != 1 {
		return ""
	}
	return p.name(found[0])
}

func (p *pair) name(host netip.Addr) string {
	switch host.Unmap().String() {
	case "192.168.1.11":
		return "alpha"
	case "192.168.1.12":
		return "beta"
	}
	return host.String()
}

// answered waits until a host answers, by DNS and by DHCP.
func (p *pair) answered(by string) {
	p.t.Helper()
	eventually(p.t, by+" answers by DNS", func() bool { return p.who() == by })
	from := p.questions()
	eventually(p.t, by+" answers by DHCP", func() bool {
		question, host := p.last()
		return question >= from && host == by
	})
}

// questions is how many were asked so far.
func (p *pair) questions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

// last is the last question that was answered, and by which host.
func (p *pair) last() (question int, by string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.answers) == 0 {
		return -1, ""
	}
	a := p.answers[len(p.answers)-1]
	return a.question, p.name(a.by)
}

// ending is what a leader may take to be silent once it has begun to step down, or lost its lease.
const ending = time.Second

// turn is a line of an agent's log that says what it is.
var turn = regexp.MustCompile(`(?m)^(\S+) \[INFO\] +(?:agent started|[^:\n]*: role=).*$`)

// reign is a time in which a host led.
type reign struct{ from, to time.Time }

// reigns reads from an agent's log when it led.
func reigns(t *testing.T, a *agent) (all []reign) {
	t.Helper()
	leads := false
	for _, m := range turn.FindAllStringSubmatch(a.log(), -1) {
		at, err := time.Parse(time.RFC3339Nano, m[1])
		if err != nil {
			t.Fatal(err)
		}
		switch isLeader := strings.Contains(m[0], "role=leader"); {
		case isLeader && !leads:
			all = append(all, reign{from: at, to: time.Now()})
			leads = true
		case !isLeader && leads:
			all[len(all)-1].to = at
			leads = false
		}
	}
	return all
}

// judge holds all answers against who led.
func (p *pair) judge() {
	p.t.Helper()
	led := map[string][]reign{}
	for _, a := range p.agents {
		led[a.name] = reigns(p.t, a)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	first := map[int]netip.Addr{}
	for _, a := range p.answers {
		if other, twice := first[a.question]; twice && other != a.by {
			p.t.Errorf("%s and %s both answered one question", p.name(other), p.name(a.by))
		}
		first[a.question] = a.by
		if asked := p.asked[a.question]; !isWithin(led[p.name(a.by)], asked) {
			p.t.Errorf("%s answered what was asked at %v: it led %v", p.name(a.by), asked, led[p.name(a.by)])
		}
	}
	p.t.Logf("%d questions, %d answers", len(p.asked), len(p.answers))
}

func isWithin(all []reign, at time.Time) bool {
	for _, r := range all {
		if at.After(r.from) && at.Before(r.to.Add(ending)) {
			return true
		}
	}
	return false
}

// Both hosts boot at once, again and again: one answers, and never one that does not lead. Then the leader's host dies, and
// the other answers.
func TestOnlyTheLeaderAnswers(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	boots := 5
	if os.Getenv("BULLY_E2E") == "long" {
		boots = 30
	}
	var leads, follows *agent
	for range boots {
		for _, a := range p.agents {
			a.powerOff()
		}
		for _, a := range p.agents {
			a.start()
		}
		leads, follows = agreed(t, p.agents[0], p.agents[1])
		p.answered(leads.name)
	}
	leads.die()
	died := time.Now()
	p.answered(follows.name)
	t.Logf("%s answered %v after the end of %s", follows.name, time.Since(died).Round(time.Millisecond), leads.name)
	p.keeps(netip.MustParseAddr("192.168.1.150"))
	p.judge()
}

// A dnsmasq that somebody starts by hand answers nothing where the address is not, although it runs.
func TestStrayServerIsSilent(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	alpha := p.agents[0].host
	ip := func(verb string) {
		t.Helper()
		words := []string{"-n", string(alpha.Namespace), "address", verb, "192.168.1.53/32", "dev", netlab.Interface}
		if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %s", words, out)
		}
	}
	words := p.command(tool(t, "dnsmasq"), "192.168.1.11")
	stray := exec.Command(words[0], words[1:]...)
	if err := alpha.Within(stray.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stray.Process.Kill()
		_ = stray.Wait()
	})
	ip("add")
	p.answered("alpha")
	ip("del")
	gone := p.questions() + 1 // one may be under way
	eventually(t, "more is asked", func() bool { return p.questions() > gone+20 })
	if question, _ := p.last(); question > gone {
		t.Errorf("question %d was answered: the address went before %d", question, gone)
	}
	ip("add")
	p.answered("alpha")
}
