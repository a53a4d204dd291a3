package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/election/quorum"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/wire"
)

// Half of the schedules have singleton jobs: every agent drives the Scheduler
// that ships. Its ledger is a file of its own on the machine's disk, its messages
// go as bytes over the same cables in the same weather, and commands take their
// time. Everything here has a stream of chance and a timeline of its own, and
// where ports are clear nothing of it moves the election: what a seed plays there
// does not depend on jobs. Sealed ports send both in the same sessions.

// jobWorld is what a schedule with jobs has in common.
type jobWorld struct {
	rng      *rand.Rand
	timeline timeline
	table    []jobs.Job
	config   jobs.SchedulerConfig // except for Self
	losing   bool                 // ledgers get lost, and agents notice: J1 holds, J3 and J4 need not
	apart    time.Duration        // bounds how far a wall clock is off; beyond maxOffset the same holds

	starts  map[jobSlot]jobStart
	counts  JobCounts
	hash    digest
	scratch wire.Frame
}

// JobCounts is what became of the jobs of a schedule.
type JobCounts struct {
	Claims    uint64 // slots and wishes that a leader wanted to run
	Starts    uint64 // first attempts
	Retries   uint64 // further ones
	Unclaimed uint64 // claims without a majority
	Lost      uint64 // runs of which nothing was heard
	Refused   uint64 // starts after the lease
	Unsaved   uint64 // ledgers that did not reach a disk
	Forgotten uint64 // ledgers lost
	Frames    uint64 // sent
}

// Add adds the counts of another schedule.
func (c *JobCounts) Add(other *JobCounts) {
	c.Claims += other.Claims
	c.Starts += other.Starts
	c.Retries += other.Retries
	c.Unclaimed += other.Unclaimed
	c.Lost += other.Lost
	c.Refused += other.Refused
	c.Unsaved += other.Unsaved
	c.Forgotten += other.Forgotten
	c.Frames += other.Frames
}

// jobHost is a machine's part in jobs.
type jobHost struct {
	scheduler *jobs.Scheduler // nil: the agent does not run
	offset    time.Duration   // of its wall clock
	commands  []*jobCommand   // outlive the agent
	lanes     *jobLanes       // that these go by; nil: there are none

	busy    bool // waits for its disk
	pending []byte
	backlog []jobs.Event
	effects []jobs.Effect // of the present step, carried out up to next
	next    int
	tickAt  int64
	broken  bool // the last save failed

	leads  uint64 // epoch that the scheduler was told it leads in; 0: none
	roster uint32 // and the version of its voters
}

// maxOffset bounds how far a wall clock is off that NTP looks after: two of them
// differ by less than the second that jobs allow for.
const maxOffset = 400 * time.Millisecond

// drawJobs gives half of the schedules jobs.
func (w *World) drawJobs(o *Options) {
	rng := rand.New(rand.NewPCG(o.Seed, 0x10b5))
	if w.size > 9 || w.lasts > 5*time.Minute || o.noJobs || rng.IntN(2) == 0 {
		return
	}
	j := &jobWorld{rng: rng, starts: map[jobSlot]jobStart{}}
	for i := range 2 + rng.IntN(3) {
		j.table = append(j.table, drawJob(rng, string(rune('a'+i))))
	}
	j.config = jobs.SchedulerConfig{Table: j.table, Grace: 300 * time.Millisecond, ClaimTimeout: 2 * time.Second,
		Settle: pick(rng, 200*time.Millisecond, time.Second, 2*time.Second)}
	j.losing = rng.IntN(8) == 0
	j.apart = pick(rng, maxOffset, maxOffset, maxOffset, maxOffset, maxOffset, maxOffset, maxOffset, 3*jobs.Tolerance)
	w.jobs = j
}

