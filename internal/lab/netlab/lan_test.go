package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

const kind = "bt" // begins the names of what these tests make

// newLAN makes a LAN of three hosts 10.79.0.1 and on, which is taken away with the test.
func newLAN(t *testing.T, sky Weather) (l *LAN, hosts []*Host) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
	name := fmt.Sprintf("%s%d-%d", kind, os.Getpid(), time.Now().UnixNano()%1e6)
	l, err := New(name, sky)
	if err != nil {
		t.Skipf("skipped: no namespaces or bridges can be made here: %v", err)
	}
	t.Cleanup(func() {
		l.Close()
		if left := Namespaces(name); len(left) > 0 {
			t.Errorf("%v remain", left)
		}
	})
	for i := range 3 {
		h, err := l.AddHost("h"+strconv.Itoa(i+1), netip.PrefixFrom(addrOf(i), 24))
		if err != nil {
			t.Skipf("skipped: no taps or veth pairs can be made here: %v", err)
		}
		hosts = append(hosts, h)
	}
	return l, hosts
}

func addrOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 79, 0, byte(i + 1)}) }

// Real interfaces in real namespaces, on either kind of switch: who is cut off hears nothing and has its carrier, who is
// unplugged has none, who is split off hears those that are as well, and in the end nothing remains.
func TestCables(t *testing.T) {
	for name, sky := range map[string]Weather{"bridge": Fine, "wire": {Delay: time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			_, hosts := newLAN(t, sky)
			var conns []net.PacketConn
			for i, h := range hosts {
				conn := listenIn(t, h, addrOf(i))
				defer conn.Close()
				conns = append(conns, conn)
			}
			steps := []struct {
				name    string
				do      func() error
				carrier bool     // of the first host
				hears   []string // which pairs hear each other
			}{
				{"plugged in", hosts[0].Plug, true, []string{"12", "13", "23"}},
				{"cut", hosts[0].Cut, true, []string{"23"}},
				{"plugged in again", hosts[0].Plug, true, []string{"12", "13", "23"}},
				{"unplugged", hosts[0].Unplug, false, []string{"23"}},
				{"cut when it was unplugged", hosts[0].Cut, true, []string{"23"}},
				{"split", func() error { return errors.Join(hosts[0].Split(), hosts[1].Split()) }, true, []string{"12"}},
				{"healed", func() error { return errors.Join(hosts[0].Plug(), hosts[1].Plug()) }, true, []string{"12", "13", "23"}},
			}
			for _, step := range steps {
				if err := step.do(); err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
				var hears []string
				for _, pair := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
					name := strconv.Itoa(10*(pair[0]+1) + pair[1] + 1)
					if isHeard(t, conns[pair[0]], conns[pair[1]], slices.Contains(step.hears, name)) {
						hears = append(hears, name)
					}
				}
				if !slices.Equal(hears, step.hears) {
					t.Errorf("%s: the pairs %v hear each other, want %v", step.name, hears, step.hears)
				}
				if got := hasCarrier(t, hosts[0]); got != step.carrier {
					t.Errorf("%s: carrier %v, want %v", step.name, got, step.carrier)
				}
			}
		})
	}
}

func listenIn(t *testing.T, h *Host, addr netip.Addr) (conn net.PacketConn) {
	t.Helper()
	err := h.Within(func() (err error) {
		conn, err = net.ListenPacket("udp4", netip.AddrPortFrom(addr, 7950).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// isHeard sends datagrams until one arrives, for long if one must.
func isHeard(t *testing.T, from, to net.PacketConn, must bool) bool {
	t.Helper()
	patience := 200 * time.Millisecond // a datagram takes a millisecond or two
	if must {
		patience = 10 * time.Second
	}
	word := strconv.FormatInt(time.Now().UnixNano(), 10)
	buf := make([]byte, 100)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		// What is unreachable may say so: that is an answer, too.
		_, _ = from.WriteTo([]byte(word), to.LocalAddr())
		if err := to.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, sender, err := to.ReadFrom(buf)
		if err == nil && string(buf[:n]) == word && sender.String() == from.LocalAddr().String() {
			return true
		}
	}
	return false
}

func hasCarrier(t *testing.T, h *Host) bool {
	t.Helper()
	links, err := h.links()
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close()
	link, err := links.LinkByName(Interface)
	if err != nil {
		t.Fatal(err)
	}
	const lowerUp = 0x10000 // IFF_LOWER_UP
	return link.Attrs().RawFlags&lowerUp != 0
}

// A process on a host is found there and nowhere else, and can be ended.
func TestProcesses(t *testing.T) {
	_, hosts := newLAN(t, Fine)
	sleep := exec.Command("sleep", "1000")
	if err := hosts[1].Within(sleep.Start); err != nil {
		t.Fatal(err)
	}
	for i, h := range hosts {
		got := h.Processes()
		if want := i == 1; slices.Contains(got, sleep.Process.Pid) != want || len(got) > 1 {
			t.Errorf("on host %d run %v; the process is %d, on host 2", i+1, got, sleep.Process.Pid)
		}
	}
	hosts[1].KillAll()
	if err := sleep.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("it ended with %v", err)
	}
}

func TestOrphans(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	gone, here := strconv.Itoa(dead.Process.Pid), strconv.Itoa(os.Getpid())
	for name, want := range map[string]bool{
		"bt" + gone: true, "bt" + gone + "-1-h1": true, "bt" + gone + "x1": false, "be" + gone: false, "bt": false, "btx": false,
		"bt" + here: false, "bt" + here + "-lan": false, "bt0-lan": false, "bt99999999999999999999-lan": false,
	} {
		if got := IsOrphan("bt", name); got != want {
			t.Errorf("IsOrphan(%q) = %v", name, got)
		}
	}
}
