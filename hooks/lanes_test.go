package hooks

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// The rules of lanes as stories: what the agent says, what the world does, and what comes of it.
func TestLanes(t *testing.T) {
	datadriven.Walk(t, filepath.Join("..", "testdata", "lanes"), func(t *testing.T, path string) {
		p := newPlay(t, map[Kind]script{})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			p.t = t
			p.trace.Reset()
			p.command(d)
			return p.trace.String()
		})
	})
}

// command is one line of a story; each of its lines is a command, and time passes by "run".
func (p *play) command(d *datadriven.TestData) {
	lines := append([]string{d.Cmd + " " + argsOf(d)}, strings.Split(strings.TrimSpace(d.Input), "\n")...)
	for _, line := range lines {
		if words := strings.Fields(line); len(words) > 0 {
			p.do(words[0], words[1:])
		}
	}
}

func argsOf(d *datadriven.TestData) string {
	var all []string
	for _, a := range d.CmdArgs {
		all = append(all, a.String())
	}
	return strings.Join(all, " ")
}

var kinds = map[string]Kind{"become": BecomeLeader, "lose": LoseLeadership, "change": LeaderChange, "member": MemberChange}

func (p *play) do(verb string, args []string) {
	o := p.options(args)
	switch verb {
	case "hook": // hook become takes=1s exit=75 stays hangs unfit never unseen
		p.scripts[kinds[args[0]]] = o.script()
		p.step(Reloaded{p.config()})
	case "resource": // resource web stays slow begin|hang|end: it has a long time for its end, and what goes wrong with it
		p.addResource(args)
	case "no-resource":
		p.resources = slices.DeleteFunc(slices.Clone(p.resources), func(r Resource) bool { return r.Name == args[0] })
		p.step(Reloaded{p.config()})
	case "mend":
		delete(p.fails, args[0])
	case "spoil": // spoil web end: what goes wrong with it from now on
		p.fails[args[0]] = args[1]
	case "lost":
		p.here = slices.DeleteFunc(p.here, func(n string) bool { return n == args[0] })
		p.note("%s is lost", args[0])
		p.step(ResourceFailed{Name: args[0], Err: errors.New("deleted")})
	case "disk":
		p.disk, p.isFull = o.takes, slices.Contains(args, "full")
	case "looked": // what has hung longest goes on
		p.step(Prepared{Lane: p.looks[0].Lane, Number: p.looks[0].Number})
		p.looks = p.looks[1:]
	case "orphans":
		p.orphans = o.takes
	case "reached":
		p.step(Reached{})
	case "open":
		p.step(Opened{})
	case "close":
		p.step(Closed{})
	case "become", "lose", "change", "member": // become 7 lease=1s within=1s planned redo barred
		p.step(o.asked(p, kinds[verb]))
	case "stop":
		p.step(Stopped{o.epoch})
	case "renew":
		p.step(Renewed{Lease: p.clock().Add(o.lease), IsAlone: slices.Contains(args, "alone")})
	case "agent":
		p.step(map[string]LaneEvent{"died": AgentDied{}, "deaf": AgentDeaf{}}[args[0]])
	case "lend", "return":
		p.step(Lent{verb == "lend", p.leaseOf(o)})
	case "clean-up":
		ev := Event{AtStart: slices.Contains(args, "at_start")}
		if o.epoch > 0 {
			ev.Epoch = Epoch{Counter: o.epoch, Owner: "a"}
		}
		p.step(CleanUp{ev})
	case "adopt":
		p.step(Adopted{Event: Event{Kind: BecomeLeader, Epoch: Epoch{Counter: o.epoch, Owner: "a"}}, Lease: p.leaseOf(o)})
	case "next-life":
		p.alive, p.todo = map[Lane]*process{}, nil
		p.reopen(p.written, p.lanes.seq)
	case "freeze":
		p.frozen = true
		p.advance(o.takes)
		p.frozen = false
	case "gone":
		if e := p.lanes.stuck[kinds[args[0]]].Entry; e.Group == 0 {
			p.step(StartFailed{Lane: Leadership, Seq: e.Seq, Err: errNotStarted})
		} else {
			p.step(Gone{e})
		}
	case "check", "no-check", "answers", "ask", "vacated", "late", "deserted":
		p.question(verb, args, o)
	case "job", "job-ends", "job-stop", "filed", "lost-jobs":
		p.job(verb, args, o)
	case "ending": // ending lease=2s: a planned end of the leadership waits for what is told to end
		p.step(Renewed{Lease: p.clock().Add(o.lease), IsEnding: true})
	case "run":
		p.advance(o.takes)
	default:
		p.t.Fatalf("%s: there is no such command", verb)
	}
}

