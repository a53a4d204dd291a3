package examples

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The service is stopped on the old leader before it is started on the new one. The configuration is the example's own.
func TestServiceFollowsTheLeader(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	calls := fake(t, bin, "systemctl", "")
	agents := newAgents(t, installed(t, "systemd-service"), []string{bin}, "alpha", "beta")
	alpha, beta := agents[0], agents[1]
	alpha.start()
	alpha.leads()
	beta.start()
	if out, code := alpha.cli("wait", "--for", "members=2", "--timeout", patience.String()); code != 0 {
		t.Fatalf("alpha does not find beta: exit code %d\n%s", code, out)
	}
	alpha.stop()
	beta.leads()
	beta.stop()
	want := []string{"alpha start ticker.service", "alpha stop ticker.service",
		"beta start ticker.service", "beta stop ticker.service"}
	if got := lines(t, calls, len(want)); !slices.Equal(got, want) {
		t.Errorf("systemctl was called with %q, expected %q", got, want)
	}
}

// A service that cannot be started makes nobody ready.
func TestFailedStartIsNotReady(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	calls := fake(t, bin, "systemctl", `test "$1" != start`)
	alpha := newAgents(t, installed(t, "systemd-service"), []string{bin}, "alpha")[0]
	alpha.start()
	lines(t, calls, 1)
	if out, code := alpha.cli("is-leader"); code != 1 {
		t.Errorf("is-leader: exit code %d, expected 1\n%s", code, out)
	}
}

// systemd understands the units, and the drop-in together with those that the README installs with it.
func TestUnitsAreUnderstood(t *testing.T) {
	analyze := tool(t, "systemd-analyze")
	dir := t.TempDir()
	dropIns := filepath.Join(dir, "bully-agent.service.d")
	self := filepath.Join(binDir, "bully-agent")
	programs := []string{"/usr/bin/bully-agent", self, "/usr/local/bin/ticker", absolute(t, "systemd-service", "ticker"),
		"/usr/bin/systemctl", self, "User=bully-agent", "User=root", "Group=bully-agent", "Group=root"}
	for from, to := range map[string]string{
		"systemd-service/ticker.service":      dir,
		"systemd-service/ticker-held.service": dir,
		"systemd-service/follows-leader.conf": dropIns,
		"virtual-ip/release.conf":             dropIns,
		"../systemd/bully-agent.service":      dir,
		"../systemd/root-hooks.conf":          dropIns,
	} {
		mkdir(t, to)
		write(t, filepath.Join(to, filepath.Base(from)), strings.NewReplacer(programs...).Replace(read(t, from)), 0o644)
	}
	units := files(t, filepath.Join(dir, "*.service"))
	ours := regexp.MustCompile(`(?m)^.*(bully-agent|ticker|follows-leader|release).*$`)
	out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, units...)...).CombinedOutput()
	if found := ours.FindAllString(string(out), -1); len(found) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, strings.Join(found, "\n"))
	}
	// The look at its output must be able to find something.
	broken := filepath.Join(dir, "ticker.service")
	write(t, broken, strings.Replace(read(t, broken), "TimeoutStopSec=", "TimeoutsStopSec=", 1), 0o644)
	out, _ = exec.Command(analyze, "verify", "--man=no", broken).CombinedOutput()
	if !ours.Match(out) {
		t.Errorf("systemd-analyze verify says nothing of TimeoutsStopSec=:\n%s", out)
	}
}
