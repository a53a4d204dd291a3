package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bully-agent/bully-agent/wire"
)

// rig is one host with one job, told what happens and asked what is due. Days
// begin on 2026-06-01 and everything is in UTC.
type rig struct {
	t      *testing.T
	job    Job
	ledger Ledger
	lead   Leadership
	now    time.Time
}

var (
	here  = wire.ID{1}
	there = wire.ID{2}
)

// known is above all epochs of these tests: what their elections have accepted.
const known = 1 << 40

const settleTime = 2 * time.Second

// rigOf is a host that has led since noon minus a day and knows the job for as
// long.
func rigOf(t *testing.T, schedule string, change func(*Job)) *rig {
	t.Helper()
	s, err := ParseSchedule(schedule, "backup", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, job: Job{Name: "backup", Schedule: s, Timeout: 10 * time.Minute}}
	if change != nil {
		change(&r.job)
	}
	if err := r.job.Check(); err != nil {
		t.Fatal(err)
	}
	r.now = clock("11:50")
	r.lead = Leadership{Self: here, Leading: true, Epoch: 1, Since: r.now.Add(-time.Hour), Settle: settleTime}
	r.due("adopt 11:50 new")
	return r
}

// clock reads 15:04[:05[.000]], with a day before it if it is not the first.
func clock(text string) time.Time {
	day, rest, ok := strings.Cut(text, "d")
	if !ok {
		day, rest = "1", text
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if at, err := time.Parse("2006-01-2 "+layout, "2026-06-"+day+" "+rest); err == nil {
			return at
		}
	}
	panic("not a time: " + text)
}

func shortTime(at time.Time) string {
	s := strings.TrimSuffix(at.UTC().Format("15:04:05.999"), ":00")
	if at.UTC().Day() != 1 {
		s = fmt.Sprintf("%dd%s", at.UTC().Day(), s)
	}
	return s
}

func short(d Decision) string {
	s := d.Do.String()
	if d.Slot != 0 {
		s += " " + shortTime(d.Slot.Time())
	}
	if d.Run.Manual && d.Do != Wait {
		s += " by hand"
	}
	if d.Count > 1 {
		s += fmt.Sprintf(" +%d", d.Count-1)
	}
	s += " " + d.Why.String()
	if !d.Until.IsZero() {
		s += " until " + shortTime(d.Until)
	}
	return s
}

// due asks at the present time, expects these decisions and applies them. Then
// nothing but waiting must be left, until later.
func (r *rig) due(want ...string) []Decision {
	r.t.Helper()
	got := Due(r.now, []Job{r.job}, &r.ledger, r.lead)
	r.expect(got, want)
	for _, d := range got {
		r.ledger.Apply(d)
	}
	for _, d := range Due(r.now, []Job{r.job}, &r.ledger, r.lead) {
		if d.Do != Wait {
			r.t.Fatalf("%s: after its decisions were applied: %v", shortTime(r.now), d)
		}
	}
	if next := r.next(); !next.IsZero() && !next.After(r.now) {
		r.t.Fatalf("%s: nothing but waiting is left, but the next look is at %v", shortTime(r.now), next)
	}
	return got
}

func (r *rig) expect(got []Decision, want []string) {
	r.t.Helper()
	var lines []string
	for _, d := range got {
		lines = append(lines, short(d))
	}
	if !slices.Equal(lines, want) {
		r.t.Fatalf("%s:\n got %q\nwant %q\nledger: %v", shortTime(r.now), lines, want, r.runs())
	}
}

func (r *rig) next() time.Time { return Next(r.now, []Job{r.job}, &r.ledger, r.lead) }

func (r *rig) at(text string) *rig { r.now = clock(text); return r }

func (r *rig) runs() []Run {
	e, _ := r.ledger.Entry(r.job.Name)
	return e.Runs
}

// run is the newest record.
func (r *rig) run() Run {
	r.t.Helper()
	runs := r.runs()
	if len(runs) == 0 {
		r.t.Fatal("no run is known")
	}
	return runs[len(runs)-1]
}

func (r *rig) put(run Run) { r.ledger.Put(r.job.Name, run) }

// begins starts the command of the newest run that is claimed.
func (r *rig) begins() {
	r.t.Helper()
	for _, run := range slices.Backward(r.runs()) {
		if run.Phase == Claimed {
			r.put(run.Began(r.now))
			return
		}
	}
	r.t.Fatalf("no run is claimed: %v", r.runs())
}

// ends lets the oldest command that runs here end.
func (r *rig) ends(exit uint8) {
	r.t.Helper()
	for _, run := range r.runs() {
		if (run.Phase == Running || run.Phase == Stopping) && run.Owner == here {
			r.put(run.Finished(r.now, exit, &r.job))
			return
		}
	}
	r.t.Fatalf("nothing runs: %v", r.runs())
}

// elsewhere is a run of another host's, in an earlier leadership.
func (r *rig) elsewhere(slot string, phase Phase) Run {
	at := clock(slot)
	run := Run{Key: Key{Slot: SlotOf(at), Epoch: 0, Owner: there}, Phase: Claimed, Claimed: MillisOf(at), Timeout: uint32(r.job.timeout() / time.Second)}
	if why := r.ledger.Admit(at, Claim{r.job.Name, r.job.Schedule.Hash(), run}); why != ReasonNone {
		r.t.Fatalf("claim of %s: %v", slot, why)
	}
	if phase == Running {
		run = run.Began(at)
		r.put(run)
	}
	return run
}

// becomesLeader since a time, after nobody or another led.
func (r *rig) becomesLeader(since string) {
	r.lead.Since, r.lead.Leading = clock(since), true
	r.lead.Epoch++
}

func (r *rig) losesLeadership() { r.lead.Leading = false }
