package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/config"
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

// ip runs iproute2 in the namespace.
func (w *wire) ip(args string) {
	w.t.Helper()
	if out, err := exec.Command("ip", append([]string{"-n", w.ns}, strings.Fields(args)...)...).CombinedOutput(); err != nil {
		w.t.Fatalf("ip %s: %s", args, out)
	}
}

// until waits until the namespace has the address, or has not.
func (w *wire) until(after, want string) {
	w.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		got := fmt.Sprint(w.holds("192.0.2.50"))
		if got == want {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("after %s the host has %s, expected %s", after, got, want)
		}
	}
}

// hook runs one of the example's two hooks in the namespace, with another address and interface.
func (w *wire) hook(name, address, iface string) (output string, code int) {
	w.t.Helper()
	cfg, err := config.Load(config.Source{Path: "virtual-ip/agent.toml"})
	if err != nil {
		w.t.Fatal(err)
	}
	words := map[string][]string{"become": cfg.Hooks.OnBecomeLeader.Argv, "lose": cfg.Hooks.OnLoseLeadership.Argv}[name]
	bare, _, _ := strings.Cut(address, "/")
	replaced := strings.NewReplacer("/usr/bin/", binDir+"/", "192.168.1.50/32", address, "192.168.1.50", bare, "eth0", iface)
	command := []string{"netns", "exec", w.ns}
	for _, word := range words {
		command = append(command, replaced.Replace(word))
	}
	return outcome(w.t, exec.Command("ip", command...), environ(nil))
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
	for _, address := range []string{"192.0.2.50/32", "2001:db8::50/128"} {
		ip, _, _ := strings.Cut(address, "/")
		for step, hook := range []string{"lose", "become", "become", "lose", "lose"} {
			if out, code := w.hook(hook, address, "eth0"); code != 0 {
				t.Errorf("step %d, %s %s: exit code %d\n%s", step, hook, address, code, out)
			}
			want := map[string]string{"become": "[" + address + "]", "lose": "[]"}[hook]
			if got := fmt.Sprint(w.holds(ip)); got != want {
				t.Errorf("after step %d, %s, the host has %s, expected %s", step, hook, got, want)
			}
		}
	}
}

// After a change of the configuration the lose hook finds an address with another prefix: it names none.
func TestAddressOfAnotherPrefixGoes(t *testing.T) {
	w := newWire(t)
	for _, address := range []string{"192.0.2.50/24", "192.0.2.51/32"} {
		if out, code := w.hook("become", address, "eth0"); code != 0 {
			t.Fatalf("become %s: exit code %d\n%s", address, code, out)
		}
	}
	if out, code := w.hook("lose", "192.0.2.50/32", "eth0"); code != 0 {
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
	if out, code := w.hook("lose", "192.0.2.50/32", "eth1"); code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// A become hook that cannot add the address must say so: the agent is not ready then.
func TestBecomeWithoutInterface(t *testing.T) {
	w := newWire(t)
	if out, code := w.hook("become", "192.0.2.50/32", "eth1"); code == 0 {
		t.Errorf("exit code 0\n%s", out)
	}
}

// What systemd runs when the agent's process has ended is what the lose hook runs.
func TestReleaseIsTheLoseHook(t *testing.T) {
	cfg, err := config.Load(config.Source{Path: "virtual-ip/agent.toml"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nExecStopPost=-" + strings.Join(cfg.Hooks.OnLoseLeadership.Argv, " ") + "\n"; !strings.Contains(read(t, "virtual-ip/release.conf"), want) {
		t.Errorf("virtual-ip/release.conf has no line %q", want)
	}
}

// The line that asks whether the address is free leaves nothing.
func TestReadmeAsksFirst(t *testing.T) {
	line, _, _ := strings.Cut(shown(t, "virtual-ip/README.md", "\n## Install\n", "sh"), "\n")
	w := newWire(t)
	asks := exec.Command("ip", "netns", "exec", w.ns, "sh", "-c", strings.ReplaceAll(line, "192.168.1.50", "192.0.2.50"))
	if out, code := outcome(t, asks, environ(nil)); code != 0 {
		t.Fatalf("%s: exit code %d\n%s", line, code, out)
	}
	w.expect(line, "[]")
}

// An agent with the configuration of the project's README has the address for as long as it leads. With its other lines,
// on hosts that boot, deploy/package does.
func TestReadmeLeadsToAnAddress(t *testing.T) {
	t.Parallel()
	text := shown(t, "../../README.md", "\n## Three hosts, one address\n", "toml")
	w := newWire(t)
	w.ip("addr add 192.0.2.1/24 dev eth0")
	dir := t.TempDir()
	config := filepath.Join(dir, "agent.toml")
	if err := os.WriteFile(config, []byte(strings.ReplaceAll(text, "192.168.1.50", "192.0.2.50")), 0o600); err != nil {
		t.Fatal(err)
	}
	agent := exec.Command("ip", "netns", "exec", w.ns, "bully-agent", "run", "--config", config, "--insecure", "--bind", "192.0.2.1",
		"--join", "192.0.2.1", "--state-dir", filepath.Join(dir, "state"), "--socket", filepath.Join(dir, "sock"))
	agent.Env = environ(nil)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	w.until("the agent's start", "[192.0.2.50/32]")
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	w.expect("the agent's end", "[]")
}

// shown is the first block of a language in a section.
func shown(t *testing.T, path, heading, language string) string {
	t.Helper()
	_, section, ok := strings.Cut(read(t, path), heading)
	_, block, shows := strings.Cut(section, "```"+language+"\n")
	block, _, ends := strings.Cut(block, "```")
	if !ok || !shows || !ends {
		t.Fatalf("%s has no %s below %q", path, language, heading)
	}
	return block
}

// expect fails the test if the namespace does not have these addresses now.
func (w *wire) expect(after, want string) {
	w.t.Helper()
	if got := fmt.Sprint(w.holds("192.0.2.50")); got != want {
		w.t.Errorf("after %s the host has %s, expected %s", after, got, want)
	}
}