// options are what the words after a command's verb say.
type options struct {
	epoch                                uint64
	takes, lease, within                 time.Duration
	interval, timeout                    time.Duration
	late                                 time.Duration
	exit, rise, fall, overlap            int
	stays, hangs, unfit, isPlan, isRedo  bool
	isBarred, isRequested, never, unseen bool
	text                                 string
}

func (p *play) options(args []string) (o options) {
	flags := map[string]*bool{"stays": &o.stays, "hangs": &o.hangs, "unfit": &o.unfit, "never": &o.never, "unseen": &o.unseen, "planned": &o.isPlan, "redo": &o.isRedo, "barred": &o.isBarred, "requested": &o.isRequested}
	times := map[string]*time.Duration{"takes": &o.takes, "lease": &o.lease, "within": &o.within, "interval": &o.interval, "timeout": &o.timeout, "late": &o.late}
	numbers := map[string]*int{"exit": &o.exit, "rise": &o.rise, "fall": &o.fall, "overlap": &o.overlap}
	for _, arg := range args {
		name, value, hasValue := strings.Cut(arg, "=")
		var err error
		switch {
		case flags[arg] != nil:
			*flags[arg] = true
		case name == "text":
			o.text = value
		case hasValue && times[name] != nil:
			*times[name], err = time.ParseDuration(value)
		case hasValue && numbers[name] != nil:
			*numbers[name], err = strconv.Atoi(value)
		default:
			if o.epoch, err = strconv.ParseUint(arg, 10, 64); err != nil { // a time, or a word that the command knows
				o.takes, _ = time.ParseDuration(arg)
				err = nil
			}
		}
		if err != nil {
			p.t.Fatalf("%s: %v", arg, err)
		}
	}
	return o
}

func (o options) script() script {
	return script{takes: o.takes, exit: o.exit, stays: o.stays, hangs: o.hangs, unfit: o.unfit, never: o.never, unseen: o.unseen, late: o.late, text: o.text}
}

func (o options) asked(p *play, kind Kind) Asked {
	ev := Event{Kind: kind, Cause: "asked", Epoch: Epoch{Counter: o.epoch, Owner: "a"}, IsPlanned: o.isPlan, IsRedo: o.isRedo}
	if o.isRequested {
		ev.Cause = CauseRequested
	}
	a := Asked{Event: ev}
	if o.isBarred {
		a.Bar = errors.New("barred")
	}
	a.Lease = p.leaseOf(o)
	if o.within > 0 {
		a.Due = p.clock().Add(o.within)
	}
	return a
}

// leaseOf is the end of a lease that was given; zero: it has none.
func (p *play) leaseOf(o options) time.Time {
	if o.lease == 0 {
		return time.Time{}
	}
	return p.clock().Add(o.lease)
}

