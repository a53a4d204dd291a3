package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// The agents' sockets are bound to the device that has the cluster's network: an interface itself, or one that the interface belongs
// to. In a VRF nothing else reaches them.
func TestSocketsOnADevice(t *testing.T) {
	needsLAN(t)
	t.Parallel()
	for _, tt := range []struct {
		kind, device string
		make         []string // before eth0 belongs to it
	}{
		{kind: "interface", device: "eth0"},
		{kind: "bridge", device: "blue", make: []string{"link add blue type bridge", "link set blue up"}},
		{kind: "VRF", device: "blue", make: []string{"link add blue type vrf table 10", "link set blue up"}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			if tt.kind == "VRF" {
				hasVRF(t)
			}
			l := newLAN(t, 3, "--preempt", "never", "--device", tt.device)
			for _, h := range l.hosts {
				at := h.addr.Addr().String() + "/24"
				l.ip(h.net.Namespace, tt.make...)
				switch tt.kind {
				case "bridge":
					l.ip(h.net.Namespace, "addr del "+at+" dev eth0", "link set eth0 master blue", "addr add "+at+" dev blue")
				case "VRF": // which takes the routes of the address with it
					l.ip(h.net.Namespace, "link set eth0 master blue", "addr replace "+at+" dev eth0")
				}
			}
			l.start()
			leader := l.agree()
			leader.kill()
			l.agree(l.except(leader)...)
			leader.start()
			l.allAlive()
			for _, h := range l.hosts {
				for _, socket := range []string{"-lun", "-ltn"} {
					out, err := h.command("ss", "-H", socket, fmt.Sprintf("sport = :%d", port)).CombinedOutput()
					if err != nil {
						t.Fatalf("ss: %v: %s", err, out)
					}
					if !strings.Contains(string(out), "%"+tt.device+":") {
						t.Errorf("%s listens on %s, expected on %s", h, out, tt.device)
					}
				}
			}
		})
	}
}

// hasVRF skips where the kernel knows none.
func hasVRF(t *testing.T) {
	t.Helper()
	l := newLAN(t, 1)
	h := l.hosts[0]
	if out, err := exec.Command("ip", "-n", string(h.net.Namespace), "link", "add", "vrf0", "type", "vrf", "table", "9").CombinedOutput(); err != nil {
		t.Skipf("skipped: this kernel has no VRF: %s", out)
	}
}
