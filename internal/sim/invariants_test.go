package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/wire"
)

// The invariants bite: each is shown a history that breaks it, made by hand, and
// none that keeps it.

// stage is a small world in which nothing happens by itself.
func stage(t *testing.T, mode Mode) *World {
	t.Helper()
	o := Options{Seed: 1, Nodes: 3, Mode: mode}
	w := newWorld(&o)
	w.beyond, w.mixed, w.drift, w.nearEnd = noFault, noFault, false, false
	w.keepers.isPlain, w.bars.some, w.checks.all = true, false, nil
	w.waived = [invariants]bool{}
	w.base = election.Config{MinAcks: election.AutoMinAcks, Heartbeat: 50 * time.Millisecond, Lease: 400 * time.Millisecond,
		StopBudget: 100 * time.Millisecond, Algorithm: election.Classic}
	w.weather = weather{delay: time.Millisecond}
	w.populate()
	for _, m := range w.machines {
		m.cfg.Part, m.checkFails = election.Voter, false
		if mode == Quorum {
			m.cfg.Expect = 3
		}
	}
	w.record = newRecord(w.net.size)
	w.now = int64(10 * time.Second)
	for _, m := range w.machines {
		m.disk.state = election.Saved{Incarnation: 1, MaxCounter: 9, Vote: wire.Epoch{Counter: 9, Owner: m.id},
			Roster: election.Roster{Version: 1, Formed: true, IDs: []wire.ID{w.machines[0].id, w.machines[1].id, w.machines[2].id}}}
		w.start(m)
		w.replaceKeeper(m)
	}
	w.pass(0)
	return w
}

// lead makes a machine a leader in the eyes of the invariants, with so much of
// its lease left.
func (w *World) lead(m *machine, counter uint64, left time.Duration) {
	m.state, m.epoch, m.leader = election.Lead, wire.Epoch{Counter: counter, Owner: m.id}, m.id
	m.lease, m.leaseSeen, m.need = m.clock.at(w.now)+int64(left), true, 1
}

func (w *World) hearAll(leader *machine, for_ time.Duration) {
	for _, m := range w.machines {
		if m != leader {
			m.heardEpoch, m.epoch, m.heardAt, m.freshFrom = leader.epoch, leader.epoch, w.now, w.now-int64(for_)
		}
	}
}

// forgetPromise has m save a shorter longest promise, long after it began with one of
// this length and made one of two seconds.
func (w *World) forgetPromise(m *machine, inherited time.Duration) {
	m.inherited, m.disk.state.LongestPromise = inherited, 2*time.Second
	w.now += int64(time.Minute)
	is := m.disk.state
	is.LongestPromise = time.Second
	w.save(m, is)
}

func epochOf(m *machine, counter uint64) wire.Epoch { return wire.Epoch{Counter: counter, Owner: m.id} }

