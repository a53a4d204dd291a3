package systemd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bus1 "github.com/godbus/dbus/v5"
)

func TestBeginStartsAndWaits(t *testing.T) {
	r := newRig(t)
	web := r.add("web.service")
	started := make(chan *job, 1)
	web.starts(func(j *job) {
		j.now("activating", "start")
		started <- j
	})
	u := r.unit("web.service")
	ended := make(chan error, 1)
	go func() { ended <- u.Begin(r.ctx()) }()
	j := <-started
	r.until("its state", func() bool { return u.State() == "activating (start)" })
	select {
	case err := <-ended:
		t.Fatalf("it has begun before its job has ended: %v", err)
	default:
	}
	j.ends("done", "active", "running")
	says(t, <-ended, "nil")
	is(t, "state", u.State(), "active (running)")
	says(t, u.Begin(r.ctx()), "nil")
	is(t, "orders", r.ordered(), "start web.service")
}

// Each way in which a start can come to nothing is told by its reason.
func TestBeginSaysWhyNot(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		start func(*job)
		want  string
	}{
		"exits":    {func(j *job) { j.ends("failed", "failed", "failed", "Result", "exit-code", "ExecMainStatus", int32(3)) }, "exit-code (exit status 3)"},
		"signal":   {func(j *job) { j.ends("failed", "failed", "failed", "Result", "signal", "ExecMainStatus", int32(9)) }, "signal (signal 9)"},
		"late":     {func(j *job) { j.ends("failed", "failed", "failed", "Result", "timeout") }, "timeout"},
		"job-late": {func(j *job) { j.ends("timeout", "inactive", "dead") }, "timeout of its job"},
		"canceled": {func(j *job) { j.ends("canceled", "inactive", "dead") }, "another order to systemd has canceled it"},
		"needs":    {func(j *job) { j.ends("dependency", "inactive", "dead") }, "a unit that it needs has failed (systemctl list-dependencies needs.service)"},
		"strange":  {func(j *job) { j.ends("unsupported", "inactive", "dead") }, "systemd says unsupported"},
		"limit":    {func(j *job) { j.ends("failed", "failed", "failed", "Result", "start-limit-hit") }, "start-limit-hit"},
		"condition": {func(j *job) {
			j.ends("done", "inactive", "dead", "ConditionResult", false, "ConditionTimestampMonotonic", uint64(7))
		}, "a condition of it is not met"},
		"oneshot": {func(j *job) { j.ends("done", "inactive", "dead") }, "it has ended again (a service of Type=oneshot needs RemainAfterExit=yes)"},
	} {
		t.Run(name, func(t *testing.T) {
			r.add(name + ".service").starts(c.start)
			says(t, r.unit(name+".service").Begin(r.ctx()), "unit "+name+".service did not start: "+c.want)
		})
	}
}

// A service that fails and that systemd starts again is on its way; its job has ended, and failed.
func TestBeginWaitsForARestart(t *testing.T) {
	r := newRig(t)
	web := r.add("web.service")
	web.starts(func(j *job) {
		j.ends("failed", "activating", "auto-restart", "Result", "exit-code", "NRestarts", uint32(1))
	})
	u := r.unit("web.service")
	ended := make(chan error, 1)
	go func() { ended <- u.Begin(r.ctx()) }()
	r.until("the pause before the restart", func() bool { return strings.HasPrefix(u.State(), "activating (auto-restart)") })
	web.now("active", "running")
	says(t, <-ended, "nil")
	is(t, "state", u.State(), "active (running), restarted 1 times by systemd")
}

// What has failed in an earlier leadership, perhaps at the limit of starts, is no reason to start nothing in this one.
func TestBeginStartsAgainAfterTheLimit(t *testing.T) {
	r := newRig(t)
	r.add("web.service", "ActiveState", "failed", "SubState", "failed", "Result", "signal")
	says(t, r.unit("web.service").Begin(r.ctx()), "nil")
	is(t, "orders", r.ordered(), "reset-failed web.service, start web.service")
}

