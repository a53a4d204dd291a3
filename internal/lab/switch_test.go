package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	secrets "github.com/bully-agent/bully-agent/internal/key"
	"github.com/bully-agent/bully-agent/internal/lab/netlab"
)

// The same notify script under keepalived and under ours, by the same keepalived.conf, imported: two hosts each, faults, and
// on each host the calls of the script, in order and without their times. They are the same but where ours is set: what
// docs/switching.md says of that stands beside it.
func TestNotifyScriptUnderBoth(t *testing.T) {
	if os.Getenv("BULLY_E2E") == "" {
		t.Skip("skipped: it takes 80 s, and a machine on which keepalived does not miss its advertisements: set BULLY_E2E=all")
	}
	if err := mayUseNamespaces(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	keepalived, err := exec.LookPath("keepalived")
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	t.Setenv("TMPDIR", shortDir(t))
	lan, hosts, err := openLAN(4, netlab.Fine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lan.Close)
	theirs := newPair(t, "keepalived", hosts[:2], func(a *actor) []string {
		return []string{keepalived, "--dont-fork", "--vrrp", "--use-file", a.at("keepalived.conf"), "--pid", a.at("pid"),
			"--vrrp_pid", a.at("vrrp.pid"), "--log-console"}
	})
	ours := newPair(t, "bully-agent", hosts[2:], importing(t))

	for _, step := range []struct {
		name     string
		do       func(top, low *actor)
		top, low string // what keepalived says there, and ours
		ours     []string
	}{
		{name: "the better host starts", do: func(top, _ *actor) { top.start() }, top: "BACKUP MASTER"},
		{name: "the other starts", do: func(_, low *actor) { low.start() }, low: "BACKUP"},
		{name: "the leader is killed", do: func(top, _ *actor) { top.host.KillAll() }, low: "MASTER"},
		{name: "it returns", do: func(top, _ *actor) { top.start() }, top: "BACKUP MASTER", low: "BACKUP"},
		{name: "the leader is stopped", do: func(top, _ *actor) { top.stop() }, top: "STOP", low: "MASTER"},
		{name: "it returns again", do: func(top, _ *actor) { top.start() }, top: "BACKUP MASTER", low: "BACKUP"},
		// keepalived tells a host of its faults whether or not it leads, and that they have ended. Here the hand-over waits for the
		// script, and there is nothing to lose on a host that does not lead.
		{name: "a check fails on the leader", do: func(top, _ *actor) { top.breaks() }, top: "FAULT", low: "MASTER"},
		{name: "it passes again", do: func(top, _ *actor) { top.mends() }, top: "BACKUP MASTER", low: "BACKUP", ours: []string{"MASTER", "BACKUP"}},
		{name: "a check fails on the other", do: func(_, low *actor) { low.breaks() }, low: "FAULT", ours: []string{"", ""}},
		{name: "it passes again there", do: func(_, low *actor) { low.mends() }, low: "BACKUP", ours: []string{"", ""}},
		{name: "the leader is cut off", do: func(top, _ *actor) { top.must(top.host.Cut()) }, low: "MASTER"},
		// Of two leaders that of the higher epoch stays, which is the later one, before the better host takes its turn.
		{name: "it is back", do: func(top, _ *actor) { top.must(top.host.Plug()) }, low: "BACKUP", ours: []string{"BACKUP MASTER", "BACKUP"}},
		{name: "the other is stopped", do: func(_, low *actor) { low.stop() }, low: "STOP", ours: []string{"", ""}},
		{name: "the last is stopped", do: func(top, _ *actor) { top.stop() }, top: "STOP"},
	} {
		step.do(theirs.top, theirs.low)
		step.do(ours.top, ours.low)
		theirs.says(t, step.name, step.top, step.low)
		if step.ours == nil {
			step.ours = []string{step.top, step.low}
		}
		ours.says(t, step.name, step.ours[0], step.ours[1])
	}
}

// importing gives the command of an agent whose configuration is what import makes of keepalived's. That the addresses
// come and go is another test's.
func importing(t *testing.T) func(a *actor) []string {
	binary := buildAgent(t)
	bin := t.TempDir()
	mustWriteFile(t, filepath.Join(bin, "bully-agent"), fmt.Sprintf("#!/bin/sh\ncase $1 in vip) ;; *) exec %s \"$@\" ;; esac\n", binary), 0o700)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	secret := filepath.Join(t.TempDir(), keyFile)
	mustWriteFile(t, secret, string(secrets.Ring{secrets.Generate(time.Now(), nil)}.Format()), 0o600)
	return func(a *actor) []string {
		made, err := exec.Command(binary, "import", "keepalived", "--out", a.dir, a.at("keepalived.conf")).CombinedOutput()
		if err != nil {
			t.Fatalf("import: %v\n%s", err, made)
		}
		return []string{binary, "run", "--config", a.at("agent.toml"), "--name", a.name, "--bind", hostAddr(a.number).String(),
			"--join", hostAddr(3).String() + "," + hostAddr(4).String(), "--state-dir", a.at("state"), "--socket", a.at("sock"), "--key", secret}
	}
}

// pair is two hosts that run one program.
type pair struct{ top, low *actor }

// actor is one of them, with the calls of its notify script.
type actor struct {
	*rivalHost
	rival *rival
	t     *testing.T
	main  *exec.Cmd
	heard int // calls that have been looked at
}

func newPair(t *testing.T, name string, hosts []*netlab.Host, command func(a *actor) []string) pair {
	t.Helper()
	r := &rival{program: program{name: name}, t: t, spawn: newSpawner()}
	t.Cleanup(r.spawn.close)
	var actors []*actor
	for i, host := range hosts {
		a := &actor{t: t, rival: r, rivalHost: &rivalHost{name: []string{"top", "low"}[i], host: host, dir: t.TempDir()}}
		_, number, _ := strings.Cut(string(host.Namespace), "-n")
		a.number, _ = strconv.Atoi(number)
		mustWriteFile(t, a.at("notify.sh"), "#!/bin/sh\nlog=$1\nshift\necho \"$*\" >>\"$log\"\n", 0o700)
		mustWriteFile(t, a.at("keepalived.conf"), a.configuration([]int{150, 100}[i]), 0o600)
		t.Cleanup(host.KillAll)
		a.args = command(a)
		actors = append(actors, a)
	}
	return pair{actors[0], actors[1]}
}

func (a *actor) configuration(priority int) string {
	return fmt.Sprintf(`global_defs {
	vrrp_version 3
	enable_script_security
	script_user root
}
vrrp_script broken {
	script "/usr/bin/test ! -e %[1]s/broken"
	interval 1
	rise 1
	fall 1
}
vrrp_instance VI_1 {
	state BACKUP
	interface %[2]s
	virtual_router_id 51
	priority %[3]d
	advert_int 0.1
	virtual_ipaddress {
		10.77.0.200/24
	}
	track_script {
		broken
	}
	notify "%[1]s/notify.sh %[1]s/calls"
}
`, a.dir, netlab.Interface, priority)
}

func (a *actor) at(name string) string { return filepath.Join(a.dir, name) }

func (a *actor) must(err error) {
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *actor) start() {
	a.t.Helper()
	for _, name := range []string{"pid", "vrrp.pid"} { // keepalived does not start beside what looks like another
		_ = os.Remove(a.at(name))
	}
	log, err := os.OpenFile(a.at("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	a.must(err)
	defer log.Close()
	a.main = exec.Command(a.args[0], a.args[1:]...)
	a.main.Stdout, a.main.Stderr, a.main.Env = log, log, environment()
	a.must(a.rival.spawn.start(a.main, a.host))
	go func(cmd *exec.Cmd) { _ = cmd.Wait() }(a.main) // killed or stopped, as it is to be
}

func (a *actor) stop()   { a.must(a.main.Process.Signal(unix.SIGTERM)) }
func (a *actor) breaks() { mustWriteFile(a.t, a.at("broken"), "", 0o600) }
func (a *actor) mends()  { a.must(os.Remove(a.at("broken"))) }

// calls gives those of the script since they were looked at last.
func (a *actor) calls() []string {
	text, _ := os.ReadFile(a.at("calls")) // none yet: nobody has called
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[min(a.heard, strings.Count(string(text), "\n")):]
}

// quiet is how long nothing more must come. Neither program has anything that takes longer here: an election of keepalived
// takes 0.4 s, a check a second, and ours asks for its turn after a second.
const quiet = 2 * time.Second

// says waits for the calls on both hosts, and then for any that should not come.
func (s pair) says(t *testing.T, step, top, low string) {
	t.Helper()
	want := map[*actor][]string{s.top: calls(top, 150), s.low: calls(low, 100)}
	late, since := time.Now().Add(20*time.Second), time.Time{}
	for since.IsZero() || time.Since(since) < quiet {
		isThere := true
		for a, expected := range want {
			isThere = isThere && slices.Equal(a.told(), expected)
		}
		switch {
		case isThere && since.IsZero():
			since = time.Now()
		case !isThere && (!since.IsZero() || time.Now().After(late)):
			s.fail(t, step, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for a, expected := range want {
		a.heard += len(expected)
	}
	t.Logf("%-12s %-28s top %-14s low %s", s.top.rival.name, step, top, low)
}

func (s pair) fail(t *testing.T, step string, want map[*actor][]string) {
	t.Helper()
	for a, expected := range want {
		log, _ := os.ReadFile(a.at("log"))
		t.Errorf("%s, %s, %s: the script was called with %q, expected %q\n%s", a.rival.name, step, a.name, a.told(), expected, lastOf(log))
	}
	t.FailNow()
}

func (a *actor) told() []string {
	return slices.DeleteFunc(a.calls(), func(c string) bool { return c == "" })
}

// calls are the arguments that go with states.
func calls(states string, priority int) (all []string) {
	for _, state := range strings.Fields(states) {
		all = append(all, fmt.Sprintf("INSTANCE VI_1 %s %d", state, priority))
	}
	return all
}

func lastOf(log []byte) string { return string(log[max(0, len(log)-2000):]) }
