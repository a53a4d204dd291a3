package systemd

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/test/boot"
)

// keptSettings are those of a host whose leader has an address. Nobody displaces a leader: what moves the address is the part
// of the test alone.
const keptSettings = `
[node]
priority = %d
role = "%s"
[network]
join = ["alpha", "beta", "gamma"]
[election]
expect = 3
preempt = "never"
`

const keptResource = `
[[resource]]
address = "%s/32"
interface = "eth0"
`

// kept is the address that the leader has.
var kept = boot.Address(50)

const networkFile = "/etc/systemd/network/10-lan.network"

// static has networkd give a host its address. keep is a line of KeepConfiguration=, or none.
func static(own netip.Addr, keep string) string {
	return fmt.Sprintf("[Match]\nName=eth0\n[Network]\nAddress=%s/24\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n%s", own, keep)
}

// asOnHardware has networkd find udev and a /sys of this host's interfaces. Without, as in a container, it configures an
// interface before it has asked which addresses are there, and so takes none away when it is restarted.
const asOnHardware = `
mkdir -p /run/sys /run/udev/data
mount -t sysfs sysfs /run/sys
mount --rbind /sys/fs/cgroup /run/sys/fs/cgroup
mount --rbind /run/sys /sys
for i in lo eth0; do echo I:1 >/run/udev/data/n$(cat /sys/class/net/$i/ifindex); done
systemctl enable --now systemd-networkd 2>&1
`

// keeps is two hosts whose address networkd manages, one of which has the kept one, a witness, and a client that asks it.
type keeps struct {
	t      *testing.T
	lan    *boot.LAN
	hosts  map[string]unit
	client *client
	watch  *watch
}

// newKeeps boots the hosts. network gives the .network file of a host.
func newKeeps(t *testing.T, lan *boot.LAN, network func(own netip.Addr) string) *keeps {
	t.Helper()
	k := &keeps{t: t, lan: lan, hosts: map[string]unit{}}
	for i, name := range []string{"alpha", "beta", "gamma"} {
		h := lan.Host(name)
		h.Push(networkFile, []byte(network(boot.Address(i+1))), 0o644)
		h.PushFile("/etc/systemd/system/bully-agent.service.d/vip.conf", "vip.conf", 0o644)
		u := newUnit(t, h)
		k.hosts[name] = u
		role, resource := "voter", fmt.Sprintf(keptResource, kept)
		if name == "gamma" {
			role, resource = "witness", ""
		}
		u.configure("agent", "bully-agent", fmt.Sprintf(keptSettings, 200-i, role)+resource)
		if i > 0 {
			u.Push("/etc/bully-agent/key", []byte(k.hosts["alpha"].Must("cat /etc/bully-agent/key")), 0o600)
			u.Must("chown bully-agent: /etc/bully-agent/key")
		}
		u.Must(asOnHardware)
		k.configured(u)
	}
	k.client = newClient(t, lan)
	k.watch = newWatch(t, lan, map[string]netip.Addr{"alpha": boot.Address(1), "beta": boot.Address(2)})
	for _, h := range k.hosts {
		h.Must("systemctl start --no-block bully-agent")
	}
	k.hosts["alpha"].says("bully-agent", "leader, epoch 1, 3 of 3")
	k.client.answered(time.Now())
	return k
}

// configured waits until networkd has done what its file says.
func (k *keeps) configured(h unit) {
	h.t.Helper()
	h.Until(`networkctl --no-legend list eth0 | grep -q ' configured$' && ip -4 -o addr show dev eth0 | grep -q ` + own(h).String() + "/24")
}

// leader is the host that leads now.
func (k *keeps) leader(t *testing.T) unit {
	t.Helper()
	for late := time.Now().Add(time.Minute); time.Now().Before(late); {
		for _, name := range []string{"alpha", "beta"} {
			if _, err := k.hosts[name].Run("bully-agent is-leader -q"); err == nil {
				return k.hosts[name].in(t)
			}
		}
	}
	t.Fatal("nobody leads")
	return unit{}
}

// own is the address that networkd gives a host.
func own(h unit) netip.Addr {
	return boot.Address(map[string]int{"alpha": 1, "beta": 2, "gamma": 3}[h.Name()])
}

// restart is not bound by systemd's limit of starts.
const restart = "systemctl reset-failed systemd-networkd; systemctl restart systemd-networkd"

