package hooks

import (
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// JobAttempt is one attempt of a run of a singleton job.
type JobAttempt struct {
	ID      string // of the run, BULLY_JOB_RUN_ID; no two with one ID at a time
	Job     string // its name, which is a file's name too
	Slot    time.Time
	Attempt int           // from 1
	Timeout time.Duration // of the attempt, zero: none; JobStopped is its asker's matter
	Command Command       `json:"-"` // the keeper knows the job's
	Event   Event         // what happened, as for a hook
	// Tied to the leadership: dead when the lease has ended. What is not tied has only
	// to start within the lease, and is ended soon after its timeout and the grace
	// if nobody has done so.
	Tied bool
}

// JobResult is how an attempt ended. Nothing of the command is left.
type JobResult struct {
	ID   string
	Job  string
	Exit uint8  // as a shell tells it: 128 + n for signal n, 126 and 127 for what did not start
	Err  string // why it did not start, was not all ended, or its holder has ended it; empty otherwise

	// Cause is why it was ended: what JobStopped or LeadershipLost said, CauseAgentDied, JobTimedOut or
	// JobKeeperDied; empty if it ended by itself.
	Cause string
	// TooLate says that nothing was started, since the lease had ended by then.
	TooLate bool
}

const (
	// JobTimedOut is JobResult.Cause of a command that its holder has ended at its timeout. JobStopped may be given the
	// same word.
	JobTimedOut = "timed-out"

	// JobKeeperDied is that of one which died with the keeper.
	JobKeeperDied = "keeper-died"

	// ExitNotRun is a shell's code for what was found and could not be executed.
	ExitNotRun = 126

	// ExitKilled is JobResult.Exit of what was killed together with whoever ran it: as of any command that KILL has ended.
	ExitKilled = 128 + 9
)

// JobRun is what is kept of one attempt: the first line of its file.
type JobRun struct {
	Job     string        `json:"job"`
	Run     string        `json:"run"` // BULLY_JOB_RUN_ID
	Slot    time.Time     `json:"slot"`
	Epoch   uint64        `json:"epoch"`
	Attempt int           `json:"attempt"`
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"`
	Exit    int           `json:"exit"`
	Cause   string        `json:"cause,omitempty"` // why it was ended; empty if it ended by itself
	Err     string        `json:"err,omitempty"`
	Printed int64         `json:"printed"` // bytes; more than are kept if the beginning was cut

	Seq uint64 `json:"-"` // BULLY_SEQ, of the file's name
}

// Held is how a job's command ended, or that it was not started, as its holder tells it.
type Held struct {
	Started  time.Time // by the clock that people read: when the attempt began
	Took     time.Duration
	HasBegun bool   // a process was started
	Code     int    // what a shell would make of the end; -1: nobody knows
	Cause    string // why it was ended; empty: by itself
	IsSilent bool   // its deadline had come, and nobody had said a word
	Err      string // what went wrong; empty: nothing
}

// What Lanes have to know of jobs.
type (
	// JobAsked is an order of the agent: an attempt of a job. TellJob is its answer.
	JobAsked struct {
		Attempt JobAttempt
		Lease   time.Time // its end as renewed last; zero: as it was
		AtOnce  int       // so many attempts of the job may go on at a time; 0: one
	}

	// JobStopped ends the attempt with this ID, if it goes on: TERM, grace, KILL.
	JobStopped struct{ ID, Cause string }

	// LeadershipLost: what jobs have tied to it is to end.
	LeadershipLost struct{ Cause string }

	// JobEnded: nothing of an attempt's command is left, or it was not started.
	JobEnded struct {
		ID   string
		Held Held
	}

	// RunFiled: what is kept of an attempt can be read, or cannot be kept.
	RunFiled struct{ ID string }
)

// What they want done about these.
type (
	// Hold has a holder start an attempt's command, and keep it within these terms. JobEnded is its outcome.
	Hold struct {
		Attempt       JobAttempt
		Seq           uint64        // BULLY_SEQ
		Budget, Grace time.Duration // before the deadline for a holder that hears nothing; between TERM and KILL
		Terms         ending.Terms
	}

	// Allow changes the terms of a command that is held, and Release has it end: within that time; 0: with its grace.
	Allow struct {
		ID    string
		Terms ending.Terms
	}
	Release struct {
		ID, Cause string
		Within    time.Duration
	}

	// FileRun keeps an attempt for people. RunFiled is its outcome.
	FileRun struct {
		ID  string
		Run JobRun
	}

	// TellJob is how an attempt ended. IsRefused says that an agent which is well does not ask for it.
	TellJob struct {
		Result    JobResult
		IsRefused bool
	}
)

func (JobAsked) laneEvent()       {}
func (JobStopped) laneEvent()     {}
func (LeadershipLost) laneEvent() {}
func (JobEnded) laneEvent()       {}
func (RunFiled) laneEvent()       {}

func (Hold) laneEffect()    {}
func (Allow) laneEffect()   {}
func (Release) laneEffect() {}
func (FileRun) laneEffect() {}
func (TellJob) laneEffect() {}
