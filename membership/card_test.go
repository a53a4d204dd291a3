package membership

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/internal/identity"
	"github.com/bully-agent/bully-agent/internal/session"
	"github.com/bully-agent/bully-agent/wire"
)

// golden is the card of testdata/seal/vectors.txt, and what it says.
var golden = Member{
	Name: "alpha.lan", Priority: 100, Role: Witness, Draining: true, Settled: true, WireMin: 1, WireMax: 2, ConfigHash: 0x01020304,
	Settings: "lease=1s", Jobs: 0x0a0b0c0d0e0f1011, InMaintenance: true, Reason: "kernel upgrade",
}

// goldenCard was made without this package, by testdata/seal/make_vectors.py.
func goldenCard(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("../testdata/seal/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\ncard          = ")
	b, err := hex.DecodeString(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCardLayout(t *testing.T) {
	want := goldenCard(t)
	if got := appendCard(nil, golden); !bytes.Equal(got, want) {
		t.Errorf("card is\n%x; expected\n%x", got, want)
	}
	if m, err := parseCard(want); err != nil || m != golden {
		t.Errorf("parsed %+v, %v; expected what was encoded", m, err)
	}
}

func TestCardFlags(t *testing.T) {
	for flags := range 256 {
		b := goldenCard(t)
		b[3] = byte(flags)
		m, err := parseCard(b)
		if wrong := flags > 31 || flags&12 == 12; (err != nil) != wrong {
			t.Errorf("flags %#02x: error is %v", flags, err)
		}
		if err == nil && !bytes.Equal(appendCard(nil, m), b) {
			t.Errorf("flags %#02x are not kept", flags)
		}
	}
}

func TestWrongCardIsRefused(t *testing.T) {
	good := goldenCard(t)
	const name, settings, reason = 18, 18 + 1 + 9, 18 + 1 + 9 + 1 + 8
	edit := func(off int, b ...byte) []byte {
		c := slices.Clone(good)
		copy(c[off:], b)
		return c
	}
	cases := map[string][]byte{
		"version 0":        edit(0, 0),
		"version 2":        edit(0, 2),
		"no wire version":  edit(4, 0),
		"wire range":       edit(4, 3, 2),
		"name length less": edit(name, 8),
		"name length more": edit(name, 10),
		"settings longer":  edit(settings, 60),
		"reason longer":    edit(reason, 60),
		"no name":          append(slices.Clone(good[:name]), 0, 0, 0),
		"name of 64":       append(append(append(slices.Clone(good[:name]), 64), strings.Repeat("x", 64)...), 0, 0),
		"settings of 161":  append(append(slices.Clone(good[:settings]), 161), strings.Repeat("x", 162)...),
		"escape settings":  edit(settings+5, 0x1b),
		"quote settings":   edit(settings+5, '"'),
		"space in name":    edit(name+3, ' '),
		"newline in name":  edit(name+3, '\n'),
		"look-alike":       edit(name+3, 0xd0, 0xb0), // а, Cyrillic
		"slash in name":    edit(name+3, '/'),
		"zero in name":     edit(name+3, 0),
		"dash first":       edit(name+1, '-'),
		"dot first":        edit(name+1, '.'),
		"underscore first": edit(name+1, '_'),
		"nothing":          {},
	}
	for what, b := range cases {
		if m, err := parseCard(b); err == nil {
			t.Errorf("%s: accepted as %+v", what, m)
		}
	}
	for n := range good {
		if _, err := parseCard(good[:n]); err == nil {
			t.Errorf("the first %d bytes are accepted", n)
		}
	}
	longest := golden
	longest.Name, longest.Settings, longest.Reason = strings.Repeat("x", maxName), strings.Repeat("=", MaxSettings), strings.Repeat("x", MaxReason)
	b := appendCard(nil, longest)
	if m, err := parseCard(b); err != nil || m != longest || len(b) != 308 || len(b) > session.MaxCard {
		t.Errorf("the longest card: %v, %d bytes", err, len(b))
	}
	if m, err := parseCard(append(slices.Clone(good), "what a later program says"...)); err != nil || m != golden {
		t.Errorf("an addition gives %+v, %v; expected that it is ignored", m, err)
	}
}

// What a member says of its maintenance arrives as it was said, and what no operator could
// have given as a reason is refused with the whole card.
func TestMaintenanceOnACard(t *testing.T) {
	m := golden
	for _, without := range []bool{false, true} {
		m.Reason, m.InMaintenance = "", !without
		if got, err := parseCard(appendCard(nil, m)); err != nil || got != m {
			t.Errorf("%+v: read %+v, error %v", m, got, err)
		}
	}
	for _, reason := range []string{"a\x1b[2Jb", "a\nb", "\u202egarb", "$(reboot)", "`id`", " x", "x ", "<b>", strings.Repeat("x", MaxReason+1)} {
		if CheckReason(reason) == nil {
			t.Errorf("%q is a reason", reason)
		}
		m.InMaintenance, m.Reason = true, reason
		if _, err := parseCard(appendCard(nil, m)); err == nil {
			t.Errorf("%q is taken from a card", reason)
		}
	}
}

// FuzzCard: no input panics, and what is accepted has this one encoding, before
// what a later program adds.
func FuzzCard(f *testing.F) {
	good := goldenCard(f)
	f.Add(good)
	f.Add(good[:cardHeader])
	f.Add(append(slices.Clone(good), '\n'))
	f.Add(make([]byte, session.MaxCard))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseCard(b)
		if err != nil {
			return
		}
		if again := appendCard(nil, m); !bytes.HasPrefix(b, again) {
			t.Errorf("%x is encoded again as %x", b, again)
		}
		if strings.ContainsAny(m.Name+m.Settings+m.Reason, "\x00\n\x1b$`'\"\\;&|<>") || strings.ContainsAny(m.Name, " /") || len(m.Name) == 0 {
			t.Errorf("name %q with settings %q and reason %q is accepted", m.Name, m.Settings, m.Reason)
		}
	})
}

