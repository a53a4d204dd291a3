package jobs

import (
	"cmp"
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Slot is a time at which a job should start, in seconds since the Unix epoch:
// a key that is the same on every host.
type Slot int64

// SlotOf is the slot of a time from a Schedule.
func SlotOf(t time.Time) Slot { return Slot(t.Unix()) }

// Time is the slot's time, in UTC.
func (s Slot) Time() time.Time { return time.Unix(int64(s), 0).UTC() }

// String gives RFC 3339 in UTC, as BULLY_JOB_SLOT has it.
func (s Slot) String() string { return s.Time().Format(time.RFC3339) }

// Millis is a time in milliseconds since the Unix epoch; zero is "never".
type Millis int64

// MillisOf rounds down.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }

// Time is zero for zero.
func (m Millis) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m)).UTC()
}

// Key tells the runs of one job apart. Two keys with one slot are two
// claimants: at most one of them was witnessed by a majority. (Two by hand
// with one slot are two wishes, of which the witnesses that remember refuse the
// second; no floor covers them.)
type Key struct {
	Slot   Slot
	Manual bool // by hand; then Slot is when it was asked for
	Epoch  uint64
	Owner  wire.ID
}

// Compare orders keys by slot first.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Slot, other.Slot), compareBool(k.Manual, other.Manual),
		cmp.Compare(k.Epoch, other.Epoch), cmp.Compare(string(k.Owner[:]), string(other.Owner[:])))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// end is when the attempt's time is up.
func (r Run) end() time.Time { return r.Started.Time().Add(time.Duration(r.Timeout) * time.Second) }

// again is when the attempt comes that the run waits for.
func (r Run) again(job *Job) time.Time { return r.Ended.Time().Add(job.delay(r.Attempt)) }

// String is for texts that a person reads, of one job: epoch/slot, with the slot in
// seconds, preceded by "manual-" for a run by hand. BULLY_JOB_RUN_ID, which names
// a run among all, is the driver's.
func (k Key) String() string {
	if k.Manual {
		return fmt.Sprintf("%d/manual-%d", k.Epoch, k.Slot)
	}
	return fmt.Sprintf("%d/%d", k.Epoch, k.Slot)
}

// Phase is how far a run is.
type Phase uint8

// The phases, in their order.
const (
	Claimed  Phase = iota + 1 // written down, nothing started
	Running                   // an attempt runs
	Stopping                  // it was told to end
	Waiting                   // the attempt failed, timed out or was killed, and another one follows
	Lost                      // nothing was heard until it must be over
	Ended                     // for good, says its own host
)

var phaseWords = [...]string{Claimed: "claimed", Running: "running", Stopping: "stopping", Waiting: "waiting", Lost: "lost", Ended: "ended"}

// String gives the phase's word.
func (p Phase) String() string { return wordOf(phaseWords[:], int(p)) }

// Outcome is how a run or its last attempt ended; zero while that is open.
type Outcome uint8

// The outcomes.
const (
	Succeeded   Outcome = iota + 1 // exit status 0
	Failed                         // another exit status, or it could not be started
	TimedOut                       // ended at its timeout
	Killed                         // ended because its host stopped leading, or could not be sure that it leads
	Replaced                       // ended for a newer slot
	Unclaimed                      // never started: no majority witnessed it in time
	Interrupted                    // its agent ended meanwhile; how far it came is unknown
	Vanished                       // nothing was heard of it, see Lost
)

var outcomeWords = [...]string{Succeeded: "succeeded", Failed: "failed", TimedOut: "timed-out", Killed: "killed",
	Replaced: "replaced", Unclaimed: "unclaimed", Interrupted: "interrupted", Vanished: "vanished"}

// String gives the outcome's word, "open" for zero.
func (o Outcome) String() string {
	if o == 0 {
		return "open"
	}
	return wordOf(outcomeWords[:], int(o))
}

