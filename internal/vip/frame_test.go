package vip

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
)

var (
	own = hardware{0x02, 0x00, 0x5e, 0x10, 0x00, 0x01}
	v4  = netip.MustParseAddr("192.0.2.50")
	v6  = netip.MustParseAddr("2001:db8::50")
)

// unhex reads what a person has written by the RFCs: spaces and lines are for people.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	goldenRequest = `ffffffffffff 02005e100001 0806  0001 0800 06 04 0001  02005e100001 c0000232  000000000000 c0000232`
	goldenReply   = `ffffffffffff 02005e100001 0806  0001 0800 06 04 0002  02005e100001 c0000232  02005e100001 c0000232`
	goldenProbe4  = `ffffffffffff 02005e100001 0806  0001 0800 06 04 0001  02005e100001 00000000  000000000000 c0000232`

	goldenAdvertisement = `333300000001 02005e100001 86dd  60000000 0020 3a ff
		20010db8000000000000000000000050 ff020000000000000000000000000001
		88 00 9a7c 20000000 20010db8000000000000000000000050  02 01 02005e100001`
	goldenRouter = `333300000001 02005e100001 86dd  60000000 0020 3a ff
		20010db8000000000000000000000050 ff020000000000000000000000000001
		88 00 1a7c a0000000 20010db8000000000000000000000050  02 01 02005e100001`
	goldenProbe6 = `3333ff000050 02005e100001 86dd  60000000 0018 3a ff
		00000000000000000000000000000000 ff0200000000000000000001ff000050
		87 00 4c4f 00000000 20010db8000000000000000000000050`
)

func TestFramesAreAsTheRFCsDrawThem(t *testing.T) {
	announcements := arpAnnouncements(own, v4)
	for _, tt := range []struct {
		name  string
		frame []byte
		want  string
	}{
		{"ARP announcement, as a request", announcements[0], goldenRequest},
		{"ARP announcement, as a reply", announcements[1], goldenReply},
		{"ARP probe", arpProbe(own, v4), goldenProbe4},
		{"advertisement of a host", ndpAnnouncement(own, v6, false), goldenAdvertisement},
		{"advertisement of a router", ndpAnnouncement(own, v6, true), goldenRouter},
		{"solicitation from no address", ndpProbe(own, v6), goldenProbe6},
	} {
		if want := unhex(t, tt.want); !bytes.Equal(tt.frame, want) {
			t.Errorf("%s:\n     got %x\nexpected %x", tt.name, tt.frame, want)
		}
	}
}

// What each of our own frames says when another host reads it, and what is no claim.
func TestClaimsAreRead(t *testing.T) {
	for _, tt := range []struct {
		name, frame string
		addr        netip.Addr // zero: it claims nothing
	}{
		{"ARP request", goldenRequest, v4},
		{"ARP reply", goldenReply, v4},
		{"ARP probe", goldenProbe4, v4},
		{"advertisement", goldenAdvertisement, v6},
		{"solicitation from no address", goldenProbe6, v6},
		{"a question of one who has another address", strings.Replace(goldenRequest, "02005e100001 c0000232", "02005e100001 c0000201", 1), netip.MustParseAddr("192.0.2.1")},
		{"reverse ARP's operation", strings.Replace(goldenReply, "04 0002", "04 0003", 1), netip.Addr{}},
		{"ARP for another protocol", strings.Replace(goldenReply, "0001 0800", "0001 0801", 1), netip.Addr{}},
		{"an advertisement that was forwarded", strings.Replace(goldenAdvertisement, "3a ff", "3a fe", 1), netip.Addr{}},
		{"an advertisement with a wrong checksum", strings.Replace(goldenAdvertisement, "9a7c", "9a7d", 1), netip.Addr{}},
		{"an advertisement that is longer than its frame", strings.Replace(goldenAdvertisement, "0020 3a", "0028 3a", 1), netip.Addr{}},
		{"UDP", strings.Replace(goldenAdvertisement, "3a ff", "11 ff", 1), netip.Addr{}},
	} {
		c, ok := parseClaim(unhex(t, tt.frame))
		if ok != tt.addr.IsValid() || ok && c != (claim{addr: tt.addr, by: own}) {
			t.Errorf("%s is read as %v %v (%v), expected %v", tt.name, c.addr, c.by, ok, tt.addr)
		}
	}
}

// A solicitation from an address asks for another's, and claims nothing.
func TestAskingIsNoClaim(t *testing.T) {
	body := append([]byte{solicitation, 0, 0, 0, 0, 0, 0, 0}, v6.AsSlice()...)
	asked := appendICMPv6(nil, own, netip.MustParseAddr("2001:db8::1"), solicitedNode(v6), body)
	if c, ok := parseClaim(asked); ok {
		t.Errorf("a question for %v is read as the claim of %v", c.addr, c.by)
	}
}

// A proxy names the host that it speaks for, which may not be the sender of the frame.
func TestTheOptionNamesTheOwner(t *testing.T) {
	frame := ndpAnnouncement(own, v6, false)
	copy(frame[6:12], []byte{2, 2, 2, 2, 2, 2}) // the Ethernet header is in no checksum
	if c, ok := parseClaim(frame); !ok || c.by != own {
		t.Errorf("the owner is %v (%v), expected %v", c.by, ok, own)
	}
}

func TestFramesCutShortClaimNothing(t *testing.T) {
	for _, golden := range []string{goldenRequest, goldenReply, goldenProbe4, goldenAdvertisement, goldenProbe6} {
		frame := unhex(t, golden)
		for n := range frame {
			if c, ok := parseClaim(frame[:n]); ok {
				t.Errorf("the first %d bytes of %x are read as the claim of %v", n, frame, c.by)
			}
		}
	}
}

func FuzzParseClaim(f *testing.F) {
	f.Add(arpAnnouncements(own, v4)[0])
	f.Add(ndpAnnouncement(own, v6, false))
	f.Add(ndpProbe(own, v6))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if c, ok := parseClaim(frame); ok && !c.addr.IsValid() {
			t.Error("a claim of no address")
		}
	})
}
