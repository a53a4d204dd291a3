package systemd

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestEndStopsAndWaits(t *testing.T) {
	r := newRig(t)
	web := r.add("web.service")
	u := r.unit("web.service")
	says(t, u.End(r.ctx()), "nil") // never begun
	is(t, "orders", r.ordered(), "")
	says(t, u.Begin(r.ctx()), "nil")
	stopping := make(chan *job, 1)
	web.stops(func(j *job) {
		j.now("deactivating", "stop-sigterm")
		stopping <- j
	})
	ended := make(chan error, 1)
	go func() { ended <- u.End(r.ctx()) }()
	j := <-stopping
	r.until("its state", func() bool { return u.State() == "deactivating (stop-sigterm)" })
	select {
	case err := <-ended:
		t.Fatalf("it has ended before its job: %v", err)
	default:
	}
	j.ends("done", "inactive", "dead")
	says(t, <-ended, "nil")
	says(t, u.End(r.ctx()), "nil")
	is(t, "orders", r.ordered(), "start web.service, stop web.service")
}

// Whoever has started it, and whatever its file has become: it is stopped.
func TestEndStopsWhatOthersHaveStarted(t *testing.T) {
	r := newRig(t)
	r.add("web.service", "ActiveState", "active", "SubState", "running", "LoadState", "not-found")
	says(t, r.unit("web.service").End(r.ctx()), "nil")
	is(t, "orders", r.ordered(), "stop web.service")
	says(t, r.unit("none.service").End(r.ctx()), "nil")
	says(t, r.unit("no unit").End(r.ctx()), "nil")
	is(t, "orders", r.ordered(), "stop web.service")
}

// A start that is under way is stopped, too.
func TestEndStopsABeginning(t *testing.T) {
	r := newRig(t)
	web := r.add("web.service")
	web.starts(func(j *job) { j.now("activating", "start") })
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	u := r.unit("web.service")
	says(t, u.Begin(ctx), "unit web.service did not start in its time: it is activating (start)")
	says(t, u.End(r.ctx()), "nil")
	is(t, "orders", r.ordered(), "start web.service, stop web.service")
}

// The unit's own stop takes its parts with it, in systemd's order. What it leaves, since it was down itself, is stopped by name.
func TestEndWaitsForParts(t *testing.T) {
	r := newRig(t)
	target := r.add("bully-leader.target", "ActiveState", "active", "ConsistsOf", []string{"db.service"})
	db := r.add("db.service", "ActiveState", "active", "ConsistsOf", []string{"helper.service"})
	helper := r.add("helper.service", "ActiveState", "active")
	target.stops(func(j *job) {
		db.now("deactivating", "stop", "Job", jobOf(1001))
		helper.now("deactivating", "stop", "Job", jobOf(1002))
		j.ends("done", "inactive", "dead")
	})
	u := r.unit("bully-leader.target")
	ended := make(chan error, 1)
	go func() { ended <- u.End(r.ctx()) }()
	r.until("the target", func() bool { return u.State() == "inactive (dead)" })
	db.now("inactive", "dead", "Job", jobOf(0))
	select {
	case err := <-ended:
		t.Fatalf("it has ended before helper.service: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	helper.now("inactive", "dead", "Job", jobOf(0))
	says(t, <-ended, "nil")
	is(t, "orders", r.ordered(), "stop bully-leader.target")

	helper.now("active", "running")
	says(t, u.End(r.ctx()), "nil")
	is(t, "orders", r.ordered(), "stop bully-leader.target, stop helper.service")
}

// Somebody who starts it while it stops does not win.
func TestEndStopsAgain(t *testing.T) {
	r := newRig(t)
	web := r.add("web.service", "ActiveState", "active")
	web.stops(func(j *job) {
		web.stops(nil)
		j.ends("canceled", "active", "running")
	})
	says(t, r.unit("web.service").End(r.ctx()), "nil")
	is(t, "orders", r.ordered(), "stop web.service, stop web.service")
}

// What hangs in its stop gets KILL before its time is over, and what waits for it does not.
func TestEndKillsWhatHangs(t *testing.T) {
	r := newRig(t)
	target := r.add("site.target", "ActiveState", "active", "ConsistsOf", []string{"web.service", "db.service"})
	web := r.add("web.service", "ActiveState", "active")
	db := r.add("db.service", "ActiveState", "active")
	target.stops(func(j *job) {
		db.now("active", "running", "Job", jobOf(1001)) // until web.service is down
		web.now("deactivating", "stop-sigterm", "Job", jobOf(1002))
		j.ends("done", "inactive", "dead")
	})
	web.onKill = func() {
		web.now("failed", "failed", "Result", "timeout", "Job", jobOf(0))
		db.now("inactive", "dead", "Job", jobOf(0))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	begin := time.Now()
	says(t, r.unit("site.target").End(ctx), "nil")
	if took := time.Since(begin); took < 2*time.Second {
		t.Errorf("KILL was sent after %v", took)
	}
	is(t, "orders", r.ordered(), "stop site.target, kill web.service all 9")
	is(t, "notes", strings.Join(r.noted(""), "; "),
		"unit site.target has not stopped in its time, and got KILL: its part web.service: it is deactivating (stop-sigterm)")
}

// What does not stop in time, whatever it gets, is named, and so is what systemd's KILL has left.
func TestEndObeysItsContext(t *testing.T) {
	r := newRig(t)
	r.add("web.service", "ActiveState", "active").stops(func(j *job) { j.now("deactivating", "stop-sigterm") })
	r.add("top.target", "ConsistsOf", []string{"web.service"})
	stuck := r.add("stuck.service", "ActiveState", "failed", "Result", "timeout")
	stuck.processes = []uint32{4711}
	spared := r.add("spared.service", "ActiveState", "failed", "Result", "timeout", "KillMode", "process")
	spared.processes = []uint32{4712}
	for name, want := range map[string]string{
		"web.service":    "unit web.service does not stop: it is deactivating (stop-sigterm)",
		"top.target":     "unit top.target does not stop: its part web.service: it is deactivating (stop-sigterm)",
		"stuck.service":  "unit stuck.service does not stop: KILL did not end its processes [4711]",
		"spared.service": "nil",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for the end of its context, in which a busy host is to come so far
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			begin := time.Now()
			says(t, r.unit(name).End(ctx), want)
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// Without D-Bus nobody knows whether it has ended: End goes on until it knows.
func TestEndOutlivesTheBus(t *testing.T) {
	r := newRig(t)
	web := r.add("web.service", "ActiveState", "active")
	stopping := make(chan *job, 1)
	web.stops(func(j *job) { stopping <- j })
	ended := make(chan error, 1)
	go func() { ended <- r.unit("web.service").End(r.ctx()) }()
	<-stopping
	r.pull()
	select {
	case err := <-ended:
		t.Fatalf("it has ended without a word of systemd: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	web.stops(nil)
	r.mu.Lock()
	web.put([]any{"Job", jobOf(0)})
	r.mu.Unlock()
	r.plug()
	says(t, <-ended, "nil")
	is(t, "state", web.is("ActiveState").(string), "inactive")
}
