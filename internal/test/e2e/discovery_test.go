package e2e

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// foundBound is far above the pauses between two attempts in the first minute and after a loss.
const foundBound = 30 * time.Second

// needsProgram skips a test of ours with a program of somebody else's that is not here.
func needsProgram(t *testing.T, name, pack string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("skipped: the command %s is not installed (package %s)", name, pack)
	}
}

// notes are what the status of h says, in one line.
func (h *host) notes() (string, error) {
	s, err := h.status()
	return strings.Join(s.Notes, " | "), err
}

// says waits until the status of h has these words, and until it has them not if they begin
// with a "!".
func (h *host) says(words string) {
	h.lan.t.Helper()
	want, not := strings.CutPrefix(words, "!")
	h.lan.eventually(fmt.Sprintf("%s says %q", h, words), foundBound, func() error {
		notes, err := h.notes()
		if err == nil && strings.Contains(notes, want) == not {
			err = fmt.Errorf("it says %q", notes)
		}
		return err
	})
}

// inSwitch runs a program at the switch until the test ends, or until stop is called.
func (l *lan) inSwitch(env []string, words ...string) (stop func()) {
	l.t.Helper()
	log, err := os.OpenFile(filepath.Join(l.dir, "switch.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(l.t, err)
	defer log.Close()
	cmd := exec.Command("ip", append([]string{"netns", "exec", string(l.net.Switch())}, words...)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), env...)
	must(l.t, cmd.Start())
	ended := false
	stop = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	l.t.Cleanup(stop)
	return stop
}

// dnsmasq serves these records at the switch, in place of those that it served before.
func (l *lan) dnsmasq(before func(), records ...string) (stop func()) {
	l.t.Helper()
	if before != nil {
		before()
	}
	words := []string{"dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root", "--pid-file=",
		"--bind-interfaces", "--listen-address=" + l.gateway().String(), "--local=/lan/", "--local-ttl=1"}
	return l.inSwitch(nil, append(words, records...)...)
}

// SRV records lead to a host that looks for nobody itself, by its port; without records that is
// said. When the host has moved to another address and port, the changed records lead there.
func TestSRVRecordsThatChange(t *testing.T) {
	t.Parallel()
	needsLAN(t)
	needsProgram(t, "dnsmasq", "dnsmasq-base")
	l := newLAN(t, 3)
	l.mayOverlap("available mode: until they find each other, each host is a part of its own")
	a, b, c := l.hosts[0], l.hosts[1], l.hosts[2]
	for _, h := range []*host{a, b} {
		h.join = []string{"srv:_bully-agent._udp.lan"}
		h.usesResolver(l.gateway())
	}
	c.join = []string{}
	served := l.dnsmasq(nil)
	l.start()
	for _, h := range []*host{a, b} {
		h.says("join srv:_bully-agent._udp.lan: _bully-agent._udp.lan has no SRV records; tried again in ")
	}

	serve := func(records ...string) {
		served = l.dnsmasq(served, records...)
		begun := time.Now()
		l.agreeOn(c)
		t.Logf("all agree %v after the records were there", time.Since(begun).Round(time.Millisecond))
		a.says("!join srv:")
	}
	serve("--srv-host=_bully-agent._udp.lan,c.lan,7950", "--host-record=c.lan,"+c.addr.Addr().String())

	c.kill()
	moved := netip.AddrFrom4([4]byte{10, 78, l.number, 33})
	l.ip(c.net.Namespace, "addr del "+c.addr.Addr().String()+"/24 dev eth0", "addr add "+moved.String()+"/24 dev eth0")
	c.addr = netip.AddrPortFrom(moved, 8000)
	c.options = append(c.options, "--bind", c.addr.String())
	c.start()
	l.agreeOn(c, c)
	serve("--srv-host=_bully-agent._udp.lan,c2.lan,8000", "--host-record=c2.lan,"+moved.String())

	served() // no answer at all is said, and takes nothing away
	a.says("join srv:_bully-agent._udp.lan: look up SRV records: ")
	l.agreeOn(c)
}

// Three hosts without any address of each other, and without a route for multicast, find each
// other by mDNS; somebody else's resolver sees them, and no name.
func TestMDNS(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3, "--join", "mdns")
	l.mayOverlap("available mode: until they find each other, each host is a part of its own")
	for _, h := range l.hosts {
		h.join = []string{}
	}
	begun := time.Now()
	l.start()
	l.agreeOn(l.hosts[2])
	t.Logf("all agree %v after the start", time.Since(begun).Round(time.Millisecond))
	for _, h := range l.hosts {
		h.says("!mDNS")
	}

	seen := l.avahi()
	for _, h := range l.hosts {
		if !strings.Contains(seen, fmt.Sprintf(";%s;%d;", h.addr.Addr(), h.addr.Port())) {
			t.Errorf("avahi does not see %s at %v", h, h.addr)
		}
		if strings.Contains(seen, h.name) || strings.Contains(seen, "e2e") {
			t.Error("avahi sees the name of a host or of the cluster")
		}
	}
	t.Logf("avahi sees:\n%s", seen)
	l.hosts[0].stop()
	if seen := l.avahi(); strings.Contains(seen, l.hosts[0].addr.Addr().String()) {
		t.Errorf("a host that has stopped is announced:\n%s", seen)
	}
}

