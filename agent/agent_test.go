package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/hooks/resourcerun"
	"github.com/bully-agent/bully-agent/internal/advertise"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/test/lantest"
	"github.com/bully-agent/bully-agent/internal/transport"
	"github.com/bully-agent/bully-agent/wire"
)

var errKilled = errors.New("killed")

// fakeHooks is the runner of processes without processes: it writes down what
// it is told and answers after a while of fake time.
type fakeHooks struct {
	gone chan struct{}
	fakeOutcomes
	mu      sync.Mutex
	log     []string
	mode    string // of the last, with the quorum
	takes   time.Duration
	queue   chan hooks.Event
	results chan hooks.Result
	checked chan struct{}
	reports []hooks.CheckReport
	states  []resourcerun.State

	clients    []resourcerun.Client // that the keeper says
	hasClients bool                 // it has not been asked for them since
	reset      []resourcerun.Client // that the agent has said
	reached    int                  // times that it has said so
}

func newFakeHooks() *fakeHooks {
	return &fakeHooks{takes: 5 * time.Millisecond, queue: make(chan hooks.Event, 64), results: make(chan hooks.Result, 64), checked: make(chan struct{}, 1)}
}

// say has the keeper say of checks what has changed.
func (f *fakeHooks) say(reports ...hooks.CheckReport) {
	f.mu.Lock()
	f.reports = append(f.reports, reports...)
	f.mu.Unlock()
	f.checked <- struct{}{}
}

func (f *fakeHooks) Ask(context.Context, string) ([]byte, error) {
	return nil, errors.New("it runs no program")
}
func (f *fakeHooks) Checked() <-chan struct{} { return f.checked }

// have has the keeper say of resources how they are.
func (f *fakeHooks) have(states ...resourcerun.State) {
	f.mu.Lock()
	f.states = states
	f.mu.Unlock()
	f.checked <- struct{}{}
	synctest.Wait()
}

func (f *fakeHooks) Resources() []resourcerun.State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.states
}

// connect has the keeper say who is connected to what the host has.
func (f *fakeHooks) connect(clients ...resourcerun.Client) {
	f.mu.Lock()
	f.clients, f.hasClients = clients, true
	f.mu.Unlock()
	f.checked <- struct{}{}
	synctest.Wait()
}

func (f *fakeHooks) Clients() (clients []resourcerun.Client, isNew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clients, isNew = f.clients, f.hasClients
	f.clients, f.hasClients = nil, false
	return clients, isNew
}

func (f *fakeHooks) Reset(clients []resourcerun.Client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reset = clients
	f.log = append(f.log, fmt.Sprintf("reset %d", len(clients)))
}

// resets is what the agent has said last of the clients of the leader before.
func (f *fakeHooks) resets() []resourcerun.Client {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reset
}

func (f *fakeHooks) Checks() []hooks.CheckReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	reports := f.reports
	f.reports = nil
	return reports
}

// setLength has hooks take so long, from the next that begins.
func (f *fakeHooks) setLength(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takes = d
}

func (f *fakeHooks) length() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.takes
}

func (f *fakeHooks) Run(ctx context.Context) error {
	for {
		select {
		case ev := <-f.queue:
			time.Sleep(f.length())
			res := f.end(ev, hooks.Result{Kind: ev.Kind, Epoch: ev.Epoch.Counter, OK: true, Ran: true})
			f.results <- res
			if after, ok := f.repeats(ev); ok {
				time.Sleep(after)
				res.IsRepeat = true
				f.results <- res
			}
			if ev.Ended != nil {
				ev.Ended(res)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *fakeHooks) Start(ev hooks.Event, due time.Time) {
	if ev.Kind != hooks.BecomeLeader && ev.Kind != hooks.LoseLeadership {
		return
	}
	f.note(ev)
	f.bound(ev, due)
	f.queue <- ev
}

func (f *fakeHooks) note(ev hooks.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf("%s %d %s", ev.Kind, ev.Epoch.Counter, ev.Cause))
	f.mode = fmt.Sprintf("%s %d", ev.Mode, ev.Quorum)
}

func (f *fakeHooks) lastMode() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mode
}

func (f *fakeHooks) ran() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

func (f *fakeHooks) Launch() error                { return nil }
func (f *fakeHooks) Gone() <-chan struct{}        { return f.gone }
func (f *fakeHooks) Stop(uint64)                  {}
func (f *fakeHooks) Reached()                     { f.mu.Lock(); defer f.mu.Unlock(); f.reached++ }
func (f *fakeHooks) Results() <-chan hooks.Result { return f.results }
func (f *fakeHooks) SetConfig(hooks.Config)       {}
func (f *fakeHooks) CleanUp(ctx context.Context, ev hooks.Event) hooks.Result {
	f.note(ev)
	if err := f.hangs(ctx, atCleanUp); err != nil {
		return hooks.Result{Kind: ev.Kind, Epoch: ev.Epoch.Counter, Ran: true, Exit: -1, Err: err}
	}
	return f.end(ev, hooks.Result{Kind: ev.Kind, Epoch: ev.Epoch.Counter, OK: true, Ran: true})
}

// testLogger shows what the agents say when a test runs with -v.
func testLogger(name string) hclog.Logger {
	if !testing.Verbose() {
		return nil
	}
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.Debug})
}

