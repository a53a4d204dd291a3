package systemd

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/test/boot"
	"github.com/bully-agent/bully-agent/internal/test/making"
)

// settings of an agent whose hooks write down what they do, and when. The lose hook takes as long as a file says.
const settings = `
[node]
priority = %d
[network]
join = ["alpha", "beta"]
[hooks]
timeout = "2m"
on_become_leader   = 'echo "$(date +%%s.%%N) become $BULLY_EPOCH" >>"$BULLY_HOOK_LOG"'
on_lose_leadership = 'sleep $(cat /etc/slow) ; echo "$(date +%%s.%%N) lose $BULLY_EPOCH" >>"$BULLY_HOOK_LOG"'
`

// The unit on a system that systemd has booted: it says who leads, takes a good file and refuses a bad one, comes back from
// whatever ends or stops the agent once the lose hook has run, and never breaks one off.
func TestUnitBooted(t *testing.T) {
	lan := boot.NewLAN(t, "alpha", "beta")
	h, other := newUnit(t, lan.Host("alpha")), newUnit(t, lan.Host("beta"))
	other.Push("/etc/bully-agent/key", []byte(h.Must("cat /etc/bully-agent/key")), 0o600)
	other.Must("chown bully-agent: /etc/bully-agent/key")
	h.configure("agent", "bully-agent", fmt.Sprintf(settings, 200))
	h.Must("systemctl enable --now bully-agent")
	h.says("bully-agent", "leader, epoch 1, 1 of 1")
	other.configure("agent", "bully-agent", fmt.Sprintf(settings, 50))
	other.Must("systemctl enable --now bully-agent")
	h.says("bully-agent", "leader, epoch 1, 2 of 2")
	other.says("bully-agent", "follower of alpha, epoch 1, 2 of 2")
	t.Logf("%s\n%s", h.shown(), other.shown())

	t.Run("security", h.isLeastPrivileged)
	t.Run("real time", h.isRealTime)
	t.Run("reload", h.reloads)
	t.Run("kill", h.comesBackFromKill)
	t.Run("crash", h.comesBackFromCrash)
	t.Run("short of tasks", func(t *testing.T) { h.comesBackFromShortage(t, "LimitNPROC=3") })
	t.Run("short of pids", func(t *testing.T) {
		if _, err := h.Run("ls /sys/fs/cgroup/*/system.slice/bully-agent.service/pids.max /sys/fs/cgroup/system.slice/bully-agent.service/pids.max 2>&1 | grep -v 'No such'"); err != nil {
			t.Skip("skipped: the hosts have no control group that counts processes")
		}
		h.comesBackFromShortage(t, "TasksMax=3")
	})
	t.Run("short of files", func(t *testing.T) { h.comesBackFromShortage(t, "LimitNOFILE=9") })
	t.Run("watchdog", h.comesBackFromStandstill)
	t.Run("slow lose hook", h.waitsForTheLoseHook)
	t.Run("root hooks", h.speaksWithoutRights)
}

// unit is a host on which the unit, its user and a key are installed.
type unit struct {
	*boot.Host
	t *testing.T
}

// in gives the host to a part of the test.
func (h unit) in(part *testing.T) unit { return unit{h.In(part), part} }

func newUnit(t *testing.T, h *boot.Host) unit {
	t.Helper()
	h.PushFile("/usr/bin/bully-agent", build(t), 0o755)
	for _, name := range []string{"bully-agent.service", "bully-agent@.service"} {
		h.PushFile("/etc/systemd/system/"+name, name, 0o644)
	}
	h.PushFile("/usr/lib/sysusers.d/bully-agent.conf", "bully-agent.sysusers", 0o644)
	h.Push("/etc/slow", []byte("0\n"), 0o644)
	h.Boot()
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := h.Run("journalctl --no-pager -o short-precise -u 'bully-agent*'")
			t.Logf("the journal of %s:\n%s", h.Name(), log)
		}
	})
	h.Must("systemd-sysusers && bully-agent key generate --owner bully-agent")
	return unit{h, t}
}

