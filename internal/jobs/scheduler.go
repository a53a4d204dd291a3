package jobs

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// SchedulerConfig is what a Scheduler needs to know.
type SchedulerConfig struct {
	Self  wire.ID
	Table []Job // each of them checked

	// LedgerLost says that this host had a ledger which is gone or unreadable,
	// though it still has its id, under which it may be a voter. It then witnesses
	// no slot that it may have witnessed before, which are those of the next
	// minute too (Tolerance). What it had told no leader it cannot tell the next
	// one: jobs may overlap.
	LedgerLost bool

	// NewestKnown is the newest time of which this host knows, from its files, that
	// it has passed; zero if it knows none. It counts with LedgerLost: while the
	// clock is before it, the clock is wrong, and no claim at all is witnessed.
	NewestKnown time.Time

	// Settle is how long a new leader waits before it decides anything; zero
	// means DefaultSettle. Higher lets it hear more, and starts slots later.
	Settle time.Duration
	// ClaimTimeout bounds the wait for a majority, in quorum mode; zero means
	// DefaultClaimTimeout. It begins when the claim is on this host's disk, and
	// must exceed some round trips and a sync of another's. Higher lets slow disks
	// witness, and starts slots later.
	ClaimTimeout time.Duration
	// Grace is how long a command may go on after it was told to end; zero means
	// DefaultGrace. It is added before a vanished host's run counts as lost, so
	// it should be the same everywhere.
	Grace time.Duration
}

// Defaults of SchedulerConfig; all three are arbitrary.
const (
	DefaultSettle       = 2 * time.Second
	DefaultClaimTimeout = 10 * time.Second
	DefaultGrace        = 5 * time.Second
)

// saveWithin is how long what others have told may wait for the disk: nobody
// relies on it here, since they have it themselves. Arbitrary.
const saveWithin = time.Second

// Scheduler drives one host's part in singleton jobs: it claims slots and has
// the claims witnessed while this host leads, witnesses those of others, and
// spreads what is known. It is told the time and what happened, and says what to
// do; it has no clock, process, socket or file.
//
// A Scheduler belongs to whoever calls Step; nothing here is safe for concurrent
// use.
type Scheduler struct {
	cfg     SchedulerConfig
	ledger  *Ledger
	lost    lostLedger
	closing bool

	lead   Leadership // as last told; leadership() is what counts
	voters []wire.ID  // nil in available mode
	need   int        // how many of them are a majority
	peers  []wire.ID  // hosts that are told about runs

	claims  []*claim // own ones that wait for a majority
	study   study    // what a new leader asks the others
	asks    []ask    // people's wishes that wait
	mine    []mine   // the open runs of this life
	telling []Send   // parts of the ledger for new voters
	tellAt  time.Time
	round   uint32 // number of the last claim or study

	// What is in memory and not on disk.
	savedEdits uint64    // the ledger's edits that the last Save had
	saveAt     time.Time // when they are saved at the latest; zero: there are none
	diskFailed bool
	tookBack   bool    // a start, since the last that the disk took
	justOver   []stray // own runs that the step says have ended

	// Decisions are looked for only when one may have become due.
	decidedEdits uint64
	decidedLead  Leadership
	next         int       // the job of the table that comes first
	wake         time.Time // zero: never

	now      time.Time
	begun    bool // the first step has ended
	strays   bool // a record of an own run may not be as it is here
	before   []Effect
	after    []Effect // what relies on the step's Save
	mustSave bool     // something in after does
	out      []Effect
}