// What is PartOf= a target and started with it has to be up, too; what nothing starts with it has not.
func TestBeginWaitsForParts(t *testing.T) {
	r := newRig(t)
	target := r.add("bully-leader.target", "ConsistsOf", []string{"db.service", "web.service", "idle.service"}, "Wants", []string{"db.service", "web.service"})
	db, web := r.add("db.service"), r.add("web.service")
	r.add("idle.service", "ActiveState", "failed", "SubState", "failed", "Result", "exit-code")
	target.starts(func(j *job) {
		db.now("activating", "start", "Job", jobOf(1001))
		web.now("inactive", "dead", "Job", jobOf(1002))
		j.ends("done", "active", "active")
	})
	u := r.unit("bully-leader.target")
	ended := make(chan error, 1)
	go func() { ended <- u.Begin(r.ctx()) }()
	r.until("the target", func() bool { return u.State() == "active (active)" })
	db.now("active", "running", "Job", jobOf(0))
	select {
	case err := <-ended:
		t.Fatalf("it has begun before web.service: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	web.now("active", "running", "Job", jobOf(0))
	says(t, <-ended, "nil")

	db.now("failed", "failed", "Result", "exit-code", "ExecMainStatus", int32(1))
	target.starts(func(j *job) {
		db.now("failed", "failed", "Result", "exit-code", "ExecMainStatus", int32(1))
		j.ends("done", "active", "active")
	})
	says(t, u.Begin(r.ctx()), "unit bully-leader.target did not start: its part db.service failed: exit-code (exit status 1)")
	is(t, "orders", r.ordered(), "start bully-leader.target, reset-failed db.service, start bully-leader.target")
}

// No call outlasts its context: neither what systemd does not finish, nor a bus that is silent.
func TestBeginObeysItsContext(t *testing.T) {
	r := newRig(t)
	r.add("web.service").starts(func(j *job) { j.now("activating", "start-pre") })
	u := r.unit("web.service")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	begin := time.Now()
	says(t, u.Begin(ctx), "unit web.service did not start in its time: it is activating (start-pre)")
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	is(t, "orders", r.ordered(), "start web.service")

	silent, err := net.Listen("unix", filepath.Join(t.TempDir(), "bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	u.dial = func(ctx context.Context, e *ear) (*bus, error) {
		return connect(ctx, func(opts ...bus1.ConnOption) (*bus1.Conn, error) {
			return bus1.Dial("unix:path="+silent.Addr().String(), opts...)
		}, e, false)
	}
	for name, call := range map[string]func(context.Context) error{"begin": u.Begin, "end": u.End, "test": u.Test} {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		begin = time.Now()
		err = call(ctx)
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		says(t, err, "unit web.service: no connection with systemd: systemd does not answer")
	}
}

func TestWhatCannotBeginIsRefused(t *testing.T) {
	r := newRig(t)
	r.add("gone.service", "LoadState", "not-found")
	r.add("masked.service", "LoadState", "masked")
	r.add("slip.service", "LoadState", "bad-setting", "LoadError", complaint{"org.freedesktop.systemd1.BadUnitSetting", "Unit slip.service has a bad unit file setting."})
	r.add("shy.service", "CanStart", false)
	for name, want := range map[string]string{
		"gone.service":   "unit gone.service is not there: systemd finds no file of that name",
		"masked.service": "unit masked.service is masked: systemctl unmask masked.service lets it start",
		"slip.service":   "unit slip.service cannot be loaded: Unit slip.service has a bad unit file setting.",
		"shy.service":    "unit shy.service may not be started by order: RefuseManualStart=yes, or a type that cannot start",
		"getty@.service": `"getty@.service" is a template: expected an instance of it, such as "getty@main.service"`,
	} {
		says(t, r.unit(name).Begin(r.ctx()), want)
		says(t, r.unit(name).Test(r.ctx()), want)
	}
	r.add("web.service")
	says(t, r.unit("web.service").Test(r.ctx()), "nil")
	is(t, "orders", r.ordered(), "")

	r.mu.Lock()
	r.denies = true
	r.mu.Unlock()
	says(t, r.unit("web.service").Begin(r.ctx()), "unit web.service: systemd takes no order of this user (Interactive authentication required.): "+
		"expected root, or a rule of polkit for org.freedesktop.systemd1.manage-units")
	web := r.units["web.service"]
	web.now("active", "running")
	if err := r.unit("web.service").End(r.ctx()); err == nil || !strings.Contains(err.Error(), "takes no order of this user") {
		t.Errorf("end: %v", err)
	}
}

func TestWithoutSystemd(t *testing.T) {
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		t.Skip("skipped: this host has systemd")
	}
	u := NewUnit("web.service", func(string) {})
	const want = "unit web.service: this host was not booted by systemd (no /run/systemd/system): expected a host that was, or a command in the unit's place"
	says(t, u.Begin(t.Context()), want)
	says(t, u.Test(t.Context()), want)
	says(t, u.End(t.Context()), "nil")
	faults, warnings := Check(t.Context(), "web.service")
	is(t, "faults", strings.Join(faults, "\n"), want)
	is(t, "warnings", len(warnings), 0)
}

// Every user of a host may send signals on the system's bus. Those that are not systemd's change nothing, whatever is in them.
func TestForgedSignalsAreNotBelieved(t *testing.T) {
	r := newRig(t)
	web := r.add("web.service")
	started := make(chan *job, 1)
	web.starts(func(j *job) {
		j.now("activating", "start")
		started <- j
	})
	u := r.unit("web.service")
	ended := make(chan error, 1)
	var hears *ear
	u.dial = func(ctx context.Context, e *ear) (*bus, error) {
		hears = e
		return r.dial(ctx, e)
	}
	go func() { ended <- u.Begin(r.ctx()) }()
	j := <-started
	r.until("its state", func() bool { return u.State() == "activating (start)" })

	forger, err := bus1.Connect(r.address())
	r.must(err)
	defer forger.Close()
	victims := []string{""} // everybody
	var all []string
	r.must(forger.BusObject().Call(daemon+".ListNames", 0).Store(&all))
	for _, name := range all {
		if strings.HasPrefix(name, ":") {
			victims = append(victims, name)
		}
	}
	forge := func(iface, member string, path bus1.ObjectPath, body ...any) {
		for _, victim := range victims {
			msg := &bus1.Message{Type: bus1.TypeSignal, Headers: map[bus1.HeaderField]bus1.Variant{bus1.FieldInterface: bus1.MakeVariant(iface),
				bus1.FieldMember: bus1.MakeVariant(member), bus1.FieldPath: bus1.MakeVariant(path)}, Body: body}
			if victim != "" {
				msg.Headers[bus1.FieldDestination] = bus1.MakeVariant(victim)
			}
			if len(body) > 0 {
				msg.Headers[bus1.FieldSignature] = bus1.MakeVariant(bus1.SignatureOf(body...))
			}
			r.must(forger.Send(msg, nil).Err)
		}
	}
	forge(daemon, "NameOwnerChanged", "/org/freedesktop/DBus", manager, "", forger.Names()[0])
	forge(manager+".Manager", "JobRemoved", managerPath, j.id, jobOf(j.id).Path, "web.service", "canceled")
	forge(manager+".Manager", "JobRemoved", managerPath)
	forge(manager+".Manager", "JobRemoved", managerPath, "web.service")
	forge(properties, "PropertiesChanged", web.path())
	forge(properties, "PropertiesChanged", web.path(), uint32(1))
	r.must(forger.BusObject().Call(daemon+".GetId", 0).Err) // the bus has dealt with all of it
	if got := hears.result(jobOf(j.id).Path); got != "" {
		t.Errorf("a forged result is believed: %s", got)
	}
	// systemd's own signal is lost: what is so decides.
	j.now("failed", "failed", "Job", jobOf(0), "Result", "exit-code", "ExecMainStatus", int32(4))
	says(t, <-ended, "unit web.service did not start: exit-code (exit status 4)")
}
