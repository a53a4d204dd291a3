package agent

import (
	"slices"
	"strings"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/wire"
)

// What the seat does for the jobs that run under it, and tells them.

func (s *seat) openJobs(table []Job, grace time.Duration, runner JobRunner) (err error) {
	s.jobs, err = openJobDesk(jobConfig{self: s.state.ID, name: s.name, dir: s.dir, isNew: s.state.saved.Incarnation == 0, epoch: s.state.saved.MaxCounter, newest: s.newest,
		table: table, grace: grace, runner: runner, holders: s.holders, log: s.log}, s)
	return err
}

// reload has the jobs take a new table, once the hooks are those of the new configuration.
// It gives the table's digest, for the others.
func (s *seat) reload(table []Job, grace time.Duration) (digest uint64) {
	s.warnKept()
	s.jobs.reload(table, grace)
	return s.jobs.digest
}

// merge passes on what another host knows of jobs.
func (s *seat) merge(ledger []byte) { s.jobs.note(jobs.Merged{Bytes: ledger}) }

// ledger is what this host knows.
func (s *seat) ledger() []byte { return s.jobs.scheduler.Bytes() }

// endJobs is for an agent that has handed over and goes; isOver then says when it may.
func (s *seat) endJobs() { s.jobs.close() }

func (s *seat) isOver() bool { return s.jobs.isOver() }

func (s *seat) dumpJobs() { s.jobs.dump() }

// tellJobs passes on what was shown in this turn, at least once a second. So it is also
// noticed that the wall clock was set, or that a person waits no more.
func (s *seat) tellJobs() {
	if s.shown != s.told {
		s.told = s.shown
		s.jobs.learn(s.leading(s.shown.status), s.around.seen().peers())
	}
}

// leading is this host's leadership as the scheduler takes it.
func (s *seat) leading(status election.Status) jobs.Leading {
	if status.State != election.Lead || !s.hookReady {
		return jobs.Leading{}
	}
	now := jobs.Leading{Epoch: status.Epoch.Counter, Need: s.tally.votersNeeded(status)}
	if now.Need > 0 {
		now.Voters = slices.Clone(status.Roster.IDs)
	}
	return now
}

// onJobResult passes the end of an attempt on. The node looks at the clock
// first: what its holder has ended, since this agent stood still until the lease
// had ended, was lost with the leadership, and did not fail.
func (s *seat) onJobResult(r hooks.JobResult) {
	s.step(election.Tick{})
	s.jobs.onResult(r)
}

// onJobFrame tells the two protocols apart: it reports whether the frame was about
// jobs. What the election refuses is refused here, and is claimed or asked of an
// epoch that it has not accepted.
func (s *seat) onJobFrame(r *received) bool {
	f := &r.Frame
	if f.Kind < wire.JobClaim || f.Kind > wire.LedgerPart {
		return false
	}
	if why := s.node.Admit(f); why != "" {
		s.around.count("job_refused_"+why, 1)
		return true
	}
	known := s.node.Status().Epoch.Counter
	s.jobs.note(jobs.Heard{From: f.Sender, Message: jobs.MessageOf(f), Known: known})
	return true
}

// jobNotes says in plain words what keeps jobs from running as they should.
func (s *seat) jobNotes() []string {
	notes := s.jobs.notes()
	if others := s.around.seen().otherTables(); len(others) > 0 {
		notes = append(notes, "the jobs of "+strings.Join(others, ", ")+
			" are not those of this host: make [[job]], timezone, hooks.grace and the system's time zone rules "+
			"(tzdata) the same on all, and reload")
	}
	return notes
}

func (s *seat) isLeading() bool { return s.node.Status().State == election.Lead }

func (s *seat) mayAct(epoch uint64) bool {
	status := s.node.Status()
	return status.State == election.Lead && status.Epoch.Counter == epoch && s.until.Load() > s.around.now().UnixNano()
}

// sendJob sends one message.
func (s *seat) sendJob(e jobs.Send) { s.sendAside(e.To, e.Message.Frame()) }

// sendAside sends a frame that Step does not take. A host that is not known any more gets none.
func (s *seat) sendAside(id wire.ID, f wire.Frame) {
	to, known := s.around.seen().member(id)
	if !known {
		return
	}
	s.node.Stamp(&f)
	s.around.send(to.Addr, f)
}

// What the jobs know of the seat's surroundings, they know through the seat.

func (s *seat) now() time.Time { return s.around.now() }

func (s *seat) event(e control.Event) { s.around.event(e) }

func (s *seat) count(name string, n uint64) { s.around.count(name, n) }

// labelOf is how texts for people call a member.
func (s *seat) labelOf(id wire.ID) string { return s.around.seen().label(id) }

func (s *seat) nameOf(id wire.ID) string { return s.around.seen().name(id) }

func (s *seat) tellLedger(b []byte) { s.around.tellLedger(b) }

func (s *seat) leads() (leads, ready bool) { return s.isLeading(), s.hookReady }
