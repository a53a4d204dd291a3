package vip

import (
	"net/netip"
	"strings"
	"testing"
)

// A host that has the same hundred addresses, after a heal say, is worth a few lines, and a short one in the status.
func TestClaimsOfManyAddressesAreFewLines(t *testing.T) {
	var all []netip.Prefix
	for i := range 100 {
		all = append(all, netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 32))
	}
	var c claimed
	if got := c.of(all); got != "" {
		t.Errorf("before any claim: %q", got)
	}
	var lines []string
	for range 3 {
		for _, p := range all {
			if line := c.count(p.Addr()); line != "" {
				lines = append(lines, line)
			}
		}
	}
	want := []string{"another host claims 192.0.2.1", "another host claims 192.0.2.2", "another host claims 192.0.2.3",
		"another host claims more addresses than these 3: their number is in the status"}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("the log has %q, want %q", lines, want)
	}
	want = []string{"another host has claimed 192.0.2.1 3 times", "another host has claimed 192.0.2.2 3 times", "another host has claimed 192.0.2.3 3 times", "and 97 more addresses"}
	if got := c.of(all); got != strings.Join(want, "; ") {
		t.Errorf("the status says %q", got)
	}
}

// What is claimed again and again is one line.
func TestAClaimAgainIsNoLine(t *testing.T) {
	var c claimed
	for i := range 5 {
		if line := c.count(ours4.Addr()); (line == "") != (i > 0) {
			t.Errorf("claim %d: %q", i+1, line)
		}
	}
}
