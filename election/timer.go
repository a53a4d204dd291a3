package election

import "time"

// timer names one of a Node's deadlines. Whatever a Node waits for is one of
// these, or the next transmission of an exchange: Deadline asks all of them, Step
// expires all of them, and enter disarms what was for the state that ends.
//
// Their order is the one in which those that are due in one step expire.
type timer uint8

const (
	// stepDownTimer is armed while this node holds a lease, for the time by
	// which it must be gone unless it is renewed (R13).
	stepDownTimer timer = iota
	// muteTimer is armed at the start of a voter that may have made promises in
	// its life before (M5): it grants nothing until then. It ends before the event
	// is looked at: that may be a claim, and what is promised to it is not over.
	muteTimer
	// partTimer is armed by a list that has lost the leader, and by a leader that others' lists have lost: it has until then to hand
	// over (S20). It ends before the event is looked at: that may be the leader's.
	partTimer
	// beatTimer is armed by each heartbeat for the next one.
	beatTimer
	// repeatTimer is armed by a heartbeat, for those that have not acknowledged it.
	repeatTimer
	// suspectTimer is armed by each sign of the leader's life: from then on its
	// silence is suspicious.
	suspectTimer
	// queryTimer is armed at the start: the node asks for a leader.
	queryTimer
	// preemptTimer is armed by a better node that follows a worse leader: it asks
	// that one to hand over.
	preemptTimer
	// holdTimer is armed by a step-down, or by what an earlier life left of one:
	// the node does not stand before.
	holdTimer
	// lingerTimer is armed by a voter that is to go, and stays while its leader
	// goes too.
	lingerTimer
	// stateTimer is armed by a state that waits for something, for the end of its
	// patience; the contest says what comes next.
	stateTimer

	timerCount
)

// scope is what a timer belongs to, and ends with.
type scope uint8

const (
	ofLife  scope = iota // of this node's: only whoever armed it disarms it
	ofState              // of one stay in a state
	ofReign              // of one leadership
)

// stage is when in a step a timer is looked at.
type stage uint8

const (
	beforeAll   stage = iota // by a leader, before it does anything else
	beforeEvent              // so that what has ended counts for the event
	afterEvent
)

// timerTable says what holds of each timer; expire says what it sets off.
var timerTable = [timerCount]struct {
	name  string
	scope scope
	stage stage
	// isSilence: it waits for others to be heard, so a lag of this node's own
	// puts it off (R12).
	isSilence bool
}{
	stepDownTimer: {name: "step-down", scope: ofReign, stage: beforeAll},
	muteTimer:     {name: "mute", stage: beforeEvent},
	partTimer:     {name: "part", stage: beforeEvent},
	beatTimer:     {name: "beat", scope: ofReign, stage: afterEvent},
	repeatTimer:   {name: "repeat", scope: ofReign, stage: afterEvent},
	suspectTimer:  {name: "suspect", scope: ofState, stage: afterEvent, isSilence: true},
	queryTimer:    {name: "query", scope: ofState, stage: afterEvent},
	preemptTimer:  {name: "preempt", scope: ofState, stage: afterEvent},
	holdTimer:     {name: "hold", stage: afterEvent},
	lingerTimer:   {name: "linger", stage: afterEvent},
	stateTimer:    {name: "state", scope: ofState, stage: afterEvent, isSilence: true},
}

// String gives the timer's name.
func (t timer) String() string {
	if t < timerCount {
		return timerTable[t].name
	}
	return "unknown"
}

// expire does what a timer was armed for. It is disarmed by then, and its action
// may arm what comes next.
func (n *Node) expire(t timer) {
	switch t {
	case stepDownTimer:
		n.loseLease()
	case muteTimer:
		n.endMute()
	case partTimer:
		n.endParting()
	case beatTimer:
		n.beat()
	case repeatTimer:
		n.repeatBeat()
	case suspectTimer:
		n.becomeSuspicious(LeaderSilent)
	case queryTimer:
		n.queryLeader()
	case preemptTimer:
		n.askToPreempt()
	case holdTimer:
		n.resumeStanding(HoldEnded, 0)
	case lingerTimer:
		n.finishLeave()
	case stateTimer:
		n.onStateTimeout()
	default:
		panic("BUG: expire timer " + t.String())
	}
}

// expireTimers expires those of this stage that are due.
func (n *Node) expireTimers(s stage) {
	for t := range timerCount {
		if timerTable[t].stage == s && n.timers.take(t, n.now) {
			n.expire(t)
		}
	}
}

// timers holds when each timer is due; zero is a timer that is not armed.
type timers [timerCount]time.Time

// arm sets a timer, whatever it was set to before. The zero time disarms it.
func (a *timers) arm(t timer, at time.Time) { a[t] = at }

func (a *timers) disarm(t timer) { a[t] = time.Time{} }

func (a *timers) isArmed(t timer) bool { return !a[t].IsZero() }

// end disarms what belongs to a scope that ends.
func (a *timers) end(s scope) {
	for t := range timerCount {
		if timerTable[t].scope == s {
			a.disarm(t)
		}
	}
}

// putOff sets a timer that is armed to this time, unless it is later anyway.
func (a *timers) putOff(t timer, to time.Time) {
	if a.isArmed(t) {
		a[t] = later(a[t], to)
	}
}

// take reports whether a timer is due, and disarms it then.
func (a *timers) take(t timer, now time.Time) bool {
	if !a.isArmed(t) || now.Before(a[t]) {
		return false
	}
	a.disarm(t)
	return true
}

// first is when the first of them is due; zero: none is armed.
func (a *timers) first() time.Time {
	var first time.Time
	for _, at := range a {
		first = earlier(first, at)
	}
	return first
}