// Whatever the agent says and the world does, and in whatever order: hooks alternate, epochs
// rise, each order is answered once and in order, and what is bounded is dead in time.
func TestLanesKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlay(nil, map[Kind]script{})
		p.t = fataler{rapidT: t}
		draw := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		duration := func(name string, most time.Duration) time.Duration {
			return most * rapid.SampledFrom(parts).Draw(t, name) / 1000
		}
		for _, kind := range []Kind{BecomeLeader, LoseLeadership, LeaderChange} {
			p.scripts[kind] = script{takes: duration("takes", 400*time.Millisecond), exit: []int{0, 0, 1, 75}[draw("exit", 3)],
				stays: draw("stays", 3) == 0, unfit: draw("unfit", 9) == 0, absent: draw("absent", 5) == 0}
		}
		p.disk = duration("disk", 30*time.Millisecond)
		for i := range rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(t, "resources") {
			p.addResource([]string{fmt.Sprint("r", i), rapid.SampledFrom([]string{"", "", "", "stays", "begin", "hang"}).Draw(t, "goes")})
		}
		p.step(Reloaded{p.config()})
		p.step(Opened{})
		var epoch uint64
		var asked []string
		leads := false
		for range 10 + draw("steps", 30) {
			switch rapid.SampledFrom(happenings).Draw(t, "what") {
			case "become":
				if !leads {
					epoch++
					leads = true
					asked = append(asked, fmt.Sprintf("become %d", epoch))
					p.do("become", []string{fmt.Sprint(epoch), "lease=" + duration("lease", time.Second).String()})
				}
			case "lose":
				if leads {
					leads = false
					asked = append(asked, fmt.Sprintf("lose %d", epoch))
					within := 50*time.Millisecond + duration("within", time.Second) // with less it is only tried
					p.until[epoch] = max(p.until[epoch], p.now+within)
					p.do("lose", []string{fmt.Sprint(epoch), "within=" + within.String()})
				}
			case "renew":
				p.do("renew", []string{"lease=" + duration("lease", time.Second).String()})
			case "stop":
				if !leads {
					p.do("stop", []string{fmt.Sprint(epoch)})
				}
			case "change":
				p.do("change", []string{fmt.Sprint(epoch)})
			case "lost":
				if len(p.here) > 0 {
					p.do("lost", p.here[draw("which", len(p.here)-1):])
				}
			case "frozen":
				p.frozen = true
				p.advance(duration("frozen", time.Second))
				p.frozen = false
				clear(p.until) // a hook that could not begin in time is at least tried
			case "passes":
				p.advance(duration("passes", time.Second))
			}
		}
		p.advance(10 * time.Minute)
		p.alternate()
		p.yielded(leads)
		p.answered(asked)
		if !p.lanes.IsAllAtRest() {
			t.Fatalf("not at rest\n%s", &p.trace)
		}
	})
}

// parts are thousandths of a time. Numbers drawn from a range would nearly all be next to nothing.
var parts = []time.Duration{0, 7, 50, 150, 300, 500, 700, 900, 1000}

// happenings are what the property draws from. Time passes as often as all the rest happens, or nothing that
// begins would come to its end.
var happenings = []string{"passes", "become", "passes", "lose", "passes", "become", "passes", "lose", "passes", "renew", "stop", "change", "passes", "lost", "frozen"}

// fataler is as much of testing.TB as a play needs.
type fataler struct {
	testing.TB
	rapidT *rapid.T
}

func (f fataler) Fatalf(format string, args ...any) { f.rapidT.Fatalf(format, args...) }

// alternate checks that what ran is (become lose)*, epochs strictly rising, where a hook may be
// tried several times.
func (p *play) alternate() {
	var last string
	var highest int
	for _, line := range slices.Compact(slices.DeleteFunc(slices.Clone(p.ran), func(s string) bool { return strings.HasPrefix(s, "leader") })) {
		kind, number, _ := strings.Cut(line, " ")
		epoch, _ := strconv.Atoi(number)
		isPair := kind == "lose" && last == "become "+number
		if !isPair && epoch <= highest || kind == "become" && strings.HasPrefix(last, "become") && p.scripts[LoseLeadership] != (script{}) && !p.scripts[LoseLeadership].absent && !p.scripts[LoseLeadership].unfit {
			p.t.Fatalf("%s after %q\n%s", line, last, &p.trace)
		}
		last, highest = line, epoch
	}
}

