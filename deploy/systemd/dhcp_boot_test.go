package systemd

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
	"github.com/bully-agent/bully-agent/internal/test/boot"
	"github.com/bully-agent/bully-agent/internal/test/traces"
)

// byDHCP has networkd ask for the host's address.
func byDHCP(keep string) string {
	return "[Match]\nName=eth0\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n" + keep
}

// dhcp is dnsmasq on a host of the LAN, which gives each booted host its address for two minutes, its shortest lease.
type dhcp struct {
	log traces.Buffer
}

func newDHCP(t *testing.T, lan *boot.LAN, names ...string) *dhcp {
	t.Helper()
	if _, err := exec.LookPath("dnsmasq"); err != nil {
		t.Skip("skipped: the command dnsmasq is not installed (package dnsmasq-base)")
	}
	place, err := lan.Net.AddHost("dhcp", netip.PrefixFrom(boot.Address(101), 24))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--net=" + place.Path(), "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--user=root", "--port=0",
		"--interface=" + netlab.Interface, "--bind-interfaces", "--no-ping", "--dhcp-authoritative", "--dhcp-leasefile=" + filepath.Join(t.TempDir(), "leases"),
		fmt.Sprintf("--dhcp-range=%s,static,255.255.255.0,2m", boot.Address(0))}
	for i, name := range names {
		args = append(args, fmt.Sprintf("--dhcp-host=%s,%s,2m", hardware(t, lan.Cable(name)), boot.Address(i+1)))
	}
	d := &dhcp{}
	cmd := exec.Command("nsenter", args...)
	cmd.Stdout, cmd.Stderr = &d.log, &d.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("dnsmasq:\n%s", d.log.String())
		}
	})
	return d
}

// hardware is the address of a host's interface.
func hardware(t *testing.T, h *netlab.Host) (addr net.HardwareAddr) {
	t.Helper()
	err := h.Within(func() error {
		i, err := net.InterfaceByName(netlab.Interface)
		if err == nil {
			addr = i.HardwareAddr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// acknowledged counts the leases and renewals of an address.
func (d *dhcp) acknowledged(addr netip.Addr) int {
	return strings.Count(d.log.String(), fmt.Sprintf("DHCPACK(%s) %s ", netlab.Interface, addr))
}

// The host's address is a DHCP server's, for two minutes; networkd renews it after one. Neither that nor a restart of networkd, which
// asks for it anew, takes the kept one from a client.
func TestKeptBesideDHCP(t *testing.T) {
	lan := boot.NewLAN(t, "alpha", "beta", "gamma")
	d := newDHCP(t, lan, "alpha", "beta", "gamma")
	k := newKeeps(t, lan, func(netip.Addr) string { return byDHCP("") })
	t.Run("renewed", func(t *testing.T) {
		begin, h := time.Now(), k.leader(t)
		before, lost, puts := d.acknowledged(own(h)), k.logged("own link lost"), k.logged("put ")
		k.watch.reset()
		const renewals = 2 // one a minute
		for late := begin.Add(5 * time.Minute); d.acknowledged(own(h)) < before+renewals || time.Since(begin) < 150*time.Second; time.Sleep(askEvery) {
			if time.Now().After(late) {
				t.Fatalf("%s was renewed %d times within %v", own(h), d.acknowledged(own(h))-before, time.Since(begin))
			}
		}
		k.ownIsFirst(t)
		t.Logf("%s was renewed %d times within %v", own(h), d.acknowledged(own(h))-before, time.Since(begin).Round(time.Second))
		if lost, puts = k.logged("own link lost")-lost, k.logged("put ")-puts; lost > 0 || puts > 0 {
			t.Errorf("renewals took the hosts' own addresses away %d times, and the kept one %d times", lost, puts)
		}
		k.judge(t, begin)
	})
	for name, keep := range map[string]string{"by default": "", "dhcp": "KeepConfiguration=dhcp\n", "yes": "KeepConfiguration=yes\n"} {
		t.Run(name, func(t *testing.T) {
			k.configure(t, func(netip.Addr) string { return byDHCP(keep) })
			t.Run("restart", func(t *testing.T) { k.does(t, restart, 5, 0) })
			t.Run("renew", func(t *testing.T) { k.does(t, "networkctl renew eth0", 3, 0) })
			t.Run("down and up", func(t *testing.T) { k.does(t, "networkctl down eth0; networkctl up eth0", 3, 0) })
		})
	}
}