func drawJob(rng *rand.Rand, name string) jobs.Job {
	text := pick(rng, "@every 1s", "@every 1s", "@every 2s", "@every 3s", "@every 5s", "* * * * *")
	schedule, err := jobs.ParseSchedule(text, name, nil)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return jobs.Job{
		Name: name, Schedule: schedule, Timeout: time.Duration(1+rng.IntN(3)) * time.Second,
		Overlap: jobs.Overlap(rng.IntN(4)), Missed: jobs.Missed(rng.IntN(3)), OnLoss: jobs.OnLoss(rng.IntN(2)),
		Retries: pick(rng, 0, 0, 2), RetryDelay: 200 * time.Millisecond,
		StartingDeadline: pick(rng, 0, 3*time.Second),
	}
}

// wall is what a machine's wall clock shows.
func (w *World) wall(m *machine) time.Time { return epoch.Add(time.Duration(w.now) + m.jobs.offset) }

func (w *World) jobAfter(d time.Duration, do func()) {
	w.jobs.timeline.add(planned{at: w.now + int64(max(d, 0)), do: do})
}

// runJobs lets happen what happens to jobs before the next of all else, which it may bring forward, and before a limit.
func (w *World) runJobs(limit int64) {
	if w.jobs == nil {
		return
	}
	isNext := func(at int64) bool {
		return at < limit && (w.timeline.empty() || at < w.timeline.heap[0].at)
	}
	for q := &w.jobs.timeline; w.failure == nil && !q.empty() && isNext(q.heap[0].at); {
		p := q.next()
		w.now = p.at
		p.do()
	}
}

// drawOffset is how far a wall clock is off.
func (j *jobWorld) drawOffset() time.Duration { return j.upTo(2*j.apart) - j.apart }

func (j *jobWorld) upTo(d time.Duration) time.Duration {
	return time.Duration(j.rng.Float64() * float64(d))
}

// beginJobs starts what goes on all the time, with the first process.
func (w *World) beginJobs() {
	if w.jobs == nil {
		return
	}
	for _, m := range w.machines {
		m.jobs.offset = w.jobs.drawOffset()
	}
	w.gossipAgain()
	w.meddleAgain()
}

// startJobs is the start of an agent. What the last one left running is ended
// first.
func (w *World) startJobs(m *machine) {
	if w.jobs == nil || m.copyOf != nil {
		return
	}
	w.killCommands(m)
	cfg := w.jobs.config
	cfg.Self = m.id
	ledger := w.readLedger(m)
	if ledger != nil && w.jobs.losing && w.jobs.rng.IntN(3) == 0 {
		w.jobs.counts.Forgotten++
		w.say(m, "ledger lost")
		cfg.LedgerLost, cfg.NewestKnown = true, m.disk.ledger.at
		ledger, m.disk.ledger = nil, ledgerFile{}
	}
	m.jobs = jobHost{scheduler: jobs.NewScheduler(cfg, ledger), offset: m.jobs.offset, lanes: w.newJobLanes()}
	w.jobStep(m, jobs.Peers{Hosts: w.jobPeers(m)})
}

// jobPeers are the other hosts, reachable or not: sending to one that is gone
// costs nothing.
func (w *World) jobPeers(m *machine) []wire.ID {
	var all []wire.ID
	for _, other := range w.machines {
		if other != m && other.copyOf == nil {
			all = append(all, other.id)
		}
	}
	return all
}

// endJobs is the end of an agent, or of its host. Commands are ended when the agent is dead, and at the latest by the next.
func (w *World) endJobs(m *machine) {
	if m.jobs.scheduler == nil {
		return
	}
	w.settleLedger(m)
	if m.hostDown {
		w.killCommands(m)
	}
	m.jobs = jobHost{offset: m.jobs.offset, commands: m.jobs.commands, lanes: m.jobs.lanes}
	w.stepJobLanes(m, hooks.AgentDied{})
}

