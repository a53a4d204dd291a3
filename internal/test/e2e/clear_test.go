package e2e

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/test/attack"
	"github.com/bully-agent/bully-agent/wire"
)

// A cluster's whole life, join, jobs, failover, return and leave, is heard at the switch: sealed, it tells
// nothing. The same without keys shows that whoever listens would have understood.
func TestCase20NothingIsToldInClear(t *testing.T) {
	needsLAN(t)
	t.Run("sealed", func(t *testing.T) {
		t.Parallel()
		if told, heard := overhearLife(t, true); len(told) > 0 {
			t.Errorf("%d packets were heard, and in clear: %v", heard, told)
		} else {
			t.Logf("%d packets were heard, none of which tells anything", heard)
		}
	})
	t.Run("insecure", func(t *testing.T) {
		t.Parallel()
		told, heard := overhearLife(t, false)
		t.Logf("%d packets were heard; told are %v", heard, told)
		for _, what := range []string{"a frame", "gossip", "memberlist's words", "the cluster's name", "an id", "an epoch's owner", "a job"} {
			if told[what] == 0 {
				t.Errorf("what looks for %s finds none where there is some", what)
			}
		}
	})
}

const spyTable = `
[[job]]
name = "unmistakable-job-name"
schedule = "@every 1s"
command = ":"
timeout = "2s"
`

// overhearLife gives how often each thing was told in clear, and how many packets with something in them
// were heard.
func overhearLife(t *testing.T, sealed bool) (told map[string]int, heard int) {
	l := newLAN(t, 3, "--expect", "3")
	if sealed {
		l.needsKeys()
	} else {
		l.withoutKeys()
	}
	l.withJobs(spyTable)
	a := l.invade()
	first, next, best := l.hosts[0], l.hosts[1], l.hosts[2]
	l.start()
	l.agreeOn(best)
	ids := l.idTexts()
	time.Sleep(3 * time.Second) // jobs run
	best.kill()
	l.agreeOn(next, first, next)
	best.start()
	l.agree()
	for _, h := range []*host{first, best, next} {
		h.stop()
	}
	return l.toldIn(a.tape.Packets(), ids)
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
		"a job":              {"unmistakable-job-name"},
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
