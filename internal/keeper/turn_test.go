package keeper

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/sidecar"
	"github.com/bully-agent/bully-agent/wire"
)

// inner is a keeper in this process whose turns a test makes one by one.
type inner struct {
	*rig
	k      *keeper
	theirs *sidecar.Conn // the agent's end
	number uint64
}

// inner makes one that runs hooks, by the settings that read gives.
func (r *rig) inner(read Reader) *inner {
	r.t.Helper()
	in := r.unopened(read)
	r.t.Cleanup(func() {
		in.k.close()
		in.until("its end", func() bool { return in.k.phase == over })
		in.k.lock.Close()
	})
	in.gives(order{Do: toOpen, Version: version})
	in.until("it to be open", func() bool { return in.k.phase == opened })
	in.gives(order{Do: toRun})
	in.hears()
	in.takes() // no orphans are left
	return in
}

// unopened makes one that has heard nothing yet.
func (r *rig) unopened(read Reader) *inner {
	r.t.Helper()
	theirs, ours, err := sidecar.Pair()
	if err != nil {
		r.t.Fatal(err)
	}
	timer, err := newTimer()
	if err != nil {
		r.t.Fatal(err)
	}
	in := &inner{rig: r, theirs: theirs, k: newKeeper(ours, agent{pid: unix.Getppid()}, timer, read)}
	r.t.Cleanup(func() { theirs.Close(); ours.Close() })
	return in
}

// gives has an order lie in the pipe.
func (in *inner) gives(o order) {
	in.t.Helper()
	in.number++
	o.Number = in.number
	if err := in.theirs.Send(encodeOrder(o)); err != nil {
		in.t.Fatal(err)
	}
}

// asks has an order for the hook of an event lie there, with a lease; 0: with one that does not end.
func (in *inner) asks(kind hooks.Kind, epoch uint64, lease time.Duration) {
	in.t.Helper()
	o := order{Do: toStart, ID: epoch, Event: in.event(kind, epoch)}
	if lease > 0 {
		o.Lease = now().Add(lease)
	}
	in.gives(o)
}

// until makes turns until it is so.
func (in *inner) until(what string, is func() bool) {
	in.t.Helper()
	in.Until(what, func() bool { in.k.turn(); return is() })
}

func (in *inner) awaitPost() {
	in.t.Helper()
	in.Until("a post", func() bool {
		in.k.posts.mu.Lock()
		defer in.k.posts.mu.Unlock()
		return len(in.k.posts.waiting) > 0
	})
}

// hears and takes are parts of a turn: what the agent has said, and what a worker has posted by now,
// or will.
func (in *inner) hears() {
	in.k.now = now()
	in.k.listen()
}

func (in *inner) takes() {
	in.t.Helper()
	in.awaitPost()
	for _, take := range in.k.posts.take() {
		take()
	}
}

// told gives the result of an event, once it was told.
func (in *inner) told(kind hooks.Kind, epoch uint64) (res hooks.Result) {
	in.t.Helper()
	in.until("the result", func() bool {
		in.k.out.mu.Lock()
		defer in.k.out.mu.Unlock()
		for _, r := range in.k.out.waiting {
			if r.Say == sayEnded && r.Outcome.Kind == kind && r.Outcome.Epoch == epoch {
				res = r.Outcome.result()
				return true
			}
		}
		return false
	})
	return res
}

func fixed(s Settings) Reader { return func() (Settings, error) { return s, nil } }

// A keeper that was stopped between an order and the hook's start hears first what was said
// meanwhile: the lease may have been renewed, and may not.
func TestWhatWasSaidIsHeardBeforeAHookStarts(t *testing.T) {
	t.Parallel()
	for name, isRenewed := range map[string]bool{"renewed": true, "not renewed": false} {
		t.Run(name, func(t *testing.T) {
			const lease = 400 * time.Millisecond
			r := newRig(t)
			in := r.inner(fixed(r.config(scripts{hooks.BecomeLeader: note})))
			in.asks(hooks.BecomeLeader, 1, lease)
			over := now().Add(lease)
			in.hears()
			in.takes()     // it is noted
			in.awaitPost() // and prepared, and then this is stopped
			r.Until("the end of the lease", func() bool { return now().After(over) })
			if isRenewed {
				if err := in.theirs.Send(encodeRenewal(renewal{deadline: now().Add(patience)})); err != nil {
					t.Fatal(err)
				}
			}
			if res := in.told(hooks.BecomeLeader, 1); res.OK != isRenewed || res.Ran != isRenewed {
				t.Errorf("result %+v", res)
			}
		})
	}
}