// avahi is what avahi-browse resolves of the service, from the switch: by a daemon of its own, on
// a bus of its own.
func (l *lan) avahi() string {
	l.t.Helper()
	for name, pack := range map[string]string{"avahi-daemon": "avahi-daemon", "avahi-browse": "avahi-utils", "dbus-daemon": "dbus-daemon"} {
		needsProgram(l.t, name, pack)
	}
	dir, err := os.MkdirTemp(l.dir, "avahi")
	must(l.t, err)
	bus := "unix:path=" + filepath.Join(dir, "bus")
	must(l.t, os.WriteFile(filepath.Join(dir, "bus.conf"), []byte(`<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>`+bus+`</listen><auth>EXTERNAL</auth><policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/><allow user="*"/></policy></busconfig>
`), 0o600))
	must(l.t, os.WriteFile(filepath.Join(dir, "avahi.conf"), []byte("[server]\nuse-ipv4=yes\nuse-ipv6=no\nallow-interfaces="+netlab.Bridge+
		"\n[publish]\ndisable-publishing=yes\n"), 0o600))
	env := []string{"DBUS_SYSTEM_BUS_ADDRESS=" + bus}
	defer l.inSwitch(nil, "dbus-daemon", "--nofork", "--config-file", filepath.Join(dir, "bus.conf"))()
	l.eventually("the bus is there", foundBound, func() error { _, err := os.Stat(filepath.Join(dir, "bus")); return err })
	// Its pid file has a fixed name: /run is its own.
	defer l.inSwitch(env, "sh", "-c", "mount -t tmpfs none /run && mkdir /run/avahi-daemon && exec avahi-daemon --no-drop-root --no-chroot --no-rlimits -f "+
		filepath.Join(dir, "avahi.conf"))()
	var seen []byte
	l.eventually("avahi has looked around", foundBound, func() error {
		cmd := exec.Command("ip", "netns", "exec", string(l.net.Switch()), "avahi-browse", "--resolve", "--parsable", "--terminate", "_bully-agent._udp")
		cmd.Env = append(os.Environ(), env...)
		var err error
		if seen, err = cmd.CombinedOutput(); err != nil || !bytes.Contains(seen, []byte("=;")) {
			return fmt.Errorf("it resolves nothing: %v: %s", err, seen)
		}
		return nil
	})
	return string(seen)
}

// Neither a route for multicast nor IPv6 is needed.
func TestMDNSWithoutARoute(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2, "--join", "mdns")
	l.mayOverlap("available mode: until they find each other, each host is a part of its own")
	for _, h := range l.hosts {
		h.join = []string{}
		must(t, h.command("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6").Run())
	}
	l.start()
	l.agreeOn(l.hosts[1])
	for _, h := range l.hosts {
		h.says("!join mdns")
	}
}

// A program that names hosts runs with the keeper's rights, since the process that reads the
// network has none. It fails, hangs, lies, and at last is right: each is said, and the good
// lines of a liar are used.
func TestExecSource(t *testing.T) {
	a, b := newApart(t, 7991), newApart(t, 7992)
	peers := a.path("peers")
	program := func(script string) {
		must(t, os.WriteFile(peers+".new", []byte("#!/bin/sh\ncd "+a.dir+"\n"+script+"\n"), 0o755))
		must(t, os.Rename(peers+".new", peers))
	}
	says := func(words string) string {
		t.Helper()
		want, not := strings.CutPrefix(words, "!")
		var out string
		a.until(words, func() bool {
			out, _ = a.tells("status")
			return out != "" && strings.Contains(out, want) != not
		})
		return out
	}
	program("id -u >who; grep -E 'NoNewPrivs|CapEff' /proc/$PPID/status >rights; echo 'no route' >&2; exit 3")
	a.configure("user = \"nobody\"")
	b.configure("")
	config := strings.Replace(a.text("agent.toml"), "[network]\n", "[network]\njoin = [\"exec:"+peers+"\"]\n", 1)
	must(t, os.WriteFile(a.path("agent.toml"), []byte(config), 0o644))
	a.start()
	b.start()
	says("join exec:" + peers + ": exit status 3: no route; tried again in ")
	if who := strings.TrimSpace(a.text("who")); who != "0" {
		t.Errorf("it ran as user %s", who)
	}

	program("echo 127.0.0.1:7992; sleep 1000 & echo $! >child; wait")
	says("join exec:" + peers + ": timed out after 5")
	child := strings.TrimSpace(a.text("child"))
	if text, err := os.ReadFile("/proc/" + child + "/cmdline"); child == "" || err == nil && strings.Contains(string(text), "sleep") {
		t.Errorf("child %q of what hung still runs", child)
	}
	if out := says("members     1 alive"); strings.Contains(out, "2 alive") {
		t.Errorf("the line of a program that hung was used:\n%s", out)
	}

	program("echo '<html>502</html>'; echo 127.0.0.1:7992 '# beta'; echo 10.0.0.300")
	out := says("members     2 alive of 2 known")
	says(`line 1: "<html>502</html>" is not a host name: expected host[:port]; line 3: "10.0.0.300" is neither an IP address nor a name`)
	if doctor, _ := a.tells("doctor"); !strings.Contains(doctor, "line 1: ") {
		t.Errorf("doctor does not say it:\n%s", doctor)
	}
	t.Logf("status of the agent whose program lies:\n%s", out)

	must(t, os.Chmod(peers, 0o777))
	says("join exec:" + peers + ": " + peers + ": writable by everyone")
	program("echo 127.0.0.1:7992")
	says("!join exec:")
	log := a.text("log")
	if n := strings.Count(log, "seed not resolved"); n == 0 || n > 5 {
		t.Errorf("%d lines of the log are about it; one a minute is enough", n)
	}
}
