package cli

import (
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/control"
)

// Whoever has stolen a key is a member, and may call itself what it likes. No command copies the new
// key to a host that the operator has not named.
func TestNewKeyGoesOnlyToHostsOfJoin(t *testing.T) {
	k := keys{path: "/etc/bully-agent/key", agent: &control.Keys{File: "/etc/bully-agent/key", Join: []string{"10.0.0.1:7950", "beta:7950", "[2001:db8::3]:7950", "beta:7951"},
		Hosts: []control.HostKeys{{Name: "alpha", Addr: "10.0.0.1:7950", Self: true}, {Name: "beta", Addr: "10.0.0.2:7950"},
			{Name: "gamma", Addr: "[2001:db8::3]:7950"}, {Name: "aardvark", Addr: "10.0.0.66:7950"}}}}
	const want = `at once:
  scp -p /etc/bully-agent/key beta:/etc/bully-agent/key && ssh beta bully-agent reload
  scp -p /etc/bully-agent/key [2001:db8::3]:/etc/bully-agent/key && ssh 2001:db8::3 bully-agent reload
join does not name aardvark (10.0.0.66): only to hosts that you know:
  scp -p /etc/bully-agent/key HOST:/etc/bully-agent/key && ssh HOST bully-agent reload
`
	if got := k.carryText("at once:"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for member, to := range map[string]string{"beta": "ssh beta", "gamma": "ssh 2001:db8::3", "aardvark": "ssh HOST"} {
		if got := k.carryTo(member); !strings.Contains(got, to) {
			t.Errorf("to %s: %s", member, got)
		}
	}
	k.agent.Hosts[3].Listed, k.agent.Hosts[3].Name = true, "delta" // a host of the host list, under its name there
	if got := k.carryText("at once:"); !strings.Contains(got, "ssh delta bully-agent reload") || strings.Contains(got, "does not name") {
		t.Errorf("with a host list:\n%s", got)
	}
	k.agent.Hosts[3].Listed, k.agent.Hosts[3].Name = false, "aardvark"
	k.agent.Join = nil // as where hosts are found by mDNS
	if got := k.carryText("at once:"); strings.Contains(got, ":/etc/bully-agent/key && ssh aard") || strings.Count(got, "scp") != 1 ||
		!strings.Contains(got, "beta (10.0.0.2), gamma (2001:db8::3), aardvark (10.0.0.66)") {
		t.Errorf("without join:\n%s", got)
	}
}