// NewScheduler gives a Scheduler that has not begun. ledger is what the disk
// holds, nil for nothing, and is the Scheduler's from then on. Commands of an
// earlier life must be gone before the first Step, which says that their runs
// were interrupted.
func NewScheduler(cfg SchedulerConfig, ledger *Ledger) *Scheduler {
	cfg.Settle = orDefault(cfg.Settle, DefaultSettle)
	cfg.ClaimTimeout = orDefault(cfg.ClaimTimeout, DefaultClaimTimeout)
	cfg.Grace = orDefault(cfg.Grace, DefaultGrace)
	if ledger == nil {
		ledger = &Ledger{}
	}
	s := &Scheduler{cfg: cfg, ledger: ledger, savedEdits: ledger.edits, strays: true}
	s.lead = Leadership{Self: cfg.Self, Settle: cfg.Settle, Grace: cfg.Grace}
	return s
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// Step takes one event at the time now, on the wall clock, and gives what to
// do, in order. The slice is valid until the next Step. Step never fails: what
// means nothing is refused and says so.
func (s *Scheduler) Step(now time.Time, ev Event) []Effect {
	s.now = now.Round(0) // without the reading of another clock
	if _, failed := ev.(SaveFailed); failed {
		s.onSaveFailed() // looks at the effects of the step before
	} else {
		s.before, s.after = s.before[:0], s.after[:0]
		s.tookBack, s.justOver = s.tookBack && s.diskFailed, s.justOver[:0]
		s.awake()
		s.settleForgot()
		s.ledger.takeBack(s.now)
		s.dispatch(ev)
	}
	s.timeClaims()
	if s.strays {
		s.settleStrays()
	}
	s.begun = true
	s.expire()
	s.decide()
	return s.finish()
}

// onClockSet moves along with the clock what is planned, and when this leadership
// began: neither has to do with what a clock shows.
func (s *Scheduler) onClockSet(by time.Duration) {
	s.lead.Since = s.lead.Since.Add(by)
	for _, t := range s.timers() {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	for i := range s.mine {
		if m := &s.mine[i]; !m.dueAt.IsZero() {
			m.dueAt = m.dueAt.Add(by)
		}
	}
	s.wake = s.now
}

// timers are all that is planned, apart from what policy plans.
func (s *Scheduler) timers() []*time.Time {
	all := []*time.Time{&s.saveAt, &s.tellAt}
	for _, c := range s.claims {
		all = append(all, &c.resendAt, &c.until)
	}
	for i := range s.study.tellers {
		all = append(all, &s.study.tellers[i].askAt)
	}
	for i := range s.asks {
		all = append(all, &s.asks[i].lookAt, &s.asks[i].until)
	}
	return all
}

func (s *Scheduler) dispatch(ev Event) {
	switch e := ev.(type) {
	case Tick:
	case Leading:
		s.onLeading(e)
	case NotLeading:
		s.onNotLeading()
	case Peers:
		s.peers = slices.Clone(e.Hosts)
	case Heard:
		s.onHeard(e.From, &e.Message, e.Known)
	case Merged:
		s.takeIn(wire.ID{}, hearsay, e.Bytes)
	case Exited:
		s.onExited(e)
	case StartFailed:
		s.unbegin(e.Job, e.Key)
	case Ask:
		s.onAsk(e)
	case SetPaused:
		s.onSetPaused(e)
	case Unask:
		s.onUnask(e.Token)
	case TableChanged:
		s.onTableChanged(e)
	case ClockSet:
		s.onClockSet(e.By)
	case Closing:
		s.onClosing()
	case SaveRecovered:
		s.onSaveRecovered()
	default:
		panic("BUG: unknown event " + ev.String())
	}
}

func (s *Scheduler) onHeard(from wire.ID, m *Message, known uint64) {
	if m.Epoch > known && (m.Kind == wire.JobClaim || m.Kind == wire.LedgerQuery) {
		s.refuse(from, "unknown-epoch") // it would be the fence, and depose all that follow
		return
	}
	switch m.Kind {
	case wire.JobClaim:
		s.onClaim(from, m)
	case wire.JobWitness:
		s.onWitness(from, m)
	case wire.JobRecord:
		who := hearsay
		if from == m.Owner && m.Epoch == known && known > 0 {
			who = leader
		}
		s.takeIn(from, who, []byte(m.Payload))
	case wire.LedgerQuery:
		s.onQuery(from, m)
	case wire.LedgerPart:
		s.onPart(from, m)
	default:
		s.refuse(from, "kind")
	}
}

func (s *Scheduler) note(d Decision) { s.before = append(s.before, Noted{d}) }

func (s *Scheduler) refuse(from wire.ID, why string) {
	s.before = append(s.before, Refused{From: from, Why: why})
}

// expire does what is due.
func (s *Scheduler) expire() {
	s.expireClaims()
	s.expireStudy()
	s.tellMore()
}

func (s *Scheduler) isDue(t time.Time) bool { return !t.IsZero() && !s.now.Before(t) }

// finish puts the step's effects in order: what does not rely on the disk, the
// Save, what does.
func (s *Scheduler) finish() []Effect {
	s.out = append(s.out[:0], s.before...)
	if s.ledger.edits == s.savedEdits || s.diskFailed {
		s.saveAt = time.Time{}
	} else if s.mustSave || s.isDue(s.saveAt) {
		s.out = append(s.out, Save{Bytes: []byte(s.ledger.mustAppend())})
		s.savedEdits, s.saveAt = s.ledger.edits, time.Time{}
	} else if s.saveAt.IsZero() {
		s.saveAt = s.now.Add(saveWithin)
	}
	s.mustSave = false
	s.out = append(s.out, s.after...)
	return s.out
}

// Deadline is when Step must be called with Tick if nothing happens before. The
// zero time means never. It is on the wall clock: a timer must be set anew when
// that clock is set.
func (s *Scheduler) Deadline() time.Time {
	first := s.wake
	for _, t := range s.timers() {
		first = earlier(first, *t)
	}
	return first
}

// earlier gives the earlier of two times, of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
