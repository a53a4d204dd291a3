package jobs

import (
	"fmt"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// Event is what Scheduler.Step takes. Events are small values; each has one
// line of text.
type Event interface {
	String() string
	event()
}

// Tick says only that time has passed: a deadline may be due.
type Tick struct{}

// Leading says that this host leads. It comes again when Voters or Need change;
// another Epoch is another leadership.
type Leading struct {
	Epoch uint64    // the leadership's counter, as on the election's disk
	Since time.Time // when it began, on the wall clock; counts the first time
	// Voters is the roster, this host included; Need of them are a majority.
	// Nil and zero in available mode.
	Voters []wire.ID
	Need   int
}

// NotLeading says that this host leads no more. It is due before the lease is
// over: what may not outlive the leadership is told to end in this step.
type NotLeading struct{}

// Peers says which other hosts can be reached, in any order: those that are
// told about runs.
type Peers struct{ Hosts []wire.ID }

// Heard brings one message of another host's, of this cluster. From is the
// frame's sender. Messages may be lost, late, doubled and out of order. Known is the
// highest counter of an epoch that this host's election has accepted, and so has on
// disk: claims and questions of a higher one are refused. Their sender repeats them,
// and the election is told of its leadership at least as soon.
type Heard struct {
	From    wire.ID
	Message Message
	Known   uint64
}

// Merged brings another host's ledger as its Bytes gave it, from push/pull.
type Merged struct{ Bytes []byte }

// Exited says that the command of a Begin has ended and that nothing of it is
// left. A command that could not be executed has exited with 126 or 127.
type Exited struct {
	Job    string
	Key    Key
	Exit   uint8 // 128 + n for signal n
	Killed bool  // it did not end by itself, whoever has ended it
}

// StartFailed answers a Begin that was refused because the leadership has ended:
// nothing was started.
type StartFailed struct {
	Job string
	Key Key
}

// Ask is a person's wish to run a job now. Exactly one Reply with its Token
// follows: a nil Err when the command may begin, which its Begin is about to do.
type Ask struct {
	Job   string
	Token uint64
}

// SetPaused is a person's wish that a job's slots do not start, or start again.
// Exactly one Reply with its Token follows.
type SetPaused struct {
	Job     string
	Paused  bool
	FromNow bool // start again, whatever is known of the future (Ledger.ResumeFromNow)
	Token   uint64
}

// Unask says that whoever gave the Ask with this Token waits no more. Unless it
// was answered already, its Reply follows, and nothing starts for it.
type Unask struct{ Token uint64 }

// TableChanged brings the jobs' definitions anew, and the grace of commands that
// are told to end; a Grace of zero leaves that as it is. A run that is open here
// keeps the definition that it was claimed with.
type TableChanged struct {
	Jobs  []Job
	Grace time.Duration
}

// ClockSet says that the wall clock was set by so much since the Step before,
// forward or, below zero, back: what was given some time has it, no less and no
// more. It comes before any other event of the new time.
type ClockSet struct{ By time.Duration }

// Closing says that this agent ends: what runs here is told to end, whatever its
// job says, and nothing begins any more.
type Closing struct{}

// SaveFailed says that the Save of the last step did not reach the disk, and
// that what came after it in that step was not carried out. It comes before any
// other event.
type SaveFailed struct{}

// SaveRecovered says that the disk may take writes again: everything is saved
// anew, and SaveFailed comes again if it does not.
type SaveRecovered struct{}

func (Tick) event()          {}
func (Leading) event()       {}
func (NotLeading) event()    {}
func (Peers) event()         {}
func (Heard) event()         {}
func (Merged) event()        {}
func (Exited) event()        {}
func (StartFailed) event()   {}
func (Ask) event()           {}
func (SetPaused) event()     {}
func (Unask) event()         {}
func (TableChanged) event()  {}
func (ClockSet) event()      {}
func (Closing) event()       {}
func (SaveFailed) event()    {}
func (SaveRecovered) event() {}

// String gives one line.
func (Tick) String() string { return "tick" }

// String gives one line.
func (e Leading) String() string {
	return fmt.Sprintf("leading epoch=%d voters=%d need=%d", e.Epoch, len(e.Voters), e.Need)
}

// String gives one line.
func (NotLeading) String() string { return "not leading" }

// String gives one line.
func (e Peers) String() string { return fmt.Sprintf("peers n=%d", len(e.Hosts)) }

// String gives one line.
func (e Heard) String() string { return fmt.Sprintf("heard from=%s %v", e.From.Short(), e.Message) }

// String gives one line.
func (e Merged) String() string { return fmt.Sprintf("merged bytes=%d", len(e.Bytes)) }

// String gives one line.
func (e Exited) String() string {
	s := fmt.Sprintf("exited job=%s run=%v exit=%d", e.Job, e.Key, e.Exit)
	if e.Killed {
		s += " killed"
	}
	return s
}

// String gives one line.
func (e StartFailed) String() string { return fmt.Sprintf("start failed job=%s run=%v", e.Job, e.Key) }

// String gives one line.
func (e Ask) String() string { return "ask job=" + e.Job }

// String gives one line.
func (e SetPaused) String() string {
	if e.FromNow {
		return "resume from now job=" + e.Job
	}
	return fmt.Sprintf("set paused=%t job=%s", e.Paused, e.Job)
}

// String gives one line.
func (e TableChanged) String() string { return fmt.Sprintf("table changed jobs=%d", len(e.Jobs)) }

// String gives one line.
func (e Unask) String() string { return fmt.Sprintf("unask token=%d", e.Token) }

// String gives one line.
func (e ClockSet) String() string { return fmt.Sprintf("clock set by=%v", e.By) }

// String gives one line.
func (Closing) String() string { return "closing" }

// String gives one line.
func (SaveFailed) String() string { return "save failed" }

// String gives one line.
func (SaveRecovered) String() string { return "save recovered" }