// yielded checks that a host which does not lead has nothing, and that nothing was begun after the end of
// its leadership was asked for.
func (p *play) yielded(leads bool) {
	if !leads && len(p.here) > 0 {
		p.t.Fatalf("%q are here though nobody leads\n%s", p.here, &p.trace)
	}
}

// answered checks that each order has one result, in the order of asking.
func (p *play) answered(asked []string) {
	var told []string
	for _, res := range p.told {
		if !res.Unasked && !res.IsLater {
			told = append(told, fmt.Sprintf("%s %d", short(res.Kind), res.Epoch))
		}
	}
	if !slices.Equal(told, asked) {
		p.t.Fatalf("asked %q, told %q\n%s", asked, told, &p.trace)
	}
}

// M24: that nothing is due is worth a word to others only once the disk has it.
func TestSettledIsOnTheDisk(t *testing.T) {
	p := newPlay(t, map[Kind]script{LoseLeadership: {takes: time.Millisecond}})
	p.step(Opened{})
	p.advance(time.Millisecond)
	p.do("become", []string{"7", "lease=1s"})
	p.advance(100 * time.Millisecond)
	p.disk = 50 * time.Millisecond
	p.step(AgentDied{})
	p.advance(10 * time.Millisecond)
	if p.lanes.IsSettled() || !p.lanes.AtRest() {
		t.Errorf("at rest: %v, settled: %v; the disk has not taken it\n%s", p.lanes.AtRest(), p.lanes.IsSettled(), &p.trace)
	}
	p.advance(time.Second)
	if !p.lanes.IsSettled() {
		t.Errorf("not settled\n%s", &p.trace)
	}
}

// An agent led on before the lose hook of its last leadership had succeeded, and both died: the journal did not have the new
// leadership yet. A clean-up of that ends what runs of the old one first, and whatever either may have.
func TestACleanUpEndsWhatTheJournalHad(t *testing.T) {
	one := Resource{Name: "one", Timeout: time.Second}
	l := NewLanes(LanesConfig{}, Config{}, Page{Owed: &Epoch{2, "a"}, Has: []Resource{one}})
	effects := l.Step(time.Unix(1, 0), CleanUp{Event{Epoch: Epoch{3, "a"}}})
	var orphans EndOrphans
	var note Note
	for _, e := range effects {
		switch e := e.(type) {
		case EndOrphans:
			orphans = e
		case Note:
			note = e
		}
	}
	if orphans.Owed == nil || orphans.Owed.Counter != 2 {
		t.Errorf("what is ended is of %v, want 2", orphans.Owed)
	}
	if p := note.Page; p.Owed == nil || p.Owed.Counter != 3 || !isIn(p.Has, one) {
		t.Errorf("noted %+v", p)
	}
}

// A hook that was ended since its time had ended is not begun again in what is left of it, also
// if its end is known a moment before by the clock of Lanes: who ends it has another.
func TestWhatHasTimedOutIsNotTriedAgain(t *testing.T) {
	begun := time.Unix(1000, 0)
	l := NewLanes(LanesConfig{Pause: time.Second}, Config{Commands: map[Kind]Command{LoseLeadership: {Shell: "true"}}}.WithDefaults(), Page{})
	for _, ev := range []LaneEvent{Opened{}, OrphansEnded{}, Asked{Event: Event{Kind: LoseLeadership, Epoch: Epoch{Counter: 1}}},
		Prepared{Lane: Leadership}, Started{Lane: Leadership, At: begun, Entry: Entry{Seq: 1}}} {
		l.Step(begun, ev)
	}
	l.Step(begun.Add(defaultTimeout-time.Microsecond), Exited{Lane: Leadership, Seq: 1, End: ending.End{Exit: -1, Err: ending.ErrTimedOut}})
	if !l.AtRest() {
		t.Errorf("it is tried again at %v", l.Deadline())
	}
}

