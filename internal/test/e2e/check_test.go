package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
)

// A real nginx on each host, under an address that the example's hooks move: keepalived's first use.

// checkRounds is how often nginx is stopped.
func checkRounds(usually int) int {
	if os.Getenv("BULLY_E2E") == "long" {
		return 20
	}
	return usually
}

// needsNginx skips a test where nginx or curl is missing.
func needsNginx(t *testing.T) {
	t.Helper()
	for _, program := range []string{"nginx", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: %s is not installed", program)
		}
	}
}

// nginx is the web server of a host, which says the host's name.
type nginx struct {
	h    *host
	conf string
	cmd  *exec.Cmd // nil: it is stopped
}

func newNginx(h *host) *nginx {
	h.lan.t.Helper()
	n := &nginx{h: h, conf: filepath.Join(h.dir, "nginx.conf")}
	dir := filepath.Join(h.dir, "nginx")
	must(h.lan.t, os.Mkdir(dir, 0o755))
	must(h.lan.t, os.WriteFile(n.conf, fmt.Appendf(nil, `daemon off; worker_processes 1; pid %[1]s/pid; error_log %[1]s/errors;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	server { listen 80; return 200 "%[2]s"; }
}
`, dir, h.name), 0o600))
	h.lan.t.Cleanup(n.stop)
	return n
}

func (n *nginx) start() {
	n.h.lan.t.Helper()
	n.cmd = n.h.command("nginx", "-c", n.conf)
	must(n.h.lan.t, n.cmd.Start())
}

func (n *nginx) stop() {
	if n.cmd != nil {
		_ = n.cmd.Process.Signal(os.Interrupt) // a fast shutdown
		_ = n.cmd.Wait()
		n.cmd = nil
	}
}

// check has the host's agent check that its nginx answers.
func (n *nginx) check(onFail string) {
	file := filepath.Join(n.h.dir, "agent.toml")
	must(n.h.lan.t, os.WriteFile(file, fmt.Appendf(nil, `[[check]]
name = "nginx"
command = ["/usr/bin/curl", "-fsS", "-o", "/dev/null", "http://127.0.0.1/"]
interval = "1s"
timeout = "1s"
rise = 2
fall = 2
on_fail = "%s"
`, onFail), 0o600))
	n.h.options = append(n.h.options, "--config", file)
}

// answers is who answers at an address, asked from the switch; empty: nobody.
func answers(l *lan, ip net.IP) string {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	dial := func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		within := l.net.Switch().Within(func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, addr)
			return err
		})
		return conn, within
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ip.String()+"/", nil)
	must(l.t, err)
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return string(text)
}

// site is a LAN with a checked nginx on each host, under an address that follows the leader.
type site struct {
	*virtual
	webs map[*host]*nginx
}

func newSite(t *testing.T, hosts int) *site {
	t.Helper()
	needsLAN(t)
	needsNginx(t)
	l := newLAN(t, hosts)
	l.hasRoomToLetGo()
	s := &site{virtual: &virtual{lan: l, ip: net.IPv4(10, 78, l.number, 50)}, webs: map[*host]*nginx{}}
	for _, h := range l.hosts {
		h.onBecome, h.onLose = s.hook("add"), s.hook("del")
		s.webs[h] = newNginx(h)
		s.webs[h].check("ineligible")
		s.webs[h].start()
	}
	return s
}

// answersFrom waits until a host's nginx answers at the address, and says how long it took.
func (s *site) answersFrom(h *host, bound time.Duration) time.Duration {
	s.lan.t.Helper()
	begun := time.Now()
	s.lan.eventually(fmt.Sprintf("nginx of %s answers at the address", h), bound, func() error {
		if who := answers(s.lan, s.ip); who != h.name {
			return fmt.Errorf("%q answers", who)
		}
		return nil
	})
	return time.Since(begun).Round(time.Millisecond)
}

