// Package jobs runs singleton jobs, which one host of the cluster runs at a
// time: it says what is due now, given what ran, and has slots claimed,
// witnessed, started and told about.
//
// It decides from the time, the jobs' definitions, the ledger of runs, this
// host's leadership and what other hosts say. It has no clock, process, socket
// or file: the agent and the simulator drive the same code.
//
//	effects := scheduler.Step(now, event)   // Save, Send, Begin, End, …
//	timer := scheduler.Deadline()
//
// Scheduler is the driver (scheduler.go: decide.go, claim.go, study.go, ask.go,
// tell.go, disk.go, lostledger.go, stray.go, table.go), Due the policy (policy.go),
// Ledger the memory (ledger.go, merge.go, encode.go, part.go, mend.go), trust.go what
// others may add to it.
//
// # Slots
//
// A slot is a time at which a job should start, in whole seconds since the Unix
// epoch: the same number on every host. A Schedule knows its slots (schedule.go,
// zone.go). A slot is open when it has passed, is above the ledger's floor and
// has no record. Decisions are about open slots:
//
//	             ┌─ Skip ──────────────────▶ below the floor: never again
//	open slot ───┼─ Wait, with a Reason ───▶ still open
//	             └─ Start ─▶ a Run that is Claimed
//
// A slot is current if it passed while this host led or less than FailoverGrace
// before, missed if it passed earlier. The newest open slot runs if it is current. What else may run is the
// job's policy, and always a run of newest slots, at most MaxPending, so that
// one number, the floor, says what is settled.
//
//	missed = skip    the missed ones are skipped
//	missed = once    the newest missed one runs, unless a current one does
//	missed = all     all run, oldest first, one after the other
//
//	overlap = forbid   a current slot that came during a run is skipped; others wait
//	overlap = queue    slots wait, oldest first
//	overlap = replace  a current slot ends the run first; missed ones wait
//	overlap = allow    runs overlap, at most MaxActive
//
// # Runs
//
//	          claim witnessed              failed or killed,
//	                                       attempts left
//	Claimed ───────────────▶ Running ─────────────────────▶ Waiting
//	   │                      │  ▲ │                           │
//	   │ not witnessed,       │  │ │ timeout, replaced,        │ delay over
//	   │ leadership lost      │  └─┼───────────────────────────┘
//	   │                      │    ▼ leadership lost
//	   │                 exit │   Stopping
//	   ▼                      ▼    │ exit
//	  Ended ◀─────────────────┴────┘
//
// Lost is what a leader writes about a run of another host of which nothing was
// heard until it must be over. The run's own host may still correct it to Ended.
//
// A run is of one leadership: its key holds epoch and owner. Whoever
// witnesses a claim (Admit) does so for one key of each (job, slot), so that of
// two claims at most one reaches a majority. Attempts are of the same run,
// start on the same host in the same leadership, and need no claim.
//
// # The ledger
//
// Ledgers merge by taking, of the records with one key, the later; of floors
// and pauses the higher. That is commutative, associative and idempotent, so it
// does not matter who tells whom what in which order. Only Prune forgets, and
// it raises the floor over what it forgets. What another host tells is merged as far
// as it can be true (trust.go), and what an older agent has taken nonetheless goes when
// the ledger is read (mend.go).
//
// # Time
//
// Slots and records are on the wall clock, since that is what schedules and
// people mean; hosts' clocks are assumed to be within Tolerance of each other.
// A clock that is set back repeats no slot: the floor and the records are
// ahead of it, and Due says so. What another host tells of a time that is ahead by
// more than Tolerance is not taken, and the rest is. A run of such a time that is known
// here ends all the same by its host's word. A host whose own clock was ahead takes the
// floors of that time back to the present (Ledger.takeBack): records tell which slots of
// the future have run. Where some of them may have been pruned, the floor stays, and the
// job starts nothing before that time (Scheduler.Ahead), or before a person resumes it from
// now: each host that hears so forgets what is ahead of its own clock.
//
// Timeouts are not on the wall clock, nor is how long a new leader settles: a clock
// that is set takes nothing from what runs, claims or waits, nor gives it anything.
// The driver, which has a clock that nobody sets, says so (ClockSet). When another
// host's run counts as lost is on the wall clock of who waits for it.
//
// A run keeps the definition that it was claimed with, whatever a reload says
// meanwhile. The grace is the present one.
//
// # Claims
//
// In quorum mode a slot starts like this; in available mode the claimant asks
// nobody.
//
//	leader                              voter
//	  │ Start: Claimed, Save              │
//	  ├──────────── JOB_CLAIM ───────────▶│ Admit, Save
//	  │◀─────────── JOB_WITNESS ──────────┤
//	  │ majority: Running, Save           │
//	  │ Begin                             │
//	  ├──────────── JOB_RECORD ──────────▶│ merged, saved within a second
//
// The leader is a voter itself. A claim is repeated until it is decided, at most
// for ClaimTimeout from its own Save on; then, or when too many refuse, or with the
// leadership, it ends as Unclaimed and its slot is skipped. Records go to everybody, once, so
// that all know at once; who misses one hears of it by push/pull.
//
// A new leader asks the voters what they know (LEDGER_QUERY, LEDGER_PART), and in
// quorum mode decides nothing before a majority has told it all, itself included,
// and the settle time has passed. Who tells raises its fence to the asker's epoch
// first, and has it on disk: from then on it witnesses no claim of a lower one.
// Equal ledgers have equal digests, which costs one small answer.
//
// # What is promised
//
//   - J1, quorum mode: a slot starts at most once, whoever leads, whatever is
//     lost, late, doubled, cut off, restarted or frozen. Never "exactly once".
//   - J2, both modes: what starts is on its own host's disk before, as running.
//   - J3, quorum mode: a run counts as lost only when it must be over.
//   - J4, quorum mode: of a job whose runs may not overlap one runs at a time,
//     over all hosts, failovers included.
//
// J1. Two starts of one slot have two claims, each witnessed by a majority of the
// roster. Rosters differ by one voter from one to the next, so the majorities of
// two that are equal or neighbours have a voter in common. It had the first claim
// on disk before it answered, and refuses a second one: as long as it has the
// record, as taken; when Prune has forgotten that, as settled, since Prune raises
// the floor; when Prune has dropped the job, floor and all, as forgotten, since it
// then refuses all slots as old as what it dropped, of whatever job. Its answer is to one round of one epoch, which the claimant has
// forgotten when it gave the claim up; and an epoch belongs to one life. Neither
// clocks nor the fence nor what the leader believes of its lease have a part in
// this, except for a voter that has lost its ledger (LedgerLost). It refuses what it
// may have witnessed, which is all up to the present and Tolerance; and everything
// while its clock shows a time of which it knows that it has passed
// (lostledger.go). If no file and no frame tells, it believes its clock.
//
// J4. A leader of epoch e was told by a majority, each of which had the fence e
// on disk. Any run of a lower epoch that ever starts was witnessed by a majority,
// so one of those who told witnessed it: before it told, for after that it does
// not. So the leader knows of it, as open or over, and an open run blocks. What
// is open ends by its host's word, or as lost, which is J3. An attempt after the
// first needs no claim, but its run is open all the while, and it needs the
// leadership's lease, which had ended before the next leadership began.
//
// J3. A run is given its timeout from the last that is known of it, or from when
// the new leader came if that is later: an attempt may have begun until then, and
// nothing begins after its lease. Then the grace, and for clocks that differ and messages a
// tenth of the timeout, at least a second. Hosts whose clocks differ by more break
// J3 and J4, not J1. So does a host that stops as a whole and goes on later: its
// command was counted as lost meanwhile.
//
// The promise ends where a person resumes a job from now: what started while clocks were
// ahead may start again at its time; and what started lately, if the host's clock is behind.
// It ends where voters forget, too: a disk that lies about a sync, or is
// restored from a copy, under the same id. A disk that is lost is no such case:
// its host comes back with another id and is no voter before somebody makes it
// one. Rosters further apart than neighbours need not have a voter in common: a
// leader whose voters change tells all of them its ledger, once, and who misses
// some of that hears of it by push/pull, which must be before the next change.
//
// In available mode there is one leader in each connected part, and each may
// start a slot once: its own disk is the only witness.
//
// # What the driver owes
//
//   - Save is on disk, synced, before the effects that follow it. If it fails,
//     they are dropped and SaveFailed is the next event; later SaveRecovered, now
//     and then, until no SaveFailed follows. A leader of which that is so for some
//     seconds, and that is Stalled, gives way if another host is ready to lead.
//   - Begin looks at the lease at that instant. If the leadership of Run.Epoch is
//     over, nothing starts and StartFailed is given. Else Exited is, exactly once,
//     when the command and its children are gone.
//   - NotLeading is given early enough for commands to end within the lease.
//   - Commands of the life before are gone before the first Step. A command whose
//     agent cannot end it is ended at its timeout and grace all the same.
//   - ClockSet comes before any other event of a clock that was set.
//   - An epoch is one of one life, as the election has it; Voters are the roster
//     that the leader's own majorities are of.
//   - Frames of another cluster, and of strangers, do not get here.
//   - Zones come from one set of rules on all hosts. Go takes the host's files before
//     those that are linked into the binary, and so a change of law takes no new
//     binary: hosts whose Rules differ are told.
package jobs
