package agent

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/durable"
)

// hangDisk has the next sync in a host's state directory, and all after it, not end before mend.
func hangDisk(t *testing.T, h *testHost) (mend func()) {
	mended := make(chan struct{})
	stop := durable.Watch(func(op durable.Op) error {
		if op.Kind == durable.OpSync && filepath.Dir(op.Path) == h.dir {
			<-mended
		}
		return nil
	})
	t.Cleanup(stop)
	return func() { stop(); close(mended) }
}

// impatient asks as a client does, and fails if there is no answer in time.
func impatient(t *testing.T, what string, ask func(context.Context) error) error {
	t.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	err := ask(ctx)
	if took := time.Since(begun); took > control.AnswerPatience {
		t.Errorf("%s took %v, expected at most %v", what, took, control.AnswerPatience)
	}
	return err
}

const diskHangs = "the agent's loop has waited for its disk for "

// wantStandstill checks that a refusal is one line that names the disk, and whether it says that something was begun.
func wantStandstill(t *testing.T, what string, err error, isBegun bool) {
	t.Helper()
	var refusal *control.APIError
	if !errors.As(err, &refusal) || refusal.Code != "standstill" || !strings.HasPrefix(refusal.Message, diskHangs) {
		t.Errorf("%s: %v", what, err)
	} else if isBegun == strings.Contains(refusal.Hint, "nothing was begun") {
		t.Errorf("%s: %v, and begun was %v", what, err, isBegun)
	}
}

// A loop that waits for its disk does not look alive: status, requests and the leader say so, and all is well once the disk
// answers.
func TestALoopThatWaitsForItsDiskSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		low, mid, top := c.hosts[0], c.hosts[1], c.hosts[2]
		c.startAll()
		if s := top.agent.Status(); s.Standstill != "" || s.LoopAgeMS > 1000 {
			t.Errorf("a loop that turns is said to stand: %q, %d ms", s.Standstill, s.LoopAgeMS)
		}

		mend := hangDisk(t, top)
		err := impatient(t, "step-down", func(ctx context.Context) error { return top.agent.Command(ctx, "step-down", nil) })
		wantStandstill(t, "step-down", err, true)
		time.Sleep(20 * time.Second)

		s := top.agent.Status()
		if !strings.HasPrefix(s.Standstill, diskHangs+"2") || s.LoopAgeMS < 20_000 || s.Ready || s.Leader != nil ||
			s.WhyNoLeader != s.Standstill || !strings.HasPrefix(s.Notes[0], s.Standstill) || !strings.Contains(s.Notes[0], top.dir) {
			t.Errorf("its status says %+v", s)
		}
		for what, ask := range map[string]func(context.Context) error{
			"explain":    func(ctx context.Context) error { _, err := top.agent.Explain(ctx, ""); return err },
			"ok-to-stop": func(ctx context.Context) error { _, err := top.agent.OKToStop(ctx); return err },
			"jobs":       func(ctx context.Context) error { _, err := top.agent.Jobs(ctx, 0); return err },
			"stand":      func(ctx context.Context) error { return top.agent.Command(ctx, "stand", nil) },
		} {
			wantStandstill(t, what, impatient(t, what, ask), false)
		}
		if found, err := top.agent.Examine(t.Context()); err != nil || !strings.HasPrefix(found.Standstill, diskHangs) || found.SyncError == "" {
			t.Errorf("doctor: %v, %q, %q", err, found.Standstill, found.SyncError)
		}
		if said := toldOfStandstill(top); len(said) != 1 || !strings.HasPrefix(said[0], diskHangs) {
			t.Errorf("its events say %q", said)
		}

		leader := c.leader()
		if leader != mid && leader != low {
			t.Fatal("nobody else leads")
		}
		members := leader.agent.Members()
		i := slices.IndexFunc(members, func(m control.Member) bool { return m.Name == top.name })
		if members[i].Status != "alive" || !members[i].Mute {
			t.Errorf("the leader says of it %+v", members[i])
		}
		if notes := leader.agent.Status().Notes; !slices.Contains(notes, muteNote(top.name)) {
			t.Errorf("the leader's notes are %q", notes)
		}

		mend()
		time.Sleep(20 * time.Second)
		if s := top.agent.Status(); s.Standstill != "" || !s.Ready || s.Leader == nil {
			t.Errorf("mended, its status says %+v", s)
		}
		for _, h := range c.hosts {
			if slices.ContainsFunc(h.agent.Members(), func(m control.Member) bool { return m.Mute }) {
				t.Errorf("mended, %s says that somebody is mute", h.name)
			}
		}
		if said := toldOfStandstill(top); len(said) != 2 || said[1] != "the agent's loop turns again" {
			t.Errorf("mended, its events say %q", said)
		}
		c.stopAll()
	})
}