// Nor is an agent taken for silent whose renewal has come while its keeper was stopped.
func TestWhatWasSaidIsHeardBeforeTheAgentIsJudged(t *testing.T) {
	const lease = 300 * time.Millisecond
	r := newRig(t)
	in := r.inner(fixed(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note})))
	in.asks(hooks.BecomeLeader, 1, patience)
	in.told(hooks.BecomeLeader, 1)
	in.asks(hooks.LeaderChange, 1, 0)
	if err := in.theirs.Send(encodeRenewal(renewal{deadline: now().Add(lease)})); err != nil {
		t.Fatal(err)
	}
	in.k.turn()
	over := now().Add(lease)
	r.Until("the end of the lease", func() bool { return now().After(over) })
	if err := in.theirs.Send(encodeRenewal(renewal{deadline: now().Add(patience)})); err != nil {
		t.Fatal(err)
	}
	in.k.turn()
	if !in.k.lanes.AtRest() {
		t.Error("its leadership was ended")
	}
}

// What the agent said last counts as said before its death: there was a leadership to take over.
func TestLastWordsAreHeardBeforeTheDeath(t *testing.T) {
	r := newRig(t)
	in := r.inner(fixed(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note})))
	in.asks(hooks.BecomeLeader, 7, patience)
	in.k.agent.pid = 0 // it is dead
	in.k.turn()
	if res := in.told(hooks.LoseLeadership, 7); !res.Unasked || !res.TakenOver {
		t.Errorf("result %+v", res)
	}
	in.asks(hooks.BecomeLeader, 8, patience) // nothing begins any more
	in.until("the end", func() bool { return in.k.phase == over })
	if strings.Contains(r.Text("order"), ":8") {
		t.Error("a hook was begun for a dead agent")
	}
}

// dies has the agent die that leads in epoch 1, and waits until nothing of that is left to run.
func (in *inner) dies() {
	in.t.Helper()
	in.asks(hooks.BecomeLeader, 1, 0)
	in.told(hooks.BecomeLeader, 1)
	in.k.will = will{wire.Secret{1}, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9")}}
	in.k.agent.pid = 0
	in.k.turn()
	in.until("the leadership's end", in.k.lanes.AtRest)
}

// A hook that has failed leaves its leadership due, and no disk changes that: nobody waits for it.
func TestNobodyWaitsForADiskThatIsOwed(t *testing.T) {
	r := newRig(t)
	in := r.inner(fixed(r.config(scripts{hooks.LoseLeadership: "exit 1"})))
	in.dies()
	if _, isOwed := in.k.lanes.Owed(); !isOwed || in.k.phase == running {
		t.Errorf("owed: %v, phase %v", isOwed, in.k.phase)
	}
}

// A hook that has succeeded counts once the disk says so. For one that does not the keeper waits a
// while, and tells nobody.
func TestAKeeperWaitsForItsDisk(t *testing.T) {
	r := newRig(t)
	s := r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note + "rm -f state/hook-journal.json; mkdir -p state/hook-journal.json/in-the-way"})
	in := r.inner(fixed(s))
	begun := now() // on a busy machine it has left by the time that dies returns
	in.dies()
	in.until("it to leave", func() bool { return in.k.phase > running })
	if took := now().Sub(begun); took < 500*time.Millisecond || in.k.lanes.IsSettled() {
		t.Errorf("it left after %v, settled: %v", took, in.k.lanes.IsSettled())
	}
}

// reads is a keeper whose settings are read a second time when the test lets them.
func (r *rig) reads(first, then Settings) (in *inner, let chan error) {
	let = make(chan error, 2)
	isFirst := true
	return r.inner(func() (Settings, error) {
		if isFirst {
			isFirst = false
			return first, nil
		}
		return then, <-let
	}), let
}

