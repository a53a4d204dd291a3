package keeper

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// heir is a socket that a will is sent to.
type heir struct {
	*rig
	conn *net.UDPConn
}

func (r *rig) heir() *heir {
	r.t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return &heir{r, conn}
}

func (h *heir) addr() netip.AddrPort { return h.conn.LocalAddr().(*net.UDPAddr).AddrPort() }

// hears waits for one will, and gives its commitment; what of the hooks is on record then is the
// order.
func (h *heir) hears(within time.Duration) (commitment, order string) {
	h.t.Helper()
	buf := make([]byte, 100)
	if err := h.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		h.t.Fatal(err)
	}
	n, err := h.conn.Read(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "", ""
	}
	if err != nil {
		h.t.Fatal(err)
	}
	secret, isWill := wire.ParseWill(buf[:n])
	if !isWill {
		h.t.Fatalf("%x is no will", buf[:n])
	}
	return fmt.Sprintf("%x", [32]byte(secret.Commit())), h.Text("order")
}

// The agent is dead, and all that ran for its leadership has ended, the lose hook too:
// then the heirs are told, three times.
func TestWillIsSentOnceTheLoseHookHasEnded(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]agentOrder{
		"never lent":    {Lease: patience},
		"and returned":  {Lease: patience, Lend: true, Return: true},
		"with a job":    {Lease: patience, Job: "echo $$ >DIR/job; trap '' TERM; while :; do sleep 0.01; done"},
		"while it ends": {Lease: patience, Lose: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			h := r.heir()
			order.Heir = h.addr()
			order.Job = strings.ReplaceAll(order.Job, "DIR", r.Dir.Name)
			cfg := r.config(scripts{hooks.BecomeLeader: note + "echo x >up", hooks.LoseLeadership: "echo x >losing; sleep 0.1; " + note})
			cfg.Hooks.Grace = time.Second // the job's, far longer than the lose hook takes
			a := r.agent(order, cfg)
			r.UntilFile("up")
			ended := func() bool { return true }
			if order.Job != "" {
				job := r.PID("job")
				ended = func() bool { return unix.Kill(job, 0) != nil }
			}
			if order.Lose {
				r.UntilFile("losing")
			}
			a.signal(unix.SIGKILL)
			for i := range willTimes {
				said, order := h.hears(patience)
				if said != a.commitment || !hasLost(order) {
					t.Errorf("copy %d is of %q, want %q; after %q", i+1, said, a.commitment, order)
				}
				if !ended() {
					t.Errorf("copy %d is sent while the job runs", i+1)
				}
			}
		})
	}
}

func hasLost(order string) bool {
	return len(order) > 0 && order[:len("become-leader")] == "become-leader" && len(order) > len("become-leader:test:7") &&
		order[len("become-leader:test:7")+1:][:len("lose-leadership")] == "lose-leadership"
}

// What is not known to be over is not said to be.
func TestWillIsNotSent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		order agentOrder
		lose  string
	}{
		"while somebody outside acts on the lease": {agentOrder{Lease: 3 * time.Second, Lend: true}, note},
		"nor on that of one without others":        {agentOrder{Lease: 3 * time.Second, Lend: true, Alone: true}, note},
		"after a lose hook that failed":            {agentOrder{Lease: time.Second}, note + "exit 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			h := r.heir()
			tt.order.Heir = h.addr()
			begun := time.Now()
			a := r.agent(tt.order, r.config(scripts{hooks.BecomeLeader: note + "echo x >up", hooks.LoseLeadership: tt.lose}))
			r.UntilFile("up")
			a.signal(unix.SIGKILL)
			r.untilQuiet()
			if took := time.Since(begun); tt.order.Lend && took < tt.order.Lease {
				t.Errorf("the keeper ended %v before the lease", tt.order.Lease-took)
			}
			if text, _ := h.hears(10 * time.Millisecond); text != "" {
				t.Errorf("the will says %q", text)
			}
		})
	}
	t.Run("for an agent that is silent", func(t *testing.T) {
		r := newRig(t)
		h := r.heir()
		a := r.agent(agentOrder{Lease: 300 * time.Millisecond, Heir: h.addr()},
			r.config(scripts{hooks.BecomeLeader: note + "echo x >up", hooks.LoseLeadership: note}))
		r.UntilFile("up")
		a.signal(unix.SIGSTOP)
		r.Until("the lose hook", func() bool { return hasLost(r.Text("order")) })
		if text, _ := h.hears(3 * willPause); text != "" {
			t.Errorf("the will says %q", text)
		}
		a.signal(unix.SIGKILL)
	})
}

// No secret is announced that no keeper has: not before one has read it, and not once that is
// dead. The next one has another.
func TestNoSecretWithoutAKeeper(t *testing.T) {
	r := newRig(t)
	d := r.desk(r.config(nil))
	if c := d.Commitment(); !c.IsZero() {
		t.Fatalf("without a keeper: %v", c)
	}
	d.recover()
	d.run()
	first := d.awaitsCommitment(wire.Commitment{})
	if err := unix.Kill(d.Status().Process, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.awaitsCommitment(first)
}

// awaitsCommitment waits for one that is another than the last, and none.
func (d *desk) awaitsCommitment(last wire.Commitment) (c wire.Commitment) {
	d.t.Helper()
	d.Until("a secret", func() bool { c = d.Commitment(); return !c.IsZero() && c != last })
	return c
}
