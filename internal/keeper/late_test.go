package keeper

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
)

// An agent was stopped between its decision to lead and the order for the become hook, and the
// order comes after its lease: another may lead by now. The hook never starts.
func TestAnOrderAfterTheLease(t *testing.T) {
	r := newRig(t)
	d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}))
	const times = 200
	for epoch := range uint64(times) {
		d.Renew(clock().Add(-time.Second), false) // what was renewed before the stop
		d.become(epoch + 1)
		<-d.Results() // of the hook, or that the keeper has taken over
		d.losesAnyhow(epoch + 1)
	}
	if n := strings.Count(r.Text("order"), "become-leader"); n > 0 {
		t.Errorf("%d of %d become hooks started a second after their lease", n, times)
	}
}

// The keeper was stopped, and finds an order whose lease has passed: what its agent has renewed
// meanwhile counts, as it stands behind the order.
func TestAnOrderThatWaitedForItsKeeper(t *testing.T) {
	t.Parallel()
	for name, isRenewed := range map[string]bool{"with its lease renewed": true, "with its lease over": false} {
		t.Run(name, func(t *testing.T) {
			const lease = 500 * time.Millisecond
			r := newRig(t)
			d := r.open(r.config(scripts{hooks.BecomeLeader: note, hooks.LoseLeadership: note}))
			d.leads(6) // and so it has begun to run hooks
			d.lose(6)
			d.wants(hooks.LoseLeadership, 6, true)
			keeper := d.Status().Process
			r.kill(keeper, unix.SIGSTOP)
			r.Until("it to stand still", func() bool { return standsStill(keeper) })
			over := now().Add(lease)
			d.Renew(clock().Add(lease), false)
			d.become(7)
			r.Until("the end of the lease", func() bool { return now().After(over) })
			if isRenewed {
				d.Renew(clock().Add(patience), false)
				d.untilSent()
				d.Renew(clock().Add(patience), false)
				d.untilSent() // and so the first is in the socket
			}
			r.kill(keeper, unix.SIGCONT)
			if isRenewed {
				d.wants(hooks.BecomeLeader, 7, true)
				r.ordered("become-leader:test:6 lose-leadership:test:6 become-leader:test:7")
				return
			}
			d.losesAnyhow(7)
			if strings.Contains(r.Text("order"), "become-leader:test:7") {
				t.Error("the become hook started after its lease")
			}
		})
	}
}

// losesAnyhow ends the leadership of an epoch that the keeper may have ended or dropped already.
func (d *desk) losesAnyhow(epoch uint64) {
	d.t.Helper()
	d.lose(epoch)
	for {
		select {
		case res := <-d.Results():
			if res.Kind == hooks.LoseLeadership && res.Epoch == epoch && !res.Unasked {
				return
			}
		case <-time.After(patience):
			d.t.Fatalf("no result\n%s", d.log)
		}
	}
}

// untilSent waits until the newest renewal does not wait any more.
func (d *desk) untilSent() {
	d.t.Helper()
	d.Until("the renewal to be sent", func() bool {
		d.mu.Lock()
		k := d.keeper
		d.mu.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.renewal == nil
	})
}
