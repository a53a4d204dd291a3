package examples

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// wire is a network namespace with one interface, eth0, to which nothing is connected.
type wire struct {
	t  *testing.T
	ns string
}

func newWire(t *testing.T) *wire {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
	tool(t, "ip")
	w := &wire{t: t, ns: fmt.Sprintf("be%dvip", os.Getpid())}
	if out, err := exec.Command("ip", "netns", "add", w.ns).CombinedOutput(); err != nil {
		t.Skipf("skipped: no network namespace can be made: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", w.ns).Run() })
	commands := []string{"link add eth0 type veth peer name peer", "link set eth0 up", "link set peer up"}
	for _, args := range commands {
		ip := exec.Command("ip", append([]string{"-n", w.ns}, strings.Fields(args)...)...)
		if out, err := ip.CombinedOutput(); err != nil {
			t.Skipf("skipped: ip %s: %s", args, out)
		}
	}
	return w
}

// hook runs one of the example's two hooks in the namespace.
func (w *wire) hook(name string, path []string, args ...string) (output string, code int) {
	w.t.Helper()
	script := append([]string{"netns", "exec", w.ns, "./virtual-ip/" + name}, args...)
	return outcome(w.t, exec.Command("ip", script...), environ(path))
}

// holds gives the addresses of eth0 that are ip, with their prefixes.
func (w *wire) holds(ip string) []string {
	w.t.Helper()
	out, err := exec.Command("ip", "-n", w.ns, "-o", "address", "show", "dev", "eth0", "to", ip).Output()
	if err != nil {
		w.t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) { // 2: eth0    inet 192.0.2.50/32 scope global eth0 …
		found = append(found, strings.Fields(line)[3])
	}
	return found
}

// Both hooks can be run again, in any state.
func TestAddressComesAndGoes(t *testing.T) {
	w := newWire(t)
	bin := t.TempDir()
	fake(t, bin, "arping", "")
	for _, address := range []string{"192.0.2.50/32", "2001:db8::50/128"} {
		ip, _, _ := strings.Cut(address, "/")
		for step, hook := range []string{"lose", "become", "become", "lose", "lose"} {
			if out, code := w.hook(hook, []string{bin}, address, "eth0"); code != 0 {
				t.Errorf("step %d, %s %s: exit code %d\n%s", step, hook, address, code, out)
			}
			want := map[string]string{"become": "[" + address + "]", "lose": "[]"}[hook]
			if got := fmt.Sprint(w.holds(ip)); got != want {
				t.Errorf("after step %d, %s, the host has %s, expected %s", step, hook, got, want)
			}
		}
	}
}

// After a change of the configuration the lose hook finds an address that it would add otherwise.
func TestAddressOfAnotherPrefixGoes(t *testing.T) {
	w := newWire(t)
	bin := t.TempDir()
	fake(t, bin, "arping", "")
	for _, address := range []string{"192.0.2.50/24", "192.0.2.51/32", "192.0.2.50/32"} {
		if out, code := w.hook("become", []string{bin}, address, "eth0"); code != 0 {
			t.Fatalf("become %s: exit code %d\n%s", address, code, out)
		}
	}
	if out, code := w.hook("lose", nil, "192.0.2.50/32", "eth0"); code != 0 {
		t.Errorf("lose: exit code %d\n%s", code, out)
	}
	if left := w.holds("192.0.2.50"); len(left) > 0 {
		t.Errorf("the host still has %v", left)
	}
	if others := w.holds("192.0.2.51"); len(others) != 1 {
		t.Errorf("of the address beside it the host has %v, expected it untouched", others)
	}
}

// A lose hook must not stop at an interface that is gone: so is the address.
func TestLoseWithoutInterface(t *testing.T) {
	w := newWire(t)
	if out, code := w.hook("lose", nil, "192.0.2.50/32", "eth1"); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// A become hook that cannot add the address must say so: the agent is not ready then.
func TestBecomeWithoutInterface(t *testing.T) {
	w := newWire(t)
	if out, code := w.hook("become", nil, "192.0.2.50/32", "eth1"); code == 0 {
		t.Errorf("exit code 0\n%s", out)
	}
}

// The neighbours are told by whichever arping takes the options; one of other options must not be taken for success.
func TestNeighboursAreTold(t *testing.T) {
	const options = "-q -U -c 2 -I eth0 -s 192.0.2.50 192.0.2.50"
	for _, tt := range []struct {
		name, arping, busybox string            // what each does
		calls                 map[string]string // with which arguments it is called
		says                  string
	}{
		{name: "arping", calls: map[string]string{"arping": options, "busybox": ""}},
		{name: "another arping", arping: "exit 1", calls: map[string]string{"arping": options, "busybox": "arping " + options}},
		{name: "neither", arping: "exit 1", busybox: "exit 127", says: "neighbours are not told of 192.0.2.50"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWire(t)
			bin := t.TempDir()
			calls := map[string]string{}
			calls["arping"], calls["busybox"] = fake(t, bin, "arping", tt.arping), fake(t, bin, "busybox", tt.busybox)
			out, code := w.hook("become", []string{bin}, "192.0.2.50/32", "eth0")
			if code != 0 || !strings.Contains(out, tt.says) || (tt.says == "") != (out == "") {
				t.Errorf("exit code %d, and it says %q, expected 0 and %q", code, out, tt.says)
			}
			for name, want := range tt.calls {
				if got := strings.TrimSpace(read(t, calls[name])); got != want {
					t.Errorf("%s was called with %q, expected %q", name, got, want)
				}
			}
		})
	}
}
