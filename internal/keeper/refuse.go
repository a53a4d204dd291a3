package keeper

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/bully-agent/bully-agent/hooks"
)

// What a keeper does not believe. Its agent reads the network, and a fault in that may put
// words into its mouth. So an order can have the configured commands run, with what they are
// told of the cluster, in the order and at the rate of an agent that is well; and no more:
//
//   - it names a hook or a job, and what is run was read from the configuration (Settings);
//   - names of variables are fixed, and values are made of harmless letters (hooks.Event.Sane);
//   - epochs rise; how far is the election's to bound, which knows what others have led in;
//   - what is begun is bounded in number and rate, and so is what waits, with the members that its hook
//     is told of, and what the agent leaves unread; of a job as many attempts run at a time as its settings let overlap, and of all jobs
//     one each and sixteen more;
//   - a message is bounded before it is decoded, in bytes and in what these can become; its fields are
//     known, and nothing comes with it (package sidecar);
//   - a become-leader starts only while the agent could not count as silent: an order that
//     comes after its lease, since agent or keeper was stopped meanwhile, starts nothing;
//   - a will is the keeper's one secret, said to some addresses when the agent is dead.
//
// An agent that is well meets none of these bounds. Where one is met somebody is told: a
// hook or a job that is refused has failed.

const (
	// maxQueued is how many leadership events may wait. Arbitrary: an agent that is well
	// has two or three.
	maxQueued = 1000

	// maxWaitingMembers is how many members all of these may tell of together: an event tells of those for which there is
	// room, and runs. Arbitrary: ten events of an agent that is well, among two thousand.
	maxWaitingMembers = 20_000

	// maxHeld is how many orders wait for the settings to be read, and maxUnread how many reports, besides log lines, for an
	// agent that reads none; then none of its orders is read either. Arbitrary: of an agent that is well the pipe holds
	// fewer.
	maxHeld   = 512
	maxUnread = 512

	// maxAtOnce is how many messages are read in one turn of the loop, so that no agent keeps it from the rest; a longer one than
	// messageSize counts as several. Arbitrary: far more than a pipe holds, since all that the agent said before a time must have
	// been heard when it is judged by that.
	maxAtOnce   = 20_000
	messageSize = 1 << 10

	// maxHeirs bounds who is told of a death: the voters, or who gets every heartbeat.
	maxHeirs = 64
)

// The rates at which an order may have something begun. Arbitrary: far above what leaders,
// members and schedules change.
var (
	leadershipRate   = pace{burst: 200, refill: 5}
	notificationRate = pace{burst: 1000, refill: 20}
	questionRate     = pace{burst: 100, refill: 16} // each of the programs that name hosts once a second
)

// pace is a number at once, and of more for each second.
type pace struct {
	burst  int
	refill rate.Limit
}

func (p pace) limiter() *rate.Limiter { return rate.NewLimiter(p.refill, p.burst) }

// bounds is what a keeper has granted so far.
type bounds struct {
	leadership, notification, question *rate.Limiter

	began  uint64    // the highest epoch whose become-leader was asked for
	queued []int     // leadership events without a result, in the order in which they get one: how many members each tells of
	saidAt time.Time // when a refusal was logged last
	atOnce int       // messages of one turn: maxAtOnce, but in tests

	hasRecovered, hasSwept bool // of jobs: what takes a goroutine, and is done once
}

func newBounds() bounds {
	return bounds{atOnce: maxAtOnce, leadership: leadershipRate.limiter(), notification: notificationRate.limiter(), question: questionRate.limiter()}
}

// admit judges an event that is to be queued; why says that it is not to be. An event of a
// leadership must have a result, so a become-leader that may not start is queued with a bar.
func (b *bounds) admit(ev *hooks.Event) (why string, bar error) {
	switch ev.Kind {
	case hooks.BecomeLeader, hooks.LoseLeadership:
		if len(b.queued) >= maxQueued {
			return "too many events of leaderships wait", nil
		}
		if room := max(maxWaitingMembers-sum(b.queued), 0); len(ev.Members) > room {
			ev.Members = slices.Clone(ev.Members[:room])
		}
		b.queued = append(b.queued, len(ev.Members))
		if ev.Kind == hooks.BecomeLeader {
			bar = b.unfit(ev.Epoch.Counter)
		}
		return "", bar
	case hooks.LeaderChange, hooks.MemberChange:
		if !b.notification.AllowN(now(), 1) {
			return "too many notifications", nil
		}
		return "", nil
	}
	return "there is no such event", nil
}

// unfit says why the become-leader hook of an epoch may not start; nil if it may.
func (b *bounds) unfit(epoch uint64) error {
	switch {
	case epoch < b.began:
		return fmt.Errorf("not started: epoch %d has ended, %d has begun", epoch, b.began)
	case !b.leadership.AllowN(now(), 1):
		return errors.New("not started: too many leaderships in a short time")
	}
	b.began = epoch
	return nil
}

// settled is called with each result of a leadership event.
func (b *bounds) settled() {
	if len(b.queued) > 0 {
		b.queued = b.queued[1:]
	}
}

func sum(all []int) (n int) {
	for _, one := range all {
		n += one
	}
	return n
}

// unnamed says why an attempt of a job is none; "" if it is one. Whether it may begin is for Lanes to say.
func unnamed(a hooks.JobAttempt, isKnown bool) (why string) {
	switch {
	case !isKnown:
		return "not started: the keeper has not read of such a job"
	case !hooks.IsWord(a.ID):
		return "not started: that is no name of a run"
	}
	return ""
}

// areHeirs reports whether these may be told of the agent's death.
func areHeirs(heirs []netip.AddrPort) bool {
	return len(heirs) <= maxHeirs && !slices.ContainsFunc(heirs, func(to netip.AddrPort) bool { return !to.IsValid() })
}

// sane is a time that all can work with which it is handed to: the 584 years that the clock can tell.
func sane(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return time.Unix(0, at.UnixNano())
}

// noteRefusal logs one a second at most.
func (k *keeper) noteRefusal(what, why string) {
	if at := now(); k.bounds.saidAt.IsZero() || at.Sub(k.bounds.saidAt) >= time.Second {
		k.bounds.saidAt = at
		k.out.logger().Error("order of the agent refused by its keeper", "order", what, "err", why)
	}
}
