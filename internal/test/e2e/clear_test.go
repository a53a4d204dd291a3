package e2e

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/test/attack"
	"github.com/bully-agent/bully-agent/wire"
)

// A cluster's whole life, join, jobs, failover, return and leave, is heard at the switch: it tells nothing, with a key and without
// one. Then the hosts say the same words in clear, which shows that whoever listens would have understood.
func TestCase20NothingIsToldInClear(t *testing.T) {
	needsLAN(t)
	for _, open := range []bool{false, true} {
		t.Run(keyWords(open), func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 3, "--expect", "3")
			l.insecure = open
			ear := l.invade()
			ids := l.wholeLife()
			told, heard := l.toldIn(ear.tape.Packets(), ids)
			if len(told) > 0 || heard < 300 {
				t.Errorf("%d packets were heard, and in clear: %v", heard, told)
			}
			before := len(ear.tape.Packets())
			l.sayInClear(ids)
			var known map[string]int
			l.eventually("the same words are understood", 5*time.Second, func() error {
				known, _ = l.toldIn(ear.tape.Packets()[before:], ids)
				for _, what := range []string{"a frame", "gossip", "memberlist's words", "the cluster's name", "an id", "an epoch's owner", "a job", "an address"} {
					if known[what] == 0 {
						return fmt.Errorf("what looks for %s finds none where there is some", what)
					}
				}
				return nil
			})
			t.Logf("%d packets were heard, none of which tells anything; of the same in clear: %v", heard, known)
		})
	}
}

const (
	spyJob   = "unmistakable-job-name"
	spyTable = `
[[job]]
name = "` + spyJob + `"
schedule = "@every 1s"
command = ":"
timeout = "2s"
`
)

// wholeLife has the cluster live and end, and gives its ids.
func (l *lan) wholeLife() (ids []string) {
	l.t.Helper()
	l.withJobs(spyTable)
	first, next, best := l.hosts[0], l.hosts[1], l.hosts[2]
	l.start()
	l.agreeOn(best)
	ids = l.idTexts()
	time.Sleep(3 * time.Second) // jobs run
	best.kill()
	l.agreeOn(next, first, next)
	best.start()
	l.agree()
	for _, h := range []*host{first, best, next} {
		h.stop()
	}
	return ids
}

// sayInClear has a host say to another, with no agent there, what agents say in their sessions.
func (l *lan) sayInClear(ids []string) {
	l.t.Helper()
	from, to := l.hosts[0], l.hosts[1]
	id, err := wire.ParseID(ids[0])
	must(l.t, err)
	ledger := attack.Ledger{Jobs: []attack.Job{{Name: spyJob, Owner: id, Slot: 1, Timeout: 1}}}
	life := attack.Life{ID: id, Addr: from.addr}
	gossip := attack.Gossip{Cluster: clusterName}
	said := [][]byte{
		wire.Append(nil, &wire.Frame{Kind: wire.Heartbeat, Sender: id, Epoch: wire.Epoch{Counter: 1, Owner: id}, Lease: 400, Interval: 50}),
		wire.Append(nil, &wire.Frame{Kind: wire.JobClaim, Sender: id, Payload: string(ledger.Bytes())}),
		gossip.Datagram(life.Alive(), life.Suspect()),
		gossip.PushPull(3, 100),
		[]byte("joins " + from.addr.Addr().String()),
	}
	must(l.t, from.net.Within(func() error {
		out, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(from.addr))
		if err != nil {
			return err
		}
		defer out.Close()
		for _, words := range said {
			if _, err := out.WriteToUDPAddrPort(words, to.addr); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (l *lan) idTexts() (ids []string) {
	l.t.Helper()
	for _, h := range l.hosts {
		s, err := h.status()
		must(l.t, err)
		ids = append(ids, s.Self.ID)
	}
	return ids
}

// toldIn looks for what is long enough not to come up by chance.
func (l *lan) toldIn(packets []attack.Packet, ids []string) (told map[string]int, heard int) {
	l.t.Helper()
	told = map[string]int{}
	look := map[string][]string{
		"memberlist's words": {"Incarnation", "UserStateLen", "SourceAddr"},
		"a job":              {spyJob},
		"the cluster's name": {"\xf4\x03" + clusterName}, // as memberlist labels what it sends
		"an id":              ids,
	}
	for _, h := range l.hosts {
		look["an address"] = append(look["an address"], h.addr.Addr().String())
		ip := h.addr.Addr().As4()
		look["an address"] = append(look["an address"], string(append(ip[:], port>>8, port&0xff)))
	}
	for _, id := range ids {
		raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
		must(l.t, err)
		look["an epoch's owner"] = append(look["an epoch's owner"], string(raw))
	}
	for _, p := range packets {
		if len(p.Payload) == 0 {
			continue
		}
		heard++
		if _, isWill := wire.ParseWill(p.Payload); isWill && !p.IsStream {
			continue // a dead leader's, which goes in clear and names nobody
		}
		switch {
		case bytes.HasPrefix(p.Payload, []byte{wire.Magic0, wire.Magic1}):
			told["a frame"]++
		case p.Payload[0] == 244 && !p.IsStream:
			told["gossip"]++
		case !p.IsStream && !attack.IsSealed(p.Payload):
			told[fmt.Sprintf("a datagram that begins with % x", p.Payload[:min(4, len(p.Payload))])]++
		}
		for what, words := range look {
			for _, word := range words {
				if bytes.Contains(p.Payload, []byte(word)) {
					told[what]++
				}
			}
		}
	}
	return told, heard
}
