package systemd

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/test/boot"
)

// unitResources: the leader has three units, of which the middle one may hang in stop.
const unitResources = `
[[resource]]
unit = "first.service"
[[resource]]
unit = "middle.service"
grace = "2s"
[[resource]]
unit = "last.service"
`

// story is a unit that notes when it begins, and when nothing is left of it.
func story(name, more string) string {
	note := func(what string) string {
		return fmt.Sprintf(`/bin/sh -c 'echo "$(date +%%%%s.%%%%N) %s %s" >>/var/log/story'`, name, what)
	}
	return "[Unit]\nDescription=" + name + "\n[Service]\nExecStartPre=" + note("up") + "\nExecStopPost=" + note("down") + "\n" + more +
		"\n[Install]\nWantedBy=multi-user.target\n"
}

const (
	ordinary = "ExecStart=/usr/bin/sleep infinity"
	// It takes no notice of TERM; systemd sends KILL long after the grace of the resource.
	hanging = "TimeoutStopSec=8\nExecStart=/bin/sh -c 'trap \"\" TERM; while :; do sleep 0.2; done'"
	broken  = "ExecStart=/bin/sh -c 'exit 3'\nType=oneshot\nRemainAfterExit=yes"
)

// units are two hosts that may lead, and a witness.
type units struct {
	alpha, beta unit
}

func newUnits(t *testing.T) *units {
	t.Helper()
	lan := boot.NewLAN(t, "alpha", "beta", "gamma")
	var hosts []unit
	for i, name := range []string{"alpha", "beta", "gamma"} {
		h := lan.Host(name)
		h.PushFile("/etc/systemd/system/bully-agent.service.d/root-hooks.conf", "root-hooks.conf", 0o644)
		for _, service := range []string{"first", "middle", "last"} {
			h.Push("/etc/systemd/system/"+service+".service", []byte(story(service, ordinary)), 0o644)
		}
		u := newUnit(t, h)
		hosts = append(hosts, u)
		role, resources := "voter", unitResources
		if name == "gamma" {
			role, resources = "witness", ""
		}
		if i > 0 {
			u.Push("/etc/bully-agent/key", []byte(hosts[0].Must("cat /etc/bully-agent/key")), 0o600)
		}
		u.configure("agent", "bully-agent", fmt.Sprintf(keptSettings, 200-i, role)+resources)
		u.Must("chown root: /etc/bully-agent/key; chmod 644 /etc/bully-agent/agent.toml; systemctl enable bully-agent 2>&1")
	}
	for _, u := range hosts {
		u.Must("systemctl start --no-block bully-agent")
	}
	hosts[0].says("bully-agent", "leader, epoch 1, 3 of 3")
	return &units{hosts[0], hosts[1]}
}

// roles waits until one of the hosts leads and has all of it.
func (u *units) roles(t *testing.T) (leader, other unit) {
	t.Helper()
	for late := time.Now().Add(2 * time.Minute); time.Now().Before(late); {
		for _, pair := range [][2]unit{{u.alpha, u.beta}, {u.beta, u.alpha}} {
			if _, err := pair[0].Run("bully-agent is-leader -q && systemctl is-active -q first middle last"); err == nil {
				return pair[0].in(t), pair[1].in(t)
			}
		}
	}
	t.Fatal("no leader has its units")
	return unit{}, unit{}
}

// becomes has a host's middle unit be another.
func (h unit) becomes(service string) {
	h.t.Helper()
	h.Push("/etc/systemd/system/middle.service", []byte(story("middle", service)), 0o644)
	h.Must("systemctl daemon-reload")
}

// names: the agent says it in its log, and as an event.
func (h unit) names(text string) {
	h.t.Helper()
	h.Until("bully-agent events | grep -qF '" + text + "' && journalctl --no-pager -u bully-agent | grep -qF '" + text + "'")
}

// line is one of a host's story.
type line struct {
	at               float64
	unit, what, host string
}