// Run is the record of one run: what its leadership did about one slot. It is a
// value; the methods give its next version, which goes to Ledger.Put.
type Run struct {
	Key
	Phase   Phase
	Outcome Outcome
	Attempt uint8 // 0 until the first has started
	Exit    uint8 // of the last attempt that ended; 128 + n for signal n

	Claimed Millis
	Started Millis // the latest attempt
	Ended   Millis // the latest attempt that ended, or when the run was called lost

	// Timeout bounds an attempt, in seconds: as it was when the run was
	// claimed, whatever the definition says now or elsewhere.
	Timeout uint32
}

// newest is the latest time that the record knows.
func (r Run) newest() Slot { return max(r.Slot, Slot(max(r.Claimed, r.Started, r.Ended)/1000)) }

// Open reports whether the run may still do something: it counts for overlap.
func (r Run) Open() bool { return r.Phase < Lost }

// ExitKnown reports whether Exit is that of an attempt: of one whose agent ended, or
// whose host vanished, nobody knows how far it came, or until when.
func (r Run) ExitKnown() bool {
	return r.Attempt > 0 && r.Ended > 0 && r.Outcome != Interrupted && r.Outcome != Vanished
}

// Began is the run with another attempt that starts now. It must be on disk,
// and a first one witnessed, before the command starts.
func (r Run) Began(now time.Time) Run {
	r.Phase, r.Outcome, r.Started = Running, 0, MillisOf(now)
	r.Attempt++
	return r
}

// killed is the run whose attempt was ended by its holder, or with its keeper, while nothing here had asked for that. Its
// leadership may go on, and then the job's attempts that are left are made: so the run is not one that is Stopping.
func (r Run) killed() Run {
	if r.Phase != Stopping {
		r.Outcome = Killed
	}
	return r
}

// Finished is the run after its attempt has ended with this exit status: what
// it was stopped for counts more than that. It waits if the job has attempts
// left.
func (r Run) Finished(now time.Time, exit uint8, job *Job) Run {
	switch {
	case r.Outcome != 0: // it says why
	case exit == 0:
		r.Outcome = Succeeded
	default:
		r.Outcome = Failed
	}
	isWorthIt := r.Outcome == TimedOut || r.Phase != Stopping && r.Outcome != Succeeded
	again := isWorthIt && int(r.Attempt) <= job.Retries
	r.Phase, r.Exit, r.Ended = Ended, exit, MillisOf(now)
	if again {
		r.Phase = Waiting
	}
	return r
}

// Refused is the run after its claim failed: nothing was started.
func (r Run) Refused(now time.Time) Run { return r.closed(now, Ended, Unclaimed) }

func (r Run) closed(now time.Time, phase Phase, outcome Outcome) Run {
	r.Phase, r.Outcome, r.Ended = phase, outcome, MillisOf(now)
	return r
}

func (r Run) stopping(why Outcome) Run {
	r.Phase, r.Outcome = Stopping, why
	return r
}

// compare orders two versions of one run: the later is what merging keeps. A
// host's own word that its run has ended is the last one; that it is lost
// comes before. The rest only makes the order total.
func (r Run) compare(other Run) int {
	return cmp.Or(cmp.Compare(r.standing(), other.standing()), cmp.Compare(r.Attempt, other.Attempt),
		cmp.Compare(r.Phase, other.Phase), cmp.Compare(r.Outcome, other.Outcome), cmp.Compare(r.Exit, other.Exit),
		cmp.Compare(r.Ended, other.Ended), cmp.Compare(r.Started, other.Started),
		cmp.Compare(r.Claimed, other.Claimed), cmp.Compare(r.Timeout, other.Timeout))
}

func (r Run) standing() Phase {
	if r.Open() {
		return 0
	}
	return r.Phase
}

// String gives one line, with the owner shortened.
func (r Run) String() string {
	s := fmt.Sprintf("%v %v by %s", r.Key, r.Phase, r.Owner.Short())
	if r.Attempt > 1 {
		s += fmt.Sprintf(" attempt=%d", r.Attempt)
	}
	if r.Outcome != 0 {
		s += " " + r.Outcome.String()
	}
	if r.Phase == Ended && r.Outcome == Failed {
		s += fmt.Sprintf(" exit=%d", r.Exit)
	}
	return s
}
