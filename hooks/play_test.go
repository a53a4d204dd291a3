package hooks

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// play drives Lanes in virtual time, with processes that are as a test says, and keeps what the
// world saw: what was started, how it ended, what was written, what was told. What is right is
// judged by that alone.
type play struct {
	t     testing.TB
	lanes Lanes
	now   time.Duration
	todo  []occasion
	order int
	trace strings.Builder

	scripts map[Kind]script
	disk    time.Duration // a note takes so long
	isFull  bool          // no note can be written
	orphans time.Duration // their end takes so long
	alive   map[Lane]*process
	ran     []string // "become 7", in the order of their starts
	told    []Result
	looks   []Prepare // that hang
	overs   []Over
	written Page // what the journal has
	frozen  bool // nothing is done that time alone would do

	// until is when all of an epoch must be dead, if that is bounded.
	until map[uint64]time.Duration

	resources []Resource        // as configured
	fails     map[string]string // what of a resource goes wrong: "begin", "end", "hang"
	spunAt    time.Duration     // of the last deadline
	spins     int               // that it was asked for
	here      []string          // what this host has, in the order of its beginning
	beginning map[string]bool
	isOver    bool // nothing is put back any more

	checks  []Check           // as configured
	answers map[string]script // of a check or a program
	hanging map[Lane]uint64   // numbers of what hangs of questions

	held   map[string]*heldJob // commands of jobs, by run
	filing time.Duration       // a run takes so long to be kept
}

// script is how runs of a hook go.
type script struct {
	takes  time.Duration
	exit   int
	stays  bool          // it heeds no TERM
	hangs  bool          // nor KILL
	unfit  bool          // it may not be run
	absent bool          // there is none
	never  bool          // its start does not return
	unseen bool          // nor does the look at its program
	late   time.Duration // its start takes so long
	text   string        // of its command, besides the kind
}

type process struct {
	name   string // "become 7"
	over   func(end ending.End)
	kind   Kind
	epoch  uint64
	limit  ending.Limit
	begun  time.Duration
	script script
	isOver bool
}

// occasion is what is to happen at some time.
type occasion struct {
	at    time.Duration
	order int
	do    func()
}

const (
	testBudget   = 50 * time.Millisecond
	testTakeover = 200 * time.Millisecond
)

func newPlay(t testing.TB, scripts map[Kind]script) *play {
	p := &play{t: t, scripts: scripts, disk: time.Millisecond, alive: map[Lane]*process{}, until: map[uint64]time.Duration{},
		fails: map[string]string{}, beginning: map[string]bool{}, answers: map[string]script{}, hanging: map[Lane]uint64{}, held: map[string]*heldJob{}}
	p.reopen(Page{}, 0)
	return p
}

// reopen puts lanes of a next life in the place of these.
func (p *play) reopen(left Page, seq uint64) {
	p.lanes = NewLanes(LanesConfig{Seq: seq, Pause: time.Second, RecordWithin: 5 * time.Second, Budget: testBudget, Takeover: testTakeover}, p.config(), left)
}

func (p *play) config() Config {
	cfg := Config{Commands: map[Kind]Command{}}.WithDefaults()
	for kind, s := range p.scripts {
		if !s.absent {
			cfg.Commands[kind] = Command{Shell: strings.TrimSpace(string(kind) + " " + s.text)}
		}
	}
	cfg.Resources = p.resources
	return cfg
}

func (p *play) clock() time.Time { return time.Unix(1000, 0).Add(p.now) }

// at is a time of the lanes as one of the play.
func (p *play) at(t time.Time) time.Duration { return t.Sub(time.Unix(1000, 0)) }

func (p *play) after(d time.Duration, do func()) {
	p.order++
	p.todo = append(p.todo, occasion{p.now + max(d, 0), p.order, do})
}

func (p *play) note(format string, args ...any) {
	fmt.Fprintf(&p.trace, "%8v  %s\n", p.now.Round(time.Millisecond), fmt.Sprintf(format, args...))
}

