package agent

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/hooks/resourcerun"
	"github.com/bully-agent/bully-agent/wire"
)

func clientOf(here, there string) resourcerun.Client {
	return resourcerun.Client{Here: netip.MustParseAddrPort(here), There: netip.MustParseAddrPort(there)}
}

// someClients are of IPv4, or of IPv6.
func someClients(n int, isIPv6 bool) (all []resourcerun.Client) {
	here, there := "192.0.2.50:80", "192.0.2.9:%d"
	if isIPv6 {
		here, there = "[2001:db8::50]:80", "[2001:db8::9]:%d"
	}
	for i := range n {
		all = append(all, clientOf(here, fmt.Sprintf(there, 10_000+i)))
	}
	return all
}

// The payload of the ordinary frame in testdata/wire/clients.txt.
func TestAPayloadOfClients(t *testing.T) {
	const text = "04c00002320050c00002099c40" + "0620010db800000000000000000000005001bb20010db80000000000000000000000099c41"
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []resourcerun.Client{clientOf("192.0.2.50:80", "192.0.2.9:40000"), clientOf("[2001:db8::50]:443", "[2001:db8::9]:40001")}
	if got, ok := parseClients(string(raw)); !ok || !slices.Equal(got, want) {
		t.Errorf("parsed as %v, %t", got, ok)
	}
	if got := cutClients(want); len(got) != 1 || got[0] != string(raw) {
		t.Errorf("%d parts, the first %x", len(got), got[0])
	}
	for n := 1; n < len(raw); n++ {
		if _, ok := parseClients(string(raw[:n])); ok != (n == sizeOf4) {
			t.Errorf("cut to %d bytes: ok %t", n, ok)
		}
	}
	for what, text := range map[string]string{
		"no such family":           "05c00002320050c00002099c40",
		"no port":                  "04c00002320050c00002090000",
		"a group":                  "04c00002320050e00000019c40",
		"a loopback":               "04c000023200507f0000019c40",
		"IPv4 in the form of IPv6": "0600000000000000000000ffffc0000232005000000000000000000000ffffc00002099c40",
		"more than clients":        "04c00002320050c00002099c4004",
	} {
		raw, _ := hex.DecodeString(text)
		if got, ok := parseClients(string(raw)); ok {
			t.Errorf("%s: taken for %v", what, got)
		}
	}
}

// FuzzParseClients: no bytes make it panic, and what it takes it would have written itself.
func FuzzParseClients(f *testing.F) {
	for _, isIPv6 := range []bool{false, true} {
		for _, part := range cutClients(someClients(30, isIPv6)) {
			f.Add(part)
		}
	}
	f.Fuzz(func(t *testing.T, payload string) {
		all, ok := parseClients(payload)
		if !ok {
			return
		}
		var again []byte
		for _, c := range all {
			again = appendClient(again, c)
		}
		if string(again) != payload {
			t.Fatalf("%x is %v, which is %x", payload, all, again)
		}
		var h heardClients
		h.hear(&wire.Frame{Payload: payload, Parts: 1}, time.Time{})
	})
}

// tells has a follower hear a list in the order that sort makes of its parts.
func tells(t *testing.T, h *heardClients, round uint32, at time.Time, all []resourcerun.Client, sort func([]*wire.Frame) []*wire.Frame) {
	t.Helper()
	parts := cutClients(all)
	frames := make([]*wire.Frame, len(parts))
	for i, p := range parts {
		frames[i] = &wire.Frame{Kind: wire.Clients, Round: round, Place: uint16(i), Parts: uint16(len(parts)), Payload: p}
		if len(p) > wire.MaxPayload {
			t.Errorf("a part of %d bytes", len(p))
		}
	}
	for _, f := range sort(frames) {
		if !h.hear(f, at) {
			t.Errorf("%v is refused", f)
		}
	}
}

