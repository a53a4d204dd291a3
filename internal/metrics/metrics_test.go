package metrics

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/bully-agent/bully-agent/internal/control"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 250_000_000, time.UTC)

// fakeAgent is a Source that says what a test puts into it.
type fakeAgent struct {
	status  control.Status
	members []control.Member
	jobs    []control.Job
	runs    []control.HookRun
	owes    bool
	broken  error
	asked   []uint64
}

func (f *fakeAgent) Status() control.Status    { return f.status }
func (f *fakeAgent) Members() []control.Member { return f.members }
func (f *fakeAgent) LoseHookOwed() bool        { return f.owes }

func (f *fakeAgent) Jobs(context.Context, int) ([]control.Job, error) { return f.jobs, f.broken }

func (f *fakeAgent) RunsAfter(seq uint64) ([]control.HookRun, error) {
	f.asked = append(f.asked, seq)
	return f.runs, f.broken
}

// busy has something of everything.
func busy() *fakeAgent {
	remain := int64(287)
	self := control.Member{ID: "a", Name: "alpha", Status: "alive", Self: true}
	return &fakeAgent{
		status: control.Status{Version: "1.2.3", Self: self, Leader: &control.Node{ID: "a", Name: "alpha"}, LeaderIsSelf: true, Ready: true,
			Epoch: control.Epoch{Counter: 7, Owner: "a"}, LeaseRemainMS: &remain, Quorum: &control.Quorum{Need: 2, Have: 3},
			Checks:   []control.Check{{Name: "web", State: "passes"}, {Name: "disk", State: "pending"}},
			Counters: map[string]uint64{"transition_told-of-leader": 2, "frame_checksum": 5, "seal_dropped_replay": 4, "send_error": 9}},
		members: []control.Member{self, {ID: "b", Name: "beta", Status: "alive", RTTMS: 0.5}, {ID: "c", Name: "gamma", Status: "dead", RTTMS: 3}},
		jobs:    []control.Job{{Name: "backup", LastSuccess: noon, Due: noon.Add(-time.Hour)}, {Name: "report", Paused: true}},
		runs: []control.HookRun{{Seq: 1, Event: "become-leader", Started: noon.Add(-time.Hour), OK: true},
			{Seq: 2, Event: "become-leader", Started: noon, OK: true, TookMS: 20}, {Seq: 3, Event: "leader-change", Started: noon, TookMS: 2000}},
	}
}

const expected = `
bully_check_up{check="disk"} 0
bully_check_up{check="web"} 1
bully_epoch 7
bully_frames_dropped_total{reason="checksum"} 5
bully_frames_dropped_total{reason="seal-replay"} 4
bully_hook_duration_seconds_bucket{hook="become-leader",le="0.01"} 0
bully_hook_duration_seconds_bucket{hook="become-leader",le="0.03"} 1
bully_hook_duration_seconds_count{hook="become-leader"} 1
bully_hook_duration_seconds_sum{hook="leader-change"} 2
bully_hook_runs_total{hook="become-leader",result="failed"} 0
bully_hook_runs_total{hook="become-leader",result="succeeded"} 1
bully_hook_runs_total{hook="leader-change",result="failed"} 1
bully_job_due_timestamp_seconds{job="backup"} 1.79525880025e+09
bully_job_last_success_timestamp_seconds{job="backup"} 1.79526240025e+09
bully_job_paused{job="backup"} 0
bully_job_paused{job="report"} 1
bully_leader 1
bully_lease_remaining_seconds 0.287
bully_lose_hook_owed 0
bully_members{status="alive"} 2
bully_members{status="dead"} 1
bully_members{status="left"} 0
bully_members{status="suspect"} 0
bully_members{status="told"} 0
bully_ready 1
bully_round_trip_seconds{peer="beta"} 0.0005
bully_transitions_total{cause="told-of-leader"} 2
bully_voters_heard 3
`

func text(t *testing.T, e *Exporter) string {
	t.Helper()
	out, contentType, err := e.Text("", false)
	if err != nil || !strings.HasPrefix(contentType, "text/plain; version=0.0.4") {
		t.Fatalf("%q, %v", contentType, err)
	}
	return string(out)
}

