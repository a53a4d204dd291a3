package systemd

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/bully-agent/bully-agent/internal/test/boot"
)

// real is a host that systemd has booted. Its sockets are seen from here, so that the code under test runs here, too.
type real struct {
	*boot.Host
	t *testing.T

	mu    sync.Mutex
	notes []string
}

// services are what the host can have. %N is a unit's name.
var services = map[string]string{
	"good":    "ExecStart=/usr/bin/sleep infinity",
	"slow":    "Type=notify\nNotifyAccess=all\nExecStart=/bin/sh -c 'sleep 1; systemd-notify --ready; exec sleep infinity'",
	"bad":     "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'exit 3'",
	"crash":   "Type=notify\nRestart=on-failure\nRestartSec=50ms\nExecStart=/bin/sh -c 'exit 4'",
	"late":    "Type=notify\nTimeoutStartSec=1\nExecStart=/usr/bin/sleep infinity",
	"short":   "Type=oneshot\nExecStart=/usr/bin/true",
	"often":   "Restart=always\nRestartSec=50ms\nExecStart=/usr/bin/sleep infinity",
	"stuck":   "Type=notify\nNotifyAccess=all\nTimeoutStopSec=2\nExecStart=/bin/sh -c 'trap \"\" TERM; systemd-notify --ready; while :; do sleep 1; done'", // ready once it heeds no TERM
	"unmet":   "ExecStart=/usr/bin/sleep infinity\n[Unit]\nConditionPathExists=/nowhere",
	"needing": "ExecStart=/usr/bin/sleep infinity\n[Unit]\nRequires=bad.service\nAfter=bad.service",
	"web":     "ExecStart=/bin/sh -c 'echo web up >>/var/log/order; exec sleep infinity'\nExecStopPost=/bin/sh -c 'echo web down >>/var/log/order'" + part + "After=db.service\n",
	"db":      "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'sleep 1; echo db up >>/var/log/order'\nExecStop=/bin/sh -c 'sleep 1; echo db down >>/var/log/order'" + part,
}

const part = "\n[Install]\nWantedBy=bully-leader.target\n[Unit]\nPartOf=bully-leader.target\nAfter=bully-leader.target\n"

// Units of a real systemd: that fail in start, are killed, hang in stop, are enabled elsewhere, and what becomes of them when
// systemd and D-Bus are started anew.
func TestRealSystemd(t *testing.T) {
	lan := boot.NewLAN(t, "alpha") // skips where it cannot be done
	h := &real{Host: lan.Host("alpha"), t: t}
	h.PushFile("/etc/systemd/system/bully-leader.target", "../../deploy/systemd/bully-leader.target", 0o644)
	for name, text := range services {
		h.Push("/etc/systemd/system/"+name+".service", []byte("[Service]\n"+text+"\n"), 0o644)
	}
	h.Push("/etc/systemd/system/pattern@.service", []byte("[Service]\nExecStart=/usr/bin/sleep infinity\n"), 0o644)
	h.Push("/etc/systemd/system/masked.service", nil, 0o644)
	h.Boot()
	t.Run("starts and stops", h.part((*real).startsAndStops))
	t.Run("fails in start", h.part((*real).failsInStart))
	t.Run("is killed", h.part((*real).isKilled))
	t.Run("hangs in stop", h.part((*real).hangsInStop))
	t.Run("has parts", h.part((*real).hasParts))
	t.Run("is checked", h.part((*real).isChecked))
	t.Run("outlives systemd", h.part((*real).outlivesSystemd))
	t.Run("from inside", h.part((*real).fromInside))
}

// part gives the host to a part of the test.
func (h *real) part(does func(*real)) func(*testing.T) {
	return func(t *testing.T) { does(&real{Host: h.In(t), t: t}) }
}

func (h *real) dial(ctx context.Context, e *ear) (*bus, error) {
	address := "unix:path=" + h.Seen("/run/dbus/system_bus_socket")
	return connect(ctx, func(opts ...dbus.ConnOption) (*dbus.Conn, error) { return dbus.Dial(address, opts...) }, e, false)
}

