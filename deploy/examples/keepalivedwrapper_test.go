package examples

import (
	"slices"
	"testing"
)

// The notify script gets what keepalived would give it.
func TestNotifyArguments(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ event, cause, want string }{
		{"become-leader", "boot", "INSTANCE VI_1 MASTER 150"},
		{"become-leader", "leader-failed", "INSTANCE VI_1 MASTER 150"},
		{"lose-leadership", "preempted", "INSTANCE VI_1 BACKUP 150"},
		{"lose-leadership", "unclean-restart", "INSTANCE VI_1 BACKUP 150"},
		{"lose-leadership", "link-lost", "INSTANCE VI_1 FAULT 150"},
		{"lose-leadership", "started", "INSTANCE VI_1 BACKUP 150"},
		{"lose-leadership", "stopped", "INSTANCE VI_1 STOP 150"},
	} {
		bin := t.TempDir()
		calls := fake(t, bin, "notify.sh", "")
		env := []string{"BULLY_NODE=alpha", "BULLY_EVENT=" + tt.event, "BULLY_CAUSE=" + tt.cause}
		out, code := bullyAgent(t, env, "as", "keepalived", "--name", "VI_1", "--priority", "150", "--", bin+"/notify.sh")
		if code != 0 {
			t.Errorf("%s: exit code %d\n%s", tt.event, code, out)
		}
		if got := lines(t, calls, 1); !slices.Equal(got, []string{"alpha " + tt.want}) {
			t.Errorf("%s because of %s: the script got %q, expected %q", tt.event, tt.cause, got, tt.want)
		}
	}
}

// What the script says is what the agent hears.
func TestNotifyFailureIsPassedOn(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	fake(t, bin, "notify.sh", "exit 3")
	env := []string{"BULLY_EVENT=become-leader", "BULLY_CAUSE=boot"}
	out, code := bullyAgent(t, env, "as", "keepalived", "--type", "GROUP", "--name", "VG_1", "--priority", "100", "--", bin+"/notify.sh")
	if code != 3 {
		t.Errorf("exit code %d, expected the script's 3\n%s", code, out)
	}
}

// The example as a whole: an agent with its configuration runs its notify script, which starts and stops a service.
func TestNotifyScriptFollowsTheLeader(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	calls := fake(t, bin, "systemctl", "")
	config := installed(t, "keepalived-wrapper", "/etc/keepalived")
	alpha := newAgents(t, config, []string{bin}, "alpha")[0]
	alpha.start()
	alpha.leads()
	alpha.stop()
	if got, want := lines(t, calls, 3), []string{"alpha stop haproxy", "alpha start haproxy", "alpha stop haproxy"}; !slices.Equal(got, want) {
		t.Errorf("systemctl was called with %q, expected %q", got, want)
	}
}
