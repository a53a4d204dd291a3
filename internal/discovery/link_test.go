package discovery

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// inOwnNetwork runs a test in a network namespace of its own, with one link that carries
// multicast, 10.9.9.1 and 10.9.9.2 on it, and no route but to these. It says whether this is
// the process there.
func inOwnNetwork(t *testing.T, setUp ...string) (isThere bool) {
	t.Helper()
	if os.Getenv("BULLY_TEST_LINK") != "" {
		return true
	}
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("skipped: the command ip is not installed (package iproute2)")
	}
	lines := append([]string{"ip link set lo up", "ip link add d0 type veth peer name d9", "ip link set d9 up", "ip addr add 10.9.9.1/24 dev d0", "ip addr add 10.9.9.2/24 dev d0",
		"ip link set d0 up multicast on"}, setUp...)
	cmd := exec.Command("/bin/sh", "-ec", strings.Join(lines, "\n")+"\nexec \"$0\" \"$@\"", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "BULLY_TEST_LINK=d0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil && !strings.Contains(string(out), "--- FAIL") && !strings.Contains(string(out), "goleak"):
		t.Skipf("skipped: there is no network of our own here: %v: %s", err, out)
	case err != nil || !strings.Contains(string(out), "--- PASS"):
		t.Errorf("%v:\n%s", err, out)
	}
	return false
}

// onLink is a host of a cluster on the link.
func onLink(t *testing.T, cluster, addr string) *multicast {
	t.Helper()
	m := newMulticast(Config{Cluster: cluster, Self: netip.MustParseAddrPort(addr)})
	t.Cleanup(m.Close)
	return m
}