func (h *real) unit(name string) *Unit {
	u := NewUnit(name, func(line string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.notes = append(h.notes, line)
	})
	u.dial = h.dial
	return u
}

// noted is all that has been noted, on one line.
func (h *real) noted() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.notes, "; ")
}

func (h *real) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	h.t.Cleanup(cancel)
	return ctx
}

// active is what systemctl says of units.
func (h *real) active(names string) string {
	out, _ := h.Run("systemctl is-active " + names)
	return strings.Join(strings.Fields(out), " ")
}

// keep has a unit kept. stop ends that and gives what came of it; end waits for its failure.
func (h *real) keep(u *Unit) (stop, end func() error) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.ctx())
	h.t.Cleanup(cancel)
	ended := make(chan error, 1)
	u.say("")
	go func() { ended <- u.Keep(ctx) }()
	h.until("a first look", func() bool { return u.State() != "" })
	end = func() error { return <-ended } // bound by ctx
	return func() error { cancel(); return <-ended }, end
}

func (h *real) until(what string, is func() bool) {
	h.t.Helper()
	for late := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			h.t.Fatalf("waited in vain for %s; noted: %s", what, h.noted())
		}
	}
}

func (h *real) startsAndStops() {
	for _, name := range []string{"good.service", "slow.service", "pattern@one.service"} {
		u := h.unit(name)
		says(h.t, u.Test(h.ctx()), "nil")
		says(h.t, u.End(h.ctx()), "nil")
		for range 2 {
			says(h.t, u.Begin(h.ctx()), "nil")
			is(h.t, name, h.active(name), "active")
		}
		is(h.t, "state", u.State(), "active (running)")
		stop, _ := h.keep(u)
		says(h.t, stop(), "nil")
		for range 2 {
			says(h.t, u.End(h.ctx()), "nil")
			is(h.t, name, h.active(name), "inactive")
		}
	}
	begin := time.Now()
	for range 20 {
		u := h.unit("good.service")
		says(h.t, u.Begin(h.ctx()), "nil")
		says(h.t, u.End(h.ctx()), "nil")
	}
	h.t.Logf("a start and a stop take %v", time.Since(begin)/20)
	says(h.t, h.unit("none.service").End(h.ctx()), "nil")
}

func (h *real) failsInStart() {
	for name, want := range map[string]string{
		"bad":     "exit-code (exit status 3)",
		"crash":   "exit-code (exit status 4)",
		"late":    "timeout",
		"short":   "it has ended again (a service of Type=oneshot needs RemainAfterExit=yes)",
		"unmet":   "a condition of it is not met",
		"needing": "a unit that it needs has failed (systemctl list-dependencies needing.service)",
	} {
		u := h.unit(name + ".service")
		for range 2 { // again: whatever is left of the first time is in no way
			begin := time.Now()
			says(h.t, u.Begin(h.ctx()), "unit "+name+".service did not start: "+want)
			h.t.Logf("%s: %v, %s", name, time.Since(begin).Round(time.Millisecond), u.State())
		}
		says(h.t, u.End(h.ctx()), "nil")
	}
	is(h.t, "starts of crash.service", strings.TrimSpace(h.Must("systemctl show -P NRestarts crash.service")), "5")
}

