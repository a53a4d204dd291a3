package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/lab/netlab"
	"github.com/bully-agent/bully-agent/internal/test/attack"
	"github.com/bully-agent/bully-agent/membership"
	"github.com/bully-agent/bully-agent/wire"
)

// attacker is a host of the LAN that is nobody's member, and an ear at the switch.
type attacker struct {
	lan   *lan
	net   *netlab.Host
	own   netip.AddrPort // where it can be answered
	more  []netip.Addr   // its other addresses
	know  *attack.Knowledge
	tape  *attack.Tape
	gun   *attack.Gun
	forge *attack.Forger

	inside *insider // nil: the attacker is no member

	mu    sync.Mutex
	hears []func(attack.Packet) // besides know and tape
}

const (
	attackerName = "x"
	maxTape      = 64 << 20 // bytes
	clusterName  = "e2e"    // as arguments says
)

// crowd is a network on the same link in which nobody is: floods come from it.
var crowd = netip.MustParsePrefix("10.79.0.0/16")

// invade puts an attacker on the LAN, who hears all from now on.
func (l *lan) invade() *attacker {
	l.t.Helper()
	a := &attacker{lan: l, know: attack.NewKnowledge(), tape: attack.NewTape(maxTape)}
	address := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 78, l.number, 100 + i}) }
	var err error
	a.net, err = l.net.AddHost(attackerName, netip.PrefixFrom(address(0), 24))
	must(l.t, err)
	for i := range byte(15) {
		a.more = append(a.more, address(1+i))
		l.ip(a.net.Namespace, fmt.Sprintf("addr add %s/24 dev %s", address(1+i), netlab.Interface))
	}
	for _, h := range l.hosts { // or the kernel drops what comes from addresses that it has no way to
		l.ip(h.net.Namespace, fmt.Sprintf("route add %s dev %s", crowd, netlab.Interface))
	}
	a.own = netip.AddrPortFrom(address(0), port)
	a.gun, err = a.newGun()
	must(l.t, err)
	l.t.Cleanup(a.gun.Close)
	var tap *attack.Tap
	must(l.t, l.net.Switch().Within(func() (err error) {
		tap, err = attack.Listen(attackerName, a.hear)
		return err
	}))
	l.t.Cleanup(tap.Close)
	const seed = 9
	a.forge = &attack.Forger{Know: a.know, Own: a.own, Random: attack.NewRandom(seed)}
	for _, h := range l.hosts {
		a.forge.Targets = append(a.forge.Targets, h.addr)
	}
	return a
}

func (a *attacker) hear(p attack.Packet) {
	a.know.Hear(p)
	a.tape.Add(p)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, hear := range a.hears {
		hear(p)
	}
}

// overhear has what is heard from now on told to somebody else, too, who may not keep the payload.
func (a *attacker) overhear(hear func(attack.Packet)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hears = append(a.hears, hear)
}

// campaign is everything, with streams or without.
func (a *attacker) campaign(rate int) *attack.Campaign {
	c := &attack.Campaign{Gun: a.gun, Tape: a.tape, Forger: a.forge, Gossip: attack.Gossip{Cluster: clusterName}, Crowd: crowd, Rate: rate}
	for _, h := range a.lan.hosts {
		c.Streams = append(c.Streams, &attack.Crowd{From: append([]netip.Addr{a.own.Addr()}, a.more...), To: h.addr})
	}
	return c
}

// wage runs a campaign for so long, in the attacker's namespace, and says what was sent.
func (a *attacker) wage(ctx context.Context, d time.Duration, rate int) {
	a.lan.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	must(a.lan.t, a.net.Within(func() error {
		tally, err := a.campaign(rate).Run(ctx)
		a.lan.t.Logf("the attacker heard %d packets and sent %d: %s", len(a.tape.Packets()), a.gun.Sent(), tally)
		return err
	}))
}

// newGun is a socket that sends from the attacker's host.
func (a *attacker) newGun() (gun *attack.Gun, err error) {
	err = a.net.Within(func() (err error) {
		gun, err = attack.NewGun()
		return err
	})
	return gun, err
}