// tellJobs tells the Scheduler who leads, after each step of the election.
func (w *World) tellJobs(m *machine) {
	if m.jobs.scheduler == nil {
		return
	}
	leads, roster := uint64(0), uint32(0)
	if m.state == election.Lead {
		leads, roster = m.epoch.Counter, m.disk.state.Roster.Version
	}
	if leads == m.jobs.leads && roster == m.jobs.roster {
		return
	}
	m.jobs.leads, m.jobs.roster = leads, roster
	if leads == 0 {
		w.jobStep(m, jobs.NotLeading{})
		return
	}
	e := jobs.Leading{Epoch: leads, Since: w.wall(m)}
	if w.mode == Quorum {
		e.Voters = slices.Clone(m.roster())
		e.Need = quorum.Size(len(e.Voters))
	}
	w.jobStep(m, jobs.Peers{Hosts: w.jobPeers(m)})
	w.jobStep(m, e)
}

// jobStep gives one event to a machine's Scheduler, unless it has to wait.
func (w *World) jobStep(m *machine, ev jobs.Event) {
	if m.jobs.scheduler == nil {
		return
	}
	if m.isBlocked() || m.jobs.busy || m.jobs.next < len(m.jobs.effects) {
		m.jobs.backlog = append(m.jobs.backlog, ev)
		w.retryJobs(m)
		return
	}
	m.jobs.effects, m.jobs.next = slices.Clone(m.jobs.scheduler.Step(w.wall(m), ev)), 0
	w.carryOutJobs(m)
}

// retryJobs looks again soon whether a blocked process goes on.
func (w *World) retryJobs(m *machine) {
	if len(m.jobs.backlog) > 1 {
		return // that is planned already
	}
	life := m.life
	w.jobAfter(10*time.Millisecond, func() {
		if m.life == life && m.jobs.scheduler != nil {
			w.drainJobs(m)
		}
	})
}

// drainJobs hands over what waited, in order.
func (w *World) drainJobs(m *machine) {
	h := &m.jobs
	if len(h.backlog) == 0 {
		return
	}
	waiting := h.backlog
	h.backlog = nil
	for _, ev := range waiting {
		w.jobStep(m, ev) // what has to wait again is put back
	}
}

// carryOutJobs carries out what is left of a step's effects.
func (w *World) carryOutJobs(m *machine) {
	h := &m.jobs
	for h.next < len(h.effects) {
		effect := h.effects[h.next]
		h.next++
		switch w.applyJob(m, effect) {
		case failed:
			h.effects, h.next = nil, 0
			w.onLedgerFailed(m)
			return
		case blocked, died:
			return
		}
	}
	w.armJobs(m)
}

func (w *World) applyJob(m *machine, effect jobs.Effect) verdict {
	switch e := effect.(type) {
	case jobs.Save:
		return w.saveLedger(m, e.Bytes)
	case jobs.Send:
		w.sendJob(m, e)
	case jobs.Begin:
		w.beginCommand(m, e)
	case jobs.End:
		w.endCommand(m, e)
	case jobs.Noted:
		w.onNoted(m, e.Decision)
	default:
		if w.trace != nil {
			w.say(m, "jobs: %v", effect)
		}
	}
	return done
}

func (w *World) onNoted(m *machine, d jobs.Decision) {
	if w.trace != nil {
		w.say(m, "job %v", d)
	}
	c := &w.jobs.counts
	switch {
	case d.Do == jobs.Start:
		c.Claims++
	case d.Do == jobs.Lose:
		c.Lost++
		w.j3LostOnlyWhenOver(m, d)
	case d.Why == jobs.ReasonNoMajority:
		c.Unclaimed++
	}
}

// armJobs plans a tick for what the Scheduler wants next.
func (w *World) armJobs(m *machine) {
	deadline := m.jobs.scheduler.Deadline()
	if deadline.IsZero() {
		return
	}
	at := max(w.now, int64(deadline.Sub(epoch)-m.jobs.offset))
	h := &m.jobs
	if h.tickAt != 0 && h.tickAt <= at {
		return
	}
	h.tickAt = at
	life := m.life
	w.jobAfter(time.Duration(at-w.now), func() {
		if m.life != life || m.jobs.scheduler == nil || m.jobs.tickAt != at {
			return
		}
		m.jobs.tickAt = 0
		if m.jobs.scheduler.Deadline().After(w.wall(m)) {
			w.armJobs(m)
			return
		}
		w.jobStep(m, jobs.Tick{})
	})
}
