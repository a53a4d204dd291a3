package agent

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/control"
)

func on(more ...string) map[string]string {
	args := map[string]string{"state": "on"}
	for i := 0; i < len(more); i += 2 {
		args[more[i]] = more[i+1]
	}
	return args
}

var off = map[string]string{"state": "off"}

// Maintenance hands over first, is shown on all hosts, and outlives the agent; off ends it.
func TestMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		if err := top.order("maintenance", on("reason", "kernel upgrade")); err != nil {
			t.Fatal(err)
		}
		if c.leader() != low {
			t.Error("answered before the other led")
		}
		top.expectHooks(t, "become-leader 1 boot", "lose-leadership 1 maintenance")
		time.Sleep(5 * time.Second)
		for _, by := range c.hosts {
			if m := seenBy(by, top); m.Maintenance == nil || *m.Maintenance != "kernel upgrade" || !m.Draining {
				t.Errorf("%s has %+v", by.name, m)
			}
		}
		c.kill(top)
		c.start(top)
		time.Sleep(time.Minute)
		c.agrees(low)
		if s := top.agent.Status(); s.Maintenance == nil || !hasNote(s, "in maintenance (kernel upgrade), so this host cannot lead") {
			t.Errorf("notes %q", s.Notes)
		}
		if err := top.order("maintenance", off); err != nil {
			t.Fatal(err)
		}
		c.agrees(top)
		time.Sleep(5 * time.Second)
		if m := seenBy(low, top); m.Maintenance != nil || m.Draining {
			t.Errorf("%s still has %+v", low.name, m)
		}
		c.kill(top)
		c.start(top)
		c.agrees(top)
		c.stopAll()
	})
}

// Where nobody else can lead maintenance is refused, and leaves nothing; forced, it leads
// to no leader.
func TestMaintenanceOfTheLastHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		if err := low.order("maintenance", on()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		expectRefusal(t, top.order("handover", map[string]string{"to": "n1"}), "nobody_ready", "in maintenance")
		var refusal *control.APIError
		err := top.order("maintenance", on())
		if !errors.As(err, &refusal) || refusal.Code != "nobody_ready" || refusal.Message != "nobody else can lead" || refusal.Status != 409 {
			t.Fatalf("the last host: %v", err)
		}
		if s := top.agent.Status(); !s.LeaderIsSelf || s.Maintenance != nil || top.agent.seat.state.maintenance != (maintenance{}) {
			t.Errorf("it leads: %t, in maintenance %v, disk %+v", s.LeaderIsSelf, s.Maintenance, top.agent.seat.state.maintenance)
		}
		if err := top.order("maintenance", on("force", "true")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if s := low.agent.Status(); s.Leader != nil {
			t.Errorf("%s leads", s.Leader.Name)
		}
		if err := low.order("maintenance", off); err != nil {
			t.Fatal(err)
		}
		c.agrees(low)
		c.stopAll()
	})
}

// Maintenance that was to end by itself does, whatever happened meanwhile.
func TestMaintenanceEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		low, top := c.hosts[0], c.hosts[1]
		for _, h := range c.hosts {
			c.start(h)
		}
		c.agrees(top)
		if err := top.order("maintenance", on("for", "10m")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		c.kill(top)
		c.start(top)
		time.Sleep(4 * time.Minute)
		c.agrees(low)
		time.Sleep(2 * time.Minute)
		c.agrees(top)
		if w := top.agent.seat.state.maintenance; w != (maintenance{}) {
			t.Errorf("the disk holds %+v", w)
		}
		c.stopAll()
	})
}

