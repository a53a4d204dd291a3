package guard

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

// Record is what a guard leaves on disk: who it was, and the last Report that it
// could write.
type Record struct {
	Name  string      `json:"name"`
	Epoch hooks.Epoch `json:"epoch"`
	Time  time.Time   `json:"time"` // when it was started, wall time
	Boot  string      `json:"boot"` // the kernel's boot_id
	// Mark is the value of BULLY_GUARD in the environment of all that the command
	// starts, unless that cleans its environment.
	Mark string `json:"mark"`
	// Patience is how long the guard may work without its agent.
	Patience time.Duration `json:"patience"`
	Report   Report        `json:"report"`

	path string
}

// The file of a record has a line of JSON for each stage; the last whole one
// counts. The guard holds its lock (flock) for as long as it lives, so whoever
// gets the lock knows that the guard is gone.
const (
	recordPattern = "guard-*.json"
	markVariable  = "BULLY_GUARD"
)

// record is a Record being written, by the guard alone.
type record struct {
	file *os.File
	Record
}

// create makes the file and locks it, in the agent: the lock goes with the open
// file to the guard.
func create(cfg Config) (*record, error) {
	file, path, err := createFile(cfg.Records)
	if err != nil {
		return nil, fmt.Errorf("create record: %w", err)
	}
	r := &record{file: file, Record: Record{Name: cfg.Name, Epoch: cfg.Epoch, Time: time.Now().Round(0), Boot: run.BootID(), Mark: rand.Text(),
		Patience: cfg.patience(), path: path, Report: Report{Stage: Prepared, Exit: -1}}}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		r.discard()
		return nil, fmt.Errorf("lock record: %w", err)
	}
	return r, nil
}

// createFile gives no path for a file that is in memory alone.
func createFile(dir string) (file *os.File, path string, err error) {
	if dir == NoRecords {
		file, err = sidecar.MemoryFile("guard-record", nil)
		return file, "", err
	}
	if file, err = os.CreateTemp(dir, recordPattern); err != nil {
		return nil, "", err
	}
	return file, file.Name(), nil
}

func (r *record) discard() {
	r.file.Close()
	_ = os.Remove(r.path)
}

// note appends a line; synced says whether it must survive a loss of power.
func (r *record) note(report Report, synced bool) error {
	r.Report = report
	text, err := json.Marshal(r.Record)
	if err != nil {
		panic("BUG: encode record: " + err.Error()) // strings and numbers always encode
	}
	if _, err := r.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	if !synced {
		return nil
	}
	if err := unix.Fdatasync(int(r.file.Fd())); err != nil {
		return fmt.Errorf("sync record: %w", err)
	}
	return nil
}

// syncName makes the name of a new record last.
func syncName(path string) error {
	if path == "" {
		return nil
	}
	if err := durable.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("sync record: %w", err)
	}
	return nil
}

// Recover reads what the guards of an earlier life of this agent left in dir,
// oldest first. It waits for those that still work, until ctx ends. One that works for longer than it may is killed. What a guard that was killed left running is
// killed. It must be called before the agent starts guards or hooks of its own.
//
// A record stays on disk until Remove, so that an agent that crashes here reads
// it again.
func Recover(ctx context.Context, dir string) ([]Record, error) {
	return recoverAll(ctx, dir, func(int) {})
}

// recoverAll is Recover, which says for which guard's process it waits.
func recoverAll(ctx context.Context, dir string, waits func(process int)) ([]Record, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("recover guards: %w", err)
	}
	var records []Record
	var errs []error
	for _, entry := range entries {
		if ok, _ := filepath.Match(recordPattern, entry.Name()); !ok {
			continue
		}
		r, err := recover1(ctx, filepath.Join(dir, entry.Name()), waits)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("recover guards: %w", err))
		case r.Mark != "":
			records = append(records, r)
		}
	}
	sortByTime(records)
	return records, errors.Join(errs...)
}

// Remove forgets the record.
func (r Record) Remove() error {
	if r.path == "" {
		return nil
	}
	if err := os.Remove(r.path); err != nil {
		return fmt.Errorf("remove record: %w", err)
	}
	return nil
}

// recover1 reads one record. One without a line is of a guard that never came to
// start anything; it is removed.
func recover1(ctx context.Context, path string, waits func(process int)) (Record, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return Record{}, err
	}
	defer file.Close()
	if err := outwait(ctx, file, waits); err != nil {
		return Record{}, fmt.Errorf("%s: its guard still works: %w", path, err)
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
		err = r.endOrphans()
	}
	return r, err
}

// outwait gets the lock when the guard has ended, which it must within the record's
// patience.
func outwait(ctx context.Context, file *os.File, waits func(process int)) error {
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		return nil
	}
	r, ok, err := read(io.NewSectionReader(file, 0, maxRecord))
	if err != nil {
		return err
	}
	if !ok {
		r.Patience = leaseRoom // it has not started anything, and is about to notice that its agent is dead
	}
	waits(r.Report.Guard)
	patience, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	if err := await(patience, file); err == nil || ctx.Err() != nil || !ok {
		return err
	}
	_ = unix.Kill(r.Report.Guard, unix.SIGKILL) // it lives, since it has the lock: the number is its own
	patience, cancel = context.WithTimeout(ctx, run.Unkillable)
	defer cancel()
	return await(patience, file)
}

// maxRecord bounds what is read of a record: a few lines.
const maxRecord = 1 << 20

// lockPause is how long await sleeps between two tries. Arbitrary.
const lockPause = 10 * time.Millisecond

// await gets the lock that a living guard holds.
func await(ctx context.Context, file *os.File) error {
	tick := time.NewTicker(lockPause)
	defer tick.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// read gives the last whole line; false if there is none.
func read(file io.Reader) (r Record, ok bool, err error) {
	text, err := io.ReadAll(file)
	if err != nil {
		return r, false, err
	}
	for line := range bytes.Lines(text) {
		var next Record
		if json.Unmarshal(line, &next) == nil && next.Mark != "" { // a crash cuts the last line
			r, ok = next, true
		}
	}
	return r, ok, nil
}
