package vip

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// What is seen of the interface, second by second, and what comes of it.
func TestKeeping(t *testing.T) {
	well := sight{name: "eth0", isThere: true, isUp: true, hasCarrier: true, mayBe: true}
	with := func(change func(*sight)) sight {
		s := well
		change(&s)
		return s
	}
	gone := with(func(s *sight) { s.isThere, s.missing = false, 1 })
	down := with(func(s *sight) { s.isUp, s.missing = false, 1 })
	idle := with(func(s *sight) { s.isUp, s.hasCarrier = false, false }) // the kernel leaves addresses of IPv4 there
	dark := with(func(s *sight) { s.hasCarrier = false })
	missing := with(func(s *sight) { s.missing = 1 })
	ahead := with(func(s *sight) { s.isAhead, s.mayBe = true, false })
	first := with(func(s *sight) { s.missing, s.mayBe = 1, false })
	type step struct {
		after time.Duration
		sees  sight
		puts  bool
		fails string
	}
	for name, steps := range map[string][]step{
		"nothing happens":           {{0, well, false, ""}, {time.Hour, well, false, ""}},
		"an address is deleted":     {{0, missing, true, ""}, {0, well, false, ""}},
		"it cannot be put back":     {{0, missing, true, ""}, {time.Second, missing, true, ""}, {time.Second, missing, false, "refused"}},
		"the interface goes":        {{0, gone, false, ""}, {1900 * time.Millisecond, gone, false, ""}, {100 * time.Millisecond, gone, false, "there is no interface eth0 any more"}},
		"it comes back":             {{0, gone, false, ""}, {1900 * time.Millisecond, missing, true, ""}, {0, well, false, ""}, {time.Hour, well, false, ""}},
		"it is set down":            {{0, down, false, ""}, {2 * time.Second, down, false, "eth0 is down"}},
		"it is set down for long":   {{0, idle, false, ""}, {1900 * time.Millisecond, idle, false, ""}, {100 * time.Millisecond, idle, false, "eth0 is down"}},
		"and up again":              {{0, idle, false, ""}, {1900 * time.Millisecond, well, false, ""}, {time.Hour, well, false, ""}},
		"no carrier":                {{0, dark, false, ""}, {999 * time.Millisecond, dark, false, ""}, {time.Millisecond, dark, false, "eth0 has no carrier"}},
		"a carrier that comes back": {{0, dark, false, ""}, {900 * time.Millisecond, well, false, ""}, {900 * time.Millisecond, dark, false, ""}, {900 * time.Millisecond, dark, false, ""}},
		"it would be the first":     {{0, first, false, ""}, {time.Second, missing, true, ""}, {0, well, false, ""}},
		"it has become the first":   {{0, ahead, true, ""}, {0, well, false, ""}},
		"and stays so":              {{0, first, false, ""}, {2 * time.Second, first, false, "eth0 has no address of its own any more"}},
	} {
		t.Run(name, func(t *testing.T) {
			var k keeping
			at := time.Unix(1000, 0)
			for i, s := range steps {
				at = at.Add(s.after)
				puts, _, failed := k.look(at, s.sees)
				if puts != s.puts || failed == nil && s.fails != "" || failed != nil && failed.Error() != s.fails {
					t.Errorf("step %d: puts %t, failed %v", i+1, puts, failed)
				}
				if puts {
					k.put(at, errors.New("refused"))
				}
			}
		})
	}
}

// What is taken away again and again is given up, at most so many times a minute are put back.
func TestPutBackSoManyTimes(t *testing.T) {
	var k keeping
	at := time.Unix(1000, 0)
	away := sight{name: "eth0", isThere: true, isUp: true, hasCarrier: true, missing: 1, mayBe: true}
	for i := range maxPuts {
		if puts, _, failed := k.look(at, away); !puts || failed != nil {
			t.Fatalf("time %d: puts %t, failed %v", i+1, puts, failed)
		}
		k.put(at, nil)
		at = at.Add(time.Second)
		there := away
		there.missing = 0
		k.look(at, there)
	}
	if puts, _, failed := k.look(at, away); puts || failed == nil || failed.Error() != "they were taken from eth0 10 times within 1m0s" {
		t.Errorf("puts %t, failed %v", puts, failed)
	}
	there := away
	there.missing = 0
	k.look(at, there)
	if puts, _, failed := k.look(at.Add(putsWithin), away); !puts || failed != nil {
		t.Errorf("a minute later: puts %t, failed %v", puts, failed)
	}
}

// Tries that fail are no takings: the reason is why they fail, once the time is over.
func TestTriesThatFail(t *testing.T) {
	var k keeping
	begun := time.Unix(1000, 0)
	away := sight{name: "eth0", isThere: true, isUp: true, hasCarrier: true, missing: 1, mayBe: true}
	for at := begun; at.Before(begun.Add(awayMost)); at = at.Add(50 * time.Millisecond) {
		if puts, _, failed := k.look(at, away); !puts || failed != nil {
			t.Fatalf("after %v: puts %t, failed %v", at.Sub(begun), puts, failed)
		}
		k.put(at, errors.New("refused"))
	}
	if _, _, failed := k.look(begun.Add(awayMost), away); failed == nil || failed.Error() != "refused" {
		t.Errorf("failed %v", failed)
	}
}

// What the kernel tells of an address that is there still is no reason to look, unless something was missing.
func TestARenewalIsNoReasonToLook(t *testing.T) {
	ours := netip.MustParsePrefix("192.0.2.50/32")
	r := &keeper{Kept: NewKept([]netip.Prefix{ours}, "eth0", time.Second, func() bool { return true }, func(string) {})}
	update := func(addr string, isNew bool) netlink.AddrUpdate {
		return netlink.AddrUpdate{LinkAddress: net.IPNet{IP: net.ParseIP(addr)}, NewAddr: isNew}
	}
	if !r.isStill(update("192.0.2.50", true)) || r.isStill(update("192.0.2.50", false)) || r.isStill(update("192.0.2.1", true)) {
		t.Error("an update is taken for another")
	}
	if r.away = time.Unix(1, 0); r.isStill(update("192.0.2.50", true)) {
		t.Error("what had gone is back, and nobody looks")
	}
}