// told is the story of both hosts, in the order of time.
func (u *units) told(t *testing.T) (all []line) {
	t.Helper()
	for _, h := range []unit{u.alpha, u.beta} {
		for text := range strings.Lines(h.in(t).Must("cat /var/log/story 2>/dev/null || true")) {
			words := strings.Fields(text)
			at, err := strconv.ParseFloat(words[0], 64)
			if err != nil || len(words) != 3 {
				t.Fatalf("%q: %v", text, err)
			}
			all = append(all, line{at, words[1], words[2], h.Name()})
		}
	}
	slices.SortFunc(all, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	return all
}

// onOneHost: no unit was up on both hosts.
func (u *units) onOneHost(t *testing.T) {
	t.Helper()
	up := map[string]line{}
	for _, l := range u.told(t) {
		since, isUp := up[l.unit]
		switch {
		case l.what == "up" && isUp && since.host != l.host:
			t.Errorf("%s came up on %s %.3f s after it had on %s, and was not down there", l.unit, l.host, l.at-since.at, since.host)
		case l.what == "up":
			up[l.unit] = l
		case isUp && since.host == l.host:
			delete(up, l.unit)
		}
	}
}

// order is what a host's units did after a time.
func (u *units) order(t *testing.T, host string, after float64) string {
	t.Helper()
	var words []string
	for _, l := range u.told(t) {
		if l.at > after && l.host == host {
			words = append(words, l.unit+" "+l.what)
		}
	}
	return strings.Join(words, ", ")
}

func (u *units) wants(t *testing.T, host string, after float64, want string) {
	t.Helper()
	if got := u.order(t, host, after); got != want {
		t.Errorf("%s: %s; want %s", host, got, want)
	}
}

const (
	allUp   = "first up, middle up, last up"
	allDown = "last down, middle down, first down"
)

// Units of a leader that hang in stop, are killed, fail in start, start at boot on another host: they come up in order and go down in
// reverse, what went wrong is named where people look, and no unit is up on two hosts.
func TestUnitsBooted(t *testing.T) {
	u := newUnits(t)
	u.roles(t)
	u.wants(t, "alpha", 0, allUp)
	u.wants(t, "beta", 0, "")
	t.Run("hangs in stop", u.hangsInStop)
	t.Run("is killed", u.isKilled)
	t.Run("fails in start", u.failsInStart)
	t.Run("is enabled elsewhere", u.isEnabledElsewhere)
}

func (u *units) hangsInStop(t *testing.T) {
	leader, other := u.roles(t)
	leader.becomes(hanging)
	leader.Must("systemctl restart middle")
	u.roles(t)
	begin := leader.now()
	out := leader.Must("bully-agent step-down")
	t.Logf("%s after %.2f s", strings.TrimSpace(out), leader.now()-begin)
	if now, _ := u.roles(t); now.Name() != other.Name() {
		t.Errorf("%s leads", now.Name())
	}
	leader.Until("journalctl --no-pager -u bully-agent | grep -qF 'unit middle.service has not stopped in its time, and got KILL'")
	u.wants(t, leader.Name(), begin, allDown)
	u.wants(t, other.Name(), begin, allUp)
	u.onOneHost(t)
	leader.becomes(ordinary)
}

func (u *units) isKilled(t *testing.T) {
	leader, other := u.roles(t)
	begin := leader.now()
	leader.Must("systemctl kill --signal=KILL last.service")
	other.Until("bully-agent is-leader -q")
	t.Logf("another host leads after %.2f s", leader.now()-begin)
	u.roles(t)
	leader.names("unit last.service failed: signal (signal 9)")
	u.wants(t, leader.Name(), begin, allDown)
	u.wants(t, other.Name(), begin, allUp)
	u.onOneHost(t)
}

func (u *units) failsInStart(t *testing.T) {
	leader, other := u.roles(t)
	other.becomes(broken)
	begin := leader.now()
	leader.Until("! bully-agent step-down 2>&1 | grep -q 'nobody is ready to take over'") // for a minute after what failed before
	other.names("unit middle.service did not start: exit-code (exit status 3)")
	leader.Until("bully-agent is-leader -q")
	u.roles(t)
	t.Logf("the leader before leads after %.2f s", leader.now()-begin)
	t.Logf("%s: %s; %s: %s", leader.Name(), u.order(t, leader.Name(), begin), other.Name(), u.order(t, other.Name(), begin))
	u.wants(t, leader.Name(), begin, allDown+", "+allUp)
	// It is tried again while the other host, which has stepped down, is not ready yet.
	again := regexp.MustCompile("^first up(, middle up, middle down)+, first down$")
	if got := u.order(t, other.Name(), begin); !again.MatchString(got) {
		t.Errorf("%s: %s", other.Name(), got)
	}
	u.onOneHost(t)
	other.becomes(ordinary)
}

// A unit that systemd starts at boot is up before any agent can end it: config check warns of that, and the agent ends it at its start.
func (u *units) isEnabledElsewhere(t *testing.T) {
	leader, other := u.roles(t)
	begin := leader.now()
	other.Must("systemctl enable middle 2>&1")
	const warning = "unit middle.service starts with multi-user.target, at boot, before any election: systemctl disable middle.service"
	if out, _ := other.Run("bully-agent config check 2>&1"); !strings.Contains(out, warning) {
		t.Errorf("config check does not warn:\n%s", out)
	}
	other.Reboot()
	other.says("bully-agent", "follower of "+leader.Name()+", epoch "+strconv.Itoa(leader.epoch(0))+", 3 of 3")
	other.Until("! systemctl is-active -q middle")
	story := u.told(t)
	for i, l := range story {
		if l.host == other.Name() && l.what == "down" && l.at > begin && i > 0 {
			t.Logf("it was up on %s for %.2f s", l.host, l.at-story[i-1].at)
		}
	}
	u.wants(t, leader.Name(), begin, "")
	u.wants(t, other.Name(), begin, "middle up, middle down")
	if now, _ := u.roles(t); now.Name() != leader.Name() {
		t.Errorf("%s leads", now.Name())
	}
}
