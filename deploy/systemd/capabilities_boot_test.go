package systemd

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/test/boot"
)

// vipSettings are of an agent that has an address while it leads, and a hook that needs a right.
const vipSettings = `
cluster = "%s"
[network]
bind = "0.0.0.0:%d"
[http]
listen = "127.0.0.1:%d"
[[resource]]
address = "10.81.0.%d/32"
interface = "eth0"
[hooks]
on_become_leader = 'grep CapEff /proc/self/status >>"$BULLY_HOOK_LOG"'
on_lose_leadership = 'echo lose >>"$BULLY_HOOK_LOG"'
`

// Under each unit and drop-in of the package the process that reads the network has no capability, and what the leader has
// goes with its keeper's.
func TestNetworkProcessHasNoCapabilityBooted(t *testing.T) {
	h := newUnit(t, boot.NewLAN(t, "alpha").Host("alpha"))
	t.Run("alone", func(t *testing.T) {
		h := h.in(t)
		h.configure("agent", "bully-agent", "[http]\nlisten = \"127.0.0.1:8950\"\n")
		h.Must("systemctl start bully-agent")
		h.says("bully-agent", "leader, epoch 1, 1 of 1")
		h.hasNoCapability("bully-agent")
		h.hasReader("bully-agent")
		h.Must("systemctl stop bully-agent")
	})
	for i, service := range []string{"bully-agent", "bully-agent@web"} {
		t.Run(service+" with vip", func(t *testing.T) {
			h := h.in(t)
			file, dir, cluster := "agent", "bully-agent", "default"
			if _, instance, is := strings.Cut(service, "@"); is {
				file, dir, cluster = instance, "bully-agent-"+instance, instance
			}
			h.PushFile("/etc/systemd/system/"+service+".service.d/vip.conf", "vip.conf", 0o644)
			h.configure(file, dir, fmt.Sprintf(vipSettings, cluster, 7950+i, 8950+i, 90+i))
			h.Must("systemctl daemon-reload && systemctl start " + service)
			h.Until(fmt.Sprintf("ip -4 -o addr show dev eth0 | grep -q 10.81.0.%d/32", 90+i))
			h.hasNoCapability(service)
			h.hasReader(service)
			h.Until("grep -q 'CapEff:.*0000000000003000' " + hookLog(dir)) // CAP_NET_ADMIN and CAP_NET_RAW

			keeper := strings.TrimSpace(h.Must("cat /proc/$(systemctl show -P MainPID " + service + ")/task/*/children | tr ' ' '\\n' | grep -m 1 ."))
			h.Must("kill -9 " + keeper)
			h.Until(fmt.Sprintf("grep -q lose %s && ip -4 -o addr show dev eth0 | grep -q 10.81.0.%d/32 && ! test -e /proc/%s", hookLog(dir), 90+i, keeper))
			h.hasNoCapability(service)
			h.Must("systemctl stop " + service)
			if out := h.Must("ip -4 -o addr show dev eth0"); strings.Contains(out, fmt.Sprintf("10.81.0.%d/32", 90+i)) {
				t.Errorf("the address is there without an agent:\n%s", out)
			}
		})
	}
	t.Run("with root-hooks", func(t *testing.T) {
		h := h.in(t)
		h.Must("rm /etc/systemd/system/bully-agent.service.d/vip.conf; rm -r /var/lib/bully-agent; chown root: /etc/bully-agent/key")
		h.PushFile("/etc/systemd/system/bully-agent.service.d/root-hooks.conf", "root-hooks.conf", 0o644)
		h.Must("systemctl daemon-reload && systemctl start bully-agent")
		h.epoch(0)
		h.hasNoCapability("bully-agent")
		h.hasReader("bully-agent")
	})
}

// hasNoCapability looks at each thread of the process that systemd watches, which is the one that reads the network.
func (h unit) hasNoCapability(service string) {
	h.t.Helper()
	pid := strings.TrimSpace(h.Must("systemctl show -P MainPID " + service))
	status := h.Must("cat /proc/" + pid + "/task/*/status")
	for _, line := range regexp.MustCompile(`(?m)^(Cap(Inh|Prm|Eff|Amb):.*[1-9a-f].*|Uid:\s.*\b0\b.*|NoNewPrivs:\s*0)$`).FindAllString(status, -1) {
		h.t.Errorf("the process of %s that reads the network has %s", service, line)
	}
	h.t.Logf("%s: %s", service, strings.Join(regexp.MustCompile(`(?m)^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):.*$`).FindAllString(h.Must("cat /proc/"+pid+"/status"), -1), ", "))
}

// hasReader looks at the process that answers the network: the unit lets it confine itself.
func (h unit) hasReader(service string) {
	h.t.Helper()
	const find = "$(grep -lx bully-reader /proc/[0-9]*/comm | cut -d/ -f3)"
	h.Until("grep -q 'Seccomp:.2' /proc/" + find + "/status")
	status := h.Must("cat /proc/" + find + "/task/*/status")
	for _, line := range regexp.MustCompile(`(?m)^(Cap(Inh|Prm|Eff|Amb):.*[1-9a-f].*|Uid:\s.*\b0\b.*|NoNewPrivs:\s*0|Seccomp:\s*0)$`).FindAllString(status, -1) {
		h.t.Errorf("the reader of %s has %s", service, line)
	}
	if out := h.Must("journalctl --no-pager -u " + service + " | grep 'confines the reader less' | grep -v 'lacks=\"no Landlock: ' || true"); out != "" { // which the container itself may refuse
		h.t.Errorf("%s: %s", service, out)
	}
}