func TestInvariantsBite(t *testing.T) {
	const lease = 400 * time.Millisecond
	for _, c := range []struct {
		name   string
		number int
		mode   Mode
		good   func(w *World, a, b *machine)
		bad    func(w *World, a, b *machine)
	}{
		{"counter falls", 1, Available,
			func(w *World, a, _ *machine) {
				w.save(a, election.Saved{Incarnation: 2, MaxCounter: 9, Roster: a.disk.state.Roster})
			},
			func(w *World, a, _ *machine) { w.save(a, election.Saved{Incarnation: 2, MaxCounter: 8}) }},
		{"a promise of this life is forgotten", 1, Quorum,
			func(w *World, a, _ *machine) { w.forgetPromise(a, 2*time.Second) },
			func(w *World, a, _ *machine) { w.forgetPromise(a, time.Second) }},
		{"epoch shown before it is saved", 2, Available,
			func(w *World, a, b *machine) { w.watchFrame(a, b, &wire.Frame{Kind: wire.Probe, Epoch: epochOf(a, 9)}) },
			func(w *World, a, b *machine) {
				w.watchFrame(a, b, &wire.Frame{Kind: wire.Probe, Epoch: epochOf(a, 10)})
			}},
		{"another's epoch announced", 2, Available,
			func(w *World, a, b *machine) {
				w.watchFrame(a, b, &wire.Frame{Kind: wire.Coordinator, Epoch: epochOf(a, 9)})
			},
			func(w *World, a, b *machine) {
				w.watchFrame(a, b, &wire.Frame{Kind: wire.Coordinator, Epoch: epochOf(b, 9)})
			}},
		{"one epoch in two lives", 2, Available,
			func(w *World, a, b *machine) {
				w.watchFrame(a, b, &wire.Frame{Kind: wire.Heartbeat, Epoch: epochOf(a, 9)})
			},
			func(w *World, a, b *machine) {
				w.watchFrame(a, b, &wire.Frame{Kind: wire.Heartbeat, Epoch: epochOf(a, 9)})
				a.nonce++
				a.shown = wire.Epoch{}
				w.watchFrame(a, b, &wire.Frame{Kind: wire.Heartbeat, Epoch: epochOf(a, 9)})
			}},
		{"two leaders of one counter", 3, Quorum,
			func(w *World, a, b *machine) { w.i3OneActivePerCounter(a, &election.Transition{Epoch: epochOf(a, 9)}) },
			func(w *World, a, b *machine) {
				w.i3OneActivePerCounter(a, &election.Transition{Epoch: epochOf(a, 9)})
				w.i3OneActivePerCounter(b, &election.Transition{Epoch: epochOf(b, 9)})
			}},
		{"grant without a vote on disk", 4, Quorum,
			func(w *World, a, b *machine) { w.grantTo(b, a, 9) },
			func(w *World, a, b *machine) {
				b.disk.state.Vote = wire.Epoch{Counter: 9, Owner: b.id}
				w.claimAt(b, a, 1)
				w.watchFrame(b, a, &wire.Frame{Kind: wire.CoordAck, Epoch: epochOf(a, 9), EchoSeq: 1})
			}},
		{"two grants of one counter", 4, Quorum,
			func(w *World, a, b *machine) { w.grantTo(b, a, 8); w.grantTo(b, w.machines[2], 9) },
			func(w *World, a, b *machine) { w.grantTo(b, a, 9); w.grantTo(b, w.machines[2], 9) }},
		{"two act at once", 5, Quorum,
			func(w *World, a, b *machine) {
				w.lead(b, 8, -time.Millisecond)
				w.lead(a, 9, lease)
				w.i5AtMostOneActs(a)
			},
			func(w *World, a, b *machine) {
				w.lead(b, 8, time.Millisecond)
				w.lead(a, 9, lease)
				w.i5AtMostOneActs(a)
			}},
		{"a frozen leader still counts", 5, Quorum,
			func(w *World, a, b *machine) { w.lead(a, 9, lease); w.i5AtMostOneActs(a) },
			func(w *World, a, b *machine) {
				w.lead(b, 8, time.Millisecond)
				b.frozen = true
				w.lead(a, 9, lease)
				w.i5AtMostOneActs(a)
			}},
		{"epoch falls", 6, Available,
			func(w *World, a, b *machine) {
				a.epoch = epochOf(b, 7)
				a.disk.state.Accepted = epochOf(b, 8)
				w.onTransition(a, &election.Transition{To: election.Follow, Epoch: epochOf(b, 8), Leader: b.id})
			},
			func(w *World, a, b *machine) {
				a.epoch = epochOf(b, 7)
				w.onTransition(a, &election.Transition{To: election.Follow, Epoch: epochOf(b, 6), Leader: b.id})
			}},
		{"an epoch is accepted before it is saved", 6, Available,
			func(w *World, a, b *machine) {
				a.saveDown = true
				w.onTransition(a, &election.Transition{To: election.Follow, Epoch: epochOf(b, 8), Leader: b.id})
			},
			func(w *World, a, b *machine) {
				w.onTransition(a, &election.Transition{To: election.Follow, Epoch: epochOf(b, 8), Leader: b.id})
			}},
		{"epoch falls over a restart", 6, Quorum,
			func(w *World, a, b *machine) {
				a.disk.state.Accepted = epochOf(b, 8)
				w.onTransition(a, &election.Transition{To: election.Follow, Epoch: epochOf(b, 8), Leader: b.id})
				w.kill(a, PowerLoss)
				w.start(a)
				a.disk.state.Accepted = epochOf(b, 9)
				w.onTransition(a, &election.Transition{To: election.Follow, Epoch: epochOf(b, 9), Leader: b.id})
			},
			func(w *World, a, b *machine) {
				a.disk.state.Accepted = epochOf(b, 8)
				w.onTransition(a, &election.Transition{To: election.Follow, Epoch: epochOf(b, 8), Leader: b.id})
				w.kill(a, PowerLoss)
				w.start(a)
				w.onTransition(a, &election.Transition{To: election.Follow, Epoch: epochOf(b, 7), Leader: b.id})
			}},
		{"all follow an old epoch", 20, Available,
			func(w *World, a, b *machine) {
				w.lead(a, 8, lease)
				b.accepted = epochOf(a, 8)
				w.i20TheOneLeaderIsTheNewest()
			},
			func(w *World, a, b *machine) {
				w.lead(a, 8, lease)
				b.accepted = epochOf(b, 9)
				w.i20TheOneLeaderIsTheNewest()
			}},
		{"leader is not the owner", 7, Available,
			func(w *World, a, b *machine) {
				w.i7OneEpochOneLeader(a, &election.Transition{To: election.Follow, Epoch: epochOf(b, 8), Leader: b.id})
			},
			func(w *World, a, b *machine) {
				w.i7OneEpochOneLeader(a, &election.Transition{To: election.Follow, Epoch: epochOf(b, 8), Leader: a.id})
			}},
		{"an epoch leads twice", 7, Available,
			func(w *World, a, b *machine) {
				w.i7OneEpochOneLeader(a, &election.Transition{To: election.Lead, Epoch: epochOf(a, 8)})
			},
			func(w *World, a, b *machine) {
				w.i7OneEpochOneLeader(a, &election.Transition{To: election.Lead, Epoch: epochOf(a, 8)})
				w.i7OneEpochOneLeader(a, &election.Transition{To: election.Lead, Epoch: epochOf(a, 8)})
			}},
		{"become twice without lose", 8, Available,
			func(w *World, a, b *machine) { w.become(a, 8) },
			func(w *World, a, b *machine) { w.become(a, 8); w.become(a, 9) }},
		{"become after the lease", 8, Available,
			func(w *World, a, b *machine) { w.become(a, 8) },
			func(w *World, a, b *machine) {
				w.lead(a, 8, -time.Millisecond)
				w.i8BecomeOnlyWithLease(a, a.epoch)
			}},
		{"lose without become", 8, Available,
			func(w *World, a, b *machine) {
				w.become(a, 8)
				w.sees(a, hooks.LoseLeadership, 8)
			},
			func(w *World, a, b *machine) { w.sees(a, hooks.LoseLeadership, 8) }},
		{"lose once more after it has succeeded", 8, Available,
			func(w *World, a, b *machine) {
				w.become(a, 8)
				w.sawEnd(w.sees(a, hooks.LoseLeadership, 8), false)
				w.sees(a, hooks.LoseLeadership, 8)
			},
			func(w *World, a, b *machine) {
				w.become(a, 8)
				w.sawEnd(w.sees(a, hooks.LoseLeadership, 8), true)
				w.sees(a, hooks.LoseLeadership, 8)
			}},
		{"a state file forgets what the journal does not have", 8, Available,
			func(w *World, a, b *machine) {
				w.become(a, 8)
				a.hooks.disk.page.Owed = &hooks.Epoch{Counter: 8}
				w.i8DebtIsForgottenLast(a, epochOf(a, 8))
			},
			func(w *World, a, b *machine) { w.become(a, 8); w.i8DebtIsForgottenLast(a, epochOf(a, 8)) }},
		{"something of a become hook lives on", 8, Available,
			func(w *World, a, b *machine) { w.become(a, 8); w.sees(a, hooks.LoseLeadership, 8) },
			func(w *World, a, b *machine) {
				w.become(a, 8)
				a.hooks.left = []leftover{{hooks.BecomeLeader, 8, 1}}
				w.sees(a, hooks.LoseLeadership, 8)
			}},
		{"a become hook of what is not on disk", 8, Available,
			func(w *World, a, b *machine) {
				a.disk.state.Promoted = epochOf(a, 8)
				w.i8BecomeIsOnDisk(a, epochOf(a, 8))
			},
			func(w *World, a, b *machine) { w.i8BecomeIsOnDisk(a, epochOf(a, 8)) }},
		{"hooks of two hosts overlap", 9, Quorum,
			func(w *World, a, b *machine) { b.hooks.acting = epochOf(b, 7); b.suspended = true; w.become(a, 8) }, // its host runs nothing
			func(w *World, a, b *machine) { b.hooks.acting = epochOf(b, 7); w.become(a, 8) }},
		{"a frozen agent's keeper has not ended", 9, Quorum,
			func(w *World, a, b *machine) {
				w.takeOver(b, 7)
				w.freeze(b, Freeze, time.Hour)
				w.pass(lease)
				w.become(a, 8)
			},
			func(w *World, a, b *machine) {
				w.takeOver(b, 7)
				w.freeze(b, Freeze, time.Hour)
				w.pass(40 * time.Millisecond)
				w.become(a, 8)
			}},
		{"a dead agent's keeper has not ended", 9, Quorum,
			func(w *World, a, b *machine) { w.takeOver(b, 7); w.kill(b, Crash); w.pass(lease); w.become(a, 8) },
			func(w *World, a, b *machine) { w.takeOver(b, 7); w.kill(b, Crash); w.become(a, 8) }},
		{"a keeper that died while its agent was dead", 9, Quorum,
			func(w *World, a, b *machine) {
				w.keepers.isPlain = false
				w.takeOver(b, 7)
				w.kill(b, Crash)
				w.killKeeper(b, KeeperDies)
				w.pass(lease)
				w.become(a, 8)
			},
			func(w *World, a, b *machine) {
				w.keepers.isPlain = false
				w.takeOver(b, 7)
				w.kill(b, Crash)
				w.killKeeper(b, KeeperDies)
				w.pass(lease / 5)
				w.become(a, 8)
			}},
		{"a lease that is lent", 9, Quorum,
			func(w *World, a, b *machine) {
				b.hooks.holder = &holder{until: b.clock.at(w.now) + int64(lease), endsAt: w.now + int64(lease)/2}
				w.pass(lease / 2)
				w.become(a, 8)
			},
			func(w *World, a, b *machine) {
				b.hooks.holder = &holder{until: b.clock.at(w.now) + int64(lease), endsAt: w.now + int64(lease)/2}
				w.pass(lease / 4)
				w.become(a, 8)
			}},
		{"a coup", 10, Available,
			func(w *World, a, b *machine) { w.lead(b, 8, lease); w.hearAll(b, lease); w.i10NoCoup(a) }, // not for long enough
			func(w *World, a, b *machine) { w.lead(b, 8, lease); w.hearAll(b, 3*lease); w.i10NoCoup(a) }},
		{"an observer claims", 11, Available,
			func(w *World, a, _ *machine) { w.i11ClaimantIsElectable(a, &election.Transition{}) },
			func(w *World, a, _ *machine) {
				a.cfg.Part = election.Observer
				w.i11ClaimantIsElectable(a, &election.Transition{})
			}},
		{"somebody claims without a disk", 11, Available,
			func(w *World, a, _ *machine) { w.i11ClaimantIsElectable(a, &election.Transition{}) },
			func(w *World, a, _ *machine) { a.saveDown = true; w.i11ClaimantIsElectable(a, &election.Transition{}) }},
		{"somebody outside the roster claims", 11, Quorum,
			func(w *World, a, _ *machine) { w.i11ClaimantIsElectable(a, &election.Transition{}) },
			func(w *World, a, _ *machine) {
				a.disk.state.Roster.IDs = a.disk.state.Roster.IDs[1:]
				w.i11ClaimantIsElectable(a, &election.Transition{})
			}},
		{"somebody claims that ends since another has its id", 11, Available,
			func(w *World, a, _ *machine) { w.claimsAside(a, false) },
			func(w *World, a, _ *machine) { w.claimsAside(a, true) }},
		{"somebody claims that a host list leaves out", 11, Available,
			func(w *World, a, _ *machine) { w.i11ClaimantIsElectable(a, &election.Transition{}) },
			func(w *World, a, _ *machine) {
				w.bar(a, election.BarListed, true)
				w.i11ClaimantIsElectable(a, &election.Transition{})
			}},
		{"a claim within the lease of a leader that is out of the list", 30, Available,
			func(w *World, a, b *machine) { w.claimsAfterUnlisting(a, b, lease) },
			func(w *World, a, b *machine) { w.claimsAfterUnlisting(a, b, lease/2) }},
		{"nobody leads in the end", 12, Available,
			func(w *World, a, b *machine) {},
			func(w *World, a, b *machine) { w.i12OneLeader(time.Second) }},
		{"a change without a cause", 13, Available,
			func(w *World, a, b *machine) {
				w.record.changes = []change{{cause: election.HandedOver}}
				w.base.Preempt = election.PreemptAlways
				w.i13NoChangeWithoutACause()
			},
			func(w *World, a, b *machine) {
				w.record.changes = []change{{cause: election.LeaderFailed}}
				w.i13NoChangeWithoutACause()
			}},
		{"a change long after a return", 13, Available,
			func(w *World, a, b *machine) {
				w.record.returned = []int64{5}
				w.record.changes = []change{{at: 5, cause: election.ReMinted}}
				w.i13NoChangeWithoutACause()
			},
			func(w *World, a, b *machine) {
				w.record.returned = []int64{5}
				w.record.changes = []change{{at: 5 + int64(w.joinedWithin()), cause: election.ReMinted}}
				w.i13NoChangeWithoutACause()
			}},
		{"a leader that is moved by followers' bars", 25, Available,
			func(w *World, a, b *machine) { // it is moved by a host that knows a higher epoch
				w.record.returned = []int64{w.now - int64(w.joinedWithin()) + 1}
				w.i25NobodyIsMovedByFollowers(a, wire.Epoch{Counter: 9, Owner: a.id})
			},
			func(w *World, a, b *machine) {
				w.record.returned = []int64{w.now - int64(w.joinedWithin())}
				w.i25NobodyIsMovedByFollowers(a, wire.Epoch{Counter: 9, Owner: a.id})
			}},
		{"a leader in the dark", 27, Available,
			func(w *World, a, b *machine) { // the others are copies of it
				w.lead(a, 9, lease)
				b.copyOf, w.machines[2].copyOf = a, a
				w.i27NobodyLeadsInTheDark(w.now + int64(time.Millisecond))
			},
			func(w *World, a, b *machine) {
				w.lead(a, 9, lease)
				w.i27NobodyLeadsInTheDark(w.now + int64(time.Millisecond))
			}},
		{"a lease without acknowledgements", 14, Quorum,
			func(w *World, a, b *machine) {
				a.ackAt[b.number-1] = w.now
				w.lead(a, 9, lease)
				w.i14GivesUpWithoutAcks(a)
			},
			func(w *World, a, b *machine) {
				a.ackAt[b.number-1] = w.now - int64(lease)/10
				w.lead(a, 9, lease)
				w.i14GivesUpWithoutAcks(a)
			}},
		{"a heartbeat after the lease", 15, Available,
			func(w *World, a, b *machine) {
				w.lead(a, 9, time.Millisecond)
				w.watchFrame(a, b, &wire.Frame{Kind: wire.Heartbeat, Epoch: a.epoch})
			},
			func(w *World, a, b *machine) {
				w.lead(a, 9, 0)
				w.watchFrame(a, b, &wire.Frame{Kind: wire.Heartbeat, Epoch: a.epoch})
			}},
		{"RESIGN before lose has ended", 18, Available,
			func(w *World, a, b *machine) {
				w.watchFrame(a, b, &wire.Frame{Kind: wire.Resign, Epoch: epochOf(a, 9)})
			},
			func(w *World, a, b *machine) {
				a.hooks.acting = epochOf(a, 9)
				w.watchFrame(a, b, &wire.Frame{Kind: wire.Resign, Epoch: epochOf(a, 9)})
			}},
		{"a will before lose has succeeded", 18, Quorum,
			func(w *World, a, _ *machine) { a.hooks.held = epochOf(a, 8); w.willOf(a) },
			func(w *World, a, _ *machine) { a.hooks.held = epochOf(a, 9); w.willOf(a) }},
		{"a will while it acts", 18, Quorum,
			func(w *World, a, _ *machine) { w.willOf(a) },
			func(w *World, a, _ *machine) { a.hooks.acting = epochOf(a, 9); w.willOf(a) }},
		{"a will before the disk has it", 18, Quorum,
			func(w *World, a, _ *machine) { a.hooks.disk.synced.Owed = &hooks.Epoch{Counter: 8}; w.willOf(a) },
			func(w *World, a, _ *machine) { a.hooks.disk.synced.Owed = &hooks.Epoch{Counter: 9}; w.willOf(a) }},
		{"a will of who lives", 18, Quorum,
			func(w *World, a, b *machine) {
				w.wills.of = map[wire.Commitment]testator{{1}: {a, a.life + 1, 0}}
				w.i18WillOfTheDead(b, wire.Commitment{1})
			},
			func(w *World, a, b *machine) {
				w.wills.of = map[wire.Commitment]testator{{1}: {a, a.life, 0}}
				w.i18WillOfTheDead(b, wire.Commitment{1})
			}},
		{"lose by another keeper, though it was noted", 8, Available,
			func(w *World, a, b *machine) {
				w.become(a, 8)
				w.sawEnd(w.sees(a, hooks.LoseLeadership, 8), true)
				a.hooks.disk.page.Owed = &hooks.Epoch{Counter: 8}
				w.sees(a, hooks.LoseLeadership, 8)
			},
			func(w *World, a, b *machine) {
				w.become(a, 8)
				w.sawEnd(w.sees(a, hooks.LoseLeadership, 8), true)
				a.hooks.disk.page.Owed, a.hooks.isNoted = &hooks.Epoch{Counter: 8}, true
				w.sees(a, hooks.LoseLeadership, 8)
			}},
		{"the successor does not lead", 18, Available,
			func(w *World, a, b *machine) { w.i18SuccessorLeads(a, b, true) },
			func(w *World, a, b *machine) { w.i18SuccessorLeads(a, b, false) }},
		{"too many repetitions", 19, Available,
			func(w *World, a, b *machine) { w.repeat(a, b, 2) },
			func(w *World, a, b *machine) { w.repeat(a, b, 3) }},
		{"a later leadership has a lower token", 20, Quorum,
			func(w *World, a, b *machine) { w.ascend(a, 8); w.ascend(b, 9) },
			func(w *World, a, b *machine) { w.ascend(a, 9); w.ascend(b, 8) }},
		{"the leader's write is refused", 20, Quorum,
			func(w *World, a, b *machine) {
				w.arrive(a, epochOf(a, 8), 1, true)
				w.arrive(b, epochOf(b, 9), 2, true)
				w.arrive(a, epochOf(a, 8), 1, false)
			},
			func(w *World, a, b *machine) {
				w.arrive(a, epochOf(a, 9), 1, true)
				w.arrive(b, epochOf(b, 8), 2, true)
			}},
		{"a node waits for nothing", 22, Available,
			func(w *World, a, _ *machine) { w.i22AlwaysAwaitsSomething(a) },
			func(w *World, a, _ *machine) {
				cfg := a.cfg
				cfg.ID, cfg.Part, cfg.Rand = a.id, election.Observer, rand.New(rand.NewPCG(1, 1))
				a.node, _ = election.New(cfg, election.Saved{}, epoch)
				a.node.Step(epoch.Add(time.Minute), election.Tick{}) // an observer waits for nothing, and may: but a is none
				w.i22AlwaysAwaitsSomething(a)
			}},
		{"a deadline is always due", 22, Available,
			func(w *World, a, _ *machine) { w.spin(a, 50) },
			func(w *World, a, _ *machine) { w.spin(a, 200) }},
		{"frames breed frames", 22, Available,
			func(w *World, a, _ *machine) { w.step(a, election.Tick{}) },
			func(w *World, a, _ *machine) { w.steps = 10_000_000; w.step(a, election.Tick{}) }},
		{"a roster told before it is saved", 23, Quorum,
			func(w *World, a, b *machine) { w.tellRoster(a, b, 1) },
			func(w *World, a, b *machine) { w.tellRoster(a, b, 16) }},
		{"a roster acknowledged before it is saved", 23, Quorum,
			func(w *World, a, b *machine) {
				w.watchFrame(a, b, &wire.Frame{Kind: wire.RosterAck, RosterVersion: 1})
			},
			func(w *World, a, b *machine) {
				w.watchFrame(a, b, &wire.Frame{Kind: wire.RosterAck, RosterVersion: 16})
			}},
		{"forgotten on the leader's disk alone", 23, Quorum,
			func(w *World, a, b *machine) {
				w.tellRoster(a, b, 1)
				w.watchFrame(b, a, &wire.Frame{Kind: wire.RosterAck, RosterVersion: 1})
				w.i23ForgottenOnDisks(a, wire.ID{1: 9})
			},
			func(w *World, a, b *machine) {
				w.tellRoster(a, b, 1)
				w.i23ForgottenOnDisks(a, wire.ID{1: 9})
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := stage(t, c.mode)
			c.good(w, w.machines[0], w.machines[1])
			if w.failure != nil {
				t.Fatalf("a good history is called a violation: %s", w.failure.Text)
			}
			w = stage(t, c.mode)
			c.bad(w, w.machines[0], w.machines[1])
			if w.failure == nil || w.failure.Invariant != c.number {
				t.Errorf("want a violation of I%d, got %+v", c.number, w.failure)
			}
			w = stage(t, c.mode)
			w.waived[c.number] = true
			c.bad(w, w.machines[0], w.machines[1])
			if w.failure != nil || w.waives[c.number] == 0 {
				t.Errorf("waived, but got %+v and a count of %d", w.failure, w.waives[c.number])
			}
		})
	}
}

