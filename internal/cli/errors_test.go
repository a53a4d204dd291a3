package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/agent"
	"github.com/bully-agent/bully-agent/internal/config"
	"github.com/bully-agent/bully-agent/internal/control"
)

func TestExitCodes(t *testing.T) {
	_, badFlag := config.Load(config.Source{Flags: map[string][]string{"priority": {"many"}}})
	_, badFile := config.Load(config.Source{Path: "/nonexistent/agent.toml"})
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"done", nil, 0},
		{"plain failure", io.ErrUnexpectedEOF, 1},
		{"answer no", outcome(exitNo), 1},
		{"usage", usage("", "unknown command"), 2},
		{"wrong flag", badFlag, 2},
		{"no leader", fmt.Errorf("leader: %w", control.ErrNoLeader), 3},
		{"no leader, as the agent says it", &control.APIError{Status: 404, Code: "no_leader"}, 3},
		{"no agent", fmt.Errorf("%w at /x", control.ErrUnreachable), 4},
		{"too late", fmt.Errorf("ask: %w", context.DeadlineExceeded), 5},
		{"refused", &control.APIError{Status: 409, Message: "not now"}, 6},
		{"not in this agent", control.ErrUnsupported, 6},
		{"reload of a wrong file", &control.APIError{Status: 422, Message: "unknown key", Code: "invalid"}, 7},
		{"wrong file", badFile, 7},
		{"agent cannot start", fmt.Errorf("run: %w", &agent.Refusal{Err: errors.New("locked")}), 7},
		{"second signal", agent.ErrAborted, 1},
		{"agent cannot start for now", fmt.Errorf("run: %w", &agent.Refusal{Err: fmt.Errorf("state: %w", &fs.PathError{Op: "open", Err: unix.EMFILE})}), 1},
		{"no room for another process", fmt.Errorf("start keeper: %w", unix.EAGAIN), 1},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%s: exit code %d, expected %d", c.name, got, c.want)
		}
	}
}

func TestErrorsAreOneLineEach(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{outcome(1), ""},
		{errors.New("disk full"), "error: disk full\n"},
		{usage("use less", "too much"), "error: too much; hint: use less\n"},
		{errors.Join(errors.New("one"), errors.New("two")), "error: one\nerror: two\n"},
		{errors.New("file \x1b[31mred\a"), "error: file \\x1b[31mred\\a\n"},
		{&agent.Refusal{Err: errors.New("locked"), Hint: "unlock"}, "error: locked; hint: unlock\n"},
	} {
		if got := errorLines(c.err); got != c.want {
			t.Errorf("got %q, expected %q", got, c.want)
		}
	}
}

// commandLine runs the program inside this process; nothing here needs an agent.
func commandLine(args ...string) (code int, out, errs string) {
	var o, e strings.Builder
	code = Main(append([]string{program}, args...), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// What a slip of the finger costs: one line, in our words and not the library's.
func TestUsageErrors(t *testing.T) {
	known := oneOf(names(root().subcommands))
	for _, c := range []struct{ args, want string }{
		{"statsu", `error: unknown command "statsu": expected ` + known + `; hint: did you mean status?`},
		{"xyzzy", `error: unknown command "xyzzy": expected ` + known + `; hint: see bully-agent --help`},
		{"config chekc", `error: unknown command "chekc": expected check or show; hint: did you mean check?`},
		{"config", `error: a command is missing after bully-agent config: expected check or show; hint: see bully-agent config --help`},
		{"status foo --json", `error: unexpected argument "foo" before "--json": bully-agent status takes none; hint: flags come before arguments`},
		{"config check a b", `error: unexpected argument "b": bully-agent config check takes [FILE]; hint: see bully-agent config check --help`},
		{"--json status", `error: unknown flag --json for bully-agent; hint: see bully-agent --help`},
		{"run --prority 7", `error: unknown flag --prority for bully-agent run; hint: did you mean --priority?`},
		{"leader -q", `error: unknown flag -q for bully-agent leader; hint: see bully-agent leader --help`},
		{"run --priority", `error: --priority needs a value; hint: see bully-agent run --help`},
		{"status --json=maybe", `error: --json is a switch: expected true or false, found "maybe"; hint: see bully-agent status --help`},
		{"status ---json", `error: "---json" is not a flag; hint: see bully-agent status --help`},
		{"lab --nodes none", `error: --nodes is "none": expected a number from 1`},
		{"run --config=", `error: --config is empty: expected a file; hint: leave it out to read /etc/bully-agent/agent.toml if it exists`},
		{"step-down --for 10", `error: --for is "10": expected a time such as 500ms, 10s or 2h; hint: write --for 10s`},
		{"step-down --for soon", `error: --for is "soon": expected a time such as 500ms, 10s or 2h`},
		{"step-down --for 25h", `error: --for is 25h0m0s: expected at most 24h; hint: to keep a host out of it, lower its priority or make it an observer`},
		{"step-down beta", `error: unexpected argument "beta": bully-agent step-down takes none; hint: write --to beta`},
		{"step-down --to=", `error: --to is empty: expected a member's name or id; hint: see bully-agent members`},
		{"step-down --to beta gamma", `error: unexpected argument "gamma": bully-agent step-down takes none; hint: see bully-agent step-down --help`},
		{"step-down --to beta --for 1m", `error: --to and --for do not go together: expected one of them; hint: see bully-agent step-down --help`},
		{"step-down --for 1m --end", `error: --for and --end do not go together: expected one of them; hint: see bully-agent step-down --help`},
		{"handover --to beta", `error: the command handover is gone; hint: use bully-agent step-down --to NODE`},
		{"stand", `error: the command stand is gone; hint: use bully-agent step-down --end`},
		{"explain --lose-hook 1s", `error: the flag --lose-hook of bully-agent explain is gone; hint: ` + useExplain},
		{"replay x.rec", `error: the command replay is gone; hint: use the logs of all hosts under --log-level trace`},
		{"wait leader", `error: unexpected argument "leader": bully-agent wait takes none; hint: write --for leader`},
		{"forget", `error: the voter is missing: expected its name or id; hint: see bully-agent status for the voters`},
		{"forget beta --json", `error: unexpected argument "--json" after "beta": bully-agent forget takes NODE; hint: flags come before arguments`},
		{"forget beta --force", `error: unexpected argument "--force" after "beta": bully-agent forget takes NODE; hint: flags come before arguments`},
		{"run --expect 2", `error: --expect: 2 is no quorum that outlives the loss of a voter: expected 0 or 3–15; hint: 0 is available mode; with two hosts, a third small one with role = "witness" makes three`},
		{"run --algorithm raft", `error: --algorithm: "raft" is unknown: expected classic, enhanced or smallest`},
		{"events --since -1s", `error: --since is "-1s": expected a time such as 500ms, 10s or 2h`},
		{"help config chekc", `error: no help for "chekc": there is no such command; hint: see bully-agent config --help`},
	} {
		code, out, errs := commandLine(strings.Fields(c.args)...)
		if code != exitUsage || out != "" || errs != c.want+"\n" {
			t.Errorf("%s: exit code %d, out %q, got\n%sexpected\n%s", c.args, code, out, errs, c.want)
		}
	}
}