// heckle has each beginning of a session answered from now on, in the name of whom it is meant for, by what is false.
func (a *attacker) heckle() {
	gun, err := a.newGun()
	must(a.lan.t, err)
	a.lan.t.Cleanup(gun.Close)
	forge := attack.Forger{Random: attack.NewRandom(1)}
	a.overhear(func(p attack.Packet) {
		for _, answer := range forge.Answers(p) {
			_ = gun.Fire(answer) // as lost on the way
		}
	})
}

// learn has the attacker know of the agent on h what a member knows: with sessions it hears nothing.
func (a *attacker) learn(h *host, m membership.Member) {
	s, err := h.status()
	if err != nil {
		return // it starts
	}
	id, err := wire.ParseID(s.Self.ID)
	must(a.lan.t, err)
	owner, _ := wire.ParseID(s.Epoch.Owner) // or nobody, as nobody leads
	f := wire.Frame{Kind: wire.Query, Algo: wire.Classic, Cluster: wire.ClusterHash(clusterName), ConfigHash: m.ConfigHash, Sender: id,
		Incarnation: s.Self.Incarnation, Nonce: m.Nonce, Priority: uint16(h.priority), Epoch: wire.Epoch{Counter: s.Epoch.Counter, Owner: owner}}
	if s.LeaderIsSelf {
		f.Kind, f.Lease, f.Interval = wire.Heartbeat, 400, 50
	}
	a.know.Hear(attack.Packet{From: h.addr, Payload: wire.Append(nil, &f)})
}

// peer is what the attacker knows of the agent on h.
func (a *attacker) peer(h *host) attack.Peer {
	a.lan.t.Helper()
	if a.lan.other == "" && a.inside == nil {
		a.learn(h, membership.Member{})
	}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(pollInterval) {
		for _, p := range a.know.Peers() {
			if p.Addr == h.addr {
				return p
			}
		}
	}
	a.lan.t.Fatalf("the attacker knows nothing of %s", h)
	return attack.Peer{}
}

// send sends a datagram from anywhere to h.
func (a *attacker) send(from netip.AddrPort, h *host, payload []byte) {
	a.lan.t.Helper()
	must(a.lan.t, a.gun.Fire(attack.Packet{From: from, To: h.addr, Payload: payload}))
}

// say sends a frame to h in a peer's name, from the attacker's own address: in a session of its own, if it is a member.
func (a *attacker) say(as attack.Peer, h *host, body wire.Frame) {
	a.lan.t.Helper()
	a.pass(h, a.know.Say(a.forge.As(as, h.addr, body)))
}

// pass sends a frame or gossip to h, in the attacker's own name if it is a member.
func (a *attacker) pass(h *host, payload []byte) {
	a.lan.t.Helper()
	if a.inside != nil {
		a.inside.tells(h.addr, payload)
		return
	}
	a.send(a.own, h, payload)
}

// sayAll says it to each of these but to whom it is said to be from.
func (a *attacker) sayAll(as attack.Peer, hosts []*host, body wire.Frame) {
	a.lan.t.Helper()
	for _, h := range hosts {
		if h.addr != as.Addr {
			a.say(as, h, body)
		}
	}
}

// gossip tells h something.
func (a *attacker) gossip(h *host, messages ...[]byte) {
	a.lan.t.Helper()
	a.pass(h, attack.Gossip{Cluster: clusterName}.Datagram(messages...))
}

// impersonate kills the agent on h, if that believes strangers: it says that it is the agent's other
// copy, and proves it by an answer to the agent's question (2 datagrams).
func (a *attacker) impersonate(h *host) {
	a.lan.t.Helper()
	p := a.peer(h)
	p.Frame.Nonce, p.Frame.Incarnation = 4242, 0
	if a.inside != nil {
		a.inside.impersonate(h, p)
		return
	}
	must(a.lan.t, a.net.Within(func() error {
		conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(a.own))
		if err != nil {
			return err
		}
		defer conn.Close()
		question := a.forge.As(p, h.addr, wire.Frame{Kind: wire.Probe, Purpose: wire.AskOpinion, Round: 1})
		if _, err := conn.WriteToUDPAddrPort(a.know.Say(question), h.addr); err != nil {
			return err
		}
		return a.answer(conn, h, p)
	}))
}

