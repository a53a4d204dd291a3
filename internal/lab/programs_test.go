package lab

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	secrets "github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// program is something that elects one of five hosts, and how to start it there.
type program struct {
	name  string
	needs string        // a program
	calm  time.Duration // for which it leaves the lead where it is, once all are there
	stays bool          // the lead stays where it is when the best host is back
	// command starts it on h. Where h leads, hook runs.
	command func(h *rivalHost, hook string) []string
}

// addr is the host's own.
func (h *rivalHost) addr() netip.Addr { return h.addrs[h.number-1] }

func (h *rivalHost) file(name string) string { return filepath.Join(h.dir, name) }

// script makes a file of the host that runs what a shell reads.
func (h *rivalHost) script(t *testing.T, name, text string) string {
	t.Helper()
	mustWriteFile(t, h.file(name), "#!/bin/sh\n"+text+"\n", 0o700)
	return h.file(name)
}

// programs are ours, and what people use instead, with its defaults where nothing else is said.
func programs(t *testing.T) []program {
	binary := buildAgent(t)
	secret := filepath.Join(t.TempDir(), keyFile)
	if err := os.WriteFile(secret, secrets.Ring{secrets.Generate(time.Now(), nil)}.Format(), 0o600); err != nil {
		t.Fatal(err)
	}
	agent := func(binary, name string, options ...string) program {
		return program{name, binary, 500 * time.Millisecond, true, func(h *rivalHost, hook string) []string {
			return append([]string{binary, "run", "--cluster", strings.ReplaceAll(name, " ", ""), "--name", h.name,
				"--priority", strconv.Itoa(100 + h.number), "--bind", h.addr().String(), "--join", h.addrs[0].String() + "," + h.addrs[1].String(),
				"--state-dir", h.file("state"), "--socket", h.file("sock"), "--key", secret, "--preempt", "never", "--on-become-leader", hook}, options...)
		}}
	}
	if old := os.Getenv("BULLY_OLD"); old != "" {
		return []program{
			agent(binary, "bully-agent"),
			agent(old, "old"),
			agent(binary, "bully-agent --expect 5", "--expect", "5"),
			agent(old, "old --expect 5", "--expect", "5"),
			keepalived(t, "keepalived, 10 ms", 51, "0.01", 500*time.Millisecond),
		}
	}
	return []program{
		agent(binary, "bully-agent"),
		agent(binary, "bully-agent --expect 5", "--expect", "5"),
		keepalived(t, "keepalived, 10 ms", 51, "0.01", 500*time.Millisecond),
		keepalived(t, "keepalived, 1 s", 52, "1", 2*time.Second),
		ucarp(t),
	}
}

// keepalived sends an advertisement every so many seconds; 10 ms is the shortest that it accepts.
func keepalived(t *testing.T, name string, router int, interval string, calm time.Duration) program {
	return program{name, "keepalived", calm, false, func(h *rivalHost, hook string) []string {
		text := fmt.Sprintf(`global_defs {
	vrrp_version 3
	enable_script_security
	script_user root
}
vrrp_instance lab {
	state BACKUP
	interface %s
	virtual_router_id %d
	priority %d
	advert_int %s
	virtual_ipaddress {
		10.77.0.%d/24
	}
	notify_master %s
}
`, netlab.Interface, router, 100+h.number, interval, 150+router, h.script(t, "master", hook))
		mustWriteFile(t, h.file("conf"), text, 0o600)
		return []string{"keepalived", "--dont-fork", "--vrrp", "--use-file", h.file("conf"), "--pid", h.file("pid"),
			"--vrrp_pid", h.file("vrrp.pid"), "--log-console"}
	}}
}

// ucarp advertises every second, and is missed after three.
func ucarp(t *testing.T) program {
	return program{"ucarp, 1 s", "ucarp", 2 * time.Second, false, func(h *rivalHost, hook string) []string {
		return []string{"ucarp", "--preempt", "--interface=" + netlab.Interface, "--srcip=" + h.addr().String(), "--vhid=9", "--pass=lab", "--addr=10.77.0.209",
			"--advskew=" + strconv.Itoa(10*(besideHosts-h.number)), "--upscript=" + h.script(t, "up", hook), "--downscript=" + h.script(t, "down", "true")}
	}}
}
