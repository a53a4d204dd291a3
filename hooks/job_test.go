package hooks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bully-agent/bully-agent/internal/ending"
)

// heldJob is an attempt's command, and its holder: it ends by what it does, or by its terms.
type heldJob struct {
	Hold
	begun  bool
	cause  string // of its end, as it was told first
	script script
	isOver bool
}

// job is what stories say of attempts of jobs.
func (p *play) job(verb string, args []string, o options) {
	switch verb {
	case "job": // job backup-1 tied timeout=1s takes=10s exit=3 overlap=2 stays slow lease=10s: the run's id begins with its job's name
		p.answers[args[0]] = o.script()
		name, _, _ := strings.Cut(args[0], "-")
		ask := JobAsked{Attempt: JobAttempt{ID: args[0], Job: name, Attempt: 1, Timeout: o.timeout, Command: Command{Shell: name}, Tied: slices.Contains(args, "tied")},
			AtOnce: o.overlap}
		if o.lease > 0 {
			ask.Lease = p.clock().Add(o.lease)
		}
		p.step(ask)
	case "job-stop":
		p.step(JobStopped{ID: args[0], Cause: cmp.Or(strings.Join(args[1:], " "), "asked")})
	case "lost-jobs":
		p.step(LeadershipLost{Cause: "killed"})
	case "job-ends": // job-ends backup-1: its holder was killed
		p.endJob(p.held[args[0]], Held{HasBegun: true, Code: -1, Err: "the holder died"})
	case "filed": // filed 1s: a run takes so long to be kept from now on
		p.filing = o.takes
	}
}

func (p *play) applyOfJobs(effect LaneEffect) {
	switch e := effect.(type) {
	case Hold:
		if p.held[e.Attempt.ID] != nil {
			p.t.Fatalf("%s begins while it goes on\n%s", e.Attempt.ID, &p.trace)
		}
		p.note("%s is held, seq %d: %s, %v for a silent agent", e.Attempt.ID, e.Seq, p.termsOf(e.Terms), e.Budget)
		h := &heldJob{Hold: e, script: p.answers[e.Attempt.ID]}
		p.held[e.Attempt.ID] = h
		p.after(h.script.late, func() { p.beginJob(h) })
	case Allow:
		p.note("%s may run: %s", e.ID, p.termsOf(e.Terms))
		p.held[e.ID].Terms = e.Terms
		p.planJob(p.held[e.ID])
	case Release:
		h := p.held[e.ID]
		p.note("%s is to end: %s%s", e.ID, e.Cause, orBudget(e.Within))
		h.cause = cmp.Or(h.cause, e.Cause)
		takes := time.Duration(0)
		if h.script.stays {
			takes = cmp.Or(e.Within, h.Grace)
		}
		p.after(takes, func() { p.endJob(h, Held{HasBegun: h.begun, Code: 143, Cause: h.cause}) })
	case FileRun:
		p.note("%s is filed, seq %d: exit %d%s", e.ID, e.Run.Seq, e.Run.Exit, because(e.Run.Cause))
		p.after(p.filing, func() { p.step(RunFiled{ID: e.ID}) })
	case TellJob:
		text := fmt.Sprintf("told: %s exit %d%s%s", e.Result.ID, e.Result.Exit, because(e.Result.Cause), because(e.Result.Err))
		if e.Result.TooLate {
			text += ", too late"
		}
		if e.IsRefused {
			text += ", refused"
		}
		p.note("%s", text)
	}
}

func orBudget(within time.Duration) string {
	if within == 0 {
		return ""
	}
	return fmt.Sprintf(", within %v", within)
}

func (p *play) termsOf(t ending.Terms) string {
	var all []string
	if !t.StartBy.IsZero() {
		all = append(all, fmt.Sprintf("starts by %v", p.at(t.StartBy)))
	}
	if !t.Deadline.IsZero() {
		all = append(all, fmt.Sprintf("dead by %v", p.at(t.Deadline)))
	}
	return cmp.Or(strings.Join(all, ", "), "no bound")
}

// beginJob is the holder's start of a command.
func (p *play) beginJob(h *heldJob) {
	isLate := func(by time.Time) bool { return !by.IsZero() && !p.clock().Before(by) }
	switch {
	case h.isOver:
	case isLate(h.Terms.StartBy) || isLate(h.Terms.Deadline):
		p.endJob(h, Held{Code: -1, Cause: CauseAgentDied, IsSilent: true, Err: "no time was left"})
	default:
		h.begun = true
		p.note("%s starts", h.Attempt.ID)
		p.after(h.script.takes, func() { p.endJob(h, Held{HasBegun: true, Code: h.script.exit}) })
		p.planJob(h)
	}
}

// planJob ends a command at its deadline, unless that has changed by then.
func (p *play) planJob(h *heldJob) {
	by := h.Terms.Deadline
	if !h.begun || by.IsZero() {
		return
	}
	p.after(p.at(by)-p.now, func() {
		if h.Terms.Deadline.Equal(by) {
			p.endJob(h, Held{HasBegun: true, Code: 137, Cause: cmp.Or(h.cause, CauseAgentDied), IsSilent: h.cause == ""})
		}
	})
}

