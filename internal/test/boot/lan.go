package boot

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

const kind = "bo" // begins the names of all that the tests make

// LAN is a bridge with hosts that can boot.
type LAN struct {
	Net   *netlab.LAN // for more hosts, without a system: AddHost
	t     *testing.T
	dir   string // of the hosts' disks
	hosts map[string]*Host
	place map[string]*netlab.Host
}

var lans atomic.Int32

// NewLAN makes hosts that are switched off: 10.81.0.1 and on, in the order of their names. It skips the test where that
// cannot be done here. All of it goes with the test.
func NewLAN(t *testing.T, names ...string) *LAN {
	t.Helper()
	needs(t)
	sweep()
	root, err := debianRoot()
	if err != nil {
		t.Skipf("skipped: no Debian to boot: %v", err)
	}
	name := fmt.Sprintf("%s%d-%d", kind, os.Getpid(), lans.Add(1))
	l := &LAN{t: t, dir: filepath.Join(os.TempDir(), name), hosts: map[string]*Host{}, place: map[string]*netlab.Host{}}
	if l.Net, err = netlab.New(name, netlab.Fine); err != nil {
		t.Skipf("skipped: no network of namespaces can be made: %v", err)
	}
	t.Cleanup(l.remove)
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var etcHosts strings.Builder
	etcHosts.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	for i, host := range names {
		fmt.Fprintln(&etcHosts, Address(i+1), host)
	}
	for i, host := range names {
		l.add(root, host, Address(i+1), etcHosts.String())
	}
	return l
}

// Address is that of the n-th host, from 1. Those from 100 on are free for others; the net has 24 bits.
func Address(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 81, 0, byte(n)}) }

func (l *LAN) add(root, name string, at netip.Addr, etcHosts string) {
	l.t.Helper()
	place, err := l.Net.AddHost(name, netip.PrefixFrom(at, 24))
	if err != nil {
		l.t.Fatal(err)
	}
	h := &Host{&machine{name: name, net: place.Namespace, dir: filepath.Join(l.dir, name)}, l.t}
	l.hosts[name], l.place[name] = h, place
	if err := h.mount(root); err != nil {
		l.t.Skipf("skipped: no overlay can be mounted here: %v", err)
	}
	h.Push("/etc/hostname", []byte(name+"\n"), 0o644)
	h.Push("/etc/hosts", []byte(etcHosts), 0o644)
	h.Push("/etc/machine-id", []byte(machineID()+"\n"), 0o444) // the root's would be everybody's
}

// Host gives one of the names that NewLAN was called with.
func (l *LAN) Host(name string) *Host {
	l.t.Helper()
	h := l.hosts[name]
	if h == nil {
		l.t.Fatalf("BUG: no host %s", name)
	}
	return h
}

// Cable is what connects a host with the bridge: Cut and Plug.
func (l *LAN) Cable(name string) *netlab.Host { return l.place[l.Host(name).name] }

func (l *LAN) remove() {
	for _, h := range l.hosts {
		h.remove()
	}
	l.Net.Close()
	if err := os.RemoveAll(l.dir); err != nil {
		l.t.Error(err)
	}
}

// sweep removes what tests left behind that were killed.
func sweep() {
	for _, orphan := range netlab.Orphans(kind) {
		orphan.KillAll()
		orphan.Remove()
	}
	for _, hierarchy := range hierarchies {
		groups, _ := filepath.Glob(filepath.Join(hierarchy, kind+"[0-9]*"))
		for _, group := range groups {
			if netlab.IsOrphan(kind, filepath.Base(group)) {
				removeGroups(group)
			}
		}
	}
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), kind+"[0-9]*"))
	for _, dir := range dirs {
		if !netlab.IsOrphan(kind, filepath.Base(dir)) {
			continue
		}
		disks, _ := filepath.Glob(filepath.Join(dir, "*", "root"))
		for _, disk := range disks {
			_ = unix.Unmount(disk, unix.MNT_DETACH) // never mounted, if the test was killed before
		}
		_ = os.RemoveAll(dir)
	}
}
