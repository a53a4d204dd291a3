package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/transport"
)

// onSockets starts agents on loopback, each with its own wall clock, and ends them with the test.
func onSockets(t *testing.T, off map[string]time.Duration, names ...string) map[string]*agent {
	ports, seeds := map[string]*transport.Transport{}, []string(nil)
	for _, name := range names {
		port, err := transport.Listen(transport.Config{Bind: netip.MustParseAddrPort("127.0.0.1:0")})
		if err != nil {
			t.Fatal(err)
		}
		ports[name], seeds = port, append(seeds, port.Addr().String())
	}
	agents := map[string]*agent{}
	for _, name := range names {
		cfg := Config{Cluster: "test", Name: name, StateDir: filepath.Join(t.TempDir(), name), Seeds: seeds, Profile: "lan", Version: "v1",
			Logger: testLogger(name), Election: election.Config{MinAcks: election.AutoMinAcks, Heartbeat: 50 * time.Millisecond, Lease: 400 * time.Millisecond},
			Runner: newFakeHooks(), JobRunner: newFakeJobs(name, &jobLog{}, 0), Keys: key.Ring{sealKey(1)},
			Wall:   func() time.Time { return time.Now().Add(off[name]) },
			Listen: func() (transport.LAN, error) { return ports[name], nil }}
		ctx, stop := context.WithCancel(context.Background())
		a, err := open(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			err := a.run(ctx)
			a.close()
			done <- err
		}()
		t.Cleanup(func() { stop(); <-done })
		agents[name] = a
	}
	return agents
}

func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !met(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A clock that is off by minutes shows as what it is from both sides, and the rest as well.
func TestExaminationMeasuresClocks(t *testing.T) {
	t.Parallel()
	agents := onSockets(t, map[string]time.Duration{"alpha": -5 * time.Minute}, "alpha", "beta", "gamma")
	knowsAll := func(a *agent) bool {
		s := a.shown.Load()
		return s != nil && len(s.members) == 3 && a.Status().Alive == 3
	}
	until(t, "all know all", func() bool { return knowsAll(agents["alpha"]) && knowsAll(agents["beta"]) && knowsAll(agents["gamma"]) })
	for name, want := range map[string]map[string]float64{"alpha": {"beta": 300_000, "gamma": 300_000}, "beta": {"alpha": -300_000, "gamma": 0}} {
		found, err := agents[name].Examine(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found.Peers {
			if off := p.OffsetMS - want[p.Name]; off < -2000 || off > 2000 {
				t.Errorf("%s sees the clock of %s %v ms ahead, want %v", name, p.Name, p.OffsetMS, want[p.Name])
			}
			p.OffsetMS, p.ID, p.Addr = 0, "", ""
			if p.Arrived == 0 || p.Heard == 0 {
				t.Errorf("%s: no datagrams pass: %+v", name, p)
			}
			p.Arrived, p.Heard = 0, 0
			if want := (control.Sight{Name: p.Name, Status: "alive", Version: "v1", WireMax: p.WireMax, Source: "127.0.0.1", Knows: true, PingsUs: true,
				MTU: found.MTU, Pinged: true, Addresses: "none"}); p != want {
				t.Errorf("%s: %+v, want %+v", name, p, want)
			}
		}
		if len(found.Peers) != 2 || !found.Proven || found.SyncMS <= 0 || found.SyncError != "" || found.TurnMS <= 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// A configuration on a file system that hangs holds doctor up for some seconds only, and is read by one at a time.
func TestAnExaminationWaitsForNoHangingFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h, mended := c.hosts[0], make(chan struct{})
		var reads atomic.Int32
		h.settings = func(cfg *Config) {
			cfg.Refusal = func() (bool, error) {
				reads.Add(1)
				<-mended
				return false, errors.New("no such key")
			}
		}
		c.startAll()
		for _, want := range []string{"reading what a start reads has not ended after 8s", "reading what a start reads of the doctor before has not ended"} {
			if found, err := h.agent.Examine(t.Context()); err != nil || found.RefusalError != want || found.Refusal != "" || reads.Load() != 1 {
				t.Errorf("%v; %q, want %q; %q; read %d times", err, found.RefusalError, want, found.Refusal, reads.Load())
			}
		}
		close(mended)
		synctest.Wait()
		if found, err := h.agent.Examine(t.Context()); err != nil || found.RefusalError != "" || found.Refusal != "no such key" || !found.Unseen {
			t.Errorf("mended: %v; %q, %q, unseen %t", err, found.RefusalError, found.Refusal, found.Unseen)
		}
		c.stopAll()
	})
}

// Whoever looks at all hosts at the same time finds nothing wrong: a host that has no place for a question now is asked again. The
// three here have one address, for which there is one answer in a second.
func TestHostsAreExaminedAtOnce(t *testing.T) {
	t.Parallel()
	agents := onSockets(t, nil, "alpha", "beta", "gamma")
	for _, a := range agents {
		until(t, "all know all", func() bool { s := a.shown.Load(); return s != nil && a.Status().Alive == 3 })
	}
	var all sync.WaitGroup
	for name, a := range agents {
		all.Go(func() {
			found, err := a.Examine(t.Context())
			if err != nil || len(found.Peers) != 2 {
				t.Errorf("%s: %+v, %v", name, found, err)
			}
			for _, p := range found.Peers {
				if p.Trouble != "" || !p.Knows || !p.PingsUs || !p.Pinged {
					t.Errorf("%s: %+v", name, p)
				}
			}
		})
	}
	all.Wait()
}

// Each host says to the others which addresses it has while it leads, in order and each once; one that never leads says nothing of it.
func TestHostsTellTheirAddresses(t *testing.T) {
	addresses := func(all ...string) (r hooks.Resource) {
		for _, one := range all {
			r.Addresses = append(r.Addresses, netip.MustParsePrefix(one))
		}
		r.Interface = "eth1"
		return r
	}
	a := &agent{}
	for name, c := range map[string]struct {
		part      election.Part
		resources []hooks.Resource
		want      string
	}{
		"none":      {election.Voter, []hooks.Resource{{Unit: "haproxy.service"}}, "none"},
		"two":       {election.Voter, []hooks.Resource{addresses("192.0.2.9/32", "192.0.2.10/24"), addresses("2001:db8::1/128", "192.0.2.9/32")}, "192.0.2.9 192.0.2.10 2001:db8::1"},
		"a witness": {election.Witness, []hooks.Resource{addresses("192.0.2.9/32")}, ""},
	} {
		a.cfg.Election.Part = c.part
		a.commands.Store(&hooks.Config{Resources: c.resources})
		if got := a.leads(); got != c.want || !areAddresses(got) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("2001:db8:1:2:3:4:5:%x/128", i+256))
	}
	a.cfg.Election.Part = election.Voter
	a.commands.Store(&hooks.Config{Resources: []hooks.Resource{addresses(many...)}})
	if got, devices := a.leads(), a.devices(); got != "" || len(devices) != 1 {
		t.Errorf("of too many it says %q, on %q", got, devices)
	}
}