func TestWhatIsShown(t *testing.T) {
	f := busy()
	e := New(f, noon.Add(-time.Minute))
	got := text(t, e)
	for line := range strings.Lines(strings.TrimSpace(expected)) {
		if !strings.Contains(got, "\n"+strings.TrimSpace(line)+"\n") {
			t.Errorf("not there: %s", line)
		}
	}
	if strings.Contains(got, "go_") || strings.Contains(got, "send_error") || strings.Contains(got, `peer="gamma"`) {
		t.Error("what should not be there is:\n" + got)
	}
	if !strings.Contains(got, `bully_build_info{goversion="go1.`) || !strings.Contains(got, `,version="1.2.3"} 1`) {
		t.Error("no build info")
	}
	text(t, e) // the same runs again count for nothing
	if again := text(t, e); !strings.Contains(again, `bully_hook_runs_total{hook="become-leader",result="succeeded"} 1`) {
		t.Error("a run is counted twice")
	}
	if f.asked[0] != 0 || f.asked[1] != 3 {
		t.Errorf("asked for runs after %v", f.asked)
	}
	with, _, err := e.Text("", true)
	if err != nil || !strings.Contains(string(with), "\ngo_goroutines ") {
		t.Errorf("Go's own are not there: %v", err)
	}
	open, contentType, err := e.Text("application/openmetrics-text;version=1.0.0", false)
	if err != nil || !strings.HasSuffix(string(open), "# EOF\n") || !strings.HasPrefix(contentType, "application/openmetrics-text") {
		t.Errorf("OpenMetrics: %q, %v", contentType, err)
	}
}

// bully_leader is what is-leader says, by the same code.
func TestLeaderIsWhoMayAct(t *testing.T) {
	over := int64(0)
	for name, change := range map[string]func(*control.Status){
		"hook runs":     func(s *control.Status) { s.Ready = false },
		"lease over":    func(s *control.Status) { s.LeaseRemainMS = &over },
		"no lease":      func(s *control.Status) { s.LeaseRemainMS = nil },
		"another leads": func(s *control.Status) { s.LeaderIsSelf = false },
		"nobody leads":  func(s *control.Status) { s.LeaderIsSelf, s.Leader = false, nil },
	} {
		f := busy()
		change(&f.status)
		if got := text(t, New(f, noon)); !strings.Contains(got, "\nbully_leader 0\n") {
			t.Errorf("%s: bully_leader is not 0", name)
		}
	}
	f := busy()
	f.owes, f.status.Quorum = true, nil
	if got := text(t, New(f, noon)); !strings.Contains(got, "\nbully_lose_hook_owed 1\n") || strings.Contains(got, "bully_voters_heard") {
		t.Errorf("owed, and without voters:\n%s", got)
	}
}

// What other hosts are called makes no more series than there is room for, and no metric twice.
func TestPeersAreBounded(t *testing.T) {
	f := busy()
	f.members = nil
	for i := range 500 {
		name := fmt.Sprintf("host%03d", i/2) // two of each name
		f.members = append(f.members, control.Member{ID: fmt.Sprint(i), Name: name, Status: "alive", RTTMS: float64(1 + i%2)})
	}
	f.members = append(f.members, control.Member{ID: "x", Name: "bad\xff\"\n", Status: "alive", RTTMS: 1})
	got := text(t, New(f, noon))
	if n := strings.Count(got, "\nbully_round_trip_seconds{"); n != maxPeers {
		t.Errorf("%d peers, want %d", n, maxPeers)
	}
	if !strings.Contains(got, `bully_round_trip_seconds{peer="host007"} 0.001`) {
		t.Error("of two with a name it is not the one of the lower id")
	}
}

// What cannot be asked is left out, and the rest is there.
func TestHalfAnAnswer(t *testing.T) {
	f := busy()
	f.broken = errors.New("the loop stands still")
	if got := text(t, New(f, noon)); !strings.Contains(got, "\nbully_leader 1\n") || strings.Contains(got, "bully_job_") {
		t.Error(got)
	}
}

func TestLint(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(newCollector(busy(), noon))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Prometheus's own tool has nothing to say.
func TestPromtool(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("skipped: " + err.Error())
	}
	check := exec.Command(tool, "check", "metrics")
	check.Stdin = strings.NewReader(text(t, New(busy(), noon)))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// docs/monitoring.md has each metric with its labels, and no other.
func TestTheDocumentHasTheMetrics(t *testing.T) {
	page, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(bully_\\w+)` \\| ([^|]*) ?\\|").FindAllStringSubmatch(string(page), -1) {
		has[m[1]] = strings.NewReplacer("`", "", " ", "").Replace(m[2])
	}
	described := make(chan *prometheus.Desc, 100)
	newCollector(busy(), noon).Describe(described)
	close(described)
	for d := range described {
		m := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{(.*)\}\}`).FindStringSubmatch(d.String())
		if labels, ok := has[m[1]]; !ok || labels != m[2] {
			t.Errorf("docs/monitoring.md has %s with labels %q, want %q", m[1], labels, m[2])
		}
		delete(has, m[1])
	}
	for name := range has {
		t.Errorf("docs/monitoring.md has %s, which is not there", name)
	}
}
