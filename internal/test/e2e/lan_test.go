package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// netnsConfig is where `ip netns exec NAME` finds files that it puts over those
// of /etc: /etc/netns/NAME/resolv.conf and so on.
const netnsConfig = "/etc/netns"

// lan is a switch with hosts. It is built by newLAN and removed with its test.
type lan struct {
	t       *testing.T
	name    string // begins the names of its namespaces
	number  byte   // of this LAN in the test process; third byte of its addresses
	dir     string
	hosts   []*host
	journal *journal
	options []string // arguments of `run` that all hosts get
	env     []string // environment of all agents; timers have no flags

	overlap string // why hosts may lead at the same time in this test; "": they may not
	guarded bool   // the end of a leadership is that of its lose hook alone; see judge
}

var lans atomic.Int32

// family is the Internet protocol that the hosts of a LAN speak.
type family int

const (
	ipv4 family = 4
	ipv6 family = 6
)

// newLAN builds a LAN of n hosts h1…hn that run no agent yet. Priorities are
// 10, 20, …: the last host is the best. Hosts join all others by address.
func newLAN(t *testing.T, n int, options ...string) *lan { return newLANOf(t, ipv4, n, options...) }

func newLANOf(t *testing.T, speaks family, n int, options ...string) *lan {
	t.Helper()
	needsLAN(t)
	number := lans.Add(1)
	l := &lan{t: t, number: byte(number), name: fmt.Sprintf("%sx%d", prefix(os.Getpid()), number), options: options}
	l.dir = filepath.Join(workDir, strconv.Itoa(int(number)))
	must(t, os.Mkdir(l.dir, 0o700))
	l.journal = newJournal(t, filepath.Join(l.dir, "hooks"))
	t.Cleanup(l.remove)
	for i := range n {
		l.hosts = append(l.hosts, newHost(l, speaks, i+1))
	}
	l.cable(speaks)
	return l
}

// cable makes the namespaces and the cables between them.
func (l *lan) cable(speaks family) {
	l.t.Helper()
	spaces := []string{"netns add " + l.switchNS()}
	ports := []string{
		"link add br0 type bridge mcast_snooping 0", "link set br0 up",
		"link add br1 type bridge mcast_snooping 0", "link set br1 up", // the other side of a split
		"addr add " + l.gateway().String() + "/24 dev br0",
	}
	for _, h := range l.hosts {
		spaces = append(spaces, "netns add "+h.ns)
		ports = append(ports, fmt.Sprintf("link add %s type veth peer name eth0 netns %s", h.port, h.ns),
			fmt.Sprintf("link set %s master br0 up", h.port))
	}
	l.ip("", spaces...)
	l.ip(l.switchNS(), ports...)
	bits := map[family]string{ipv4: "/24", ipv6: "/64 nodad"}[speaks]
	for _, h := range l.hosts {
		l.ip(h.ns, "link set lo up", "link set eth0 up", "addr add dev eth0 "+h.addr.Addr().String()+bits)
	}
}

func (l *lan) switchNS() string { return l.name + "s" }

// gateway is the switch's own address: where a test can be reached, or sends from.
func (l *lan) gateway() netip.Addr { return netip.AddrFrom4([4]byte{10, 78, l.number, 254}) }

// ip gives commands to iproute2 in namespace ns, or in the machine's if empty.
func (l *lan) ip(ns string, commands ...string) {
	l.t.Helper()
	args := []string{"-batch", "-"}
	if ns != "" {
		args = append([]string{"-n", ns}, args...)
	}
	cmd := exec.Command("ip", args...)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// nft gives rules to the packet filter of host h.
func (l *lan) nft(h *host, rules ...string) {
	l.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", h.ns, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.Join(rules, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("nft on %s: %v: %s", h, err, out)
	}
}

// cut takes h off the switch without its noticing: the carrier stays.
func (l *lan) cut(h *host) {
	l.t.Helper()
	l.journal.note(h, isCut)
	l.ip(l.switchNS(), "link set "+h.port+" nomaster")
}

// unplug pulls h's cable: it loses its carrier.
func (l *lan) unplug(h *host) {
	l.t.Helper()
	l.journal.note(h, isCut)
	l.ip(l.switchNS(), "link set "+h.port+" down")
}

// plug ends what cut, unplug and split did to h.
func (l *lan) plug(h *host) {
	l.t.Helper()
	l.journal.note(h, isPlugged)
	l.ip(l.switchNS(), "link set "+h.port+" master br0 up")
}

// split puts some hosts on a switch of their own.
func (l *lan) split(others ...*host) {
	l.t.Helper()
	for _, h := range others {
		l.journal.note(h, isSplit)
		l.ip(l.switchNS(), "link set "+h.port+" master br1")
	}
}

// hasRoomToLetGo gives lose hooks 400 ms when a leader loses its lease. The
// default of 100 ms is enough for a shell and a command or two, but not on a
// machine that is busy with other tests too: there the kernel may take as long
// to start a process. The lease is longer by as much; what is tested is the same.
func (l *lan) hasRoomToLetGo() {
	l.env = append(l.env, "BULLY_LEASE=1s", "BULLY_STOP_BUDGET=400ms")
}

// mayOverlap says why two hosts may lead at the same time in this test.
func (l *lan) mayOverlap(why string) { l.overlap = why }

// remove ends the agents, looks at what the hooks wrote, and takes the LAN down.
func (l *lan) remove() {
	for _, h := range l.hosts {
		h.end()
	}
	records := l.journal.read()
	verdict := judge(records, l.overlap != "", l.guarded)
	if verdict != nil {
		l.t.Errorf("the hooks did not run as promised:\n%v", verdict)
	}
	for _, h := range l.hosts {
		if words := h.wordsOfDoom(); words != "" {
			l.t.Errorf("the agent of %s says:\n%s", h, words)
		}
	}
	if l.t.Failed() {
		l.t.Logf("hooks in order:\n%s", timeline(records))
		for _, h := range l.hosts {
			l.t.Logf("last words of %s:\n%s", h, h.lastWords())
		}
	}
	for _, h := range l.hosts {
		deleteNamespace(h.ns)
		_ = os.RemoveAll(filepath.Join(netnsConfig, h.ns))
	}
	deleteNamespace(l.switchNS())
	_ = os.Remove(netnsConfig) // goes if it is empty
	_ = os.RemoveAll(l.dir)
}

// deleteNamespace ends what still runs in a namespace of ours, and removes it.
func deleteNamespace(name string) {
	for _, pid := range processesIn(name) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = exec.Command("ip", "netns", "del", name).Run()
}

// processesIn lists the processes in a namespace: an agent, its hooks, and what
// these left behind.
func processesIn(ns string) []int {
	out, _ := exec.Command("ip", "netns", "pids", ns).Output()
	var pids []int
	for _, field := range strings.Fields(string(out)) {
		// Not this process, whose first thread may have entered the namespace.
		if pid, err := strconv.Atoi(field); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// eventually waits until met returns nil, and fails the test with its last
// error when that takes longer than bound.
func (l *lan) eventually(what string, bound time.Duration, met func() error) {
	l.t.Helper()
	begun := time.Now()
	for {
		err := met()
		took := time.Since(begun).Round(time.Millisecond)
		if err == nil {
			l.t.Logf("%s: after %v", what, took)
			return
		}
		if took > bound {
			l.t.Fatalf("%s: not within %v: %v", what, bound, err)
		}
		time.Sleep(pollInterval)
	}
}

// pollInterval is a compromise: each look costs the agents a request.
const pollInterval = 20 * time.Millisecond

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
