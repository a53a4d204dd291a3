package sim

import (
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/jobs"
	"github.com/bully-agent/bully-agent/wire"
)

// sendJob carries out a Send effect: the message goes as bytes.
func (w *World) sendJob(m *machine, e jobs.Send) {
	i := slices.IndexFunc(w.machines, func(other *machine) bool { return other.id == e.To && other.copyOf == nil })
	if i < 0 {
		return // it has lost its disk, and with it its name
	}
	j, to := w.jobs, w.machines[i]
	j.scratch = e.Message.Frame()
	m.node.Stamp(&j.scratch)
	b := wire.Append(nil, &j.scratch)
	j.counts.Frames++
	j.hash.mix(uint64(w.now))
	j.hash.bytes(b)
	if w.traceBeats {
		w.say(m, "→ n%d %v", to.number, e.Message)
	}
	m.lan.sendJob(to, b)
}

// isAboutJobs reports whether a frame is for the Scheduler.
func isAboutJobs(f *wire.Frame) bool { return f.Kind >= wire.JobClaim && f.Kind <= wire.LedgerPart }

func (j *jobWorld) happens(o odds) bool { return o > 0 && j.rng.Uint32() < uint32(o) }

// carryJob lets the network lose a datagram, or bring it late. What is doubled, damaged or replayed comes to the clear port as
// well, which drops that.
func (w *World) carryJob(from, to *machine, b []byte) {
	j, c := w.jobs, &w.net.weather
	late := c.delay + j.upTo(c.jitter)
	switch {
	case j.happens(c.loss), j.happens(c.flip), j.happens(c.truncate), from.burst && j.rng.IntN(4) > 0:
		return
	case j.happens(c.spike):
		late += j.upTo(c.spikeUpTo)
	case j.happens(c.replay): // of one that was lost
		late += j.upTo(20 * time.Second)
	}
	w.arriveJob(from, to, b, late)
}

// arriveJob ends a datagram's way: at the life that had the address when it was sent.
func (w *World) arriveJob(from, to *machine, b []byte, late time.Duration) {
	life := to.life
	w.jobAfter(late, func() {
		var f wire.Frame
		if w.isCut(from, to) || to.suspended || to.life != life || wire.Parse(b, &f) != nil {
			return
		}
		w.jobStep(to, jobs.Heard{From: f.Sender, Message: jobs.MessageOf(&f), Known: to.epoch.Counter})
	})
}

// gossipAgain lets two hosts that can talk exchange their ledgers now and then,
// as memberlist's push/pull does.
func (w *World) gossipAgain() {
	w.jobAfter(500*time.Millisecond+w.jobs.upTo(3*time.Second), func() {
		a, b := pick(w.jobs.rng, w.machines...), pick(w.jobs.rng, w.machines...)
		if a != b && a.jobs.scheduler != nil && b.jobs.scheduler != nil && a.isUp() && b.isUp() && w.talk(a, b) {
			first, second := a.jobs.scheduler.Bytes(), b.jobs.scheduler.Bytes()
			w.jobStep(a, jobs.Merged{Bytes: second})
			w.jobStep(b, jobs.Merged{Bytes: first})
		}
		w.gossipAgain()
	})
}

// meddleAgain lets people ask for runs, pause jobs and change the table, and sets
// clocks within their bound.
func (w *World) meddleAgain() {
	w.jobAfter(w.jobs.upTo(4*time.Second), func() {
		if w.raging {
			w.meddle(pick(w.jobs.rng, w.machines...))
			w.meddleAgain()
			return
		}
		for _, m := range w.machines { // nothing stays paused
			for _, job := range w.jobs.table {
				w.jobStep(m, jobs.SetPaused{Job: job.Name})
			}
		}
	})
}

// setClock sets a wall clock. The agent notices what that takes from its timers.
func (w *World) setClock(m *machine, offset time.Duration) {
	by := offset - m.jobs.offset
	m.jobs.offset = offset
	if m.jobs.scheduler == nil {
		return
	}
	m.jobs.tickAt = 0
	w.jobStep(m, jobs.ClockSet{By: by})
}

func (w *World) meddle(m *machine) {
	j := w.jobs
	job := pick(j.rng, j.table...).Name
	switch j.rng.IntN(8) {
	case 0, 1, 2:
		for _, other := range w.machines {
			if other.jobs.leads != 0 {
				m = other
			}
		}
		w.jobStep(m, jobs.Ask{Job: job, Token: 1})
	case 3:
		w.jobStep(m, jobs.SetPaused{Job: job, Paused: j.rng.IntN(3) == 0})
	case 4:
		w.jobStep(m, jobs.TableChanged{Jobs: j.table[:j.rng.IntN(len(j.table))], Grace: j.config.Grace})
		w.jobAfter(j.upTo(2*time.Second), func() { w.jobStep(m, jobs.TableChanged{Jobs: j.table}) })
	case 5:
		w.jobStep(m, jobs.Unask{Token: 1})
	default:
		w.setClock(m, j.drawOffset())
	}
}
