package hooks

import "time"

// Check is a question about this host that a command answers: all is well if it exits with 0.
type Check struct {
	Name       string // of the form of a host's name
	Command    Command
	Interval   time.Duration // from the start of a run to that of the next
	Timeout    time.Duration // of a run, at most Interval
	Rise, Fall int           // at least 1
}

// MaxChecks bounds how many there are. Arbitrary: each has a thread while it runs.
const MaxChecks = 16

// CheckState is what the last runs of a check make of it.
type CheckState uint8

// The states. A check is CheckPending from the agent's start to the first verdict.
const (
	CheckPending CheckState = iota
	CheckPasses
	CheckFails
)

// String gives the state's word.
func (s CheckState) String() string { return [...]string{"pending", "passes", "fails"}[s] }

// CheckReport is what has changed about a check.
type CheckReport struct {
	Name  string
	State CheckState
	Why   string // it did not pass the last time, in one line; empty: it did
}

// judge counts runs: it takes rise passes in a row to pass, and fall failures to fail.
type judge struct {
	rise, fall int
	state      CheckState
	row        int  // runs in a row with the same end
	passed     bool // that end
}

// take adds a run, and reports whether the state is another now.
func (j *judge) take(passed bool) (changed bool) {
	if passed != j.passed {
		j.row, j.passed = 0, passed
	}
	j.row++
	was := j.state
	switch {
	case passed && j.row >= j.rise:
		j.state = CheckPasses
	case !passed && j.row >= j.fall:
		j.state = CheckFails
	}
	return j.state != was
}
