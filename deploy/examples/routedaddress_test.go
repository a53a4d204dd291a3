package examples

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// routed is the example on two hosts, each with a link of its own to one router.
type routed struct {
	t           *testing.T
	dir         string // of BIRD's files
	alpha, beta *rack
	router      *netlab.Host
}

// rack is a host of the example.
type rack struct {
	*agent
	gateway string // its router's address
	route   string // what the router's route to it says
	bird    *exec.Cmd
}

// routerConf is BIRD on the router, which takes what the hosts announce.
const routerConf = `
router id 10.0.0.1;
protocol device {}
protocol kernel { ipv4 { import none; export all; }; }
protocol bfd {}
template bgp host {
	local as 65000;
	ipv4 { import all; export none; };
	bfd { interval 300 ms; multiplier 5; };
	connect delay time 1;
	error wait time 1, 10;
}
protocol bgp alpha from host { neighbor 10.0.1.2 as 65001; }
protocol bgp beta from host { neighbor 10.0.2.2 as 65001; }
`

func newRouted(t *testing.T) *routed {
	t.Helper()
	tool(t, "bird")
	r := &routed{t: t, dir: t.TempDir()}
	one, two := newLAN(t), newLAN(t)
	two.key = one.key
	r.alpha, r.beta = r.newRack(one, "alpha", "10.0.1."), r.newRack(two, "beta", "10.0.2.")

	r.router = one.plug("router", "10.0.1.1/24")
	cable := two.plug("cable", "10.0.2.1/24") // its end becomes the router's second
	r.ip(cable, "link set eth0 netns "+string(r.router.Namespace)+" name eth1")
	r.ip(r.router, "address add 10.0.2.1/24 dev eth1")
	r.ip(r.router, "link set eth1 up")
	if err := r.router.Within(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }); err != nil {
		t.Fatal(err)
	}
	r.startBird(r.router, "router", routerConf)

	for _, a := range []*rack{r.alpha, r.beta} {
		r.startBirdOf(a)
		a.start()
	}
	return r
}

// newRack adds a host, where nothing runs yet but a server that says its name.
func (r *routed) newRack(net *lan, name, subnet string) *rack {
	r.t.Helper()
	a := &rack{gateway: subnet + "1", route: "via " + subnet + "2 "}
	a.agent = net.install(name, subnet+"2/24", "routed-address/agent.toml", func(text string) string {
		return strings.Replace(text, "birdc -r", "birdc -r -s "+r.control(name), 1)
	})
	r.ip(a.host, "route add default via "+a.gateway)
	// Not every kernel has a dummy. A veth pair without ARP is as one.
	r.ip(a.host, "link add lead0 type veth peer name lead1")
	r.ip(a.host, "link set lead1 up")
	r.ip(a.host, "link set lead0 up arp off")
	r.serve(a)
	return a
}

func (r *routed) ip(h *netlab.Host, args string) (output string) {
	r.t.Helper()
	out, err := exec.Command("ip", append([]string{"-n", string(h.Namespace)}, strings.Fields(args)...)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("ip %s: %s", args, out)
	}
	return string(out)
}

// control is BIRD's socket.
func (r *routed) control(name string) string { return filepath.Join(r.dir, name+".ctl") }

// startBird starts BIRD on a host. It ends with the test at the latest.
func (r *routed) startBird(h *netlab.Host, name, conf string) *exec.Cmd {
	r.t.Helper()
	file := filepath.Join(r.dir, name+".conf")
	write(r.t, file, conf, 0o600)
	if out, err := exec.Command("bird", "-p", "-c", file).CombinedOutput(); err != nil {
		r.t.Fatalf("BIRD refuses what is for %s: %s", name, out)
	}
	bird := exec.Command("bird", "-f", "-c", file, "-s", r.control(name))
	if err := h.Within(bird.Start); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { kill(bird) })
	return bird
}

func (r *routed) startBirdOf(a *rack) {
	r.t.Helper()
	a.bird = r.startBird(a.host, a.name, strings.Replace(read(r.t, "routed-address/bird.conf"), "10.0.1.1", a.gateway, 1))
}

// kill ends a process, which may have ended, without a word.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
}

// serve says the host's name to whoever connects.
func (r *routed) serve(a *rack) {
	r.t.Helper()
	var door net.Listener
	err := a.host.Within(func() (err error) {
		door, err = net.Listen("tcp4", ":80")
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = door.Close() })
	go func() {
		for {
			conn, err := door.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, a.name) // who is gone has no use for it
			_ = conn.Close()
		}
	}()
}

// sees is the host that the router reaches at the address now.
func (r *routed) sees() string {
	conn, err := dialFrom(r.router)(context.Background(), "tcp4", "10.0.9.50:80")
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	name, _ := io.ReadAll(conn) // what is not all of it is no name
	return string(name)
}

// follows waits until the router has one route to the address, to this host, and reaches it there.
func (r *routed) follows(why string, to *rack) {
	r.t.Helper()
	begin := time.Now()
	eventually(r.t, fmt.Sprintf("%s: the route leads to %s", why, to.name), func() bool {
		route := r.ip(r.router, "route show 10.0.9.50")
		return strings.Count(route, "via ") == 1 && strings.Contains(route, to.route) && r.sees() == to.name
	})
	r.t.Logf("%s: the route leads to %s after %v", why, to.name, time.Since(begin).Round(time.Millisecond))
}

// agreed waits until both hosts have one leader, and the route leads there.
func (r *routed) agreed(why string) (leader, other *rack) {
	r.t.Helper()
	leader, other = r.alpha, r.beta
	if leads, _ := agreed(r.t, leader.agent, other.agent); leads != leader.agent {
		leader, other = other, leader
	}
	r.follows(why, leader)
	return leader, other
}

// The route follows the address: when the leader hands over, when its agent is killed, when its BIRD is, when its link is
// cut silently, and when that heals.
func TestRouteFollowsTheLeader(t *testing.T) {
	t.Parallel()
	r := newRouted(t)
	leader, other := r.agreed("start")
	eventually(t, "the other can take over, since its BIRD speaks", func() bool {
		_, code := leader.cli("step-down")
		return code == 0
	})
	r.follows("step-down", other)

	leader, other = r.agreed("after that")
	kill(leader.cmd)
	leader.cmd = nil
	r.follows("kill of the agent", other)
	leader.start()

	leader, other = r.agreed("the agent is back")
	kill(leader.bird)
	r.follows("kill of BIRD", other)
	r.startBirdOf(leader)

	leader, other = r.agreed("BIRD is back")
	if err := leader.host.Cut(); err != nil {
		t.Fatal(err)
	}
	r.follows("cut", other)
	if err := leader.host.Plug(); err != nil {
		t.Fatal(err)
	}
	r.agreed("healed")
}