// Of the longest list each part fits into a frame. Only what has come whole counts, in whatever order, and not for long.
func TestAFollowerHearsAList(t *testing.T) {
	var h heardClients
	at := time.Unix(1000, 0)
	asTheyCome := func(f []*wire.Frame) []*wire.Frame { return f }
	holds := func(after time.Duration, want []resourcerun.Client) {
		t.Helper()
		copied := h
		if all := copied.take(at.Add(after)); !slices.Equal(all, want) {
			t.Errorf("%d clients are held, want %d", len(all), len(want))
		}
	}
	longest := someClients(resourcerun.MaxClients, true)
	if n := len(cutClients(append(longest, longest...))); n != mostParts {
		t.Errorf("the longest list has %d parts, want %d", n, mostParts)
	}
	tells(t, &h, 1, at, longest, func(f []*wire.Frame) []*wire.Frame { return f[1:] })
	holds(0, nil)
	tells(t, &h, 2, at, longest, func(f []*wire.Frame) []*wire.Frame { return append(f, f...) }) // the network doubles them
	holds(clientsAge, longest)
	holds(clientsAge+1, nil)
	four := someClients(resourcerun.MaxClients, false)
	tells(t, &h, 3, at, four, func(f []*wire.Frame) []*wire.Frame { return f[:len(f)-1] })
	holds(0, longest)
	tells(t, &h, 4, at, four, func(f []*wire.Frame) []*wire.Frame { slices.Reverse(f); return f })
	tells(t, &h, 5, at, nil, func(f []*wire.Frame) []*wire.Frame { return nil })
	if all := h.take(at); len(all) != len(four) || h.take(at) != nil {
		t.Errorf("%d clients are taken, want %d, once", len(all), len(four))
	}
	tells(t, &h, 6, at, four, func(f []*wire.Frame) []*wire.Frame { return f[1:] })
	tells(t, &h, 7, at, four, func(f []*wire.Frame) []*wire.Frame { return f[:1] }) // of another list
	holds(0, nil)
	tells(t, &h, 8, at, four, asTheyCome)
	tells(t, &h, 9, at, nil, asTheyCome)
	holds(0, nil)
}

func TestNoListOfClients(t *testing.T) {
	for what, f := range map[string]wire.Frame{
		"no parts":          {},
		"beyond its parts":  {Place: 1, Parts: 1},
		"too many parts":    {Parts: mostParts + 1},
		"an odd payload":    {Parts: 1, Payload: "x"},
		"half a client":     {Parts: 1, Payload: cutClients(someClients(1, true))[0][:20]},
		"parts without end": {Place: 1<<16 - 2, Parts: 1<<16 - 1},
	} {
		if h := new(heardClients); h.hear(&f, time.Unix(1000, 0)) || !reflect.DeepEqual(*h, heardClients{}) {
			t.Errorf("%s: it is taken: %+v", what, h)
		}
	}
	var h heardClients
	part := cutClients(someClients(84, false))[0]
	for place := range uint16(6) {
		f := wire.Frame{Place: place, Parts: 6, Payload: part}
		if ok := h.hear(&f, time.Unix(1000, 0)); ok != (place < 5) {
			t.Errorf("part %d of 504 clients: taken %t", place, ok)
		}
	}
	if h.last != nil {
		t.Errorf("%d clients are held", len(h.last))
	}
}

// Followers hear of their leader's clients. The one that leads next has them reset, before it begins anything.
func TestTheNextLeaderResetsClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		all := someClients(300, true)
		mid.hooks.connect(someClients(7, false)...) // who does not lead tells nobody
		top.hooks.connect(all...)
		time.Sleep(5 * time.Second)
		c.kill(top)
		c.agrees(mid)
		mid.expectHooks(t, "reset 300", "become-leader 2 process-gone")
		if !slices.Equal(mid.hooks.resets(), all) {
			t.Errorf("%d clients are reset", len(mid.hooks.resets()))
		}
		low.expectHooks(t)
		time.Sleep(2 * clientsAge)
		c.kill(mid) // which has told nothing of its own
		c.agrees(low)
		low.expectHooks(t, "become-leader 3 process-gone")
		c.stopAll()
	})
}

// A list counts if the leader has sent it that is followed.
func TestClientsOfWhoDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for _, h := range c.hosts {
			c.start(h)
		}
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		c.agrees(top)
		says := func(h *testHost, change func(*wire.Frame)) {
			done := make(chan struct{})
			h.agent.calls <- func() {
				defer close(done)
				f := wire.Frame{Kind: wire.Clients, Epoch: h.agent.seat.node.Status().Epoch, Round: 1, Parts: 1, Payload: cutClients(someClients(1, false))[0]}
				change(&f)
				h.agent.seat.sendAside(low.agent.seat.state.ID, f)
			}
			<-done
			time.Sleep(time.Second)
		}
		says(mid, func(*wire.Frame) {})
		says(top, func(f *wire.Frame) { f.Epoch.Counter-- })
		says(top, func(f *wire.Frame) { f.Parts = 0 })
		counts := low.agent.Status().Counters
		if counts["clients_refused_other-leader"] != 2 || counts["clients_refused_malformed"] != 1 {
			t.Errorf("counters %v", counts)
		}
		held := func() (n int) {
			done := make(chan struct{})
			low.agent.calls <- func() { n = len(low.agent.seat.clients.last); close(done) }
			<-done
			return n
		}
		if n := held(); n != 0 {
			t.Errorf("%d clients are held", n)
		}
		says(top, func(*wire.Frame) {})
		if n := held(); n != 1 {
			t.Errorf("%d clients are held of the leader's", n)
		}
		for name := range low.agent.Status().Counters {
			if strings.HasPrefix(name, "election_") && strings.Contains(name, "duplicate") {
				t.Errorf("%s is counted", name)
			}
		}
		c.stopAll()
	})
}