// cluster is a few agents on a LAN in memory, in fake time.
type cluster struct {
	t     *testing.T
	lan   *lantest.LAN
	hosts []*testHost
}

type testHost struct {
	name     string
	addr     netip.AddrPort
	priority uint16
	settings func(*Config) // changes what start gives; nil: nothing
	dir      string
	hooks    *fakeHooks
	jobs     *fakeJobs // nil: the real runner
	port     *lantest.Host
	link     chan bool // what the watch of its link says
	agent    *agent
	stop     context.CancelFunc
	done     chan error
}

func newCluster(t *testing.T, n int) *cluster {
	c := &cluster{t: t, lan: lantest.New(1)}
	c.lan.SetDelay(100*time.Microsecond, 500*time.Microsecond)
	for i := range n {
		h := &testHost{name: fmt.Sprintf("n%d", i+1), priority: uint16(i + 1), hooks: newFakeHooks(), link: make(chan bool),
			addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte((i + 1) >> 8), byte(i + 1)}), 7950)}
		h.dir, h.hooks.secret = filepath.Join(t.TempDir(), h.name), wire.Secret{byte(i + 1)}
		c.hosts = append(c.hosts, h)
	}
	return c
}

// config is what h starts with. change, if there is one, comes last.
func (h *testHost) config(c *cluster, change func(*Config)) Config {
	seeds := []string{c.hosts[0].addr.String(), c.hosts[len(c.hosts)-1].addr.String()}
	cfg := Config{Cluster: "test", Name: h.name, StateDir: h.dir, Seeds: seeds, Profile: "lan",
		Logger: testLogger(h.name), Election: election.Config{Priority: h.priority, MinAcks: election.AutoMinAcks, Lease: 400 * time.Millisecond}, Runner: h.hooks, JobRunner: newFakeJobs(h.name, &jobLog{}, 0), Now: time.Now, WatchLink: h.watchLink,
		Listen: func() (transport.LAN, error) {
			h.port = c.lan.Host(h.name, h.addr)
			return h.port, nil
		}}
	for _, f := range []func(*Config){h.settings, change} {
		if f != nil {
			f(&cfg)
		}
	}
	return cfg
}

func (c *cluster) start(h *testHost) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	a, err := open(ctx, h.config(c, nil))
	if err != nil {
		c.t.Fatal(err)
	}
	h.agent, h.stop, h.done = a, cancel, make(chan error, 1)
	go func() {
		err := a.run(ctx)
		a.close() // first: whoever waits may start the next life at once
		h.done <- err
	}()
	synctest.Wait()
}

// watchLink says what the test says of the host's link.
func (h *testHost) watchLink(ctx context.Context, saw func(advertise.Sight)) error {
	up := true
	for {
		saw(advertise.Sight{Links: []advertise.Link{{Name: "eth0", Down: !up, Addrs: []netip.Addr{h.port.Addr().Addr()}}}})
		select {
		case up = <-h.link:
		case <-ctx.Done():
			return nil
		}
	}
}

// kill ends the agent as kill -9 does: not another frame leaves it.
func (c *cluster) kill(h *testHost) {
	_ = h.port.Shutdown()
	h.agent.calls <- func() { h.agent.fatal = errKilled }
	<-h.done
	h.agent = nil
}

