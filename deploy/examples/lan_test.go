package examples

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// lan is a network of hosts that are network namespaces. They have the addresses and the files of an example, unchanged
// but for what a test replaces.
type lan struct {
	*netlab.LAN
	t   *testing.T
	key string
}

// lans numbers the networks, since tests run beside each other.
var lans atomic.Int32

// newLAN makes a network without hosts.
func newLAN(t *testing.T) *lan {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: network namespaces need root")
	}
	tool(t, "ip")
	net, err := netlab.New(fmt.Sprintf("be%d-%d", os.Getpid(), lans.Add(1)), netlab.Fine)
	if err != nil {
		t.Skipf("skipped: no namespaces or bridges can be made here: %v", err)
	}
	t.Cleanup(net.Close)
	return &lan{LAN: net, t: t, key: newKey(t)}
}

// plug adds a host without an agent. What runs there in the end is killed.
func (l *lan) plug(name, addr string) *netlab.Host {
	l.t.Helper()
	h, err := l.AddHost(name, netip.MustParsePrefix(addr))
	if err != nil {
		l.t.Skipf("skipped: no host can be added here: %v", err)
	}
	l.t.Cleanup(h.KillAll)
	return h
}

// install adds a host with an agent, which does not run yet. The text of its configuration is changed by replace.
func (l *lan) install(name, addr, config string, replace func(string) string) *agent {
	l.t.Helper()
	a := &agent{t: l.t, name: name, dir: filepath.Join(l.t.TempDir(), name), host: l.plug(name, addr)}
	mkdir(l.t, a.dir)
	a.config = filepath.Join(a.dir, "agent.toml")
	write(l.t, a.config, replace(read(l.t, config)), 0o600)
	a.env = []string{"BULLY_CONFIG=" + a.config, "BULLY_NAME=" + name, "BULLY_STATE_DIR=" + filepath.Join(a.dir, "state"),
		a.socket(), "BULLY_KEY=" + l.key, "BULLY_SETTLE=300ms", "BULLY_LEASE=2s"} // long enough for a machine that does more
	return a
}

// die is the end of a host without a word: its cable first, so that its kernel tells nobody that the agent is gone.
func (a *agent) die() {
	a.t.Helper()
	if err := a.host.Cut(); err != nil {
		a.t.Fatal(err)
	}
	a.powerOff()
}

// powerOff kills all that runs on the agent's host.
func (a *agent) powerOff() {
	a.t.Helper()
	eventually(a.t, "nothing runs on "+a.name, func() bool {
		a.host.KillAll()
		if a.cmd != nil {
			_ = a.cmd.Wait()
			a.cmd = nil
		}
		return len(a.host.Processes()) == 0
	})
}

// agreed waits until two agents have one leader, and gives it first.
func agreed(t *testing.T, a, b *agent) (leads, follows *agent) {
	t.Helper()
	eventually(t, "both have one leader", func() bool {
		one, codeOfOne := a.cli("leader")
		other, codeOfOther := b.cli("leader")
		switch {
		case codeOfOne != 0 || codeOfOther != 0 || one != other:
			return false
		case strings.TrimSpace(one) == a.name:
			leads, follows = a, b
		default:
			leads, follows = b, a
		}
		return true
	})
	return leads, follows
}

// dialFrom opens connections from a host, to addresses without names.
func dialFrom(h *netlab.Host) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(_ context.Context, network, address string) (conn net.Conn, err error) {
		err = h.Within(func() (err error) {
			conn, err = (&net.Dialer{Timeout: time.Second}).Dial(network, address)
			return err
		})
		return conn, err
	}
}