func (w *World) claimAt(voter, claimant *machine, seq uint32) {
	w.watchArrival(voter, claimant, &wire.Frame{Kind: wire.Coordinator, Phase: wire.Claim, Seq: seq})
}

func (w *World) grantTo(voter, claimant *machine, counter uint64) {
	w.claimAt(voter, claimant, 1)
	voter.disk.state.Vote = epochOf(claimant, counter)
	w.watchFrame(voter, claimant, &wire.Frame{Kind: wire.CoordAck, Epoch: epochOf(claimant, counter), EchoSeq: 1})
}

// claimsAside has a machine claim, which may have met another of its id.
func (w *World) claimsAside(m *machine, hasMet bool) {
	m.refused = hasMet
	w.i11ClaimantIsElectable(m, &election.Transition{})
}

// become has the become hook of a leadership begin.
func (w *World) become(m *machine, counter uint64) {
	w.lead(m, counter, 100*time.Millisecond)
	w.sees(m, hooks.BecomeLeader, counter)
}

// sees is what the world sees when a hook begins.
func (w *World) sees(m *machine, kind hooks.Kind, counter uint64) *group {
	g := &group{keeper: &keeper{host: m}, kind: kind, epoch: epochOf(m, counter)}
	w.sawBegin(g)
	return g
}

