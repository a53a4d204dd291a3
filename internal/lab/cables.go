package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// network is a LAN of namespaces: one for each agent, with one interface, and one for the switch that their cables go
// to. The switch has a namespace of its own and not the host's, so that neither the host's firewall (br_netfilter with
// Docker's FORWARD policy drops what crosses a bridge) nor its addresses have a say, and nothing of the host is touched.
// In bad weather the switch is a wire in this process instead.
type network struct {
	names  []string // namespaces made so far
	spaces []netns.NsHandle

	ports  *netlink.Handle // nil in bad weather, as bridge
	bridge netlink.Link
	wire   *wire // nil in fine weather
}

// cable is what connects one agent with the switch.
type cable struct {
	line
	space netns.NsHandle // the agent's
	addr  netip.Addr
}

// line is the switch's end of a cable.
type line interface {
	// plug connects it with the switch; the agent's interface has its carrier.
	plug() error
	// unplug takes it out of the switch. The agent's interface keeps its carrier: like a fault behind the next switch,
	// and unlike a pulled plug, it is silent.
	unplug() error
	// drop takes it out, and the carrier goes.
	drop() error
}

// bridged is a veth pair to a bridge.
type bridged struct {
	network *network
	port    netlink.Link
}

func (b bridged) plug() error {
	if err := b.network.ports.LinkSetMaster(b.port, b.network.bridge); err != nil {
		return err
	}
	return b.network.ports.LinkSetUp(b.port)
}

func (b bridged) unplug() error { return b.network.ports.LinkSetNoMaster(b.port) }
func (b bridged) drop() error   { return b.network.ports.LinkSetDown(b.port) }

// wired is a tap with a wire behind it.
type wired struct {
	jack *jack
	tap  tap
}

func (w wired) plug() error {
	w.jack.connect(true)
	return w.tap.carrier(true)
}

func (w wired) unplug() error {
	w.jack.connect(false)
	return nil
}

func (w wired) drop() error {
	w.jack.connect(false)
	return w.tap.carrier(false)
}

const (
	namespaceDir = "/run/netns" // where ip-netns(8) looks, so that `ip netns exec` works on ours
	labPort      = 7950
)

// mayUseNamespaces says what is missing for --netns.
func mayUseNamespaces() error {
	if os.Geteuid() != 0 {
		return usage("--netns needs root, to make network namespaces: run it with sudo, or leave --netns out")
	}
	return nil
}

// openNetwork lays the cables of n agents. What dead labs have left is swept away first. On an error nothing remains.
func openNetwork(n int, sky weather) (w *network, cables []*cable, err error) {
	sweep()
	w = &network{}
	defer func() {
		if err != nil {
			w.close()
			w, cables = nil, nil
		}
	}()
	if !sky.isFine() {
		w.wire = newWire(sky)
	} else if err := w.openSwitch(); err != nil {
		return w, nil, fmt.Errorf("make switch: %w", err)
	}
	for k := 1; k <= n; k++ {
		c, err := w.lay(k)
		if err != nil {
			return w, nil, fmt.Errorf("lay cable of %s: %w", nodeName(k), err)
		}
		cables = append(cables, c)
	}
	return w, cables, nil
}

func (w *network) openSwitch() error {
	space, err := w.newNamespace("lan")
	if err != nil {
		return err
	}
	if w.ports, err = netlink.NewHandleAt(space); err != nil {
		return err
	}
	// A new bridge has STP off, and its ports forward at once.
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lan"}}
	if err := w.ports.LinkAdd(bridge); err != nil {
		return fmt.Errorf("add bridge: %w", err)
	}
	w.bridge = bridge
	return w.ports.LinkSetUp(bridge)
}