func (p *play) endJob(h *heldJob, end Held) {
	if h.isOver {
		return
	}
	h.isOver = true
	delete(p.held, h.Attempt.ID)
	if end.HasBegun {
		p.note("%s ends", h.Attempt.ID)
	}
	p.step(JobEnded{ID: h.Attempt.ID, Held: end})
}

// Beside one attempt of each job sixteen go on.
func TestBoundsOfAttempts(t *testing.T) {
	p := newPlay(t, map[Kind]script{})
	begins := func(job, n int) bool {
		id := fmt.Sprintf("job%d-%d", job, n)
		p.answers[id] = script{takes: time.Hour}
		p.step(JobAsked{AtOnce: 100, Attempt: JobAttempt{ID: id, Job: fmt.Sprint("job", job)}})
		return p.held[id] != nil
	}
	for job := range 100 {
		if !begins(job, 1) {
			t.Fatalf("the first attempt of job %d was refused", job)
		}
	}
	for n := range maxOverlapping {
		if !begins(n, 2) {
			t.Fatalf("overlapping attempt %d was refused", n)
		}
	}
	if begins(99, 2) {
		t.Error("one more than may overlap")
	}
	if !begins(100, 1) {
		t.Error("the first of another job was refused")
	}
}

// Of one job ten attempts begin at once, and others of other jobs.
func TestBoundsOfABurst(t *testing.T) {
	p := newPlay(t, map[Kind]script{})
	begins := func(job string) (n int) {
		for i := range 100 {
			before := len(p.trace.String())
			p.do("job", []string{fmt.Sprintf("%s-%d", job, i)})
			p.advance(0)
			n += strings.Count(p.trace.String()[before:], "is held")
		}
		return n
	}
	for _, job := range []string{"a", "b"} {
		if n := begins(job); n != jobBurst {
			t.Errorf("%d attempts of job %s began, want %d", n, job, jobBurst)
		}
	}
	p.advance(time.Second)
	if n := begins("a"); n != jobRefill {
		t.Errorf("%d attempts began a second later, want %d", n, jobRefill)
	}
}

// Whatever the agent says, in whatever order: each attempt is answered once, none begins after the agent's death, and others
// are told that nothing is left when the last command has ended.
func TestJobsKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlay(nil, map[Kind]script{})
		p.t = fataler{rapidT: t}
		draw := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		ms := func(name string, most int) time.Duration { return time.Duration(draw(name, most)) * time.Millisecond }
		p.step(Opened{})
		p.advance(time.Millisecond)
		p.filing = ms("filing", 100)
		asked := 0
		for range 5 + draw("steps", 30) {
			switch draw("what", 6) {
			case 0, 1, 2:
				id := fmt.Sprintf("%s-%d", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "job"), asked)
				asked++
				p.answers[id] = script{takes: ms("takes", 2000), stays: draw("stays", 1) == 0, late: ms("late", 20)}
				p.step(JobAsked{AtOnce: draw("overlap", 3), Attempt: JobAttempt{ID: id, Job: id[:1], Timeout: ms("timeout", 1000), Tied: draw("tied", 1) == 0}})
			case 3:
				p.do("renew", []string{fmt.Sprintf("lease=%dms", 1+draw("lease", 500))})
			case 4:
				p.do("lost-jobs", nil)
			case 5:
				if asked > 0 {
					p.do("job-stop", []string{fmt.Sprintf("a-%d", draw("which", asked-1))})
				}
			case 6:
				p.do("ending", []string{fmt.Sprintf("lease=%dms", 1+draw("lease", 500))})
			}
			p.advance(ms("passes", 300))
		}
		p.step(AgentDied{})
		p.step(JobAsked{Attempt: JobAttempt{ID: "late-1", Job: "late"}})
		p.advance(time.Minute)
		trace := p.trace.String()
		if told := strings.Count(trace, "  told: "); told != asked+1 {
			t.Fatalf("%d attempts, and %d results\n%s", asked, told, trace)
		}
		over := strings.Index(trace, "over, others may be told")
		if over < 0 || strings.Contains(trace[over:], " ends") {
			t.Fatalf("the will before the last command has ended\n%s", trace)
		}
		if strings.Contains(trace, "late-1 is held") {
			t.Fatalf("an attempt begins after the agent's death\n%s", trace)
		}
		if len(p.held) > 0 || !p.lanes.IsAllAtRest() {
			t.Fatalf("%d commands are left\n%s", len(p.held), trace)
		}
	})
}

// Of a job that has its whole burst again nothing is kept: jobs come and go with the configuration.
func TestNothingIsKeptOfAFormerJob(t *testing.T) {
	var a attempts
	start := time.Unix(0, 0)
	for range 3 {
		a.rate(start, "backup").AllowN(start, 1)
	}
	if a.rate(start, "other"); len(a.rates) != 2 {
		t.Errorf("%d jobs are known after a run", len(a.rates))
	}
	if a.rate(start.Add(time.Minute), "other"); len(a.rates) != 1 {
		t.Errorf("%d jobs are known a minute later", len(a.rates))
	}
}
