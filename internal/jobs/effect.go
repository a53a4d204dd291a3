package jobs

import (
	"fmt"

	"github.com/bully-agent/bully-agent/wire"
)

// Effect is what Scheduler.Step gives. Effects come in the order in which they
// must happen, and each has one line of text.
type Effect interface {
	String() string
	effect()
}

// Save must be on disk, synced, before the effects that follow it; Parse reads
// it again. If it fails, those are dropped and SaveFailed comes back. A step has
// at most one.
type Save struct{ Bytes []byte }

// Send hands one message to the network; it may be lost.
type Send struct {
	To      wire.ID
	Message Message
}

// Begin starts an attempt of a run: Run is on disk and, in quorum mode, at a
// majority. Whoever carries it out looks at the lease at that instant: if the
// leadership in Run.Epoch has ended, nothing is started and StartFailed comes
// back. Else Exited comes, exactly once.
type Begin struct {
	Job Job
	Run Run
}

// End ends a command that has begun: TERM, grace, KILL, to the whole group. Its
// Exited follows. Outcome says why.
type End struct {
	Job     string
	Key     Key
	Outcome Outcome
}

// Reply answers the Ask or SetPaused with the same Token. Run is the one that
// was started. A nil Err is success.
type Reply struct {
	Token uint64
	Run   Run
	Err   error
}

// Noted reports a decision, for log, events and metrics. Waits are not noted:
// Explain has them. A run's end is noted with an Action of zero.
type Noted struct{ Decision Decision }

// Refused reports a message or ledger that was not taken, and why, for a
// counter.
type Refused struct {
	From wire.ID // zero: a ledger from push/pull
	Why  string
}

func (Save) effect()    {}
func (Send) effect()    {}
func (Begin) effect()   {}
func (End) effect()     {}
func (Reply) effect()   {}
func (Noted) effect()   {}
func (Refused) effect() {}

// String gives one line.
func (e Save) String() string { return fmt.Sprintf("save bytes=%d", len(e.Bytes)) }

// String gives one line.
func (e Send) String() string { return fmt.Sprintf("send to=%s %v", e.To.Short(), e.Message) }

// String gives one line.
func (e Begin) String() string { return fmt.Sprintf("begin job=%s run=%v", e.Job.Name, e.Run) }

// String gives one line.
func (e End) String() string { return fmt.Sprintf("end job=%s run=%v why=%v", e.Job, e.Key, e.Outcome) }

// String gives one line.
func (e Reply) String() string {
	if e.Err != nil {
		return fmt.Sprintf("reply token=%d err=%q", e.Token, e.Err)
	}
	return fmt.Sprintf("reply token=%d ok", e.Token)
}

// String gives one line.
func (e Noted) String() string { return e.Decision.String() }

// String gives one line.
func (e Refused) String() string { return fmt.Sprintf("refused from=%s why=%s", e.From.Short(), e.Why) }
