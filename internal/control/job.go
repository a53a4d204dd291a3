package control

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Job is one singleton job as the agent that answers sees it.
type Job struct {
	Name     string `json:"name"`
	Schedule string `json:"schedule"`
	Timezone string `json:"timezone"`
	Paused   bool   `json:"paused"`

	// State is running, waiting (for what Why says), paused or idle. Why says why
	// nothing starts here now, in one word; empty if all that is missing is the
	// next slot. Until is when that ends, if a time is known.
	State string    `json:"state"`
	Why   string    `json:"why,omitempty"`
	Until time.Time `json:"until,omitzero"`

	Next []time.Time `json:"next"` // its next slots, with the offset of its zone
	Last *JobRun     `json:"last"` // the newest that has ended, on whatever host; null: none is known
	Open []JobRun    `json:"open"` // those that have not ended, on whatever host

	LastSuccess time.Time `json:"last_success,omitzero"` // end of the newest known run that succeeded, on whatever host
	Due         time.Time `json:"due,omitzero"`          // the newest slot that has passed

	TimeoutSeconds float64 `json:"timeout_seconds"` // of an attempt
	Overlap        string  `json:"overlap"`
	Missed         string  `json:"missed"`
	OnLoss         string  `json:"on_loss"`
	Retries        int     `json:"retries"`
}

// JobRun is what is known of one run, in the words of the log.
type JobRun struct {
	Job    string    `json:"job"`
	Run    string    `json:"run"`  // its id, BULLY_JOB_RUN_ID
	Host   string    `json:"host"` // name of the member that ran it
	Slot   time.Time `json:"slot"`
	Manual bool      `json:"manual"`
	Epoch  Epoch     `json:"epoch"`

	// Phase is claimed, running, stopping, waiting (for another attempt), ended
	// or lost; Outcome is succeeded, failed, timed-out, killed, replaced,
	// unclaimed, interrupted or vanished, or open.
	Phase   string    `json:"phase"`
	Outcome string    `json:"outcome"`
	Attempt int       `json:"attempt"`
	Exit    *int      `json:"exit"` // of the last attempt that ended; null: none did, or nobody knows
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"` // of one whose exit is unknown: when that was found
	Printed int64     `json:"printed"`        // bytes that this host has seen of its output
	Err     string    `json:"err,omitempty"`
}

// JobBackend is the part of Backend about singleton jobs. ctx ends when the
// client hangs up.
type JobBackend interface {
	// JobRuns lists what is known of past and present runs of a job, of all jobs
	// if the name is empty, the oldest first.
	JobRuns(ctx context.Context, job string) ([]JobRun, error)
	// JobOutput is the end of what a run printed on this host.
	JobOutput(ctx context.Context, run string) (string, error)
}

// jobCommands are names that Backend.Command may be called with, each with the
// argument "job".
var jobCommands = []string{"job-run", "job-pause", "job-resume"}

// MaxNextSlots is the most slots of a job that may be asked for.
const MaxNextSlots = 1000

func (s *server) jobRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/jobs", Read, s.jobs},
		{http.MethodGet, "/v1/jobs/runs", Read, s.jobRuns},
		{http.MethodGet, "/v1/jobs/output", Act, s.jobOutput},
	}
}

// jobs costs more than other questions: slots are sought one by one, and the agent's loop has
// the rest. The network asks for few, and one at a time.
func (s *server) jobs(w http.ResponseWriter, r *http.Request) error {
	next, most := 1, MaxNextSlots
	if s.isPublic {
		most = PublicNextSlots
		s.asking.Lock()
		defer s.asking.Unlock()
	}
	err := parseQuery(r.URL.RawQuery, "expected next=N, 0 to "+strconv.Itoa(most), map[string]func(string) error{
		"next": func(text string) (err error) {
			if next, err = strconv.Atoi(text); err == nil && (next < 0 || next > most) {
				err = strconv.ErrRange
			}
			return err
		},
	})
	if err != nil {
		return err
	}
	all, err := s.reading.Jobs(r.Context(), next)
	if err != nil {
		return err
	}
	for i := range all {
		all[i].Next, all[i].Open = list(all[i].Next), list(all[i].Open)
	}
	s.write(w, http.StatusOK, list(all))
	return nil
}

func (s *server) jobRuns(w http.ResponseWriter, r *http.Request) error {
	var job string
	err := parseQuery(r.URL.RawQuery, "expected job=NAME, or nothing", readText("job", &job))
	if err != nil {
		return err
	}
	runs, err := s.backend.JobRuns(r.Context(), job)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, list(runs))
	return nil
}

func (s *server) jobOutput(w http.ResponseWriter, r *http.Request) error {
	var run string
	if err := parseQuery(r.URL.RawQuery, "expected run=ID", readText("run", &run)); err != nil {
		return err
	}
	text, err := s.backend.JobOutput(r.Context(), run)
	if err != nil {
		return err
	}
	s.write(w, http.StatusOK, jobOutput{Run: run, Output: text})
	return nil
}

// jobOutput answers /v1/jobs/output. What is no UTF-8 in it is replaced.
type jobOutput struct {
	Run    string `json:"run"`
	Output string `json:"output"`
}

// readText makes the readers of a query with one parameter of any text.
func readText(name string, to *string) map[string]func(string) error {
	return map[string]func(string) error{name: func(text string) error {
		*to = text
		return nil
	}}
}

// Jobs lists the singleton jobs, each with so many of its next slots.
func (c *Client) Jobs(ctx context.Context, next int) ([]Job, error) {
	return ask[[]Job](ctx, c, "/v1/jobs?next="+strconv.Itoa(next))
}

// JobRuns lists the runs of a job that the agent knows of, the oldest first; of
// all jobs if the name is empty.
func (c *Client) JobRuns(ctx context.Context, job string) ([]JobRun, error) {
	return ask[[]JobRun](ctx, c, "/v1/jobs/runs?"+url.Values{"job": {job}}.Encode())
}

// JobOutput gives the end of what a run has printed on the agent's host.
func (c *Client) JobOutput(ctx context.Context, run string) (string, error) {
	answer, err := ask[jobOutput](ctx, c, "/v1/jobs/output?"+url.Values{"run": {run}}.Encode())
	return answer.Output, err
}

// RunJob has the agent, which must lead, run a job now. It returns when the
// command may start, which the ledger says by then: it is about to. If ctx ends
// before, it does not start.
func (c *Client) RunJob(ctx context.Context, job string) error {
	return c.Command(ctx, "job-run", map[string]string{"job": job})
}

// PauseJob keeps a job's slots from starting, on whatever host.
func (c *Client) PauseJob(ctx context.Context, job string) error {
	return c.Command(ctx, "job-pause", map[string]string{"job": job})
}

// ResumeJob ends that. Slots of the pause are not made up for.
func (c *Client) ResumeJob(ctx context.Context, job string) error {
	return c.Command(ctx, "job-resume", map[string]string{"job": job})
}

// ResumeJobFromNow lets a job's slots start from now on, also if what ran while clocks
// were ahead keeps them from it: such a slot starts again at its time.
func (c *Client) ResumeJobFromNow(ctx context.Context, job string) error {
	return c.Command(ctx, "job-resume", map[string]string{"job": job, "from_now": "true"})
}
