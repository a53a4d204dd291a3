package holder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Recover ends what the holders of an earlier life of this agent left in dir, and warns of each by what it had, a job or a
// resource, oldest first. It waits for those that still work, until ctx ends. One that works for longer than it may is
// killed. What a holder that was killed left running is killed. What cannot be read is left, and said in the error. It must be
// called before the agent starts holders or hooks of its own.
func Recover(ctx context.Context, dir string, warn func(text string, args ...any), what string) error {
	records, err := left(ctx, dir)
	for _, r := range records {
		warn(what+" ended with the agent that ran it", what, r.Name, "epoch", r.Epoch.Counter, "report", r.Report)
		err = errors.Join(err, r.remove())
	}
	return err
}

// left reads the records. One stays on disk until remove, so that an agent that crashes here reads it again.
func left(ctx context.Context, dir string) ([]Record, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("recover holders: %w", err)
	}
	var records []Record
	var errs []error
	for _, entry := range entries {
		if ok, _ := filepath.Match(recordPattern, entry.Name()); !ok {
			continue
		}
		r, err := recover1(ctx, filepath.Join(dir, entry.Name()))
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("recover holders: %w", err))
		case r.Mark != "":
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b Record) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.path, b.path)) })
	return records, errors.Join(errs...)
}

// recover1 reads one record. One without a line is of a holder that never came to
// start anything; it is removed.
func recover1(ctx context.Context, path string) (Record, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return Record{}, err
	}
	defer file.Close()
	err = sidecar.Outwait(ctx, file, func() sidecar.Owner {
		r, _, _ := read(io.NewSectionReader(file, 0, maxRecord))
		return sidecar.Owner{Process: r.Report.Holder, Patience: r.Patience}
	})
	if err != nil {
		return Record{}, fmt.Errorf("%s: its holder still works: %w", path, err)
	}
	r, ok, err := read(file)
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("%s: %w", path, err)
	case !ok:
		return Record{}, os.Remove(path)
	}
	r.path = path
	if r.Report.Stage != Ended {
		err = r.endOrphans(r.Report.Cgroup, func(string) bool { return false })
		r.Report.Stage, r.Report.Err = Ended, errKilled
	}
	return r, err
}

// errKilled is Report.Err of a record whose last line is from before the command's end.
const errKilled = "its holder was killed, too"

// maxRecord bounds what is read of a record: a few lines.
const maxRecord = 1 << 20

// What a holder that was killed leaves behind is found by the command's cgroup,
// and by the mark in the environment, which children inherit.

// orphanPause is between two rounds of killing, stuckPause where that does not help. Arbitrary.
const (
	orphanPause = 5 * time.Millisecond
	stuckPause  = time.Second
)

// endOrphans kills what is left of the record's command, and returns when it is
// gone. Nothing is asked politely: whose time it was has ended. What has had KILL and lives
// is told to stuck, once, which says whether to wait for its end. The caller knows that the
// holder is dead.
func (r Record) endOrphans(cgroup string, stuck func(how string) bool) error {
	if r.Boot != run.BootID() {
		return nil
	}
	pause := orphanPause
	for late := now().Add(ending.Unkillable); ; time.Sleep(pause) {
		found := r.killOnce(cgroup)
		switch {
		case len(found) == 0:
			return run.Cgroup{Dir: cgroup}.Remove()
		case !now().After(late) || pause == stuckPause:
		case stuck(run.Stuck(found)):
			pause = stuckPause
		default:
			return fmt.Errorf("%s did not end %v after KILL: %s", r.Name, ending.Unkillable, run.Stuck(found))
		}
	}
}

// killOnce kills what it finds.
func (r Record) killOnce(cgroup string) (found []int) {
	if c := (run.Cgroup{Dir: cgroup}); c.IsPopulated() {
		if found = c.Members(); len(found) == 0 {
			found = []int{0} // below it
		}
		c.Kill()
	}
	return append(found, run.KillMarked(markVariable+"="+r.Mark)...)
}