// build gives the agent under test: BULLY_E2E_BINARY, or one made as it is released.
func build(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("BULLY_E2E_BINARY"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "bully-agent")
	if err := making.Program(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// configure writes the settings of an agent, and where its hooks write.
func (h unit) configure(file, service, text string) {
	h.t.Helper()
	h.Push("/etc/bully-agent/"+file+".toml", []byte(strings.ReplaceAll(text, "$BULLY_HOOK_LOG", hookLog(service))), 0o644)
}

func hookLog(service string) string { return "/var/lib/" + service + "/hooks.log" }

// says waits for a text in what `systemctl status` shows.
func (h unit) says(service, text string) {
	h.t.Helper()
	h.Until(fmt.Sprintf("systemctl status --no-pager --lines 0 %s | grep -F 'Status: \"%s\"'", service, text))
}

func (h unit) shown() string { return h.Must("systemctl status --no-pager --lines 0 bully-agent") }

// epoch waits for this host's leadership of another epoch than one before.
func (h unit) epoch(before int) int {
	h.t.Helper()
	h.Until(fmt.Sprintf(`bully-agent is-leader -q && test "$(%s)" -gt %d`, shownEpoch, before))
	epoch, err := strconv.Atoi(strings.TrimSpace(h.Must(shownEpoch)))
	if err != nil {
		h.t.Fatal(err)
	}
	return epoch
}

const shownEpoch = `systemctl show -P StatusText bully-agent | sed -n 's/^leader, epoch \([0-9]*\),.*/\1/p'`

// at gives when a hook wrote that it ran for an epoch.
func (h unit) at(hook string, epoch int) (seconds float64) {
	h.t.Helper()
	line := h.Must(fmt.Sprintf("grep ' %s %d$' %s", hook, epoch, hookLog("bully-agent")))
	seconds, err := strconv.ParseFloat(strings.Fields(line)[0], 64)
	if err != nil || strings.Count(line, "\n") != 1 {
		h.t.Fatalf("%s of epoch %d: %q, %v", hook, epoch, line, err)
	}
	return seconds
}

func (h unit) show(property string) string {
	h.t.Helper()
	return strings.TrimSpace(h.Must("systemctl show -P " + property + " bully-agent"))
}

func (h unit) isLeastPrivileged(t *testing.T) {
	h = h.in(t)
	out, err := h.Run("systemd-analyze security --no-pager --threshold=20 bully-agent.service")
	t.Log(regexp.MustCompile(`(?m)^.*Overall exposure.*$`).FindString(out))
	if err != nil {
		t.Errorf("exposure above 2.0:\n%s", out)
	}
}

func (h unit) isRealTime(t *testing.T) {
	h = h.in(t)
	const raiseLimits = 24 // CAP_SYS_RESOURCE
	if out := h.Must("sed -n 's/^CapBnd://p' /proc/1/status"); !hasCapability(t, out, raiseLimits) {
		t.Skip("skipped: root may not raise limits on this machine, and so no systemd can")
	}
	if out := h.Must("bully-agent status"); !strings.Contains(out, "scheduling  realtime, memory locked") {
		t.Errorf("the unit's limits give no real time:\n%s", out)
	}
}

func hasCapability(t *testing.T, mask string, number uint) bool {
	t.Helper()
	all, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return all>>number&1 == 1
}

// reloads: a good file is taken by the process that runs, a bad one leaves it as it is and fails where somebody sees it.
func (h unit) reloads(t *testing.T) {
	h = h.in(t)
	pid := h.show("MainPID")
	h.configure("agent", "bully-agent", fmt.Sprintf(settings, 201))
	h.Must("systemctl reload bully-agent")
	if out := h.Must("bully-agent status"); !strings.Contains(out, "priority 201") {
		t.Errorf("a reload took no new priority:\n%s", out)
	}
	h.configure("agent", "bully-agent", "[node]\npriority = 70000\n")
	out, err := h.Run("systemctl reload bully-agent")
	if err == nil {
		t.Error("a reload of a bad file succeeds")
	}
	if log := h.Must("journalctl --no-pager -u bully-agent -n 20"); !strings.Contains(log, "agent.toml:2:12: node.priority: 70000") {
		t.Errorf("the journal does not say what is wrong with the file:\n%s%s", out, log)
	}
	h.configure("agent", "bully-agent", fmt.Sprintf(settings, 201))
	if now := h.show("MainPID"); now != pid || h.show("ActiveState") != "active" {
		t.Errorf("after reloads: process %s, before %s, %s", now, pid, h.show("ActiveState"))
	}
	h.says("bully-agent", "leader, epoch 1, 2 of 2")
}

// comesBackFromKill: the keeper outlives its agent by a lose hook, and systemd starts both anew.
func (h unit) comesBackFromKill(t *testing.T) {
	h = h.in(t)
	epoch, restarts := h.epoch(0), h.show("NRestarts")
	pid, began := h.show("MainPID"), h.now()
	h.Must("kill -9 " + pid)
	h.runsAgain(pid, began)
	next := h.epoch(epoch)
	t.Logf("killed: the lose hook had run after %.2f s, this host led again after %.2f s", h.at("lose", epoch)-began, h.at("become", next)-began)
	if h.show("NRestarts") == restarts {
		t.Error("systemd says that it has restarted nothing")
	}
	if h.at("lose", epoch) > h.at("become", next) {
		t.Error("the lose hook ran after the become hook")
	}
}

// comesBackFromCrash: QUIT has Go's runtime end the agent as a panic does.
func (h unit) comesBackFromCrash(t *testing.T) {
	h = h.in(t)
	epoch := h.epoch(0)
	pid, began := h.show("MainPID"), h.now()
	h.Must("kill -QUIT " + pid)
	h.runsAgain(pid, began)
	next := h.epoch(epoch)
	t.Logf("crashed: this host led again after %.2f s", h.at("become", next)-began)
}

// comesBackFromShortage: an agent that cannot start for want of something is tried again until it can.
func (h unit) comesBackFromShortage(t *testing.T, limit string) {
	const dropIn = "/etc/systemd/system/bully-agent.service.d/shortage.conf"
	h = h.in(t)
	epoch, restarts := h.epoch(0), h.restarts()
	h.Push(dropIn, []byte("[Service]\n"+limit+"\n"), 0o644)
	h.Must("systemctl daemon-reload && kill -9 " + h.show("MainPID"))
	h.Until(fmt.Sprintf("test $(systemctl show -P NRestarts bully-agent) -ge %d", restarts+3)) // of them two failed
	h.Must("rm " + dropIn + " && systemctl daemon-reload")
	ended, began := h.show("ExecMainStatus"), h.now()
	h.runsAgain("0", began)
	next := h.epoch(epoch)
	t.Logf("%s: it ended with %s; this host led again %.2f s after it could", limit, ended, h.at("become", next)-began)
}

// soon is within what an agent that can run does so again, in seconds: RestartSec= of the unit, the lose hook that is due
// and what the start takes.
const soon = 3

// runsAgain waits until another process than before is the unit's, is ready and answers on its socket, and holds it against soon.
func (h unit) runsAgain(before string, began float64) {
	h.t.Helper()
	h.Until(fmt.Sprintf(`test "$(systemctl show -P MainPID bully-agent)" != %s && systemctl is-active -q bully-agent &&
		bully-agent status >/dev/null`, before))
	out := h.Must(`date -d "$(systemctl show --timestamp=us -P ActiveEnterTimestamp bully-agent)" +%s.%N`)
	ready, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Logf("it runs again after %.2f s", ready-began)
	if ready-began > soon {
		h.t.Errorf("it runs again only after %.2f s, want at most %d", ready-began, soon)
	}
}

func (h unit) restarts() int {
	n, err := strconv.Atoi(h.show("NRestarts"))
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// comesBackFromStandstill: nothing but the watchdog sees that an agent stands still whose process is there.
func (h unit) comesBackFromStandstill(t *testing.T) {
	h = h.in(t)
	epoch, pid := h.epoch(0), h.show("MainPID")
	began := h.now()
	h.Must("kill -STOP " + pid)
	h.Until(fmt.Sprintf("grep ' lose %d$' %s", epoch, hookLog("bully-agent")))
	if h.show("MainPID") != pid {
		t.Error("the lose hook ran after the restart")
	}
	next := h.epoch(epoch)
	log := h.Must("journalctl --no-pager -o short-unix -u bully-agent | grep -i watchdog")
	t.Logf("stopped: the lose hook had run after %.2f s, this host led again after %.2f s; systemd says\n%s", h.at("lose", epoch)-began,
		h.at("become", next)-began, log)
	if now := h.show("MainPID"); now == pid || !strings.Contains(log, "Watchdog timeout") {
		t.Errorf("process %s, before %s: no watchdog ended it", now, pid)
	}
}

// waitsForTheLoseHook: what is configured in [hooks] decides how long a lose hook may take, not the unit's bound of a stop.
func (h unit) waitsForTheLoseHook(t *testing.T) {
	h = h.in(t)
	const bound, takes = 5, 20 // seconds
	epoch := h.epoch(0)
	h.Push("/etc/systemd/system/bully-agent.service.d/stop.conf", []byte(fmt.Sprintf("[Service]\nTimeoutStopSec=%d\n", bound)), 0o644)
	h.Push("/etc/slow", []byte(fmt.Sprintln(takes)), 0o644)
	h.Must("systemctl daemon-reload")
	began := h.now()
	stop := make(chan error, 1)
	go func() {
		_, err := h.Run("systemctl stop bully-agent")
		stop <- err
	}()
	h.Until("systemctl show -P StatusText bully-agent | grep 'stopping, epoch .*, lose hook runs'")
	if err := <-stop; err != nil {
		t.Error(err)
	}
	took := h.at("lose", epoch) - began
	t.Logf("stopped with TimeoutStopSec=%d: the lose hook ended after %.1f s, the stop after %.1f s: %s", bound, took, h.now()-began, h.show("Result"))
	if result := h.show("Result"); result != "success" || took < takes {
		t.Errorf("%s; the lose hook took %.1f s", result, took)
	}
}

// speaksWithoutRights: with root's hooks the process that systemd watches gives up root and most system calls, and must go on
// saying that it turns.
func (h unit) speaksWithoutRights(t *testing.T) {
	h = h.in(t)
	h.Must("rm /etc/systemd/system/bully-agent.service.d/stop.conf; echo 0 >/etc/slow; chown root: /etc/bully-agent/key")
	h.PushFile("/etc/systemd/system/bully-agent.service.d/root-hooks.conf", "root-hooks.conf", 0o644)
	h.Must("chmod 644 /etc/bully-agent/agent.toml; systemctl daemon-reload && systemctl start bully-agent")
	h.epoch(0)
	if uids := h.Must("sed -n 's/^Uid:.//p' /proc/" + h.show("MainPID") + "/status"); strings.HasPrefix(uids, "0") {
		t.Errorf("the process that systemd watches is root's: %s", uids)
	}
	before := h.show("WatchdogTimestampMonotonic")
	h.Until("test $(systemctl show -P WatchdogTimestampMonotonic bully-agent) -gt " + before)
}

// now is the host's clock, which is this machine's.
func (h unit) now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// Two instances side by side: each has its file, its directories, its port and its cluster, and nothing that is done to one
// touches the other. A third that would take a port of theirs says whose it is.
func TestInstancesBooted(t *testing.T) {
	h := newUnit(t, boot.NewLAN(t, "alpha").Host("alpha"))
	const own = `
cluster = "%[1]s"
[network]
bind = "0.0.0.0:%[2]d"
[hooks]
on_become_leader = 'bully-agent status | grep cluster >>"$BULLY_HOOK_LOG"'
`
	h.configure("web", "bully-agent-web", fmt.Sprintf(own, "shop", 7950))
	h.configure("db", "bully-agent-db", fmt.Sprintf(own, "store", 7951))
	h.Must("systemctl enable --now bully-agent@web bully-agent@db")
	for _, name := range []string{"web", "db"} {
		h.says("bully-agent@"+name, "leader, epoch 1, 1 of 1")
	}
	t.Logf("%s", h.Must("systemctl status --no-pager --lines 0 'bully-agent@*'; ls -ld /run/bully-agent* /var/lib/bully-agent*"))
	for name, cluster := range map[string]string{"web": "shop", "db": "store"} {
		for _, command := range []string{"bully-agent -i " + name + " status", "bully-agent status --instance " + name, "BULLY_INSTANCE=" + name + " bully-agent status",
			"cat " + hookLog("bully-agent-"+name)} {
			if out := h.Must(command); !strings.Contains(out, "cluster "+cluster) {
				t.Errorf("%s:\n%s", command, out)
			}
		}
	}

	pid := strings.TrimSpace(h.Must("systemctl show -P MainPID bully-agent@db"))
	h.Must("systemctl reload bully-agent@web && systemctl restart bully-agent@web")
	h.says("bully-agent@web", "leader, epoch 2, 1 of 1")
	h.says("bully-agent@db", "leader, epoch 1, 1 of 1")
	if now := strings.TrimSpace(h.Must("systemctl show -P MainPID bully-agent@db")); now != pid {
		t.Errorf("instance db is process %s, and was %s before instance web was restarted", now, pid)
	}

	h.configure("third", "bully-agent-third", `cluster = "third"`)
	for name, want := range map[string]string{
		"third":   "instance third: port 7950 belongs to instance web: set bind",
		"nowhere": "/etc/bully-agent/nowhere.toml: cannot be read: no such file or directory; hint: instance nowhere has its settings there",
	} {
		if out, err := h.Run("systemctl start bully-agent@" + name); err == nil {
			t.Errorf("instance %s starts: %s", name, out)
		}
		log := h.Must("journalctl --no-pager -u bully-agent@" + name)
		if !strings.Contains(log, "error: "+want) {
			t.Errorf("expected %q in\n%s", want, log)
		}
		if state := strings.TrimSpace(h.Must("systemctl show -P ActiveState bully-agent@" + name)); state != "failed" {
			t.Errorf("instance %s is %s: systemd tries again what cannot be", name, state)
		}
	}
	if out := h.Must("systemd-analyze security --no-pager --threshold=20 bully-agent@web.service"); !strings.Contains(out, "Overall exposure") {
		t.Error(out)
	}
}