// does has something done to the leader's network, and holds against the targets what the client and the kernels saw.
func (k *keeps) does(t *testing.T, what string, times int, pace time.Duration) {
	begin, led, puts := time.Now(), k.logged("became leader"), k.logged("put ")
	k.watch.reset()
	for i := range times {
		at := time.Now()
		h := k.leader(t)
		h.Must(what)
		k.configured(h)
		k.client.answered(time.Now())
		k.ownIsFirst(t)
		if i+1 < times {
			time.Sleep(time.Until(at.Add(pace)))
		}
	}
	t.Logf("%s, %d times: %d elections, put back %d times", what, times, k.logged("became leader")-led, k.logged("put ")-puts)
	k.judge(t, begin)
}

// judge holds against the targets what the client and the kernels have seen since then.
func (k *keeps) judge(t *testing.T, begin time.Time) {
	t.Helper()
	gaps, seen := k.client.gaps(begin, time.Now()), k.watch.all()
	t.Logf("the client's gaps: %s", gaps)
	t.Log(seen)
	// An election takes a few turns of each host: what this machine stood still meanwhile is not their fault.
	if most := time.Second + 3*gaps.late; gaps.longest > most {
		t.Errorf("the client had no answer for %v, want at most %v", gaps.longest, most)
	}
	if seen.both > 0 {
		t.Errorf("both hosts had the address, seen %d times", seen.both)
	}
	if seen.ahead.longest > time.Second {
		t.Errorf("the host's own address was not its first for %v", seen.ahead.longest)
	}
}

// configure gives all hosts another .network file, and waits until that has no effect any more.
func (k *keeps) configure(t *testing.T, network func(own netip.Addr) string) {
	t.Helper()
	for _, h := range k.hosts {
		h = h.in(t)
		h.Push(networkFile, []byte(network(own(h))), 0o644)
		h.Must("networkctl reload")
		k.configured(h)
	}
	k.leader(t).Until("systemctl show -P StatusText bully-agent | grep '^leader.*, 3 of 3$'")
	k.client.answered(time.Now())
}

// ownIsFirst waits until the leader, whichever that is, has its own address and the kept one, in this order of the kernel's.
func (k *keeps) ownIsFirst(t *testing.T) {
	t.Helper()
	var out string
	for late := time.Now().Add(time.Minute); time.Now().Before(late); {
		h := k.leader(t)
		out = h.Must("ip -4 -o addr show dev eth0 | awk '{print $4}'")
		if out == fmt.Sprintf("%s/24\n%s/32\n", own(h), kept) {
			return
		}
	}
	t.Fatalf("the leader has\n%s", out)
}

// logged counts lines of the agents' logs.
func (k *keeps) logged(text string) (n int) {
	for _, h := range k.hosts {
		n += strings.Count(h.Must("journalctl --no-pager -u bully-agent"), text)
	}
	return n
}

// What systemd-networkd, which manages the interface, does to the leader's address, and what an administrator does with ip(8) and
// networkctl(1): a client has its answers, never both hosts have the address, and the host's own address stays its first.
func TestKeptBesideNetworkd(t *testing.T) {
	lan := boot.NewLAN(t, "alpha", "beta", "gamma")
	k := newKeeps(t, lan, func(own netip.Addr) string { return static(own, "") })
	for _, way := range []struct {
		name, keep string
		restarts   int
		pace       time.Duration
	}{
		{"by default", "", 20, 0},
		// Only the kept address is taken away: ten times within a minute would be too many.
		{"static", "KeepConfiguration=static\n", 20, 6500 * time.Millisecond},
		{"dhcp", "KeepConfiguration=dhcp\n", 5, 0},
		{"yes", "KeepConfiguration=yes\n", 5, 0},
	} {
		t.Run(way.name, func(t *testing.T) {
			k.configure(t, func(own netip.Addr) string { return static(own, way.keep) })
			t.Run("restart", func(t *testing.T) { k.does(t, restart, way.restarts, way.pace) })
			t.Run("reload", func(t *testing.T) { k.does(t, "networkctl reload", 3, 0) })
			t.Run("reconfigure", func(t *testing.T) { k.does(t, "networkctl reconfigure eth0", 3, 0) })
			t.Run("down and up", func(t *testing.T) { k.does(t, "networkctl down eth0; networkctl up eth0", 3, 0) })
			t.Run("flush and reconfigure", func(t *testing.T) { k.does(t, "ip addr flush dev eth0; networkctl reconfigure eth0", 1, 0) })
			t.Run("flush, and reconfigure later", func(t *testing.T) { k.does(t, "ip addr flush dev eth0; sleep 3; networkctl reconfigure eth0", 1, 0) })
			t.Run("down, and up later", func(t *testing.T) { k.does(t, "networkctl down eth0; sleep 3; networkctl up eth0", 1, 0) })
		})
	}
}
