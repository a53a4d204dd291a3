package packaging

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/test/boot"
)

// vip is the address that is always on the leader.
const vip = "10.81.0.50"

// A guide is what the project's README has a reader do on three hosts with the package.
type guide struct{ key, settings, start string }

// readme gives that, with the address of this network. Its settings are the same on all hosts: without priorities the leader
// moves only when it must.
func readme(t *testing.T) guide {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n## Three hosts, one address\n")
	blocks := regexp.MustCompile("(?ms)^```(sh|toml)\n(.*?)^```$").FindAllStringSubmatch(section, -1)
	if len(blocks) != 3 || blocks[1][1] != "toml" {
		t.Fatalf("README.md shows %q: expected commands, settings, commands", blocks)
	}
	return guide{blocks[0][2], strings.ReplaceAll(blocks[1][2], "192.168.1.50", vip), blocks[2][2]}
}

// copies runs the lines that make the key on the first host and copy it to the others: ssh and scp ask the test.
func (g guide) copies(t *testing.T, hosts []*host) {
	t.Helper()
	for _, program := range []string{"ssh", "scp"} {
		hosts[0].Push("/srv/bin/"+program, []byte("#!/bin/sh\necho "+program+" \"$@\" >>/srv/asked\n"), 0o755)
	}
	hosts[0].Must("PATH=/srv/bin:$PATH; " + g.key)
	byName := map[string]*host{}
	for _, h := range hosts {
		byName[h.Name()] = h
	}
	for line := range strings.Lines(hosts[0].Must("cat /srv/asked")) {
		words := strings.Fields(line)
		switch {
		case words[0] == "ssh":
			byName[words[1]].Must(strings.Join(words[2:], " "))
		case words[0] == "scp" && len(words) == 4 && words[1] == "-p":
			to, dir, _ := strings.Cut(words[3], ":")
			byName[to].Push(filepath.Join(dir, filepath.Base(words[2])), []byte(hosts[0].Must("cat "+words[2])), 0o600)
		default:
			t.Fatalf("README.md copies by %q", line)
		}
	}
}

// longestGap bounds each step. Generous: a lease of 400 ms is the most that any of them waits for.
const longestGap = 5 * time.Second

// The life of an installation on three hosts that systemd has booted: installed, given a key and settings, switched on, killed,
// stopped, rebooted, upgraded, removed. A client asks the address all the time, and is told how long it got no answer.
func TestInstallation(t *testing.T) {
	names := []string{"alpha", "beta", "gamma"}
	lan := boot.NewLAN(t, append(names, "delta")...) // skips where it cannot be done
	long(t)
	old, next := build(t, "0.1.0").deb, build(t, "0.1.1").deb
	guide := readme(t)
	var hosts []*host
	for _, name := range names {
		h := &host{Host: lan.Host(name), t: t, guide: guide}
		h.provide(old, next)
		h.Boot()
		hosts = append(hosts, h)
	}
	client := newClient(t, lan)

	begin := time.Now()
	install(t, hosts)
	for _, h := range hosts {
		h.Must(h.guide.start)
	}
	client.await()
	t.Logf("from the packages on three hosts to an address that answers: %.1f s, every command included", time.Since(begin).Seconds())
	for _, h := range hosts {
		h.Until("bully-agent wait --for members=3 --timeout 60s")
	}
	ids := map[string]string{}
	for _, h := range hosts {
		ids[h.Name()] = h.id()
	}

	step := func(what string, do func()) {
		t.Helper()
		client.begin()
		do()
		client.await()
		for _, h := range hosts {
			h.Until("bully-agent wait --for members=3 --timeout 60s")
			if id := h.id(); id != ids[h.Name()] {
				t.Errorf("%s: %s has the id %s, and had %s", what, h.Name(), id, ids[h.Name()])
			}
		}
		gap := client.gap()
		t.Logf("%-34s longest gap %v", what, gap.Round(time.Millisecond))
		if gap > longestGap {
			t.Errorf("%s: the address did not answer for %v", what, gap)
		}
	}
	step("kill -9 of the leader", func() { leader(t, hosts).Must("systemctl kill --kill-whom=main --signal=KILL bully-agent") })
	step("stop of the leader", func() {
		h := leader(t, hosts)
		h.Must("systemctl stop bully-agent")
		client.await()
		h.Must("systemctl start bully-agent")
	})
	step("reboot of the leader", func() { leader(t, hosts).Reboot() })
	for _, h := range hosts {
		what := "upgrade of " + h.Name()
		if leader(t, hosts) == h {
			what += ", which leads"
		}
		step(what, func() { h.upgrade(t, next, "0.1.1") })
	}
	hosts[0].refusesWrongFile(t, old)
	for _, h := range hosts {
		h.removed(t)
	}
	overHandmade(t, lan.Host("delta"), next, guide.settings)
}

// host has the packages.
type host struct {
	*boot.Host
	t     *testing.T
	guide guide
}

func (h *host) provide(debs ...string) {
	h.t.Helper()
	for _, deb := range debs {
		h.PushFile("/srv/"+filepath.Base(deb), deb, 0o644)
	}
}

// apt installs a package with apt-get(8), which asks nothing and has no network.
func apt(deb string) string { return "apt-get install -y -q /srv/" + filepath.Base(deb) }