// nginx is stopped on the leader: the address moves in order to the next best host, once.
// It is started: the address comes back, once. With BULLY_E2E=long it takes a quarter of an
// hour, since a host that was the leader lately waits ever longer before it asks for its turn.
func TestCheckMovesTheAddress(t *testing.T) {
	s := newSite(t, 3)
	l := s.lan
	l.start()
	best, next := l.best(), l.next()
	l.agreeOn(best)
	s.answersFrom(best, patience)
	want := []*host{best}
	for round := range checkRounds(2) {
		s.webs[best].stop()
		out := s.answersFrom(next, patience)
		s.webs[best].start()
		back := s.answersFrom(best, 2*time.Minute) // the preempt delay doubles up to a minute
		t.Logf("round %d: nginx stopped, the next one answers after %v; started, the first one answers after %v", round+1, out, back)
		want = append(want, next, best)
	}
	l.agreeOn(best)
	l.led(want...) // once each
	handsOver := func(e control.Event) bool { return e.Type == "transition" && e.Cause == "check-failed" }
	if !slices.ContainsFunc(best.events(0), handsOver) {
		t.Errorf("%s has no event of a hand-over with cause check-failed", best)
	}
}

// Among equals the address moves when nginx stops, and nobody moves when it is back.
func TestCheckMovesTheAddressAmongEquals(t *testing.T) {
	s := newSite(t, 2)
	l := s.lan
	for _, h := range l.hosts {
		h.priority = 100
	}
	l.start()
	leader := l.agree()
	s.answersFrom(leader, patience)
	want := []*host{leader}
	for round := range checkRounds(3) {
		other := l.except(leader)[0]
		s.webs[leader].stop()
		out := s.answersFrom(other, patience)
		s.webs[leader].start()
		l.eventually("the check of "+leader.name+" passes again", patience, func() error {
			if st, err := leader.status(); err != nil || len(st.Bars) > 0 {
				return fmt.Errorf("bars %q (%v)", st.Bars, err)
			}
			return nil
		})
		t.Logf("round %d: nginx of %s stopped, that of %s answers after %v", round+1, leader, other, out)
		leader, want = other, append(want, other)
	}
	l.steady(leader, time.Second)
	l.led(want...) // once each
}

// Checks that hang, fork and flood on followers, and that flood and flap on the leader, move nobody, and heartbeats come as they do
// without them. What flaps fails every other time: with fall = 2 it never fails.
func TestBadChecksDisturbNobody(t *testing.T) {
	needsLAN(t)
	const watched = 8 * time.Second
	l := newLAN(t, 3, "--log-level", "info")
	best, next := l.best(), l.next()
	flap := filepath.Join(l.dir, "flap")
	bad := map[*host][]string{
		l.hosts[0]: {badCheck("hang", "sleep 100 & sleep 100", "ineligible")},
		l.hosts[1]: {badCheck("fork", "while :; do sleep 100 & done", "ineligible")},
		best: {badCheck("flood", "yes", "priority -1"),
			badCheck("flap", "rm "+flap+" 2>/dev/null && exit 1; touch "+flap, "ineligible") + "rise = 1\nfall = 2\n"},
	}
	for h, checks := range bad {
		file := filepath.Join(h.dir, "agent.toml")
		must(t, os.WriteFile(file, []byte(strings.Join(checks, "")), 0o600))
		h.options = append(h.options, "--config", file)
	}
	l.start()
	l.agreeOn(best)
	heart := l.watchHeart(best, next)
	begun := time.Now()
	l.steady(best, watched)
	heart.logRhythm(t, "with bad checks", begun)
	// The leader's lease needs one of eight heartbeats. A machine that runs other tests may hold one up; checks that do would
	// hold up many.
	if all := heart.since(begun); len(all) < int(watched/heartbeat)*8/10 || all[len(all)-1] > 8*heartbeat {
		t.Errorf("%d heartbeats in %v, the longest interval %v", len(all), watched, all[len(all)-1])
	}
	l.led(best)
	if s, err := best.status(); err != nil || len(s.Checks) != 2 || s.Checks[0].State != "fails" || s.Checks[1].State != "passes" {
		t.Errorf("checks of %s: %+v (%v)", best, s.Checks, err)
	}
}

// heartbeat is how often a leader sends one, by default.
const heartbeat = 50 * time.Millisecond

func badCheck(name, command, onFail string) string {
	return fmt.Sprintf("[[check]]\nname = %q\ncommand = %q\ninterval = \"500ms\"\ntimeout = \"300ms\"\non_fail = %q\n", name, command, onFail)
}
