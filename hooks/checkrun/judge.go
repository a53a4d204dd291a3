package checkrun

// State is what the last runs of a check make of it.
type State uint8

// The states. A check is Pending from the agent's start to the first verdict.
const (
	Pending State = iota
	Passes
	Fails
)

// String gives the state's word.
func (s State) String() string { return [...]string{"pending", "passes", "fails"}[s] }

// judge counts runs: it takes rise passes in a row to pass, and fall failures to fail.
type judge struct {
	rise, fall int
	state      State
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
		j.state = Passes
	case !passed && j.row >= j.fall:
		j.state = Fails
	}
	return j.state != was
}