// takeOver is become, by the machine's keeper.
func (w *World) takeOver(m *machine, counter uint64) {
	w.lead(m, counter, 100*time.Millisecond)
	w.renewKeeper(m, epoch.Add(time.Duration(m.lease)))
	m.disk.state.Promoted = m.epoch
	w.startHook(m, election.StartHook{Hook: election.Become, Epoch: m.epoch})
	w.pass(3 * time.Millisecond)
}

// willOf lets a machine's keeper say its will; its life led in epoch 9.
func (w *World) willOf(m *machine) {
	w.record.owners[epochOf(m, 9)] = leadership{who: m.number, nonce: m.nonce, led: true}
	w.i18WillAfterItsLoseHook(&keeper{host: m, nonce: m.nonce})
}

func (w *World) repeat(from, to *machine, again int) {
	w.watchFrame(from, to, &wire.Frame{Kind: wire.Election, Round: 7})
	for range again {
		w.watchFrame(from, to, &wire.Frame{Kind: wire.Election, Round: 7, Flags: wire.Retx})
	}
}

// tellRoster lets a machine send the roster that it has as if it were of this version.
func (w *World) tellRoster(from, to *machine, version uint32) {
	has := from.disk.state.Roster
	f := wire.Frame{Kind: wire.Roster, Phase: wire.Formed, RosterVersion: version, Count: uint8(len(has.IDs))}
	copy(f.Voters[:], has.IDs)
	w.watchFrame(from, to, &f)
}