// Whoever looks at what hangs does so in its own time: by then another may hang in its place.
func TestWhatIsGoneIsNotAnother(t *testing.T) {
	l := NewLanes(LanesConfig{}, Config{}.WithDefaults(), Page{})
	before, after := Entry{Hook: BecomeLeader, Epoch: 1, Group: 7}, Entry{Hook: BecomeLeader, Epoch: 2, Group: 8}
	for _, e := range []Entry{before, after} {
		l.Step(time.Unix(1000, 0), Opened{})
		l.Step(time.Unix(1000, 0), OrphansEnded{Hang: []Hanging{{Entry: e}}})
	}
	l.Step(time.Unix(1000, 0), Gone{before})
	if len(l.stuck) == 0 {
		t.Error("what hangs is forgotten with what hung before it")
	}
	l.Step(time.Unix(1000, 0), Gone{after})
	if len(l.stuck) > 0 {
		t.Errorf("%v has gone", l.stuck)
	}
}

// What comes of a start that was given up may come while another is under way, and is not taken for that one's.
func TestLateStartIsNotAnothers(t *testing.T) {
	p := newPlay(t, map[Kind]script{BecomeLeader: {never: true}, LoseLeadership: {never: true}})
	p.step(Opened{})
	p.advance(time.Millisecond)
	p.do("become", []string{"7", "lease=1m"})
	p.advance(2 * time.Second)
	p.do("lose", []string{"7", "within=200ms"})
	p.advance(60 * time.Millisecond) // the become-leader was given up, and the lose hook is being started
	for _, late := range []LaneEvent{Started{Lane: Leadership, Entry: Entry{Hook: BecomeLeader, Epoch: 7, Seq: 1, Group: 9}}, Exited{Lane: Leadership, Seq: 1}} {
		p.step(late)
	}
	if len(p.told) != 1 || p.lanes.lead == nil || p.lanes.lead.phase != starting {
		t.Errorf("told %v\n%s", p.told, &p.trace)
	}
}

// A become-leader runs of which nobody has heard when it is given up, on a busy host. What it has left in groups of its own is ended
// before the lose-leadership hook starts, as after any other.
func TestWhatAnAbandonedStartLeavesIsEnded(t *testing.T) {
	p := newPlay(t, map[Kind]script{BecomeLeader: {never: true}, LoseLeadership: {unseen: true}})
	p.step(Opened{})
	p.advance(time.Millisecond)
	p.do("become", []string{"7", "lease=1m"})
	p.advance(time.Millisecond)
	p.do("lose", []string{"7", "within=200ms"})
	p.advance(60 * time.Millisecond)
	if len(p.looks) != 1 || p.looks[0].Leaves != (Entry{Hook: BecomeLeader, Epoch: 7, Seq: 1, Owner: "a"}) {
		t.Errorf("prepared: %+v\n%s", p.looks, &p.trace)
	}
}

// A lose-leadership hook that runs ahead of the next leadership is told of its own epoch: this host had led in it, and nobody is known
// to lead now.
func TestRedoAheadOfALeadership(t *testing.T) {
	self := Node{ID: "a", Name: "one"}
	l := NewLanes(LanesConfig{}, Config{}, Page{})
	become := Event{Kind: BecomeLeader, Cause: "elected", Time: time.Unix(5, 0), Epoch: Epoch{2, "a"}, Self: self, Leader: self,
		PrevLeader: Node{ID: "b"}, Members: []Member{{ID: "b"}}}
	got := l.redoFor(become, Epoch{1, "a"})
	want := Event{Kind: LoseLeadership, Cause: causeUncleanRestart, Epoch: Epoch{1, "a"}, Self: self, PrevLeader: self,
		Members: become.Members, IsRedo: true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it is told\n%+v, want\n%+v", got, want)
	}
}