// step has the lanes know of something.
func (p *play) step(ev LaneEvent) {
	for _, e := range slices.Clone(p.lanes.Step(p.clock(), ev)) {
		p.apply(e)
	}
	p.until[p.lanes.takenOver] = 1 << 62 // it has the bound of that
}

// advance lets time pass.
func (p *play) advance(d time.Duration) {
	end := p.now + d
	for p.next(end) {
	}
	p.now = end
}

// next does what is due next, if that is due by end.
func (p *play) next(end time.Duration) bool {
	slices.SortFunc(p.todo, func(a, b occasion) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order))
	})
	at := end + 1
	if deadline := p.lanes.Deadline(); !deadline.IsZero() && !p.frozen {
		at = max(p.at(deadline), p.now)
		p.mindSpin(at)
	}
	if len(p.todo) > 0 && p.todo[0].at <= at {
		if at = p.todo[0].at; at > end {
			return false
		}
		do := p.todo[0].do
		p.todo = p.todo[1:]
		p.now = at
		do()
		return true
	}
	if at > end {
		return false
	}
	p.now = at
	p.step(Tick{})
	return true
}

func (p *play) apply(effect LaneEffect) {
	switch e := effect.(type) {
	case Note:
		p.onNote(e)
	case EndOrphans:
		p.note("end orphans: %d runs", len(e.Runs))
		p.after(p.orphans, func() { p.step(OrphansEnded{}) })
	case Prepare:
		var err error
		if p.scripts[e.Kind].unfit {
			err = errors.New("unfit")
		}
		if p.scripts[e.Kind].unseen {
			p.note("whether %s may be run is looked at, and that hangs", short(e.Kind))
			p.looks = append(p.looks, e)
			return
		}
		p.after(0, func() { p.step(Prepared{Lane: e.Lane, Number: e.Number, Err: err}) })
	case Start:
		p.start(e)
	case Bound:
		if proc := p.alive[e.Lane]; proc != nil && !proc.script.never {
			proc.limit = e.Limit
			p.plan(e.Lane, proc)
		}
	case Consult:
		p.consult(e)
	case Hold, Allow, Release, FileRun, TellJob:
		p.applyOfJobs(e)
	case TellCheck:
		p.note("told: check %s %v%s", e.Report.Name, e.Report.State, because(e.Report.Why))
	case TellReply:
		p.note("told: %s answers %q%s", e.Program, e.Reply.Text, because(e.Reply.Why()))
	case BeginResource:
		p.beginResource(e)
	case Freeze:
		p.isOver = true
		p.note("nothing is put back any more")
		for _, name := range slices.Sorted(maps.Keys(p.beginning)) {
			p.after(0, func() { p.begun(name, errors.New("given up")) })
		}
	case EndResource:
		p.endResource(e)
	case Announce:
		if p.isOver {
			p.t.Fatalf("the neighbours are told of what is to end\n%s", &p.trace)
		}
		p.note("the neighbours are told")
	case Tell:
		if !e.Result.Kind.OfLeadership() {
			return
		}
		if e.Result.Kind == LoseLeadership && e.Result.OK && len(p.here) > 0 {
			p.t.Fatalf("%q are here, and the lose side has ended\n%s", p.here, &p.trace)
		}
		p.told = append(p.told, e.Result)
		p.note("told: %s", words(e.Result))
	case Cleaned:
		p.note("cleaned: %s", words(e.Result))
		if owed := p.written.Owed; !e.Result.OK && e.Result.Epoch > 0 && !p.isFull && (owed == nil || owed.Counter != e.Result.Epoch) {
			p.t.Fatalf("the clean-up of %d has failed, and the journal does not say that it is due\n%s", e.Result.Epoch, &p.trace)
		}
	case Over:
		p.note("over, others may be told: %t", e.IsClear)
		p.overs = append(p.overs, e)
	}
}