// finds asks, and compares.
func (m *multicast) finds(t *testing.T, want ...string) {
	t.Helper()
	hosts, err := m.Find(t.Context())
	if err != nil || !slices.Equal(hosts, want) {
		t.Errorf("%v finds %q, %v; want %q", m.addr, hosts, err, want)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// Hosts of one cluster find each other on a link without a route for multicast, and find nobody
// of another. One that was closed is not announced any more. A question leaves neither goroutine
// nor file behind.
func testLink(t *testing.T) {
	t.Helper()
	alpha, beta, other := onLink(t, "home-lab", "10.9.9.1:7950"), onLink(t, "home-lab", "10.9.9.2:8000"), onLink(t, "other", "10.9.9.2:7960")
	beta.finds(t)
	other.finds(t)
	alpha.finds(t, "10.9.9.2:8000")
	beta.finds(t, "10.9.9.1:7950")
	before, files := goleak.IgnoreCurrent(), openFiles(t)
	for range 3 {
		alpha.finds(t, "10.9.9.2:8000")
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	if now := openFiles(t); now > files {
		t.Errorf("%d files are open, %d were before", now, files)
	}
	beta.Close()
	alpha.finds(t)
	beta.finds(t, "10.9.9.1:7950") // it may ask
	alpha.finds(t)                 // and is not announced for that
}

func TestLinkWithoutARoute(t *testing.T) {
	if inOwnNetwork(t) {
		awaitLinkLocal(t)
		testLink(t)
	}
}

func TestLinkWithARoute(t *testing.T) {
	if inOwnNetwork(t, "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6", "ip route add 224.0.0.0/4 dev d0") {
		testLink(t)
	}
}

// awaitLinkLocal waits until nobody else has objected to the link's own address of IPv6.
func awaitLinkLocal(t *testing.T) {
	t.Helper()
	for late := time.Now().Add(30 * time.Second); time.Now().Before(late); time.Sleep(50 * time.Millisecond) {
		out, err := exec.Command("ip", "-6", "addr", "show", "dev", "d0", "-tentative").CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out), "fe80:") {
			return
		}
	}
	t.Skip("skipped: the link has no IPv6 here")
}

// A link that has neither a route for multicast nor IPv6 does as well. One that is down says so, and leaves nothing behind.
func TestLinkThatCarriesNothing(t *testing.T) {
	if !inOwnNetwork(t, "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6") {
		return
	}
	testLink(t)
	alpha := onLink(t, "home-lab", "10.9.9.1:7950")
	if out, err := exec.Command("ip", "link", "set", "d0", "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files := openFiles(t)
	for range 20 {
		if _, err := alpha.Find(t.Context()); err == nil || err.Error() != "mDNS: d0, which has 10.9.9.1, carries no multicast or is down" {
			t.Errorf("the error is %v", err)
		}
	}
	if now := openFiles(t); now > files {
		t.Errorf("%d files are open, %d were before", now, files)
	}
}

// A link that was made anew has another number: the host is announced there.
func TestLinkThatIsMadeAnew(t *testing.T) {
	if !inOwnNetwork(t, "ip route add 224.0.0.0/4 dev d0") {
		return
	}
	alpha, beta := onLink(t, "home-lab", "10.9.9.1:7950"), onLink(t, "home-lab", "10.9.9.2:7950")
	if hosts, err := beta.Find(t.Context()); err != nil {
		t.Errorf("%q, %v", hosts, err)
	}
	alpha.finds(t, "10.9.9.2:7950")

	anew := "ip link del d0; ip link add d1 type veth peer name d8; ip link set d8 up; ip link set d1 up multicast on; " +
		"ip addr add 10.9.9.1/24 dev d1; ip addr add 10.9.9.2/24 dev d1; ip route add 224.0.0.0/4 dev d1"
	if out, err := exec.Command("sh", "-ec", anew).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	alpha.finds(t) // beta has not looked there yet
	beta.finds(t, "10.9.9.1:7950")
	alpha.finds(t, "10.9.9.2:7950")
	d1, err := net.InterfaceByName("d1")
	if err != nil {
		t.Fatal(err)
	}
	if len(alpha.servers) != 1 || len(alpha.servers[d1.Index]) != 2 {
		t.Errorf("it answers on %v, and the link is %d", alpha.servers, d1.Index)
	}
}

// Who can ask and is not announced is told so: nobody else would find this host, and it finds them.
func TestHostThatCannotBeAnnounced(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	taken, err := net.ListenUDP("udp", &net.UDPAddr{Port: mdnsPort}) // by somebody who shares it with nobody
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	hosts, err := onLink(t, "home-lab", "10.9.9.2:7950").Find(t.Context())
	if len(hosts) > 0 || err == nil || err.Error() != "announce by mDNS on d0: IPv4: listen on UDP port 5353: address already in use\n"+
		"IPv6: listen on UDP port 5353: address already in use" {
		t.Errorf("it finds %q, and the error is %v", hosts, err)
	}
}

// A question to this host's own address, which a router may bring, is not answered: the answer would go to whom it is said to be from.
func TestQuestionsFromOutsideAreNotHeard(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	alpha := onLink(t, "home-lab", "10.9.9.1:7950")
	alpha.finds(t)
	conn, err := net.Dial("udp", "10.9.9.1:5353")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(listening))
	_, _ = conn.Write(asksForAll())
	if n, err := conn.Read(make([]byte, mostDatagram)); err == nil {
		t.Errorf("answered by %d bytes", n)
	}
}

// A flood of questions costs no more than a bounded number of reads and answers, and no memory; when it is over, hosts find each other.
func TestAFloodOfQuestions(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	alpha, beta := onLink(t, "home-lab", "10.9.9.1:7950"), onLink(t, "home-lab", "10.9.9.2:7950")
	alpha.finds(t)
	d0, err := net.InterfaceByName("d0")
	if err != nil {
		t.Fatal(err)
	}
	conns, err := openEach(d0, askGroup)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(conns)
	flooder := conns[0]
	asked, begun, answers := asksForAll(), time.Now(), 0
	group := net.UDPAddrFromAddrPort(groups[0])
	for time.Since(begun) < 2*time.Second {
		for range 100 {
			_, _ = flooder.WriteToUDP(asked, group)
		}
		_ = flooder.SetReadDeadline(time.Now().Add(time.Millisecond))
		for datagram := make([]byte, mostDatagram); ; answers++ {
			if _, _, err := flooder.ReadFromUDPAddrPort(datagram); err != nil {
				break
			}
		}
	}
	if most := answersPerSecond * (2 + int(time.Since(begun)/time.Second)); answers > most || answers == 0 {
		t.Errorf("%d answers, want some and %d at most", answers, most)
	}
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if hosts, _ := beta.Find(t.Context()); slices.Equal(hosts, []string{"10.9.9.1:7950"}) {
			return
		}
		if time.Now().After(late) {
			t.Fatal("it is not found any more")
		}
	}
}