// answer waits for a question that h asks, and answers it. That none comes is no error.
func (a *attacker) answer(conn *net.UDPConn, h *host, p attack.Peer) error {
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	buf := make([]byte, 2048)
	for {
		n, _, err := conn.ReadFromUDPAddrPort(buf)
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			return nil
		}
		if err != nil {
			return err
		}
		asked := attack.NewKnowledge()
		asked.Hear(attack.Packet{From: h.addr, Payload: buf[:n]})
		if peers := asked.Peers(); len(peers) == 1 && peers[0].Frame.Kind == wire.Probe {
			reply := a.forge.As(p, h.addr, wire.Frame{Kind: wire.ProbeAck, Seq: 2, Standing: wire.Following, Round: peers[0].Frame.Round, EchoSeq: peers[0].Frame.Seq})
			_, err := conn.WriteToUDPAddrPort(a.know.Say(reply), h.addr)
			return err
		}
	}
}

// dial opens n streams to h from each of the attacker's addresses and says the same on each.
// They stay open until the test ends.
func (a *attacker) dial(h *host, n int, say []byte) *attack.Crowd {
	a.lan.t.Helper()
	c := &attack.Crowd{From: a.more, To: h.addr}
	must(a.lan.t, a.net.Within(func() error {
		c.Dial(context.Background(), n, say)
		return nil
	}))
	a.lan.t.Cleanup(c.Close)
	return c
}

// withoutKeys has the agents take everybody for a member who joins.
func (l *lan) withoutKeys() { l.insecure = true }

// program is the agent that runs on this LAN.
func (l *lan) program() string {
	if l.other != "" {
		return l.other
	}
	return binary
}

var helps sync.Map // program → what its run --help says

// suit leaves out of an agent's arguments what its program does not know: one from before there
// were keys.
func (l *lan) suit(args []string) []string {
	l.t.Helper()
	help, known := helps.Load(l.program())
	if !known {
		text, err := exec.Command(l.program(), "run", "--help").Output()
		must(l.t, err)
		help = string(text)
		helps.Store(l.program(), help)
	}
	knows := func(flag string) bool { return strings.Contains(help.(string), " "+flag+" ") }
	var suited []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--insecure" && !knows("--insecure"):
		case args[i] == "--key" && !knows("--key"):
			i++ // and its value
		default:
			suited = append(suited, args[i])
		}
	}
	return suited
}

// members gives what the agent on h says of the others.
func (h *host) members() []control.Member {
	h.lan.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	all, err := h.client.Members(ctx)
	must(h.lan.t, err)
	return slices.DeleteFunc(all, func(m control.Member) bool { return m.Self })
}

// The attacker itself: it hears what hosts say, once each, and what it sends under another's name
// and address arrives, also in fragments.
func TestAttackerHearsAndForges(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	a := l.invade()
	from, to := l.hosts[0], l.hosts[1]
	var conn *net.UDPConn
	listen := func() (err error) {
		conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(to.addr))
		return err
	}
	must(t, to.net.Within(listen))
	defer conn.Close()
	buf := make([]byte, 1<<16)
	for _, size := range []int{1, 1200, 31 << 10} {
		a.send(from.addr, to, make([]byte, size))
		must(t, conn.SetReadDeadline(time.Now().Add(5*time.Second)))
		n, source, err := conn.ReadFromUDPAddrPort(buf)
		must(t, err)
		if n != size || source != from.addr {
			t.Errorf("%d bytes as %s arrived as %d bytes as %s", size, from.addr, n, source)
		}
	}
	must(t, from.net.Within(func() error {
		out, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(from.addr), net.UDPAddrFromAddrPort(to.addr))
		if err != nil {
			return err
		}
		defer out.Close()
		_, err = out.Write([]byte("to be overheard"))
		return err
	}))
	heard := func(p attack.Packet) bool {
		return p.From == from.addr && p.To == to.addr && string(p.Payload) == "to be overheard"
	}
	l.eventually("the attacker hears it", 5*time.Second, func() error {
		if !slices.ContainsFunc(a.tape.Packets(), heard) {
			return errors.New("it does not")
		}
		return nil
	})
	if all := a.tape.Packets(); len(all) != 1 {
		t.Errorf("%d packets were heard, expected one, once, and none of the attacker's own", len(all))
	}
}
