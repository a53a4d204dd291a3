package peers

import (
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
)

// told is what a hook of alpha is told.
func told(kind hooks.Kind, cause string) Told {
	return Told{Kind: kind, Cause: cause, Cluster: "main", Epoch: "3", Node: "alpha", Leader: "beta",
		input: strings.NewReader(`{"self":{"priority":150},"members":[{"name":"alpha","addr":"10.0.0.1:7950","status":"alive"},` +
			`{"name":"beta","addr":"[fd00::2]:7950","status":"left"}]}`)}
}

// Each cause of the end of a leadership has a word of the other program's.
func TestWords(t *testing.T) {
	for _, tt := range []struct {
		kind                hooks.Kind
		cause               string
		keepalived, patroni string
	}{
		{hooks.BecomeLeader, "boot", "MASTER", "on_role_change primary"},
		{hooks.BecomeLeader, "stopped", "MASTER", "on_role_change primary"},
		{hooks.LoseLeadership, "preempted", "BACKUP", "on_role_change replica"},
		{hooks.LoseLeadership, "agent-died", "BACKUP", "on_role_change replica"},
		{hooks.LoseLeadership, "lease-expired", "BACKUP", "on_role_change replica"},
		{hooks.LoseLeadership, "started", "BACKUP", "on_start replica"},
		{hooks.LoseLeadership, "unclean-restart", "BACKUP", "on_start replica"},
		{hooks.LoseLeadership, "stopped", "STOP", "on_stop primary"},
		{hooks.LoseLeadership, "check-failed", "FAULT", "on_role_change replica"},
		{hooks.LoseLeadership, "link-lost", "FAULT", "on_role_change replica"},
		{hooks.LoseLeadership, "disk-failed", "FAULT", "on_role_change replica"},
	} {
		k, err := Keepalived{Kind: "INSTANCE", Name: "VI_1"}.Call(told(tt.kind, tt.cause))
		if want := []string{"INSTANCE", "VI_1", tt.keepalived, "150"}; err != nil || !slices.Equal(k.Args, want) {
			t.Errorf("keepalived, %s %s: %q, %v, expected %q", tt.kind, tt.cause, k.Args, err, want)
		}
		p, err := Patroni{Primary: "primary"}.Call(told(tt.kind, tt.cause))
		if want := strings.Fields(tt.patroni + " main"); err != nil || !slices.Equal(p.Args, want) {
			t.Errorf("patroni, %s %s: %q, %v, expected %q", tt.kind, tt.cause, p.Args, err, want)
		}
	}
}

func TestSerfNamesWhoIsSo(t *testing.T) {
	for news, want := range map[string]struct{ event, input string }{
		"joined":    {"member-join", "alpha\t10.0.0.1\tweb\tdc=a\\tb,role=web\n"},
		"restarted": {"member-update", "alpha\t10.0.0.1\tweb\tdc=a\\tb,role=web\n"},
		"left":      {"member-leave", "beta\tfd00::2\t\t\n"},
		"failed":    {"member-failed", ""},
	} {
		got, err := Serf{Tags: map[string]string{"role": "web", "dc": "a\tb"}}.Call(told(hooks.MemberChange, news))
		if err != nil || string(got.Input) != want.input || !slices.Contains(got.Env, "SERF_EVENT="+want.event) ||
			!slices.Contains(got.Env, "SERF_TAG_DC=a\tb") || !slices.Contains(got.Env, "SERF_SELF_ROLE=web") {
			t.Errorf("%s: %q, %q, %v", news, got.Env, got.Input, err)
		}
	}
}

func TestSerfsUserEvents(t *testing.T) {
	for kind, who := range map[hooks.Kind]string{hooks.BecomeLeader: "alpha\n", hooks.LoseLeadership: "beta\n", hooks.LeaderChange: "beta\n"} {
		got, err := Serf{}.Call(told(kind, "boot"))
		want := []string{"SERF_EVENT=user", "SERF_SELF_NAME=alpha", "SERF_SELF_ROLE=", "SERF_USER_EVENT=" + string(kind), "SERF_USER_LTIME=3"}
		if err != nil || string(got.Input) != who || !slices.Equal(got.Env, want) {
			t.Errorf("%s: %q, %q, %v", kind, got.Env, got.Input, err)
		}
	}
	nobody := told(hooks.LeaderChange, "leader-failed")
	nobody.Leader = ""
	if got, err := (Serf{}).Call(nobody); err != nil || len(got.Input) > 0 {
		t.Errorf("where nobody leads: %q, %v", got.Input, err)
	}
}

// Notifications are nothing that these programs know.
func TestRefused(t *testing.T) {
	for _, call := range []func(Told) (Call, error){Keepalived{}.Call, Ucarp{}.Call, Patroni{}.Call} {
		if _, err := call(told(hooks.LeaderChange, "boot")); err == nil || !strings.Contains(err.Error(), "has no call for leader-change") {
			t.Errorf("got %v", err)
		}
	}
	unknown := told(hooks.BecomeLeader, "boot")
	unknown.input = strings.NewReader(`{"self":{}}`)
	if _, err := (Keepalived{}).Call(unknown); err == nil || !strings.Contains(err.Error(), "does not say this host's priority") {
		t.Errorf("got %v", err)
	}
}

// The words are the election's.
func TestCausesAreTheElections(t *testing.T) {
	if CauseStopped != string(election.Stopped) || CauseUncleanRestart != string(election.UncleanRestarted) {
		t.Errorf("the election says %s and %s", election.Stopped, election.UncleanRestarted)
	}
	unfit := []string{string(election.LinkLost), string(election.CheckFailed), string(election.DiskFailed)}
	if got := Faults(); !slices.Equal(got, unfit) {
		t.Errorf("faults are %q, the election's %q", got, unfit)
	}
}