func (h *real) isKilled() {
	u := h.unit("good.service")
	says(h.t, u.Begin(h.ctx()), "nil")
	_, end := h.keep(u)
	begin := time.Now()
	h.Must("systemctl kill --signal=KILL good.service")
	says(h.t, end(), "unit good.service failed: signal (signal 9)")
	h.t.Logf("seen %v after the kill was ordered", time.Since(begin).Round(time.Millisecond))
	says(h.t, u.Begin(h.ctx()), "nil")
	_, end = h.keep(u)
	h.Must("systemctl stop good.service")
	says(h.t, end(), "unit good.service failed: it was stopped, or has ended by itself")

	u = h.unit("often.service")
	says(h.t, u.Begin(h.ctx()), "nil")
	stop, _ := h.keep(u)
	h.Must("systemctl kill --signal=KILL often.service")
	h.until("the restart", func() bool { return u.State() == "active (running), restarted 1 times by systemd" })
	is(h.t, "noted", h.noted(), "unit often.service was restarted by systemd, 1 times so far")
	h.Must("systemctl restart often.service")
	says(h.t, stop(), "nil")
	says(h.t, u.Begin(h.ctx()), "nil")
	_, end = h.keep(u)
	_, _ = h.Run("for i in 1 2 3 4 5 6 7 8 9; do systemctl kill --signal=KILL often.service; sleep 0.15; done")
	err := end()
	if err == nil || !strings.HasPrefix(err.Error(), "unit often.service failed: s") { // systemd says of the last run, or of its limit
		h.t.Errorf("after too many kills: %v", err)
	}
	h.t.Log(err)
	says(h.t, u.Begin(h.ctx()), "nil") // another leadership, another try
	says(h.t, u.End(h.ctx()), "nil")
}

func (h *real) hangsInStop() {
	u := h.unit("stuck.service")
	says(h.t, u.Begin(h.ctx()), "nil")
	says(h.t, u.End(h.ctx()), "nil") // systemd's own KILL, after TimeoutStopSec=
	is(h.t, "state", u.State(), "failed: timeout")
	h.Push("/etc/systemd/system/stuck.service", []byte("[Service]\n"+strings.Replace(services["stuck"], "=2\n", "=10min\n", 1)+"\n"), 0o644)
	h.Must("systemctl daemon-reload")
	says(h.t, u.Begin(h.ctx()), "nil")
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	begin := time.Now()
	says(h.t, u.End(ctx), "nil")
	h.t.Logf("ended after %v", time.Since(begin).Round(time.Millisecond))
	is(h.t, "stuck.service", h.active("stuck.service"), "failed")
	is(h.t, "state", u.State(), "failed: signal (signal 9)")
	if want := "unit stuck.service has not stopped in its time, and got KILL: it is deactivating (stop-sigterm)"; !strings.Contains(h.noted(), want) {
		h.t.Errorf("noted: %s", h.noted())
	}
	says(h.t, u.Begin(h.ctx()), "nil")
	cut, cancel := context.WithCancel(context.Background()) // without a bound KILL is never due
	stopping := make(chan error, 1)
	go func() { stopping <- u.End(cut) }()
	h.until("its stop", func() bool { return u.State() == "deactivating (stop-sigterm)" })
	cancel()
	says(h.t, <-stopping, "unit stuck.service does not stop: it is deactivating (stop-sigterm)")
	short, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	says(h.t, u.End(short), "nil")
}

func (h *real) hasParts() {
	h.Must("systemctl enable web.service db.service 2>&1; rm -f /var/log/order")
	u := h.unit("bully-leader.target")
	says(h.t, u.Begin(h.ctx()), "nil")
	is(h.t, "parts", h.active("web.service db.service"), "active active")
	_, end := h.keep(u)
	h.Must("systemctl kill --signal=KILL web.service")
	says(h.t, end(), "unit bully-leader.target failed: its part web.service failed: signal (signal 9)")
	says(h.t, u.Begin(h.ctx()), "nil") // what has failed is started again
	is(h.t, "parts", h.active("web.service db.service"), "active active")
	says(h.t, u.End(h.ctx()), "nil")
	is(h.t, "parts", h.active("bully-leader.target web.service db.service"), "inactive inactive inactive")
	order := strings.ReplaceAll(strings.TrimSpace(h.Must("cat /var/log/order")), "\n", ", ")
	is(h.t, "order", order, "db up, web up, web down, web up, web down, db down")

	h.Must("systemctl start db.service") // by hand, without the target
	says(h.t, u.End(h.ctx()), "nil")
	is(h.t, "db.service", h.active("db.service"), "inactive")
	h.Must("systemctl disable web.service db.service 2>&1")
}