func TestRecord(t *testing.T) {
	owner := idOf("alpha")
	cases := []struct {
		what string
		in   []byte
		ok   bool
	}{
		{"a record", appendRecord(nil, wire.Epoch{Counter: 42, Owner: owner}), true},
		{"the highest counter", appendRecord(nil, wire.Epoch{Counter: wire.MaxCounter, Owner: owner}), true},
		{"a counter that leaves no room", appendRecord(nil, wire.Epoch{Counter: wire.MaxCounter + 1, Owner: owner}), false},
		{"counter 0", appendRecord(nil, wire.Epoch{Owner: owner}), false},
		{"no owner", appendRecord(nil, wire.Epoch{Counter: 1}), false},
		{"nothing", nil, false},
		{"a byte less", appendRecord(nil, wire.Epoch{Counter: 42, Owner: owner})[:24], false},
		{"a byte more", append(appendRecord(nil, wire.Epoch{Counter: 42, Owner: owner}), 0), false},
		{"version 2", append([]byte{2}, appendRecord(nil, wire.Epoch{Counter: 42, Owner: owner})[1:]...), false},
	}
	for _, c := range cases {
		e, err := parseRecord(c.in)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v, %v", c.what, e, err)
		}
	}
	if b := appendRecord(nil, wire.Epoch{}); b != nil {
		t.Errorf("no leader is sent as %x; expected nothing", b)
	}
}

// FuzzLeaderRecord: no input panics, and what is accepted has this one encoding.
func FuzzLeaderRecord(f *testing.F) {
	good := appendRecord(nil, wire.Epoch{Counter: 42, Owner: idOf("alpha")})
	f.Add(good)
	f.Add(good[:9])
	f.Add(bytes.Repeat([]byte{0xff}, recordSize))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseRecord(b)
		if err != nil {
			return
		}
		if e.Counter > wire.MaxCounter || e.Owner.IsZero() {
			t.Errorf("%x gives %v", b, e)
		}
		if again := appendRecord(nil, e); !bytes.Equal(again, b) {
			t.Errorf("%x is encoded again as %x", b, again)
		}
	})
}

