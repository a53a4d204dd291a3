package hookrun

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/run"
)

// Of each job the newest runs are kept, and their numbers go on after a restart.
func TestHistoryIsBounded(t *testing.T) {
	h := HistoryIn(t.TempDir())
	for i := range run.ArchiveSize + 5 {
		row := hooks.JobRun{Job: "often", Run: fmt.Sprint(i), Started: slot, Seq: uint64(i + 1)}
		if err := h.keep(row, run.Silent()); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.keep(hooks.JobRun{Job: "rare", Run: "r", Seq: run.ArchiveSize + 6}, run.Silent()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "often", "notes.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for job, want := range map[string]int{"often": run.ArchiveSize, "rare": 1, "": run.ArchiveSize + 1, "never": 0} {
		rows, err := h.Rows(job)
		if err != nil || len(rows) != want {
			t.Errorf("%q has %d rows, want %d: %v", job, len(rows), want, err)
		}
		if !slices.IsSortedFunc(rows, func(a, b hooks.JobRun) int { return cmp.Compare(a.Seq, b.Seq) }) {
			t.Errorf("%q: rows are not in order", job)
		}
	}
	if last, err := h.open(); err != nil || last != run.ArchiveSize+6 {
		t.Errorf("the last number is %d (%v), want %d", last, err, run.ArchiveSize+6)
	}
}

// What is kept of jobs that nobody knows goes; a pattern is no name.
func TestHistoryOfFormerJobs(t *testing.T) {
	h := HistoryIn(t.TempDir())
	for _, job := range []string{"old", "new"} {
		if err := h.keep(hooks.JobRun{Job: job, Run: job}, run.Silent()); err != nil {
			t.Fatal(err)
		}
	}
	for _, pattern := range []string{"*", "[", "n?w"} {
		if rows, err := h.Rows(pattern); err != nil || len(rows) != 0 {
			t.Errorf("%q has %d rows, %v", pattern, len(rows), err)
		}
	}
	if err := h.Sweep(func(job string) bool { return job == "new" }); err != nil {
		t.Fatal(err)
	}
	rows, err := h.Rows("")
	if _, gone := os.Stat(filepath.Join(h.dir, "old")); err != nil || len(rows) != 1 || rows[0].Run != "new" || gone == nil {
		t.Errorf("kept rows %+v, %v; the former job's directory: %v", rows, err, gone)
	}
}