func (w *World) ascend(m *machine, counter uint64) {
	m.epoch = epochOf(m, counter)
	w.i20NewerLeadershipsHaveHigherTokens(m)
}

func (w *World) spin(m *machine, times int) {
	for range times {
		w.i22TimeGoesOn(m)
	}
}

// pass lets time go by.
func (w *World) pass(d time.Duration) { w.runUntil(w.now+int64(d), nil) }

// What I14 goes by: an acknowledgement counts from the sending that it echoes.
func TestAnAcknowledgementCountsFromItsSending(t *testing.T) {
	const lease = 400 * time.Millisecond
	for _, late := range []bool{false, true} {
		w := stage(t, Quorum)
		a, b := w.machines[0], w.machines[1]
		w.lead(a, 9, lease)
		a.ackAt = make([]int64, len(a.ackAt))
		w.watchFrame(a, b, &wire.Frame{Kind: wire.Heartbeat, Seq: 5, Epoch: a.epoch})
		w.record.owners[a.epoch] = leadership{who: 1, nonce: a.nonce}
		w.now += int64(lease / 2)
		if !late {
			w.watchFrame(a, b, &wire.Frame{Kind: wire.Heartbeat, Seq: 6, Epoch: a.epoch})
		}
		echo := map[bool]uint32{true: 5, false: 6}[late]
		w.watchArrival(a, b, &wire.Frame{Kind: wire.HeartAck, AckVerdict: wire.Accept, Epoch: a.epoch, EchoSeq: echo})
		w.onLease(a, a.clock.time(w.now).Add(lease))
		if isBroken := w.failure != nil && w.failure.Invariant == 14; isBroken != late {
			t.Errorf("an acknowledgement of an old heartbeat %t: %+v", late, w.failure)
		}
	}
}

// claimsAfterUnlisting: a claims so long after the last heartbeat of b, which its list has lost.
func (w *World) claimsAfterUnlisting(a, b *machine, waited time.Duration) {
	w.lists.lost, a.unlists = b.id, true
	a.heardEpoch, a.heardAt = wire.Epoch{Counter: 8, Owner: b.id}, w.now-int64(waited)
	w.i30WaitsForWhoIsOut(a, &election.Transition{Cause: election.NotListed})
}