func (c *cluster) leader() *testHost {
	var leaders []*testHost
	for _, h := range c.hosts {
		if h.agent != nil && h.agent.Status().LeaderIsSelf {
			leaders = append(leaders, h)
		}
	}
	if len(leaders) != 1 {
		return nil
	}
	return leaders[0]
}

// agrees waits until all running agents follow h, for a minute at most.
func (c *cluster) agrees(h *testHost) {
	c.t.Helper()
	c.agreesWhen(h, func(l control.Node) bool { return l.Name == h.name && l.ID == h.agent.seat.state.ID.String() })
}

// agreesWhen is agrees with a test of how the leader is shown.
func (c *cluster) agreesWhen(h *testHost, isShown func(control.Node) bool) {
	c.t.Helper()
	deadline := time.Now().Add(time.Minute)
	follows := func(other *testHost) bool {
		if other.agent == nil {
			return other != h
		}
		s := other.agent.Status() // of all that this test does often, what costs most
		return s.LeaderIsSelf == (other == h) && s.Leader != nil && isShown(*s.Leader)
	}
	for time.Now().Before(deadline) {
		if !slices.ContainsFunc(c.hosts, func(other *testHost) bool { return !follows(other) }) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, other := range c.hosts {
		if other.agent != nil {
			c.t.Logf("%s: %+v", other.name, other.agent.Status())
		}
	}
	c.t.Fatalf("no agreement on %s", h.name)
}

// stopAll ends the bubble cleanly, and lets memberlist's last timers pass.
func (c *cluster) stopAll() {
	for _, h := range c.hosts {
		if h.agent != nil {
			h.stop()
			if err := <-h.done; err != nil {
				c.t.Errorf("%s stopped with %v", h.name, err)
			}
			h.agent = nil
		}
	}
	time.Sleep(2 * time.Minute)
}

func (h *testHost) expectHooks(t *testing.T, want ...string) {
	t.Helper()
	if got := h.hooks.ran(); !slices.Equal(got, want) {
		t.Errorf("%s ran hooks %q, want %q", h.name, got, want)
	}
}

// A cluster's usual life: the best leads, dies, is replaced, comes back and
// takes over; a graceful stop hands over before it leaves.
func TestClusterElectsAndFailsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		top.expectHooks(t, "become-leader 1 boot")

		c.kill(top)
		c.agrees(mid)
		mid.expectHooks(t, "become-leader 2 process-gone")

		c.start(top)
		c.agrees(top)
		mid.expectHooks(t, "become-leader 2 process-gone", "lose-leadership 2 preempted")
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 unclean-restart", "become-leader 3 handed-over")

		top.stop()
		if err := <-top.done; err != nil {
			t.Fatal(err)
		}
		top.agent = nil
		c.agrees(mid)
		low.expectHooks(t)
		if status := mid.agent.Status(); status.Alive != 2 || status.Members != 2 {
			t.Errorf("after a departure: %d members, %d alive, want 2 and 2", status.Members, status.Alive)
		}
		c.stopAll()
	})
}

// A joiner learns its leader without an election message: by the leader's own
// heartbeat, once memberlist has introduced it.
func TestJoinerNeedsNoElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		for _, h := range c.hosts[1:] {
			c.start(h)
		}
		c.agrees(c.hosts[4])
		time.Sleep(10 * time.Second)
		var said frames
		said.count(c.hosts[1:]...)
		c.start(c.hosts[0])
		said.count(c.hosts[0])
		c.agrees(c.hosts[4])
		said.mu.Lock()
		for k, n := range said.of {
			if k != wire.Heartbeat && k != wire.HeartAck {
				t.Errorf("%d %v frames for a join", n, k)
			}
		}
		if said.of[wire.Heartbeat] == 0 || said.of[wire.HeartAck] == 0 {
			t.Errorf("counted %v: this test sees too little", said.of)
		}
		said.mu.Unlock()
		c.stopAll()
	})
}

// frames are what the seats of some hosts have sent, by kind.
type frames struct {
	mu sync.Mutex
	of map[wire.Kind]int
}

// count counts what these hosts send from now on.
func (f *frames) count(hosts ...*testHost) {
	for _, h := range hosts {
		h.agent.call(nil, func() { h.agent.seat.around = counted{h.agent.seat.around, f} })
	}
}