// Orders that come behind a reload wait for it, since they may be about what has changed; nothing
// else does.
func TestOrdersWaitForAReload(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"that succeeds": nil, "that fails": errors.New("no such file")} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			in, let := r.reads(r.config(scripts{hooks.BecomeLeader: "echo old >>which"}), r.config(scripts{hooks.BecomeLeader: "echo new >>which"}))
			in.gives(order{Do: toReload})
			in.asks(hooks.BecomeLeader, 1, time.Hour)
			in.k.turn()
			if in.k.heard != in.number || !in.k.lanes.AtRest() {
				t.Error("the order was not read, or was not held")
			}
			let <- failure
			want := "new"
			if failure != nil {
				want = "old"
			}
			in.told(hooks.BecomeLeader, 1)
			if got := r.Text("which"); got != want {
				t.Errorf("%q ran, want %q", got, want)
			}
		})
	}
}

// A disk that hangs holds them up for a moment, and not beyond the agent's death.
func TestOrdersDoNotWaitForADisk(t *testing.T) {
	t.Parallel()
	for name, dies := range map[string]bool{"the agent lives": false, "the agent dies": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			in, let := r.reads(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}), r.config(nil))
			in.gives(order{Do: toReload})
			in.asks(hooks.BecomeLeader, 1, patience)
			in.k.turn()
			if dies {
				in.k.agent.pid = 0
				in.k.turn()
				if res := in.told(hooks.LoseLeadership, 1); !res.Unasked {
					t.Errorf("result %+v", res)
				}
			} else if res := in.told(hooks.BecomeLeader, 1); !res.OK {
				t.Errorf("result %+v", res)
			}
			in.gives(order{Do: toReload}) // and once more when that has ended
			in.k.turn()
			let <- nil
			let <- nil
			if !dies {
				in.until("both", func() bool { return !in.k.reading.isOn })
			}
		})
	}
}

// What else is due meanwhile lets no held order go: the settings of before would judge it.
func TestNoOtherDeadlineEndsTheWaitForAReload(t *testing.T) {
	r := newRig(t)
	s := r.config(scripts{hooks.BecomeLeader: note})
	s.Checks = []hooks.Check{{Name: "disk", Command: hooks.Command{Shell: "printf x >>" + r.Path("checked")}, Interval: time.Millisecond, Timeout: patience, Rise: 1, Fall: 1}}
	in, let := r.reads(s, s)
	in.gives(order{Do: toReload})
	in.asks(hooks.BecomeLeader, 1, time.Hour)
	in.k.turn()
	in.k.reading.until = now().Add(time.Hour) // the reload has its time on a busy machine, too
	ran := len(r.Text("checked"))
	in.until("two more runs of the check", func() bool { return len(r.Text("checked")) > ran+1 })
	in.k.shown.next = in.k.now // and so has a look at resources
	in.k.turn()
	if !in.k.lanes.AtRest() {
		t.Error("the order did not wait")
	}
	let <- nil
	in.told(hooks.BecomeLeader, 1)
}

// An agent has said that its leadership ends, and renews no more. It is not judged as silent while that order is held.
func TestAHeldOrderIsHeardBeforeTheAgentIsJudged(t *testing.T) {
	r := newRig(t)
	s := r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note})
	in, let := r.reads(s, s)
	in.asks(hooks.BecomeLeader, 1, patience)
	in.told(hooks.BecomeLeader, 1)
	in.gives(order{Do: toReload})
	in.asks(hooks.LoseLeadership, 1, 0)
	in.k.turn()
	in.k.reading.until = now().Add(time.Hour)
	in.k.renew(renewal{deadline: now()})
	in.k.turn()
	if res := in.told(hooks.LoseLeadership, 1); !res.OK || res.TakenOver {
		t.Errorf("result %+v", res)
	}
	let <- nil
}

// A renewal that comes while an order waits is of the lease that the order begins with.
func TestARenewalReachesWhatWaits(t *testing.T) {
	r := newRig(t)
	in, let := r.reads(r.config(scripts{hooks.BecomeLeader: note}), r.config(scripts{hooks.BecomeLeader: note}))
	in.gives(order{Do: toReload})
	in.asks(hooks.BecomeLeader, 1, 50*time.Millisecond)
	if err := in.theirs.Send(encodeRenewal(renewal{deadline: now().Add(patience)})); err != nil {
		t.Fatal(err)
	}
	in.k.turn()
	let <- nil
	if res := in.told(hooks.BecomeLeader, 1); !res.OK || !res.Ran {
		t.Errorf("result %+v", res)
	}
}