// toldOfStandstill gives the events of a host about that.
func toldOfStandstill(h *testHost) (texts []string) {
	events, _ := h.agent.Events(0)
	for _, e := range events {
		if e.Cause == "standstill" {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// Members that acknowledge heartbeats are not mute, however quiet the cluster is.
func TestNobodyIsMuteInAQuietCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.startAll()
		for range 60 {
			time.Sleep(time.Second)
			for _, h := range c.hosts {
				if notes := h.agent.muted(); len(notes) > 0 {
					t.Fatalf("%s calls mute: %v", h.name, notes)
				}
			}
		}
		c.stopAll()
	})
}

// A member that was cut off or paused answers pings again before it acknowledges a heartbeat: it is not mute for that.
func TestAMemberThatIsBackIsNotMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 6) // so two rounds of pings take longer than that
		c.startAll()
		leader, cut := c.leader(), c.hosts[0]
		for i := range 20 {
			c.lan.Isolate(cut.name)
			time.Sleep(6*time.Second + time.Duration(i)*50*time.Millisecond)
			cut.agent.calls <- func() { time.Sleep(900 * time.Millisecond) } // its loop has much to do, and its memberlist has not
			c.lan.Plug(cut.name)
			time.Sleep(10 * time.Second)
		}
		events, _ := leader.agent.Events(0)
		for _, e := range events {
			if e.Cause == "mute" {
				t.Errorf("it says: %s", e.Text)
			}
		}
		c.stopAll()
	})
}

// Of two looks one may follow the other at once, since a turn of the loop was long: a member is mute by neither. Nor is it by what
// it owed before it was silent.
func TestAMemberHasASecondForTheFrameItOwes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.startAll()
		leader, low := c.leader().agent, c.hosts[0]
		state := make(chan heard)
		look := func() (isMute bool, of heard) {
			leader.calls <- func() {
				leader.lookForMute()
				isMute = slices.Contains(leader.mute, low.agent.seat.state.ID)
				state <- leader.hearing.about(low.agent.seat.state.ID)
			}
			of = <-state
			return isMute, of
		}
		// awaits gives when it owes a frame, and when it is mute.
		awaits := func() (owes, mute time.Time) {
			for range 400 {
				isMute, of := look()
				if owes.IsZero() && !of.owed.IsZero() {
					owes = time.Now()
				}
				if isMute {
					return owes, time.Now()
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Fatalf("it is not mute after 20 s, and owed a frame since %v", owes)
			return owes, mute
		}
		mended := make(chan struct{})
		low.agent.calls <- func() { <-mended }
		if owes, mute := awaits(); mute.Sub(owes) < lookInterval {
			t.Errorf("it is mute %v after it owed a frame", mute.Sub(owes))
		}
		c.lan.Isolate(low.name)
		for isMute := true; isMute; time.Sleep(50 * time.Millisecond) {
			isMute, _ = look()
		}
		c.lan.Plug(low.name)
		back := time.Now()
		if _, mute := awaits(); mute.Sub(back) < lookInterval {
			t.Errorf("it is mute %v after it is back", mute.Sub(back))
		}
		close(mended)
		c.stopAll()
	})
}

// muted names whom a host says to be mute, on any goroutine.
func (a *agent) muted() (names []string) {
	for _, m := range a.Members() {
		if m.Mute {
			names = append(names, m.Name)
		}
	}
	return names
}
