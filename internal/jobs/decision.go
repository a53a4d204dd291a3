package jobs

import (
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Leadership is this host's part: who it is, and since when it leads.
type Leadership struct {
	Self    wire.ID
	Leading bool
	Epoch   uint64    // the leadership's counter
	Since   time.Time // when it became leader
	// Settle is how long a new leader waits for what others know about runs
	// before it decides anything; in quorum mode until a majority has told it,
	// too: Learning is set until then.
	Settle   time.Duration
	Learning bool
	// Grace is how long a command may go on after it was told to end.
	Grace time.Duration

	// DiskFailed says that this host would be Leading, if its ledger could be saved.
	DiskFailed bool
}

func (l *Leadership) ready() time.Time { return l.Since.Add(l.Settle) }

// knows reports whether this host leads, and for long enough to know what ran.
func (l *Leadership) knows(now time.Time) bool {
	return l.Leading && !l.Learning && !now.Before(l.ready())
}

// owns reports whether the run is of this very leadership.
func (l *Leadership) owns(r Run) bool {
	return (l.Leading || l.DiskFailed) && r.Epoch == l.Epoch && r.Owner == l.Self
}

// loss is why this host may not go on with what it has claimed.
func (l *Leadership) loss() Reason {
	if l.DiskFailed {
		return ReasonDisk
	}
	return ReasonLoss
}

// Action is what a decision asks for. All but Wait change the ledger, by
// Ledger.Apply, which goes first.
type Action uint8

// The actions.
const (
	Wait   Action = iota + 1 // nothing now; Why says why, Until when to look again
	Adopt                    // a job is new, or its schedule: its slots count from now on
	Skip                     // Count open slots up to Slot will not run
	Start                    // claim Run; once on disk and witnessed, Put(Run.Began) and start the command; else Put(Run.Refused)
	Retry                    // start another attempt of Run, which is Running already
	Stop                     // end Run: TERM, grace, KILL; then Put(Run.Finished)
	GiveUp                   // Run has ended: it can no longer start, or start again
	Lose                     // Run, of another host, counts as lost
)

var actionWords = [...]string{0: "note", Wait: "wait", Adopt: "adopt", Skip: "skip", Start: "start", Retry: "retry", Stop: "stop", GiveUp: "give up", Lose: "lose"}

// String gives the action's word.
func (a Action) String() string { return wordOf(actionWords[:], int(a)) }

// Reason is why.
type Reason uint8

// The reasons. Some are sent to other hosts, so each keeps its number.
const (
	ReasonNone Reason = iota

	// Why a slot starts.
	ReasonOnTime // it passed while this host led, or in the failover before
	ReasonMissed // it passed before, and the policy says so; or, of Skip, says it does not run
	ReasonManual // asked for by a person

	// Why not now, or never.
	ReasonNotLeading // this host does not lead
	ReasonSettling   // it leads, but not long enough to know what ran
	ReasonAhead      // the ledger is ahead of the clock, which was set back or is another host's; of Admit: the claim is
	ReasonPaused     // the job is paused
	ReasonOverlap    // a run of this host goes on
	ReasonBlocked    // a run of another host goes on, or may
	ReasonReplacing  // the run that it replaces is ending
	ReasonCrowded    // MaxActive runs of the job go on
	ReasonRetrying   // the next attempt comes at Until
	ReasonSuperseded // a newer slot runs for it
	ReasonTooLate    // its starting deadline has passed
	ReasonTooMany    // MaxPending newer ones wait

	// Why a run ends.
	ReasonTimeout  // its time is up
	ReasonReplaced // a newer slot wants to run
	ReasonLoss     // this host leads no more, or in another epoch
	ReasonVanished // nothing was heard of it until it must be over

	// Why a job is adopted.
	ReasonNew     // it was not known
	ReasonChanged // its schedule was another

	// Why a claim is not witnessed.
	ReasonSettled // the slot is settled
	ReasonTaken   // another claimant is known
	ReasonOver    // that run has gone further than a claim
	ReasonDeposed // the leader of a later epoch has claimed or asked

	// Why not now, or never, in quorum mode.
	ReasonLearning   // this host leads, but a majority has not told it what ran
	ReasonNoMajority // no majority witnessed the claim in time
	ReasonForgot     // of Admit: another claimant may have been witnessed, in a ledger that is lost

	ReasonWithdrawn // the person who asked for it waits no more
	ReasonDisk      // this host leads, but its ledger cannot be saved
	ReasonFull      // of a claim: the witness has no such job, and no room for another
)

var reasonWords = [...]string{ReasonNone: "none", ReasonOnTime: "on-time", ReasonMissed: "missed", ReasonManual: "manual",
	ReasonNotLeading: "not-leading", ReasonSettling: "settling", ReasonAhead: "ledger-ahead-of-clock", ReasonPaused: "paused",
	ReasonOverlap: "overlap", ReasonBlocked: "blocked-by-another-host", ReasonReplacing: "replacing", ReasonCrowded: "too-many-runs",
	ReasonRetrying: "retrying", ReasonSuperseded: "superseded", ReasonTooLate: "starting-deadline", ReasonTooMany: "too-many-waiting",
	ReasonTimeout: "timeout", ReasonReplaced: "replaced", ReasonLoss: "leadership-lost", ReasonVanished: "vanished",
	ReasonNew: "new", ReasonChanged: "schedule-changed", ReasonSettled: "settled", ReasonTaken: "taken", ReasonOver: "over", ReasonDeposed: "deposed",
	ReasonLearning: "learning", ReasonNoMajority: "no-majority", ReasonForgot: "forgot",
	ReasonWithdrawn: "withdrawn", ReasonDisk: "disk-failed", ReasonFull: "no-room"}

// String gives the reason's word, the same in log, status and metrics.
func (r Reason) String() string { return wordOf(reasonWords[:], int(r)) }

// Decision is one thing to do about a job, or why nothing is done.
type Decision struct {
	Job string
	Do  Action
	Why Reason

	Slot    Slot      // that it is about; zero if it is about none
	Count   int       // of Skip: how many slots, at most MaxCount
	Settles bool      // nothing up to Slot is open after it
	Until   time.Time // of Wait: when to look again; zero if no time helps
	Run     Run       // its new version; of Wait the run that is waited for

	schedule uint64
}

// Claim is what a Start asks the others to witness.
func (d Decision) Claim() Claim { return Claim{Job: d.Job, Schedule: d.schedule, Run: d.Run} }

// String gives one line.
func (d Decision) String() string {
	s := fmt.Sprintf("%s: %v", d.Job, d.Do)
	if d.Slot != 0 {
		s += " " + d.Slot.String()
	}
	if d.Count > 1 {
		s += fmt.Sprintf(" and %d before", d.Count-1)
	}
	if d.Run.Phase != 0 {
		s += fmt.Sprintf(" [%v]", d.Run)
	}
	s += " " + d.Why.String()
	if !d.Until.IsZero() {
		s += " until " + d.Until.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return s
}
