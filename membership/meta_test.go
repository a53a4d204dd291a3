package membership

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"

	"github.com/bully-agent/bully-agent/wire"
)

// golden is the member A of protocol 8, written down by hand from the layout
// in meta.go.
var golden = Member{
	ID:   wire.ID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x46, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff},
	Name: "alpha.lan", Addr: netip.AddrPortFrom(netip.Addr{}, 7950),
	Incarnation: 7, Nonce: 0xcafebabe, Priority: 100, Role: Witness, Draining: true,
	WireMin: 1, WireMax: 2, ConfigHash: 0x01020304, Settings: "lease=1s", Settled: true, Jobs: 0x0a0b0c0d0e0f1011,
}

const goldenHex = "03" + "00112233445546778899aabbccddeeff" + "00000007" + "cafebabe" + "0064" + "1f0e" +
	"16" + "01" + "02" + "01020304" + "7c08be7f" + "09" + "616c7068612e6c616e" + "08" + "6c656173653d3173" + "0a0b0c0d0e0f1011"

func TestMetaLayout(t *testing.T) {
	cluster := wire.ClusterHash("prod")
	b := appendMeta(nil, golden, cluster)
	if got := hex.EncodeToString(b); got != goldenHex {
		t.Errorf("meta is\n%s; expected\n%s", got, goldenHex)
	}
	m, c, err := parseMeta(b)
	if err != nil || m != golden || c != cluster {
		t.Errorf("parsed %+v, cluster %08x, %v; expected what was encoded", m, c, err)
	}
}

func TestMetaFlags(t *testing.T) {
	for flags := range 256 {
		b, _ := hex.DecodeString(goldenHex)
		b[29] = byte(flags)
		m, c, err := parseMeta(b)
		if wrong := flags > 31 || flags&12 == 12; (err != nil) != wrong {
			t.Errorf("flags %#02x: error is %v", flags, err)
		}
		if err == nil && !bytes.Equal(appendMeta(nil, m, c), b) {
			t.Errorf("flags %#02x are not kept", flags)
		}
	}
}

func TestWrongMetaIsRefused(t *testing.T) {
	good, _ := hex.DecodeString(goldenHex)
	edit := func(off int, b ...byte) []byte {
		c := slices.Clone(good)
		copy(c[off:], b)
		return c
	}
	cases := map[string][]byte{
		"version 0":        edit(0, 0),
		"version 1":        edit(0, 1),
		"version 2":        edit(0, 2),
		"version 4":        edit(0, 4),
		"zero id":          edit(1, make([]byte, 16)...),
		"no wire version":  edit(30, 0),
		"wire range":       edit(30, 3, 2),
		"name length less": edit(40, 8),
		"name length more": edit(40, 10),
		"settings longer":  edit(50, 17),
		"no name":          append(slices.Clone(good[:40]), make([]byte, 2+metaDigest)...),
		"name of 64":       append(append(append(slices.Clone(good[:40]), 64), strings.Repeat("x", 64)...), make([]byte, 1+metaDigest)...),
		"settings of 161":  append(append(slices.Clone(good[:50]), 161), strings.Repeat("x", 161+metaDigest)...),
		"longer than 512":  append(slices.Clone(good), make([]byte, 512)...),
		"escape settings":  edit(55, 0x1b),
		"quote settings":   edit(55, '"'),
		"space in name":    edit(43, ' '),
		"newline in name":  edit(43, '\n'),
		"look-alike":       edit(43, 0xd0, 0xb0), // а, Cyrillic
		"slash in name":    edit(43, '/'),
		"zero in name":     edit(43, 0),
		"dash first":       edit(41, '-'),
		"dot first":        edit(41, '.'),
		"underscore first": edit(41, '_'),
		"nothing":          {},
	}
	for what, b := range cases {
		if m, _, err := parseMeta(b); err == nil {
			t.Errorf("%s: accepted as %+v", what, m)
		}
	}
	for n := range good {
		if _, _, err := parseMeta(good[:n]); err == nil {
			t.Errorf("the first %d bytes are accepted", n)
		}
	}
	longest := append(append(slices.Clone(good[:40]), 63), strings.Repeat("x", 63)...)
	longest = append(append(longest, MaxSettings), strings.Repeat("=", MaxSettings)...)
	longest = append(longest, make([]byte, metaDigest)...)
	if _, _, err := parseMeta(longest); err != nil || len(longest) != 273 {
		t.Errorf("a name of 63 and settings of %d: %v, %d bytes", MaxSettings, err, len(longest))
	}
	if m, _, err := parseMeta(append(slices.Clone(good), "\x00what a later program says"...)); err != nil || m != golden {
		t.Errorf("an addition gives %+v, %v; expected that it is ignored", m, err)
	}
}

// FuzzMeta: no input panics, and what is accepted has this one encoding, before
// what a later program adds.
func FuzzMeta(f *testing.F) {
	good, _ := hex.DecodeString(goldenHex)
	f.Add(good)
	f.Add(good[:metaHeader])
	f.Add(append(slices.Clone(good), '\n'))
	f.Add(make([]byte, 512))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, cluster, err := parseMeta(b)
		if err != nil {
			return
		}
		if again := appendMeta(nil, m, cluster); !bytes.HasPrefix(b, again) {
			t.Errorf("%x is encoded again as %x", b, again)
		}
		if strings.ContainsAny(m.Name+m.Settings, "\x00\n\x1b$`'\"\\;&|<>/") || strings.Contains(m.Name, " ") || len(m.Name) == 0 {
			t.Errorf("name %q with settings %q is accepted", m.Name, m.Settings)
		}
	})
}

func TestRecord(t *testing.T) {
	owner := golden.ID
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
	good := appendRecord(nil, wire.Epoch{Counter: 42, Owner: golden.ID})
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
	self := golden
	self.Addr = netip.MustParseAddrPort("10.0.0.7:7950")
	a := admission{self: self, cluster: 1}
	node := func(change func(*memberlist.Node)) *memberlist.Node {
		n := &memberlist.Node{
			Name: nodeName(golden.ID, golden.Nonce), Addr: []byte{10, 0, 0, 8}, Port: 7950,
			Meta: appendMeta(nil, golden, 1), PMin: 1, PMax: 5, PCur: 5,
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
		{"another nonce in the name", "name", func(n *memberlist.Node) { n.Name = nodeName(golden.ID, 1) }},
		{"a name with a tail", "name", func(n *memberlist.Node) { n.Name += "\n" }},
	}
	for _, c := range cases {
		m, r := a.check(node(c.change))
		got := ""
		if r != nil {
			got = r.cause
		}
		if got != c.cause {
			t.Errorf("%s: refused for %q (%v); expected %q", c.what, got, r, c.cause)
		}
		if r == nil && m.Addr.Addr().Is4In6() {
			t.Errorf("%s: address is %s; expected one form for each host", c.what, m.Addr)
		}
	}
}