func words(res Result) string {
	text := fmt.Sprintf("%s %d", short(res.Kind), res.Epoch)
	switch {
	case res.OK && res.Ran:
		text += " ok"
	case res.OK:
		text += " nothing ran"
	default:
		text += " failed: " + res.Err.Error()
	}
	for _, is := range []struct {
		so   bool
		word string
	}{{res.TakenOver, "taken over"}, {res.Unasked, "unasked"}, {res.IsRepeat, "repeat"}, {res.IsCut, "cut"}, {res.IsLater, "later"}} {
		if is.so {
			text += ", " + is.word
		}
	}
	return text
}

func orOK(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

func short(kind Kind) string {
	name, _, _ := strings.Cut(string(kind), "-leader")
	return name
}

func (p *play) onNote(n Note) {
	what := ""
	if n.Page.Owed != nil {
		what += fmt.Sprintf(" owes %d", n.Page.Owed.Counter)
	}
	if n.Page.Done != nil {
		what += fmt.Sprintf(" done %d", n.Page.Done.Epoch.Counter)
	}
	for _, ln := range []Lane{Leadership, Notification, stuckLane(BecomeLeader), stuckLane(LoseLeadership)} {
		if e, ok := n.Page.Runs[ln]; ok {
			what += fmt.Sprintf(" %s runs %s %d", ln, short(e.Hook), e.Epoch)
		}
	}
	if n.IsBegin {
		what += ", begins"
	}
	if n.IsLast {
		what += ", lasting"
	}
	if n.IsBegin {
		p.isOver = false // the next leadership
	}
	p.note("note:%s", cmp.Or(what, " nothing"))
	var err error
	if p.isFull {
		err = errors.New("disk full")
	}
	p.after(p.disk, func() {
		if err == nil {
			p.written = n.Page
		}
		if n.IsBegin || n.IsLast {
			p.step(Noted{Number: n.Number, Err: err})
		}
	})
}

func (p *play) start(e Start) {
	kind, epoch := e.Event.Kind, e.Event.Epoch.Counter
	if p.alive[e.Lane] != nil {
		p.t.Fatalf("%s %d starts while %s %d runs\n%s", kind, epoch, p.alive[e.Lane].kind, p.alive[e.Lane].epoch, &p.trace)
	}
	proc := &process{name: fmt.Sprintf("%s %d", short(kind), epoch), kind: kind, epoch: epoch, limit: e.Limit, begun: p.now, script: p.scripts[kind]}
	proc.over = func(end ending.End) { p.step(Exited{Lane: e.Lane, Seq: e.Seq, End: end, Hangs: "process 7 hangs"}) }
	p.alive[e.Lane] = proc
	p.ran = append(p.ran, proc.name)
	if proc.script.never {
		delete(p.alive, e.Lane)
		p.note("%s %d is being started, and that hangs", kind, epoch)
		return
	}
	_, text, _ := strings.Cut(e.Command.Shell, " ")
	p.note("%s starts: cause %s, attempt %d, %v until TERM", strings.TrimSpace(proc.name+" "+text), e.Event.Cause, e.Event.Attempt+1, e.Timeout.Round(time.Millisecond))
	p.step(Started{Lane: e.Lane, At: p.clock(), Entry: Entry{Hook: kind, Epoch: epoch, Seq: e.Seq, Group: int(e.Seq)}})
	if p.alive[e.Lane] == proc {
		p.plan(e.Lane, proc)
	}
}

// plan ends a process by what it does and by its limit, unless that changes.
func (p *play) plan(ln Lane, proc *process) {
	asked := proc.limit.TermBy(time.Unix(1000, 0).Add(proc.begun))
	if p.at(asked) < p.now {
		asked = p.clock()
	}
	end, exit := proc.begun+proc.script.takes, ending.End{Exit: proc.script.exit}
	if exit.Exit != 0 {
		exit.Err = fmt.Errorf("exit status %d", exit.Exit)
	}
	killed := p.at(proc.limit.KillBy(asked))
	switch by := p.at(asked); {
	case by >= end:
	case proc.script.hangs:
		end, exit = killed+ending.Unkillable, ending.End{Exit: -1, Err: cmp.Or(proc.limit.Reason, ending.ErrTimedOut), IsStuck: true}
	case proc.script.stays:
		end, exit = min(end, killed), ending.End{Exit: -1, Err: cmp.Or(proc.limit.Reason, ending.ErrTimedOut)}
	default:
		end, exit = by, ending.End{Exit: -1, Err: cmp.Or(proc.limit.Reason, ending.ErrTimedOut)}
	}
	limit := proc.limit
	p.after(end-p.now, func() {
		if proc.isOver || proc.limit != limit {
			return
		}
		proc.isOver = true
		delete(p.alive, ln)
		exit.Took = p.now - proc.begun
		p.note("%s ends: %s", proc.name, orOK(exit.Err))
		if due, ok := p.until[proc.epoch]; ok && p.now > due && proc.kind.OfLeadership() {
			p.t.Fatalf("%s %d has ended at %v, and had until %v\n%s", proc.kind, proc.epoch, p.now, due, &p.trace)
		}
		proc.over(exit)
	})
}

// mindSpin ends a play whose Lanes want to be asked at one time for ever.
func (p *play) mindSpin(at time.Duration) {
	if p.spunAt != at {
		p.spunAt, p.spins = at, 0
	}
	if p.spins++; p.spins > 1000 {
		p.t.Fatalf("the deadline is at %v, and goes on being that\n%s", at, &p.trace)
	}
}

// beginTakes and endTakes are how long a resource takes for each.
const (
	beginTakes = 5 * time.Millisecond
	endTakes   = 3 * time.Millisecond
)

// addResource takes words such as "web stays", or "web begin" for one that does not begin.
func (p *play) addResource(words []string) {
	r := Resource{Name: words[0], Unit: words[0] + ".service", Timeout: time.Second, Grace: 100 * time.Millisecond}
	for _, word := range words[1:] {
		switch word {
		case "":
		case "stays":
			r.Stays = true
		case "slow":
			r.Grace = time.Minute
		default:
			p.fails[r.Name] = word
		}
	}
	p.resources = append(slices.Clone(p.resources), r)
	p.step(Reloaded{p.config()})
}

func (p *play) beginResource(e BeginResource) {
	if p.isOver {
		p.t.Fatalf("%s begins after nothing was to be put back\n%s", e.Resource.Name, &p.trace)
	}
	p.note("%s begins", e.Resource.Name)
	p.beginning[e.Resource.Name] = true
	switch p.fails[e.Resource.Name] {
	case "begin":
		p.after(beginTakes, func() { p.begun(e.Resource.Name, errors.New("no such thing")) })
	case "hang":
		p.after(e.Within, func() { p.begun(e.Resource.Name, errors.New("it took too long")) })
	default:
		p.after(beginTakes, func() { p.begun(e.Resource.Name, nil) })
	}
}

func (p *play) begun(name string, err error) {
	if !p.beginning[name] {
		return
	}
	delete(p.beginning, name)
	p.note("%s has begun: %s", name, orOK(err))
	if err == nil && !slices.Contains(p.here, name) {
		p.here = append(p.here, name)
	}
	p.step(ResourceBegun{Name: name, Err: err})
}

func (p *play) endResource(e EndResource) {
	name := e.Resource.Name
	p.note("%s is to end within %v", name, e.Within.Round(time.Millisecond))
	var err error
	takes := endTakes
	if p.fails[name] == "end" {
		err, takes = errors.New("it is still here"), e.Within
	}
	p.after(takes, func() {
		if err == nil {
			p.here = slices.DeleteFunc(p.here, func(n string) bool { return n == name })
		}
		p.note("%s has ended: %s", name, orOK(err))
		p.step(ResourceEnded{Name: name, Err: err})
	})
}
