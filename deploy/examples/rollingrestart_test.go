package examples

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// rolls runs the script with an ssh that answers as body says, and gives what it was asked.
func rolls(t *testing.T, body string, hosts ...string) (asked []string, output string, code int) {
	t.Helper()
	bin := t.TempDir()
	calls := fake(t, bin, "ssh", body)
	script := exec.Command("rolling-restart/rolling-restart.sh", hosts...)
	output, code = outcome(t, script, environ([]string{bin}, "PATIENCE=0"))
	for line := range strings.Lines(read(t, calls)) {
		asked = append(asked, strings.TrimSpace(line))
	}
	return asked, output, code
}

// Each host is asked for, put into maintenance, restarted, asked for again, and let lead
// again, before the next one.
func TestRollingRestartGoesHostByHost(t *testing.T) {
	t.Parallel()
	asked, output, code := rolls(t, "", "alpha", "beta")
	var want []string
	for _, h := range []string{"alpha", "beta"} {
		want = append(want, h+" bully-agent ok-to-stop", h+" bully-agent maintenance on --reason rolling-restart --for 1h",
			h+" systemctl restart bully-agent", h+" bully-agent ok-to-stop", h+" bully-agent maintenance off")
	}
	if code != 0 || !slices.Equal(asked, want) {
		t.Errorf("exit code %d\n%s\nasked\n%s", code, output, strings.Join(asked, "\n"))
	}
}

// Where the others cannot do without a host nothing is done to it, nor to the next.
func TestRollingRestartStopsBeforeHarm(t *testing.T) {
	t.Parallel()
	asked, output, code := rolls(t, `case $* in "beta bully-agent ok-to-stop") echo "no: 1 of 3 voters would be left"; exit 6;; esac`, "alpha", "beta", "gamma")
	if last := asked[len(asked)-1]; code == 0 || last != "beta bully-agent ok-to-stop" || !strings.Contains(output, "beta: no: 1 of 3 voters would be left") {
		t.Errorf("exit code %d after %q\n%s", code, last, output)
	}
}

// A leader that nobody can take over from refuses maintenance: it is not restarted.
func TestRollingRestartHeedsARefusal(t *testing.T) {
	t.Parallel()
	asked, output, code := rolls(t, `case $* in *"maintenance on"*) echo "error: nobody else can lead" >&2; exit 6;; esac`, "alpha")
	if code != 6 || len(asked) != 2 {
		t.Errorf("exit code %d after %q\n%s", code, asked, output)
	}
}
