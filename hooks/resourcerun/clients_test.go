package resourcerun

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/vip"
)

func clientOf(here string) Client {
	return Client{Here: netip.MustParseAddrPort(here), There: netip.MustParseAddrPort("192.0.2.9:40000")}
}

// address is a resource of one, which is not there.
func (r *rig) address(addr string, resets bool) *tenant {
	p := []netip.Prefix{netip.MustParsePrefix(addr + "/32")}
	k := vip.NewKept(p, "none", 0, func() bool { return true }, func(string) {})
	k.Pause() // it sends nothing
	return &tenant{Resource: hooks.Resource{Name: addr, Addresses: p, Reset: resets}, thing: k, turn: make(chan struct{}, 1)}
}

// What the leader before had to an address is reset when that has begun, once; with the leadership that is over.
func TestClientsAreResetOnce(t *testing.T) {
	r := newRig(t)
	first, second, third := clientOf("192.0.2.50:80"), clientOf("192.0.2.51:80"), clientOf("192.0.2.52:80")
	r.SetClients([]Client{first, second, third})
	left := func(want ...Client) {
		t.Helper()
		if !slices.Equal(r.clients, want) {
			t.Errorf("%v are left, want %v", r.clients, want)
		}
	}
	r.tickle(r.address("192.0.2.50", true))
	left(second, third)
	r.tickle(r.address("192.0.2.50", true))
	left(second, third)
	r.tickle(r.address("192.0.2.51", false)) // whose connections nobody wants to end
	left(second, third)
	r.tickle(&tenant{thing: &fake{}})
	left(second, third)
	r.Freeze()
	left()
	r.SetClients(make([]Client, MaxClients+7))
	if n := len(r.clients); n != MaxClients {
		t.Errorf("%d clients are held", n)
	}
}

// Others are told of the clients of addresses that are here, and that are to be told of.
func TestWhoseClientsAreTold(t *testing.T) {
	r := newRig(t)
	for i, resets := range []bool{true, false, true, true} {
		a := r.address(fmt.Sprintf("192.0.2.5%d", i), resets)
		a.isKept = i < 3
		r.tenants = append(r.tenants, a)
	}
	if got := fmt.Sprint(r.told()); got != "[192.0.2.50/32 192.0.2.52/32]" || !r.HasClients() {
		t.Errorf("told of %s", got)
	}
	r.tenants = r.tenants[1:2]
	if r.HasClients() || r.Clients() != nil {
		t.Errorf("told of %v", r.told())
	}
}
