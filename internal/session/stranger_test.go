package session

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/key"
)

// Whoever makes up hosts fills the places that are left, and drives out nobody; what is not met
// again is forgotten.
func TestStrangersAreBounded(t *testing.T) {
	now, theirs := time.Unix(1_000_000, 0), []key.ID{testKey(2).ID}
	var s strangers
	s.meet(now, at(1), theirs)
	for i := range 1000 {
		s.meet(now.Add(time.Minute), netip.AddrPortFrom(at(2).Addr(), uint16(i+1)), theirs)
	}
	if len(s) != maxStrangers || s[0].Addr != at(1) {
		t.Fatalf("%d strangers, the first at %v; expected %d, the first at %v", len(s), s[0].Addr, maxStrangers, at(1))
	}
	s.forget(now.Add(strangerForget))
	if len(s) != maxStrangers-1 || s[0].Addr == at(1) {
		t.Errorf("%d strangers are left, the first at %v: expected the oldest to be forgotten", len(s), s[0].Addr)
	}
	s.forget(now, theirs...)
	if len(s) != 0 {
		t.Errorf("strangers %v, though their key is ours by now", s)
	}
}

// A stream comes from any port of its host, which is one host all the same.
func TestStrangerByStreamHasNoPort(t *testing.T) {
	now, first, second := time.Unix(1_000_000, 0), testKey(2).ID, testKey(3).ID
	anyPort := netip.AddrPortFrom(at(1).Addr(), 0)
	var s strangers
	for _, one := range []struct {
		at   netip.AddrPort
		key  key.ID
		want netip.AddrPort
	}{{anyPort, first, anyPort}, {at(1), first, at(1)}, {anyPort, second, at(1)}} {
		s.meet(now, one.at, []key.ID{one.key})
		if len(s) != 1 || s[0].Addr != one.want || !slices.Equal(s[0].Keys, []key.ID{one.key}) {
			t.Errorf("after %v with %v: %v", one.at, one.key, s.describe())
		}
	}
}