// What an operator or a client writes wrong is refused.
func TestBadMaintenance(t *testing.T) {
	for _, c := range []struct {
		args map[string]string
		want string
	}{
		{map[string]string{}, "needs a state"},
		{map[string]string{"state": "maybe"}, "expected state on or off"},
		{map[string]string{"state": "off", "reason": "x"}, "no further arguments"},
		{on("for", "-1s"), "expected a time such as 30m"},
		{on("for", "9999h"), "at most 744h"},
		{on("reason", "a\x1b[31m"), "characters other than"},
		{on("reason", strings.Repeat("x", 65)), "at most 64"},
		{on("to", "beta"), "no argument"},
	} {
		if _, err := parseMaintenance(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

// ok-to-stop says who leads without this host, and who stays.
func TestOKToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		for _, h := range c.hosts {
			h.settings = func(cfg *Config) { cfg.Election.Expect = 3 }
			c.start(h)
		}
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		c.agrees(top)
		time.Sleep(5 * time.Second)
		asks := func(h *testHost, want string) {
			t.Helper()
			answer, err := h.agent.OKToStop(t.Context())
			if err != nil || answer.Text != want || answer.OK != strings.HasPrefix(want, "ok: ") {
				t.Errorf("%s: %+v, error %v, want %q", h.name, answer, err, want)
			}
		}
		asks(top, "ok: n2 would lead, 2 of 3 voters stay")
		asks(low, "ok: n3 leads, 2 of 3 voters stay")
		c.kill(low)
		time.Sleep(15 * time.Second)
		asks(top, "no: 1 of 3 voters would be left")
		asks(mid, "no: 1 of 3 voters would be left")
		c.start(low)
		time.Sleep(10 * time.Second)
		asks(mid, "ok: n3 leads, 2 of 3 voters stay")
		for _, h := range []*testHost{low, mid} {
			if err := h.order("maintenance", on()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		asks(top, "no: nobody else can lead")
		c.stopAll()
	})
}

// A leader that was killed a moment ago is no host that stays, though gossip has not noticed: those who gave it up say so.
func TestOKToStopKnowsWhoWasGivenUp(t *testing.T) {
	for _, expect := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 3)
			for _, h := range c.hosts {
				h.settings = func(cfg *Config) { cfg.Election.Expect = expect }
				c.start(h)
			}
			low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
			c.agrees(top)
			time.Sleep(5 * time.Second)
			c.kill(top)
			time.Sleep(1500 * time.Millisecond)
			for _, h := range []*testHost{low, mid} {
				answer, err := h.agent.OKToStop(t.Context())
				if err != nil || answer.Leader == nil || answer.Stay != 1 || answer.OK != (expect == 0) {
					t.Errorf("expect %d, %s: %+v, error %v", expect, h.name, answer, err)
				}
				if m := seenBy(h, top); m.Status != "dead" || h.agent.Status().Alive != 2 {
					t.Errorf("expect %d, %s lists it as %s, %d are alive", expect, h.name, m.Status, h.agent.Status().Alive)
				}
				if got := h.agent.Status(); expect > 0 && got.Quorum.Have != 2 {
					t.Errorf("%s: %+v", h.name, got.Quorum)
				}
			}
			c.stopAll()
		})
	}
}

// Who has said good-bye is no host that stays, from the moment at which its agent has ended: a script stops one host and asks
// at once whether the next may be stopped, too.
func TestOKToStopKnowsWhoHasLeft(t *testing.T) {
	for _, expect := range []int{0, 3} {
		for _, leaves := range []int{0, 1} { // n1, or n2, who is next in line
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				for _, h := range c.hosts {
					h.settings = func(cfg *Config) { cfg.Election.Expect = expect }
					c.start(h)
				}
				top, gone, stays := c.hosts[2], c.hosts[leaves], c.hosts[1-leaves]
				c.agrees(top)
				time.Sleep(5 * time.Second)
				gone.stop()
				if err := <-gone.done; err != nil {
					t.Fatal(err)
				}
				gone.agent = nil
				for _, h := range []*testHost{stays, top} {
					answer, err := h.agent.OKToStop(t.Context())
					if err != nil || answer.Stay != 1 || answer.OK != (expect == 0) || answer.Leader == nil || answer.Leader.Name == gone.name {
						t.Errorf("expect %d, %s has left, %s: %+v, error %v", expect, gone.name, h.name, answer, err)
					}
					if q := h.agent.Status().Quorum; expect > 0 && q.Have != 2 {
						t.Errorf("%s has left, %s: %d voters answer", gone.name, h.name, q.Have)
					}
				}
				c.stopAll()
			})
		}
	}
}

// A state file that no version wrote is refused, whatever its maintenance says.
func TestMaintenanceOnDisk(t *testing.T) {
	host := someHost("test")
	host.maintenance = maintenance{isOn: true, reason: "x"}
	whole := host.encode(election.Saved{})
	head := selfSize + nameHead + len("test") + quorumHead
	rest, w, err := cutMaintenance(whole, head)
	if err != nil || w.reason != "x" || !w.isOn || len(rest) >= len(whole) {
		t.Fatalf("read %+v, error %v", w, err)
	}
	for name, change := range map[string]func([]byte) []byte{
		"short":                  func(b []byte) []byte { return b[:len(b)-1] },
		"long":                   func(b []byte) []byte { return append(b, 0) },
		"neither on nor off":     func(b []byte) []byte { b[len(rest)] = 2; return b },
		"off with a reason":      func(b []byte) []byte { b[len(rest)] = 0; return b },
		"a reason that deceives": func(b []byte) []byte { b[len(b)-1] = 27; return b },
		"an end without length":  func(b []byte) []byte { b[len(rest)+8] = 1; return b },
	} {
		if _, _, err := cutMaintenance(change(append([]byte(nil), whole...)), head); !errors.Is(err, errSense) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