// TestAdmission has what a stranger on a LAN in memory cannot send.
func TestAdmission(t *testing.T) {
	a := newAdmission(lifeOf("alpha"), identity.Hosts{})
	node := func(change func(*memberlist.Node)) *memberlist.Node {
		n := &memberlist.Node{
			Name: nodeName(idOf("beta"), 7), Addr: []byte{10, 0, 0, 8}, Port: 7950, Meta: appendMeta(nil, Member{Incarnation: 3}), PMin: 1, PMax: 5, PCur: 5,
		}
		change(n)
		return n
	}
	cases := []struct {
		what, cause string
		change      func(*memberlist.Node)
	}{
		{"a good one", "", func(*memberlist.Node) {}},
		{"IPv6", "", func(n *memberlist.Node) { n.Addr = netip.MustParseAddr("fd00::8").AsSlice() }},
		{"IPv4 in IPv6", "", func(n *memberlist.Node) { n.Addr = netip.MustParseAddr("::ffff:10.0.0.8").AsSlice() }},
		{"a newer memberlist that speaks ours", "", func(n *memberlist.Node) { n.PMax = 6 }},
		{"no address", "addr", func(n *memberlist.Node) { n.Addr = nil }},
		{"an address of 5 bytes", "addr", func(n *memberlist.Node) { n.Addr = make([]byte, 5) }},
		{"0.0.0.0", "addr", func(n *memberlist.Node) { n.Addr = make([]byte, 4) }},
		{"::", "addr", func(n *memberlist.Node) { n.Addr = make([]byte, 16) }},
		{"broadcast", "addr", func(n *memberlist.Node) { n.Addr = []byte{255, 255, 255, 255} }},
		{"multicast", "addr", func(n *memberlist.Node) { n.Addr = netip.MustParseAddr("ff02::1").AsSlice() }},
		{"link-local", "addr", func(n *memberlist.Node) { n.Addr = netip.MustParseAddr("fe80::1").AsSlice() }},
		{"a version that would stop all push/pull (P14)", "gossip-version", func(n *memberlist.Node) { n.PMin, n.PCur, n.PMax = 200, 200, 200 }},
		{"an older speaker", "gossip-version", func(n *memberlist.Node) { n.PCur = 2 }},
		{"a delegate version", "gossip-version", func(n *memberlist.Node) { n.DMax = 1 }},
		{"another id in the name", "name", func(n *memberlist.Node) { n.Name = "x" + n.Name[1:] }},
		{"a name in capitals", "name", func(n *memberlist.Node) { n.Name = strings.ToUpper(n.Name) }},
		{"no id", "name", func(n *memberlist.Node) { n.Name = nodeName(wire.ID{}, 7) }},
		{"port 0", "addr", func(n *memberlist.Node) { n.Port = 0 }},
		{"loopback", "addr", func(n *memberlist.Node) { n.Addr = []byte{127, 0, 1, 1} }},
		{"no meta", "meta", func(n *memberlist.Node) { n.Meta = nil }},
		{"the meta of a version before", "meta", func(n *memberlist.Node) { n.Meta = append([]byte{3}, make([]byte, 60)...) }},
		{"a name with a tail", "name", func(n *memberlist.Node) { n.Name += "\n" }},
	}
	for _, c := range cases {
		m, r := a.node(node(c.change))
		got := ""
		if r != nil {
			got = r.cause
		}
		if got != c.cause {
			t.Errorf("%s: refused for %q (%v); expected %q", c.what, got, r, c.cause)
		}
		if r == nil && (m.Addr.Addr().Is4In6() || m.ID != idOf("beta") || m.Nonce != 7 || m.Incarnation != 3 || m.Status != Told) {
			t.Errorf("%s: it is taken for %+v", c.what, m)
		}
	}
}
