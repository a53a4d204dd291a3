package hookrun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/run"
)

// History keeps the last runs of each job, in an archive each. It is for people; what ran is
// known from the ledger of the agent.
//
//	job-output/<job>/<seq>.log
type History struct{ dir string }

// HistoryIn is that of an agent with this state directory, for reading; Hands write it.
func HistoryIn(dir string) *History { return &History{filepath.Join(dir, "job-output")} }

// open makes the directory and gives the highest number in it.
func (h *History) open() (last uint64, err error) {
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return 0, err
	}
	all, err := h.all("")
	if n := len(all); n > 0 {
		last = all[n-1].Seq
	}
	return last, err
}

func (h *History) archive(job string) run.Archive { return run.Archive(filepath.Join(h.dir, job)) }

// keep files one attempt.
func (h *History) keep(row hooks.JobRun, out *run.Output) error {
	printed, total := out.Tail()
	row.Printed = total
	a := h.archive(row.Job)
	if err := os.MkdirAll(string(a), 0o750); err != nil { // the directory above says who may read
		return err
	}
	return a.Keep(row.Seq, "", row, printed)
}

// all lists the runs of a job, the oldest first; those of all jobs, if job is empty.
func (h *History) all(job string) ([]run.Kept, error) {
	if job != "" {
		return h.archive(job).All()
	}
	jobs, err := h.jobs()
	var all []run.Kept
	for _, job := range jobs {
		of, bad := h.archive(job).All()
		all, err = append(all, of...), errors.Join(err, bad)
	}
	run.SortKept(all)
	return all, err
}

// jobs names those of which runs are kept.
func (h *History) jobs() (names []string, err error) {
	entries, err := os.ReadDir(h.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// Sweep removes what is kept of the runs of all jobs but those that are known. It is for
// the time before the first Begin.
func (h *History) Sweep(isKnown func(job string) bool) error {
	jobs, err := h.jobs()
	for _, job := range jobs {
		if !isKnown(job) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(h.dir, job)))
		}
	}
	if err != nil {
		return fmt.Errorf("remove job output: %w", err)
	}
	return nil
}

// Rows lists what is kept of the last runs of a job, which must be a name, the newest
// last; of all jobs, if it is empty. A file that is removed meanwhile, or is not ours, is
// left out.
func (h *History) Rows(job string) ([]hooks.JobRun, error) {
	all, err := h.all(job)
	if err != nil {
		return nil, err
	}
	rows := make([]hooks.JobRun, 0, len(all))
	for _, k := range all {
		row := hooks.JobRun{Seq: k.Seq}
		if k.Row(&row) == nil {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Output gives the last 64 KiB that a kept run printed; nothing if the file is gone.
func (h *History) Output(row hooks.JobRun) (text []byte, err error) {
	k, err := h.archive(row.Job).Find(row.Seq)
	if err == nil {
		text, err = k.Printed()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}
