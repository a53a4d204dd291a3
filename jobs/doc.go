// Package jobs answers what is due now, given what ran: singleton jobs, which
// one host of the cluster runs at a time.
//
// It decides from a time, the jobs' definitions, the ledger of runs and this
// host's leadership alone. It has no clock, process, socket or file: the agent
// and the simulator drive the same code.
//
//	for _, d := range jobs.Due(now, table, ledger, leadership) {
//		ledger.Apply(d)          // on disk and, in quorum mode, at a majority
//		…                        // before a command starts: see Action
//	}
//	timer := jobs.Next(now, table, ledger, leadership)
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
// A slot is current if it passed while this host led, missed if it passed
// before. The newest open slot runs if it is current. What else may run is the
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
//	          claim acknowledged           exit status other than 0,
//	                                       attempts left
//	Claimed ───────────────▶ Running ─────────────────────▶ Waiting
//	   │                      │  ▲ │                           │
//	   │ not acknowledged,    │  │ │ timeout, replaced,        │ delay over
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
// acknowledges a claim (Admit) does so for one key of each (job, slot), so that
// of two claims at most one reaches a majority. Attempts are of the same run,
// start on the same host in the same leadership, and need no claim.
//
// # The ledger
//
// Ledgers merge by taking, of the records with one key, the later; of floors
// and pauses the higher. That is commutative, associative and idempotent, so it
// does not matter who tells whom what in which order. Only Prune forgets, and
// it raises the floor over what it forgets.
//
// # Time
//
// Slots and records are on the wall clock, since that is what schedules and
// people mean; hosts' clocks are assumed to be within Tolerance of each other.
// A clock that is set back repeats no slot: the floor and the records are
// ahead of it, and Due says so.
//
// # What the caller owes
//
//   - A decision is applied, and on disk, before it is acted on; a claim is put
//     and on disk before it is acknowledged.
//   - After a start Disown comes before anything else.
//   - A job stays in the table while a run of it is open here: what is not in
//     the table has no timeout.
//   - Between a stop and Run.Finished the command is gone, with its children.
//   - A ledger that is Ahead is not merged.
//   - Merge is followed by Prune.
//   - Zones come from one set of rules on all hosts: time/tzdata is linked into
//     the binary, though Go looks at the host's files first.
package jobs