// counted is what a seat has around it while its frames are counted.
type counted struct {
	surroundings
	by *frames
}

func (c counted) send(to netip.AddrPort, f wire.Frame) {
	c.by.mu.Lock()
	if c.by.of == nil {
		c.by.of = map[wire.Kind]int{}
	}
	c.by.of[f.Kind]++
	c.by.mu.Unlock()
	c.surroundings.send(to, f)
}

// A partition of a minute, which memberlist never heals by itself: afterwards
// there is one cluster with one leader, and no hook ran twice for an epoch.
func TestPartitionHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(c.hosts[4])
		c.lan.Partition([]string{"n1", "n2"}, []string{"n3", "n4", "n5"})
		time.Sleep(time.Minute)
		if s := c.hosts[0].agent.Status(); s.Leader == nil || s.Leader.Name != "n2" {
			t.Errorf("the smaller part follows %+v, want n2", s.Leader)
		}
		c.lan.Heal()
		time.Sleep(40 * time.Second)
		c.agrees(c.hosts[4])
		for _, h := range c.hosts {
			seen := map[string]bool{}
			for _, line := range h.hooks.ran() {
				var kind string
				var epoch uint64
				fmt.Sscan(line, &kind, &epoch)
				key := fmt.Sprint(kind, epoch)
				if seen[key] {
					t.Errorf("%s ran %s of epoch %d twice", h.name, kind, epoch)
				}
				seen[key] = true
			}
		}
		c.stopAll()
	})
}

// Two copies of one state directory: the later agent names the other and takes
// no part; the first goes on leading.
func TestSameIDIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for _, h := range c.hosts[1:] {
			c.start(h)
		}
		c.agrees(c.hosts[2])
		clone := c.hosts[0]
		copyState(t, c.hosts[2].dir, clone.dir)
		c.start(clone)
		err := <-clone.done
		clone.agent = nil
		if refusal, ok := err.(*Refusal); !ok || refusal.ExitCode() != 7 {
			t.Errorf("the copy ended with %v, want a refusal", err)
		}
		time.Sleep(20 * time.Second)
		// By id alone: membership may go on showing the copy's name for it.
		c.agreesWhen(c.hosts[2], func(l control.Node) bool { return l.ID == c.hosts[2].agent.seat.state.ID.String() })
		c.hosts[2].expectHooks(t, "become-leader 1 boot")
		c.stopAll()
	})
}

var _ control.Backend = (*agent)(nil)

// clockOnly is all that some need to be around a seat.
type clockOnly struct {
	surroundings
	clock func() time.Time
}

func (c clockOnly) now() time.Time { return c.clock() }

// Everybody is stopped at the same moment: each hands over to others that leave
// too, and all of them end.
func TestEverybodyStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 5)
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(c.hosts[4])
		time.Sleep(5 * time.Second)
		for _, h := range c.hosts {
			h.stop()
		}
		late := time.After(20 * time.Second)
		for _, h := range c.hosts {
			select {
			case err := <-h.done:
				if err != nil {
					t.Errorf("%s stopped with %v", h.name, err)
				}
				h.agent = nil
			case <-late:
				t.Fatalf("%s has not stopped after 20 s: %+v", h.name, h.agent.Status())
			}
		}
		c.stopAll()
	})
}

// An agent that is stopped while it cleans up after its former life has not
// cleaned up: the next one does.
func TestStoppedDuringCleanUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		h := c.hosts[0]
		s := mustOpen(t, h.dir)
		owed := someState(3)
		if err := s.write(owed); err != nil {
			t.Fatal(err)
		}
		s.close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err := Run(ctx, Config{Cluster: "test", Name: h.name, StateDir: h.dir, Runner: h.hooks, JobRunner: newFakeJobs(h.name, &jobLog{}, 0), Now: time.Now,
			Listen: func() (transport.LAN, error) { return c.lan.Host(h.name, h.addr), nil }})
		if err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, h.dir)
		defer s.close()
		if s.saved.Promoted != owed.Promoted || s.saved.Incarnation != owed.Incarnation {
			t.Errorf("the disk holds %+v, want %+v", s.saved, owed)
		}
	})
}