func (h *real) isChecked() {
	for name, want := range map[string]string{
		"good.service":        "",
		"bully-leader.target": "",
		"pattern@one.service": "",
		"pattern@.service":    `fault: "pattern@.service" is a template: expected an instance of it, such as "pattern@main.service"`,
		"none.service":        "fault: unit none.service is not there: systemd finds no file of that name",
		"none@one.service":    "fault: unit none@one.service is not there: systemd finds no file of that name",
		"masked.service":      "fault: unit masked.service is masked: systemctl unmask masked.service lets it start",
		"shutdown.target":     "fault: unit shutdown.target may not be started by order: RefuseManualStart=yes, or a type that cannot start",
	} {
		is(h.t, name, checked(h.ctx(), h.dial, name), want)
	}
	is(h.t, "a part", checked(h.ctx(), h.dial, "web.service"), "")
	h.Push("/etc/systemd/system/good.service", []byte("[Service]\n"+services["good"]+"\n[Install]\nWantedBy=multi-user.target\n"), 0o644)
	h.Must("systemctl daemon-reload; systemctl enable good.service 2>&1")
	is(h.t, "enabled", checked(h.ctx(), h.dial, "good.service"),
		"warning: unit good.service starts with multi-user.target, at boot, before any election: systemctl disable good.service")
	h.Must("systemctl disable good.service 2>&1")
	is(h.t, "disabled", checked(h.ctx(), h.dial, "good.service"), "")
}

// outlivesSystemd: neither a reload, nor systemd executed anew, nor a restart of D-Bus is a failure; what comes after is seen.
func (h *real) outlivesSystemd() {
	u := h.unit("good.service")
	says(h.t, u.Begin(h.ctx()), "nil")
	_, end := h.keep(u)
	h.Must("systemctl daemon-reload")
	h.Must("systemctl daemon-reexec")
	h.Must("systemctl restart dbus.service")
	h.until("the loss and the return", func() bool { return strings.Count(h.noted(), "good.service") >= 2 })
	h.t.Log(h.noted())
	is(h.t, "good.service", h.active("good.service"), "active")
	begin := time.Now()
	h.Must("systemctl kill --signal=KILL good.service")
	says(h.t, end(), "unit good.service failed: signal (signal 9)")
	h.t.Logf("seen %v after the kill was ordered", time.Since(begin).Round(time.Millisecond))
}

// fromInside: the same as an agent on the host sees it, by the bus and, without one, past it.
func (h *real) fromInside() {
	program := filepath.Join(h.t.TempDir(), "inside")
	build := exec.Command("go", "test", "-c", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
	h.PushFile("/usr/local/bin/inside", program, 0o755)
	for way, bus := range map[string]string{"by the bus": "", "past it": "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/nowhere"} {
		out, err := h.Run(bus + " BULLY_INSIDE=1 /usr/local/bin/inside -test.v -test.run '^TestInside$'")
		if err != nil || !strings.Contains(out, "--- PASS: TestInside") {
			h.t.Errorf("%s: %v\n%s", way, err, out)
		}
	}
}

// TestInside is run on the host that TestRealSystemd boots.
func TestInside(t *testing.T) {
	if os.Getenv("BULLY_INSIDE") == "" {
		t.Skip("skipped: it is a part of TestRealSystemd")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	u := NewUnit("good.service", func(line string) { t.Log(line) })
	says(t, u.Test(ctx), "nil")
	says(t, u.Begin(ctx), "nil")
	ended := make(chan error, 1)
	go func() { ended <- u.Keep(ctx) }()
	if out, err := exec.Command("systemctl", "kill", "--signal=KILL", "good.service").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says(t, <-ended, "unit good.service failed: signal (signal 9)")
	says(t, u.Begin(ctx), "nil")
	says(t, u.End(ctx), "nil")
	if out, _ := exec.Command("systemctl", "is-active", "good.service").Output(); string(out) != "inactive\n" {
		t.Errorf("it is %s", out)
	}
	u = NewUnit("bad.service", func(line string) { t.Log(line) })
	says(t, u.Begin(ctx), "unit bad.service did not start: exit-code (exit status 3)")
	faults, warnings := Check(ctx, "none.service")
	is(t, "faults", strings.Join(faults, "\n"), "unit none.service is not there: systemd finds no file of that name")
	is(t, "warnings", len(warnings), 0)
}
