package systemd

import (
	"testing"
)

func TestKeepEndsWithItsContext(t *testing.T) {
	r := newRig(t)
	r.add("web.service")
	u := r.unit("web.service")
	says(t, u.Begin(r.ctx()), "nil")
	r.keep(u).goesOn()
	is(t, "notes", len(r.noted("")), 0)
}

// A service that is killed, and that systemd starts again, is had: all the while.
func TestKeepLetsSystemdRestart(t *testing.T) {
	r := newRig(t)
	web := r.add("web.service")
	u := r.unit("web.service")
	says(t, u.Begin(r.ctx()), "nil")
	k := r.keep(u)
	web.now("activating", "auto-restart", "Result", "signal", "ExecMainStatus", int32(9), "NRestarts", uint32(1))
	r.until("the pause before the restart", func() bool { return u.State() == "activating (auto-restart), restarted 1 times by systemd" })
	web.now("active", "running", "Result", "success")
	r.until("the restart", func() bool { return u.State() == "active (running), restarted 1 times by systemd" })
	// An administrator's restart: down, with a job.
	web.now("inactive", "dead", "Job", jobOf(7))
	r.until("an administrator's restart", func() bool { return u.State() == "inactive (dead), restarted 1 times by systemd" })
	web.now("active", "running", "Job", jobOf(0), "NRestarts", uint32(0))
	r.until("the end of that", func() bool { return u.State() == "active (running)" })
	k.goesOn()
	is(t, "notes", len(r.noted("unit web.service was restarted by systemd, 1 times so far")), 1)
	is(t, "orders", r.ordered(), "start web.service")
}

func TestKeepSaysHowItFailed(t *testing.T) {
	for name, c := range map[string]struct {
		active, sub string
		more        []any
		want        string
	}{
		"exit":   {"failed", "failed", []any{"Result", "exit-code", "ExecMainStatus", int32(1)}, "exit-code (exit status 1)"},
		"limit":  {"failed", "failed", []any{"Result", "start-limit-hit"}, "start-limit-hit"},
		"dog":    {"failed", "failed", []any{"Result", "watchdog"}, "watchdog"},
		"killed": {"failed", "failed", []any{"Result", "signal", "ExecMainStatus", int32(9)}, "signal (signal 9)"},
		"stop":   {"inactive", "dead", nil, "it was stopped, or has ended by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			web := r.add("web.service")
			u := r.unit("web.service")
			says(t, u.Begin(r.ctx()), "nil")
			k := r.keep(u)
			web.now(c.active, c.sub, c.more...)
			is(t, "failure", k.fails(), "unit web.service failed: "+c.want)
		})
	}
}

// A target stays active whatever becomes of what it has started.
func TestKeepFailsWithAPart(t *testing.T) {
	r := newRig(t)
	target := r.add("bully-leader.target", "ConsistsOf", []string{"db.service", "idle.service"}, "Requires", []string{"db.service"})
	db, idle := r.add("db.service", "ActiveState", "active"), r.add("idle.service", "ActiveState", "active")
	u := r.unit("bully-leader.target")
	says(t, u.Begin(r.ctx()), "nil")
	k := r.keep(u)
	idle.now("failed", "failed", "Result", "exit-code")
	target.now("active", "seen")
	r.until("a look after that", func() bool { return u.State() == "active (seen)" })
	db.now("failed", "failed", "Result", "oom-kill")
	is(t, "failure", k.fails(), "unit bully-leader.target failed: its part db.service failed: oom-kill")
}

// What is stopped while this host loses its leadership has not failed.
func TestKeepReportsNothingWhenPaused(t *testing.T) {
	r := newRig(t)
	web := r.add("web.service")
	u := r.unit("web.service")
	says(t, u.Begin(r.ctx()), "nil")
	k := r.keep(u)
	u.Pause()
	web.now("failed", "failed", "Result", "exit-code", "ExecMainStatus", int32(1))
	r.until("the failure", func() bool { return u.State() == "failed: exit-code (exit status 1)" })
	k.goesOn()
	says(t, u.Begin(r.ctx()), "nil") // the next leadership
	k = r.keep(u)
	web.now("failed", "failed", "Result", "watchdog")
	is(t, "failure", k.fails(), "unit web.service failed: watchdog")
}

// D-Bus that goes away is said once, is no failure of the unit, and hides none: what happens meanwhile is seen afterwards.
func TestKeepOutlivesTheBus(t *testing.T) {
	r := newRig(t)
	web := r.add("web.service")
	u := r.unit("web.service")
	says(t, u.Begin(r.ctx()), "nil")
	k := r.keep(u)
	for round := 1; round <= 2; round++ {
		r.pull()
		r.until("the loss", func() bool { return len(r.noted("cannot be watched until systemd answers")) == round })
		is(t, "state", u.State(), "active (running), when systemd answered last")
		r.plug()
		r.until("the return", func() bool {
			return len(r.noted("systemd answers again; unit web.service is active (running)")) == round
		})
	}
	r.pull()
	r.until("the loss", func() bool { return len(r.noted("cannot be watched until systemd answers")) == 3 })
	r.mu.Lock()
	web.put([]any{"ActiveState", "failed", "Result", "signal", "ExecMainStatus", int32(11)})
	r.mu.Unlock()
	r.plug()
	is(t, "failure", k.fails(), "unit web.service failed: signal (signal 11)")
}

// A systemd that is executed anew has another name on the bus.
func TestKeepHearsTheNextSystemd(t *testing.T) {
	r := newRig(t)
	web := r.add("web.service")
	u := r.unit("web.service")
	says(t, u.Begin(r.ctx()), "nil")
	k := r.keep(u)
	r.conn.Close()
	r.board()
	web.now("failed", "failed", "Result", "watchdog")
	is(t, "failure", k.fails(), "unit web.service failed: watchdog")
}
