package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakes stand for the programs that the maintainer scripts call: systemctl tells what runs and writes down what it is told, and
// the new version refuses who has BULLY_REFUSED.
var fakes = map[string]string{
	"systemctl": `#!/bin/sh
case $1 in
list-units) printf '%s loaded active running bully-agent, one leader\n' bully-agent.service bully-agent@web.service bully-agent@db.service ;;
*) cat; echo "$*" >>"$LOG"; [ "$2" != bully-agent@web.service ] ;;
esac
`,
	"bully-agent": `#!/bin/sh
cat
{ echo "[$*]"; env | grep ^BULLY_ | sort; } >>"$LOG"
[ -z "$BULLY_REFUSED" ] || { printf 'error: one\nerror: two\n' >&2; exit 7; }
`,
}

// An upgrade asks the new version of each agent that runs, with the variables of that one alone, and restarts those that it takes.
func TestUpgradeChecksEachAgent(t *testing.T) {
	dir := t.TempDir()
	for name, text := range fakes {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "default"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"bully-agent": "# a comment\n  BULLY_JOIN=a, b=c=  \nOTHER=x\nBULLY_ON_BECOME_LEADER=\"echo \\\"$(touch ran)\\\" \\\\ ; \\\n  exit\"\n" +
			"BULLY_CLUSTER='it is \\ $HOME'\nBULLY_x=1\nBULLY_ROLE\nBULLY_NAME=a\\ b",
		"bully-agent-db": "BULLY_REFUSED=1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, "default", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	common, err := os.ReadFile("common.sh")
	if err != nil {
		t.Fatal(err)
	}
	script := "set -eu\nctl() { systemctl \"$@\"; }\n" + strings.ReplaceAll(string(common), "/etc/default", filepath.Join(dir, "default")) + "restart_running\n"
	cmd := exec.Command("sh", "-c", script)
	log := filepath.Join(dir, "log")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "LOG=" + log, "BULLY_SOCKET=/of/the/caller"}
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	const wantSaid = "bully-agent: bully-agent@web.service did not start again; see: systemctl status bully-agent@web.service\n" +
		"bully-agent: bully-agent@db.service is not restarted, since this version refuses its configuration, and goes on as the version before: " +
		"error: one;error: two; mend it, then: systemctl restart bully-agent@db.service\n"
	if string(said) != wantSaid {
		t.Errorf("it says\n%sexpected\n%s", said, wantSaid)
	}
	did, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	const wantDid = "[config check --no-host]\nBULLY_CLUSTER=it is \\ $HOME\nBULLY_JOIN=a, b=c=\nBULLY_NAME=a b\n" +
		"BULLY_ON_BECOME_LEADER=echo \"$(touch ran)\" \\ ;   exit\ntry-restart bully-agent.service\n" +
		"[config check --no-host]\nBULLY_INSTANCE=web\ntry-restart bully-agent@web.service\n" +
		"[config check --no-host]\nBULLY_INSTANCE=db\nBULLY_REFUSED=1\n"
	if string(did) != wantDid {
		t.Errorf("it did\n%sexpected\n%s", did, wantDid)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a value was run")
	}
}
