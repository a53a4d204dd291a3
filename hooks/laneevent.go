package hooks

import (
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// LaneEvent is something that Lanes have to know. Those about questions are in question.go, and about jobs in job.go.
type LaneEvent interface{ laneEvent() }

type (
	// Asked is an order of the agent: run the hook of this event.
	Asked struct {
		ID    uint64 // by which its end is told; 0: nobody asks
		Event Event
		// Due, when not zero, bounds a lose-leadership event: everything of this leadership (its
		// become-leader hook if that still runs, then the lose-leadership hook) is dead then. It is
		// the end of the lease on an involuntary loss (protocol 2.5); zero, in a planned change,
		// leaves the hook its full timeout.
		Due   time.Time
		Lease time.Time // its end as renewed last, with an event of the leadership
		Bar   error     // why a become-leader must not start; nil: it may
	}

	// Stopped says that an epoch has ended: its become-leader hook is killed if it runs, and
	// never started if it does not, in which case its lose-leadership is dropped, too. Epochs
	// rise, so an epoch below it has ended as well.
	Stopped struct{ Epoch uint64 }

	// Renewed tells until when the leadership's lease lasts; the zero time: it does not end by
	// itself. IsAlone says that nobody could take over. Such a lease binds only those to whom it is lent: an agent that is silent past
	// its end loses nothing. IsEnding says that a planned end of the leadership waits for what LeadershipLost has told to end.
	Renewed struct {
		Lease             time.Time
		IsAlone, IsEnding bool
	}

	// Lent says whether somebody acts on the lease beside what runs here. Lease, when not zero, is its end as they know it.
	Lent struct {
		Is    bool
		Lease time.Time
	}

	// Reached: the leadership has reached hosts that may have followed, or been, another leader. Where they are, neighbours
	// may have learnt that one.
	Reached struct{}

	// AgentDied: what it has left is ended. A clean-up goes on: it is due, whoever lives.
	AgentDied struct{}

	// AgentDeaf: the agent has closed its pipe. It may live, and says nothing.
	AgentDeaf struct{}

	// Adopted takes on the leadership of a become-leader event that others had begun.
	Adopted struct {
		Event Event
		Lease time.Time
	}

	// CleanUp makes up for a leadership that an earlier life of the agent did not end. It comes
	// before Opened.
	CleanUp struct{ Event Event }

	// Opened lets hooks run as they are asked for; Closed ends those that run, and lets none begin.
	Opened struct{}
	Closed struct{}

	// Reloaded replaces the configuration from the next run on, for a leadership that has begun
	// as far as kept says.
	Reloaded struct{ Config Config }

	// OrphansEnded: nothing of an earlier life runs, except for what hangs.
	OrphansEnded struct{ Hang []Hanging }

	// Noted: the journal has this note and all before, or could not be written.
	Noted struct {
		Number uint64
		Err    error
	}

	// Prepared: what an earlier run has left is gone; Err says why the command must not be run.
	Prepared struct {
		Lane   Lane
		Number uint64 // of its Prepare
		Err    error
	}

	// Started: a process runs.
	Started struct {
		Lane  Lane
		At    time.Time // when it began
		Wall  time.Time // the same by the clock that people read, for Result
		Entry Entry
	}

	// StartFailed: there is none. Of a start that was given up it says, as Exited does, that nothing is left.
	StartFailed struct {
		Lane Lane
		Seq  uint64 // of its Start
		Err  error
	}

	// Exited: nothing of its group runs; what hangs all the same is named.
	Exited struct {
		Lane  Lane
		Seq   uint64 // of its Start
		End   ending.End
		Hangs string
	}

	// ResourceBegun: this host has it, or Err says why not.
	ResourceBegun struct {
		Name string
		Err  error
	}

	// ResourceFailed: this host had it, has it no more, and it cannot be put back.
	ResourceFailed struct {
		Name string
		Err  error
	}

	// ResourceEnded: nothing is left of it here, or Err says what is.
	ResourceEnded struct {
		Name string
		Err  error
	}

	// Gone: a hook that has hung has ended.
	Gone struct{ Entry Entry }

	// Tick: time has passed, and all that the agent has said until now has been taken. Only then
	// it is judged: whoever was stopped with the agent, or in its stead, has its words to take first.
	Tick struct{}
)

// Hanging is a hook of the leadership that KILL has not ended.
type Hanging struct {
	Entry Entry
	How   string // "process 7 cannot be ended, …"
}

func (Asked) laneEvent()          {}
func (Stopped) laneEvent()        {}
func (Renewed) laneEvent()        {}
func (Lent) laneEvent()           {}
func (Reached) laneEvent()        {}
func (AgentDied) laneEvent()      {}
func (AgentDeaf) laneEvent()      {}
func (Adopted) laneEvent()        {}
func (CleanUp) laneEvent()        {}
func (Opened) laneEvent()         {}
func (Closed) laneEvent()         {}
func (Reloaded) laneEvent()       {}
func (OrphansEnded) laneEvent()   {}
func (Noted) laneEvent()          {}
func (Prepared) laneEvent()       {}
func (Started) laneEvent()        {}
func (StartFailed) laneEvent()    {}
func (Exited) laneEvent()         {}
func (ResourceBegun) laneEvent()  {}
func (ResourceFailed) laneEvent() {}
func (ResourceEnded) laneEvent()  {}
func (Gone) laneEvent()           {}
func (Tick) laneEvent()           {}

// LaneEffect is something that Lanes want done. Those about questions are in question.go, and about jobs in job.go.
type LaneEffect interface{ laneEffect() }

type (
	// Note is what the journal is to hold; the newest counts. Noted is its outcome, if IsBegin or
	// IsLast.
	Note struct {
		Number uint64
		Page   Page
		IsSync bool // what it says is on the disk before it takes the place of what was said before
		IsLast bool // it survives a loss of power
		// IsBegin: a become-leader hook waits for it, and there must be room for another note
		// after it, of what runs, and how it ended. On a full disk what an earlier leadership
		// has given back is room for one.
		IsBegin bool
	}

	// EndOrphans ends what an earlier life left running: these runs, and hooks of the leadership
	// that is due. OrphansEnded is its outcome.
	EndOrphans struct {
		Grace time.Duration
		Owed  *Epoch
		Runs  []Entry
	}

	// Prepare ends what the last become-leader hook has left, and looks whether the command may
	// be run. Prepared is its outcome, which comes too late if the file system of the command does not answer.
	Prepare struct {
		Lane    Lane
		Number  uint64
		Command Command
		Within  time.Duration // what is left has this for its end
		Leaves  Entry         // zero: nothing
		Kind    Kind
	}

	// Start runs a command. Started or StartFailed is its outcome, which may never come from a file system that does not answer.
	// Another Start in its lane may come before that.
	Start struct {
		Lane    Lane
		Seq     uint64 // BULLY_SEQ
		Event   Event
		Command Command
		Timeout time.Duration // until TERM, as the hook is told
		Limit   ending.Limit
	}

	// Bound shortens the time of what is being started, or runs. What has a Reason to end before it was started is not started.
	Bound struct {
		Lane  Lane
		Limit ending.Limit
	}

	// BeginResource has this host have a resource, and keep it. ResourceBegun is its outcome, soon after
	// Within has passed at the latest; ResourceFailed may come later.
	BeginResource struct {
		Resource Resource
		Event    Event // become-leader, of the leadership that has it
		Within   time.Duration
	}

	// Freeze: nothing of any resource is put back from now on, and what is being begun is given up.
	Freeze struct{}

	// Announce has neighbours told once more of what the leadership has.
	Announce struct{}

	// EndResource takes a resource from this host, whoever has begun it. ResourceEnded is its outcome, soon
	// after Within has passed at the latest. Asked once more it shortens the time.
	EndResource struct {
		Resource Resource
		Within   time.Duration
	}

	// Tell is a result that the agent hears of, in the order of its orders for the leadership. Unasked ones come first.
	Tell struct {
		ID     uint64 // of the order; 0: there was none
		Result Result
	}

	// Cleaned is the end of CleanUp.
	Cleaned struct{ Result Result }

	// Over: no order will come any more, and the leadership's hooks have ended. IsClear says that the
	// others may be told so (M24).
	Over struct{ IsClear bool }

	// Say is for the log.
	Say struct {
		Level Level
		Text  string
		Args  []any // names and values
	}
)

// Level is how much a line of the log matters.
type Level int

// From the least.
const (
	Info Level = iota
	Warn
	Error
)

func (Note) laneEffect()          {}
func (EndOrphans) laneEffect()    {}
func (Prepare) laneEffect()       {}
func (Start) laneEffect()         {}
func (Bound) laneEffect()         {}
func (BeginResource) laneEffect() {}
func (Freeze) laneEffect()        {}
func (Announce) laneEffect()      {}
func (EndResource) laneEffect()   {}
func (Tell) laneEffect()          {}
func (Cleaned) laneEffect()       {}
func (Over) laneEffect()          {}
func (Say) laneEffect()           {}

func (l *Lanes) say(level Level, text string, args ...any) { l.do(Say{level, text, args}) }

// sayEnd says how one run of a hook ended.
func (l *Lanes) sayEnd(t *task) {
	command := t.plan.Commands[t.Kind]
	if command.IsZero() {
		return
	}
	about := []any{"epoch", t.Epoch.Counter, "hook", string(t.Kind)}
	took := t.res.Took.Round(time.Millisecond)
	if t.res.Err != nil {
		l.say(Error, "hook failed", append(about, "err", t.res.Err, "took", took, "command", OneLine(command.String()))...)
		return
	}
	l.say(Info, "hook ended", append(about, "took", took)...)
}