// lay makes the namespace of the kth agent and connects it. Its address is 10.77.0.k.
func (w *network) lay(k int) (*cable, error) {
	space, err := w.newNamespace(nodeName(k))
	if err != nil {
		return nil, err
	}
	c := &cable{space: space, addr: netip.AddrFrom4([4]byte{10, 77, 0, byte(k)})}
	if c.line, err = w.lead(nodeName(k), space); err != nil {
		return nil, err
	}
	if err := c.setUp(); err != nil {
		return nil, err
	}
	return c, c.plug()
}

// inside is the name of an agent's interface.
const inside = "eth0"

// lead makes an interface in the agent's namespace, with the line that it hangs on.
func (w *network) lead(name string, space netns.NsHandle) (line, error) {
	if w.wire == nil {
		port := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: inside, PeerNamespace: netlink.NsFd(space)}
		if err := w.ports.LinkAdd(port); err != nil {
			return nil, fmt.Errorf("add veth: %w", err)
		}
		return bridged{w, port}, nil
	}
	var end tap
	err := within(space, func() (err error) {
		end, err = openTap(inside)
		return err
	})
	if err != nil {
		return nil, err
	}
	return wired{w.wire.attach(end), end}, nil
}

// within runs f in a namespace, on a thread that is never used again.
func within(space netns.NsHandle, f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		err := netns.Set(space)
		if err == nil {
			err = f()
		}
		result <- err
	}()
	return <-result
}

// setUp gives the agent's end its address.
func (c *cable) setUp() error {
	links, err := netlink.NewHandleAt(c.space)
	if err != nil {
		return err
	}
	defer links.Close()
	for _, name := range []string{"lo", inside} {
		link, err := links.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		if name == inside {
			addr := &netlink.Addr{IPNet: &net.IPNet{IP: c.addr.AsSlice(), Mask: net.CIDRMask(24, 32)}}
			if err := links.AddrAdd(link, addr); err != nil {
				return fmt.Errorf("add address: %w", err)
			}
		}
		if err := links.LinkSetUp(link); err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
	}
	return nil
}

// namespace is where the agent runs; nil, the lab's own, without a cable.
func (c *cable) namespace() *netns.NsHandle {
	if c == nil {
		return nil
	}
	return &c.space
}

// newNamespace makes a namespace that `ip netns` shows as bl<pid>-suffix.
func (w *network) newNamespace(suffix string) (netns.NsHandle, error) {
	name := fmt.Sprintf("bl%d-%s", os.Getpid(), suffix)
	w.names = append(w.names, name)
	type result struct {
		space netns.NsHandle
		err   error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine, in the new namespace
		space, err := netns.NewNamed(name)
		made <- result{space, err}
	}()
	r := <-made
	if r.err != nil {
		return netns.None(), fmt.Errorf("add namespace %s: %w", name, r.err)
	}
	w.spaces = append(w.spaces, r.space)
	return r.space, nil
}

// close takes everything away: interfaces, addresses and the bridge go with their namespaces. The agents must be dead.
func (w *network) close() {
	if w == nil {
		return
	}
	if w.wire != nil {
		w.wire.close()
	}
	if w.ports != nil {
		w.ports.Close()
	}
	for _, s := range w.spaces {
		s.Close()
	}
	for _, name := range w.names {
		removeNamespace(name)
	}
}

func removeNamespace(name string) {
	path := filepath.Join(namespaceDir, name)
	_ = unix.Unmount(path, unix.MNT_DETACH) // not mounted if its making failed half way
	_ = os.Remove(path)
}

var ownNamespace = regexp.MustCompile(`^bl([0-9]+)-(lan|n[0-9]+)$`)

// sweep removes the namespaces of labs that were killed before they could.
func sweep() {
	entries, _ := os.ReadDir(namespaceDir) // missing: there are none
	for _, e := range entries {
		if m := ownNamespace.FindStringSubmatch(e.Name()); m != nil && isDead(m[1]) {
			removeNamespace(e.Name())
		}
	}
}

// isDead reports whether there is no such process. A number that another process has taken keeps the remains.
func isDead(pid string) bool {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join("/proc", strconv.Itoa(n)))
	return errors.Is(err, fs.ErrNotExist)
}