// install does what the README says, on each host, up to the start.
func install(t *testing.T, hosts []*host) {
	t.Helper()
	for _, h := range hosts {
		out := h.Must("cd /srv && " + apt("bully-agent_0.1.0-1_"+runtime.GOARCH+".deb"))
		if state, _ := h.Run("systemctl is-enabled bully-agent; systemctl is-active bully-agent"); state != "disabled\ninactive\n" {
			t.Errorf("%s: the service is %q after the installation, which printed\n%s", h.Name(), state, out)
		}
		if got := h.Must("stat -c '%a %U %G' /etc/bully-agent/agent.toml"); strings.TrimSpace(got) != "640 root bully-agent" {
			t.Errorf("%s: the settings are %s", h.Name(), got)
		}
		h.Push("/etc/bully-agent/agent.toml", []byte(h.guide.settings), 0o644)
	}
	if out, err := hosts[0].Run("systemctl start bully-agent"); err == nil {
		t.Errorf("without a key the service starts: %s", out)
	}
	hosts[0].Must("systemctl reset-failed bully-agent")
	hosts[0].guide.copies(t, hosts)
	for _, h := range hosts {
		h.Must("bully-agent config check --owner bully-agent")
	}
}

// status is what the agent says.
func (h *host) status() (s struct {
	Version      string `json:"version"`
	LeaderIsSelf bool   `json:"leader_is_self"`
	Self         struct {
		ID string `json:"id"`
	} `json:"self"`
}) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.Must("bully-agent status --json")), &s); err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *host) id() string { h.t.Helper(); return h.status().Self.ID }

// leader is the host that leads; there is one.
func leader(t *testing.T, hosts []*host) *host {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for _, h := range hosts {
			if h.status().LeaderIsSelf {
				return h
			}
		}
	}
	t.Fatal("nobody leads")
	return nil
}

// upgrade installs another version, after which it is that which runs.
func (h *host) upgrade(t *testing.T, deb, version string) {
	t.Helper()
	pid := h.Must("systemctl show --value -p MainPID bully-agent")
	out := h.Must("cd /srv && " + apt(deb))
	h.Until("bully-agent wait --for leader --timeout 60s")
	if got := h.status().Version; got != version {
		t.Errorf("%s runs version %s after the upgrade to %s, which printed\n%s", h.Name(), got, version, out)
	}
	if h.Must("systemctl show --value -p MainPID bully-agent") == pid {
		t.Errorf("%s: the same process runs", h.Name())
	}
	if text := h.Must("cat /etc/bully-agent/agent.toml"); text != h.guide.settings {
		t.Errorf("%s: the settings have become\n%s", h.Name(), text)
	}
}

// refusesWrongFile: an agent goes on that could not start again, and one line says so.
func (h *host) refusesWrongFile(t *testing.T, deb string) {
	before := h.Must("systemctl show --value -p MainPID bully-agent")
	h.Must("echo 'prioritty = 7' >>/etc/bully-agent/agent.toml")
	out := h.Must("cd /srv && dpkg -i " + filepath.Base(deb) + " 2>&1")
	if !strings.Contains(out, "bully-agent: bully-agent.service is not restarted, since this version refuses its configuration") || !strings.Contains(out, "prioritty") {
		t.Errorf("it is not said: %s", out)
	}
	if h.Must("systemctl show --value -p MainPID bully-agent") != before || h.status().Version != "0.1.1" {
		t.Error("the agent was restarted")
	}
	h.Push("/etc/bully-agent/agent.toml", []byte(h.guide.settings), 0o644)
	h.Must("systemctl restart bully-agent")
	if got := h.status().Version; got != "0.1.0" {
		t.Errorf("after the restart version %s runs", got)
	}
}

// removed: what was the person's stays after a removal, nothing after a purge.
func (h *host) removed(t *testing.T) {
	h.Must("apt-get remove -y -q bully-agent")
	if out, err := h.Run("ls -l /proc/[0-9]*/exe 2>/dev/null | grep bully-agent"); err == nil {
		t.Errorf("%s: after the removal there runs\n%s", h.Name(), out)
	}
	h.Must("test -s /etc/bully-agent/key && test -s /etc/bully-agent/agent.toml && ls /var/lib/bully-agent/* >/dev/null")
	h.Must("apt-get purge -y -q bully-agent")
	left := h.Must("find / -xdev -iname '*bully*' -not -path '/srv/*' -not -path '/proc/*' -not -path '/sys/*'; getent passwd bully-agent; getent group bully-agent; " +
		"dpkg -l bully-agent 2>/dev/null | grep ^[a-z][^n]; systemctl list-units --all --no-legend '*bully*'; grep -rl bully-agent /etc | grep -v -- '-$' || true")
	if left != "" {
		t.Errorf("%s: after the purge there is\n%s", h.Name(), left)
	}
}

// overHandmade: a unit and a file of somebody's own stay, and what the unit means is said.
func overHandmade(t *testing.T, h *boot.Host, deb, settings string) {
	const unit = "[Service]\nExecStart=/usr/bin/bully-agent run\n"
	h.Push("/etc/systemd/system/bully-agent.service", []byte(unit), 0o644)
	h.Push("/etc/bully-agent/agent.toml", []byte(settings), 0o644)
	h.PushFile("/srv/"+filepath.Base(deb), deb, 0o644)
	h.Boot()
	out := h.Must("cd /srv && " + apt(deb) + " -o Dpkg::Options::=--force-confold 2>&1")
	if !strings.Contains(out, "bully-agent: /etc/systemd/system/bully-agent.service goes before the package's unit: remove it") {
		t.Errorf("it is not said:\n%s", out)
	}
	if h.Must("cat /etc/systemd/system/bully-agent.service") != unit || h.Must("cat /etc/bully-agent/agent.toml") != settings {
		t.Error("what was there has changed")
	}
}
