package cli

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/wire"
)

// configured loads settings as environment variables give them, of which there
// is one for each.
func configured(t *testing.T, env map[string]string) *config.Config {
	t.Helper()
	cfg, err := config.Load(config.Source{Env: func(name string) (string, bool) {
		if value, ok := env[name]; ok {
			return value, ok
		}
		fixed, ok := map[string]string{"BULLY_NAME": "alpha", "BULLY_STATE_DIR": "/state", "BULLY_SOCKET": "/state/sock", "BULLY_BIND": "127.0.0.1:7950"}[name]
		return fixed, ok
	}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestSettingsReachTheAgent(t *testing.T) {
	got := agentConfig(configured(t, map[string]string{
		"BULLY_CLUSTER": "lab", "BULLY_PRIORITY": "7", "BULLY_NODE_ROLE": "witness", "BULLY_JOIN": "10.0.0.2,10.0.0.3:80",
		"BULLY_PROFILE": "fast", "BULLY_PREEMPT": "never", "BULLY_PREEMPT_DELAY": "3s", "BULLY_SETTLE": "4s",
		"BULLY_TAKEOVER_DELAY": "5s", "BULLY_HEARTBEAT": "30ms", "BULLY_LEASE": "300ms", "BULLY_STOP_BUDGET": "70ms",
		"BULLY_ALGORITHM": "smallest", "BULLY_EXPECT": "5", "BULLY_CANDIDATE_SET": "4", "BULLY_KNOWN_MINIMUM": "6",
		"BULLY_MIN_ACKS": "2", "BULLY_MIN_MEMBERS": "3", "BULLY_ADVERTISE": "10.0.0.9:1234",
		"BULLY_ON_BECOME_LEADER": "a", "BULLY_ON_LOSE_LEADERSHIP": "b", "BULLY_ON_LEADER_CHANGE": "c", "BULLY_ON_MEMBER_CHANGE": "d",
		"BULLY_HOOK_TIMEOUT": "6s", "BULLY_HOOK_GRACE": "7s",
	}))
	want := election.Config{Priority: 7, Part: election.Witness, Algorithm: election.Smallest, Preempt: election.PreemptNever,
		Expect: 5, CandidateSet: 4, KnownMinimum: 6,
		PreemptDelay: 3 * time.Second, Settle: 4 * time.Second, TakeoverDelay: 5 * time.Second, Heartbeat: 30 * time.Millisecond,
		Lease: 300 * time.Millisecond, StopBudget: 70 * time.Millisecond, MinAcks: 2, MinMembers: 3}
	if got.Election != want {
		t.Errorf("election: got\n%+v, expected\n%+v", got.Election, want)
	}
	wantHooks := hooks.Config{Timeout: 6 * time.Second, Grace: 7 * time.Second,
		Commands: map[hooks.Kind]hooks.Command{hooks.BecomeLeader: {Shell: "a"}, hooks.LoseLeadership: {Shell: "b"},
			hooks.LeaderChange: {Shell: "c"}, hooks.MemberChange: {Shell: "d"}}}
	if !reflect.DeepEqual(got.Hooks, wantHooks) {
		t.Errorf("hooks: got\n%+v, expected\n%+v", got.Hooks, wantHooks)
	}
	if got.Cluster != "lab" || got.Name != "alpha" || got.Profile != "fast" || got.StateDir != "/state" || got.Socket != "/state/sock" ||
		!slices.Equal(got.Seeds, []string{"10.0.0.2:7950", "10.0.0.3:80"}) || got.Advertise.String() != "10.0.0.9:1234" {
		t.Errorf("agent: got %+v", got)
	}
}

// Every word that the configuration takes means something to the election.
func TestWordsHaveMeanings(t *testing.T) {
	words := map[string][]string{
		"BULLY_NODE_ROLE": slices.Sorted(maps.Keys(parts)), "BULLY_ALGORITHM": slices.Sorted(maps.Keys(algorithms)),
		"BULLY_PREEMPT": slices.Sorted(maps.Keys(policies)),
	}
	for env, known := range words {
		for _, word := range known {
			configured(t, map[string]string{env: word})
		}
		_, err := config.Load(config.Source{Env: func(name string) (string, bool) { return "no-such-word", name == env }})
		for _, word := range known {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s does not take %s: %v", env, word, err)
			}
		}
		if n := strings.Count(err.Error(), ",") + 2; n != len(known) {
			t.Errorf("%s has %d words, %d have a meaning: %v", env, n, len(known), err)
		}
	}
}

func TestDefaultsReachTheAgent(t *testing.T) {
	got := agentConfig(configured(t, nil)).Election
	want := election.Config{Priority: 100, Part: election.Voter, Algorithm: election.Classic, Preempt: election.PreemptPriority,
		PreemptDelay: time.Second, Settle: 2 * time.Second, Heartbeat: 50 * time.Millisecond, Lease: 400 * time.Millisecond,
		StopBudget: 100 * time.Millisecond, MinAcks: election.AutoMinAcks}
	if got != want {
		t.Errorf("got\n%+v, expected\n%+v", got, want)
	}
}

// What config takes, the election takes, and what one refuses of timers the other
// does: there is no setting that passes the check and stops the agent at its start.
func TestConfigAndElectionAgreeOnTimers(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	draw := func(least, most time.Duration) time.Duration {
		return (least + time.Duration(rng.Int64N(int64(most-least)+1))).Truncate(time.Millisecond)
	}
	taken, refused := 0, 0
	for range 2000 {
		heartbeat := draw(5*time.Millisecond, 100*time.Millisecond)
		length := draw(3*heartbeat+20*time.Millisecond, 9*heartbeat+20*time.Millisecond)
		env := map[string]string{"BULLY_NAME": "alpha", "BULLY_STATE_DIR": "/state", "BULLY_SOCKET": "/state/sock", "BULLY_BIND": "127.0.0.1:7950",
			"BULLY_HEARTBEAT": heartbeat.String(), "BULLY_LEASE": length.String(), "BULLY_STOP_BUDGET": draw(time.Millisecond, length).String(),
			"BULLY_EXPECT": []string{"0", "3", "5"}[rng.IntN(3)], "BULLY_MIN_MEMBERS": []string{"0", "3", "4"}[rng.IntN(3)]}
		cfg, err := config.Load(config.Source{Env: func(name string) (string, bool) { value, ok := env[name]; return value, ok }})
		if cfg == nil {
			refused++
			cfg = &config.Config{}
			e := &cfg.Election
			for name, d := range map[string]*time.Duration{"BULLY_HEARTBEAT": &e.Heartbeat, "BULLY_LEASE": &e.Lease, "BULLY_STOP_BUDGET": &e.StopBudget} {
				*d, _ = time.ParseDuration(env[name])
			}
			e.Expect, _ = strconv.Atoi(env["BULLY_EXPECT"])
			e.MinMembers, _ = strconv.Atoi(env["BULLY_MIN_MEMBERS"])
		}
		node := electionConfig(cfg)
		node.ID, node.Rand = wire.ID{1}, rng
		if _, electionErr := election.New(node, election.Saved{}, time.Time{}); (err == nil) != (electionErr == nil) {
			t.Fatalf("config says %v, election %v of %v", err, electionErr, env)
		}
		taken++
	}
	if taken -= refused; taken < 200 || refused < 200 {
		t.Errorf("%d taken, %d refused: the draw shows nothing", taken, refused)
	}
}

// A zero that the user wrote is not the "use your default" of the packages below.
func TestAConfiguredZeroIsNotTheDefault(t *testing.T) {
	got := agentConfig(configured(t, map[string]string{"BULLY_PREEMPT_DELAY": "0s", "BULLY_HOOK_GRACE": "0s"}))
	if d := got.Election.PreemptDelay; d <= 0 || d > time.Millisecond {
		t.Errorf("preempt_delay 0s became %v", d)
	}
	if d := got.Hooks.Grace; d <= 0 || d > time.Millisecond {
		t.Errorf("hooks.grace 0s became %v", d)
	}
}

func TestReloadTakesWhatItCanAndNamesTheRest(t *testing.T) {
	started := configured(t, nil)
	next := configured(t, map[string]string{"BULLY_PRIORITY": "9", "BULLY_JOIN": "10.0.0.2", "BULLY_LOG_LEVEL": "debug",
		"BULLY_ON_BECOME_LEADER": "new", "BULLY_CLUSTER": "other", "BULLY_LEASE": "500ms", "BULLY_STOP_BUDGET": "100ms"})
	got := reloaded(started, next, nil)
	if got.Priority != 9 || !slices.Equal(got.Seeds, []string{"10.0.0.2:7950"}) || got.LogLevel != hclog.Debug ||
		got.Hooks.Commands[hooks.BecomeLeader].Shell != "new" {
		t.Errorf("taken: %+v", got)
	}
	want := []control.Waiting{{Setting: "cluster", Now: "default", Then: "other"}, {Setting: "election.lease", Now: "400ms", Then: "500ms"}}
	if !slices.Equal(got.Waiting, want) {
		t.Errorf("needs a restart: %q, expected %q", got.Waiting, want)
	}
}

// A process that has given up its rights says nothing of a file that it cannot read: the next start can.
func TestTheNextStartReadsWhatAnAgentWithoutRightsCannot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: gives up root's rights")
	}
	path := filepath.Join(t.TempDir(), "agent.toml")
	if err := os.WriteFile(path, []byte("slip = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newReloader(configured(t, nil), nil, config.Source{Path: path, Env: func(string) (string, bool) { return "", false }})
	r.started.Node.User = "nobody"
	if isWhole, err := r.refusal(); isWhole || err == nil || !strings.Contains(err.Error(), "there is no such key") {
		t.Errorf("a file that it can read: all is seen: %t; %v", isWhole, err)
	}
	refusal := make(chan error)
	go func() {
		runtime.LockOSThread()                                                            // and the thread ends with the goroutine
		_, _, err := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)) // of this thread alone
		if err != 0 {
			t.Error(err)
		}
		isWhole, refused := r.refusal()
		if isWhole {
			t.Error("a file that only root can read: all is seen")
		}
		refusal <- refused
	}()
	if err := <-refusal; err != nil {
		t.Errorf("a file that only root can read: %v", err)
	}
}

// Who starts without a file and writes one later is told that a reload does not read it.
func TestReloadNamesAFileThatCameLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.toml")
	if got := unread("", path); len(got) > 0 {
		t.Errorf("no file is there: %q", got)
	}
	if err := os.WriteFile(path, []byte("cluster = \"home-lab\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if want := []control.Waiting{{Setting: "config", Then: path}}; !slices.Equal(unread("", path), want) {
		t.Errorf("waits for a restart: %q, expected %q", unread("", path), want)
	}
	if got := unread("/etc/other.toml", path); len(got) > 0 {
		t.Errorf("another file was named: %q", got)
	}
}

// What the agent applies is never called a restart's business by config's table.
func TestAppliedSettingsAreReloadable(t *testing.T) {
	known := 0
	for _, s := range config.Settings() {
		if applied[s.Key] {
			known++
			if !s.Reloadable {
				t.Errorf("%s is applied by a reload, and config says that it needs a restart", s.Key)
			}
		}
	}
	if known != len(applied) {
		t.Errorf("%d of the %d applied settings exist", known, len(applied))
	}
}
