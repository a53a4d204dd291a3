package keeper

import (
	"github.com/bully-agent/bully-agent/hooks/jobrun"
)

// The keeper's part in singleton jobs: it runs what it is told to (package jobrun), and
// ends it with the leadership, with the agent, or when it is told to.

// openJobs makes the Runner of jobs. A silent agent's commands get TERM a whole stop budget
// before the lease ends, of which Budget is the half: nothing comes after them.
func (k *keeper) openJobs() (err error) {
	s := k.settings
	k.jobs, err = jobrun.New(jobrun.Config{Dir: s.Hooks.Dir, Socket: s.Hooks.Socket, Clock: clockTime, Budget: 2 * s.Budget,
		Grace: s.JobGrace, Logger: k.out.named("jobs")})
	return err
}

// obeyForJobs is obey's for orders about jobs; the caller holds mu.
func (k *keeper) obeyForJobs(o order) {
	switch o.Do {
	case toRecover:
		go k.recoverJobs()
	case toBegin:
		if o.Lease != 0 {
			k.jobs.Lease(o.Lease.Time())
		}
		k.jobs.Begin(*o.Job)
	case toEnd:
		k.jobs.End(o.Run, o.Cause)
	case toLose:
		k.jobs.Lost(o.Cause)
	}
}

// recoverJobs ends what former lives have left, and says so.
func (k *keeper) recoverJobs() {
	r := report{Say: sayRecovered}
	if err := k.jobs.Recover(k.ctx); err != nil {
		r.Err = err.Error()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.say(r)
}

// runJobs is the life of the jobs' Runner.
func (k *keeper) runJobs() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = k.jobs.Run(k.ctx)
	}()
	for {
		select {
		case res := <-k.jobs.Results():
			k.mu.Lock()
			k.say(report{Say: sayJob, Job: &res})
			k.mu.Unlock()
		case <-ended:
			return
		}
	}
}
