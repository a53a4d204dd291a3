package page_test

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/httpd"
	"github.com/bully-agent/bully-agent/internal/page"
	"github.com/bully-agent/bully-agent/internal/test/waiting"
)

// Most of the time browsers are waited for.
func TestMain(m *testing.M) {
	waiting.Together(4)
	os.Exit(m.Run())
}

// fakeAgent says what a test puts into it. It is a Backend as far as strangers ask.
type fakeAgent struct {
	control.Backend // nil: nobody asks for the rest of it
	mu              sync.Mutex
	ring            *control.Ring
	status          control.Status
	members         []control.Member
	history         []control.Leadership
	jobs            []control.Job
}

func (f *fakeAgent) with(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeAgent) Status() control.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Uptime = time.Since(s.Since).Seconds() + 3700
	return s
}

func (f *fakeAgent) Members() []control.Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.members)
}

func (f *fakeAgent) History() []control.Leadership {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.history)
}

func (f *fakeAgent) Jobs(context.Context, int) ([]control.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.jobs), nil
}

func (f *fakeAgent) Events(since uint64) ([]control.Event, <-chan struct{}) {
	f.mu.Lock()
	ring := f.ring
	f.mu.Unlock()
	return ring.Events(since)
}

// newFake is a cluster of three whose leader answers, with a past.
func newFake() *fakeAgent {
	now := time.Now()
	ids := []string{"1cc9c68d-e223-4c87-b963-71787ce2dc6d", "2e084561-ed55-466a-b982-566e2ed806af", "3236769e-b1c3-4c87-9f6a-cc9c68dfe223"}
	heard := func(ms int64) *int64 { return &ms }
	members := []control.Member{
		{ID: ids[0], Name: "alpha", Addr: "192.168.1.11:7950", Status: "alive", Role: "voter", Priority: 200, Voter: true, Self: true, Leader: true, Incarnation: 7},
		{ID: ids[1], Name: "beta", Addr: "192.168.1.12:7950", Status: "alive", Role: "voter", Priority: 100, Voter: true, RTTMS: 0.33, HeardMS: heard(12)},
		{ID: ids[2], Name: "gamma", Addr: "192.168.1.13:7950", Status: "suspect", Role: "voter", Priority: 100, Voter: true, RTTMS: 14.2, HeardMS: heard(4200)},
		{ID: "4", Name: "omega", Addr: "192.168.1.14:7950", Status: "dead", Role: "observer", Priority: 100, HeardMS: heard(3_700_000)},
	}
	node := func(i int) control.Node {
		return control.Node{ID: members[i].ID, Name: members[i].Name, Addr: members[i].Addr}
	}
	f := &fakeAgent{members: members, ring: &control.Ring{}}
	leader, remain := node(0), int64(387)
	f.status = control.Status{Version: "v1.2.3", Cluster: "home-lab", Self: members[0], Role: "leader", State: "lead", Cause: "handed-over",
		Leader: &leader, LeaderIsSelf: true, Ready: true, Epoch: control.Epoch{Counter: 42, Owner: ids[0]}, Since: now.Add(-190 * time.Minute),
		Mode: "available", Promise: "one leader in every connected part of the network; two parts that cannot reach each other have one each",
		Algorithm: "classic", Preempt: "priority", Profile: "lan", Members: 4, Alive: 2, Silent: []string{"gamma"}, LeaseRemainMS: &remain,
		LastHook: &control.Hook{Event: "become-leader", Epoch: control.Epoch{Counter: 42}, OK: true, TookMS: 3.4, Time: now}}
	at := now.Add(-50 * time.Hour)
	add := func(who int, lasts time.Duration, ended string, gap time.Duration) {
		l := control.Leadership{Epoch: control.Epoch{Counter: uint64(len(f.history) + 28), Owner: ids[who]}, Leader: node(who), From: at, Began: "no-answer", Self: who == 0}
		if lasts > 0 {
			l.To, l.Ended = at.Add(lasts), ended
			at = l.To.Add(gap)
		}
		f.history = append(f.history, l)
	}
	add(0, 13*time.Hour, "process-gone", 14*time.Millisecond)
	add(1, 41*time.Minute, "preempted", 3*time.Millisecond)
	add(0, 9*time.Hour, "leader-failed", 391*time.Millisecond)
	add(2, 2*time.Hour, "leader-failed", 402*time.Millisecond)
	add(1, 5*time.Hour, "leader-resigned", 2*time.Millisecond)
	add(0, 8*time.Hour, "process-gone", 17*time.Millisecond)
	add(1, 90*time.Minute, "leader-resigned", 4*time.Millisecond)
	add(0, 4*time.Minute, "link-lost", 2300*time.Millisecond)
	add(1, 20*time.Minute, "preempted", 5*time.Millisecond)
	add(0, 2*time.Hour, "process-gone", 22*time.Millisecond)
	add(2, 3*time.Hour, "process-gone", 12*time.Millisecond)
	add(1, 70*time.Minute, "leader-resigned", 3*time.Millisecond)
	add(2, 30*time.Minute, "lease-expired", 120*time.Millisecond)
	add(1, now.Add(-190*time.Minute).Sub(at)-4*time.Millisecond, "preempted", 4*time.Millisecond)
	add(0, 0, "", 0)
	exit := 3
	f.jobs = []control.Job{
		{Name: "nightly-dump", Schedule: "30 2 * * *", Timezone: "Europe/Berlin", State: "idle", Next: []time.Time{now.Add(7*time.Hour + 12*time.Minute)},
			Last: &control.JobRun{Host: "alpha", Outcome: "succeeded", Run: "nightly-dump/41", Started: now.Add(-17 * time.Hour), Ended: now.Add(-17*time.Hour + 94*time.Second)}},
		{Name: "mail-queue", Schedule: "*/5 * * * *", Timezone: "UTC", State: "running", Next: []time.Time{now.Add(140 * time.Second)},
			Open: []control.JobRun{{Host: "alpha", Attempt: 1, Started: now.Add(-12 * time.Second), Phase: "running", Outcome: "open"}},
			Last: &control.JobRun{Host: "beta", Outcome: "failed", Exit: &exit, Run: "mail-queue/42", Started: now.Add(-5 * time.Minute), Ended: now.Add(-5*time.Minute + 2*time.Second)}},
		{Name: "rotate-tokens", Schedule: "@every 6h", Timezone: "UTC", State: "paused", Paused: true, Next: []time.Time{now.Add(time.Hour)}},
	}
	f.ring.Append(control.Event{Time: now.Add(-191 * time.Minute), Type: "start", Text: "agent started"})
	for i := 1; i < 3; i++ {
		f.ring.Append(control.Event{Time: now.Add(-191 * time.Minute), Type: "member", Member: members[i].Name, Cause: "joined", Text: members[i].Name + " joined (" + members[i].Addr + ")"})
	}
	f.ring.Append(control.Event{Time: now.Add(-190 * time.Minute), Type: "transition", Role: "leader", Cause: "handed-over", Leader: "alpha", Epoch: &f.status.Epoch, Text: "became leader"})
	f.ring.Append(control.Event{Time: now.Add(-190 * time.Minute), Type: "hook", Cause: "become-leader", Text: "hook become-leader succeeded", DurationMS: 3.4})
	f.ring.Append(control.Event{Time: now.Add(-5 * time.Minute), Type: "job", Cause: "failed", Text: "job mail-queue failed, exit 3"})
	f.ring.Append(control.Event{Time: now.Add(-time.Minute), Type: "warning", Cause: "settings", Text: "warning: settings"})
	return f
}

// A site is a server with the page, at one address for as long as the test lasts, though it comes and goes.
type site struct {
	t       testing.TB
	address string
	at      netip.AddrPort
	api     http.Handler
	end     context.CancelFunc
	ended   chan error
}

func serve(t testing.TB, f *fakeAgent) *site {
	t.Helper()
	s := &site{t: t, at: netip.MustParseAddrPort("127.0.0.1:0"), api: control.Public(f, nil)}
	s.start()
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *site) start() {
	s.t.Helper()
	l, err := httpd.Listen(httpd.Config{Listen: s.at})
	if err != nil {
		s.t.Fatal(err)
	}
	s.at = l.Addr().(*net.TCPAddr).AddrPort()
	s.address = "http://" + s.at.String() + "/"
	ctx, cancel := context.WithCancel(context.Background())
	s.end, s.ended = cancel, make(chan error, 1)
	go func() { s.ended <- httpd.New(l, nil, nil).Serve(ctx, s.api, page.Handler(), nil) }()
}

// stop closes the port and all connections. It may be called again.
func (s *site) stop() {
	if s.end == nil {
		return
	}
	s.end()
	if err := <-s.ended; err != nil {
		s.t.Errorf("serve: %v", err)
	}
	s.end = nil
}
