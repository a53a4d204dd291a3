package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/jobs"
)

const (
	ledgerName = "jobs.ledger"
	badSuffix  = ".bad" // of one that cannot be read
)

// readLedger reads what this host knows of runs; nil if there is no file. A
// ledger that cannot be read is kept aside, and begun anew with what the others
// tell: they know of every run that this host started in quorum mode, though not
// of what it has witnessed.
func readLedger(dir string, log hclog.Logger) (ledger *jobs.Ledger, aside string, err error) {
	path := filepath.Join(dir, ledgerName)
	content, err := durable.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, "", nil
	}
	if err == nil {
		ledger, err = jobs.Parse(content)
	}
	if err == nil {
		return ledger, "", nil
	}
	aside = path + badSuffix
	log.Error("job ledger not readable; kept under another name and begun anew", "file", aside, "err", err)
	if err := os.Rename(path, aside); err != nil {
		return nil, "", err
	}
	return nil, aside, nil
}

// openLedger is readLedger, but begins a ledger in a new state directory, so that
// one that is missing later is known to be lost.
func (j *jobDesk) openLedger() (ledger *jobs.Ledger, lost bool, err error) {
	ledger, j.aside, err = readLedger(j.dir, j.log)
	isNew := j.isNew && j.aside == ""
	switch {
	case err != nil:
		return nil, false, err
	case ledger != nil:
		return ledger, false, j.mend(ledger)
	case !isNew:
		j.log.Warn("job ledger lost; this host witnesses no starts for a minute", "file", ledgerName)
		return nil, true, nil
	}
	ledger = &jobs.Ledger{}
	text, err := ledger.Append(nil)
	if err != nil {
		panic("BUG: an empty ledger that cannot be written: " + err.Error())
	}
	return ledger, false, j.file.replace(text)
}

// mend takes out of the ledger what no host can have written, on the disk too before
// anything relies on it, and says so.
func (j *jobDesk) mend(ledger *jobs.Ledger) error {
	now := j.wall()
	if j.newest.After(now) {
		now = j.newest
	}
	j.mended = ledger.Mend(now, j.epoch)
	if len(j.mended) == 0 {
		return nil
	}
	for _, line := range j.mended {
		j.log.Warn("job ledger mended", "found", line)
	}
	text, err := ledger.Append(nil)
	if err != nil {
		return err
	}
	return j.file.replace(text)
}

// newestIn is a time that this host has passed, if its clock was right: when its
// last life wrote its state, or a ledger that cannot be read. Zero if neither is
// there.
func newestIn(dir string) (newest time.Time) {
	for _, name := range [...]string{stateName, ledgerName + badSuffix} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return newest
}

// ledgerFile writes the ledger in a goroutine of its own, one version at a time:
// a disk takes as long as it likes, and the loop has heartbeats to send.
type ledgerFile struct {
	dir     string
	todo    chan []byte // capacity 1
	results chan written
}

// written is how one write ended.
type written struct {
	bytes []byte
	err   error
}

func newLedgerFile(dir string) *ledgerFile {
	return &ledgerFile{dir: dir, todo: make(chan []byte, 1), results: make(chan written, 1)}
}

// write begins to write; the result of the write before must have come.
func (f *ledgerFile) write(b []byte) { f.todo <- b }

// run writes until ctx ends.
func (f *ledgerFile) run(ctx context.Context) {
	for {
		select {
		case b := <-f.todo:
			f.results <- written{b, f.replace(b)}
		case <-ctx.Done():
			return
		}
	}
}

func (f *ledgerFile) replace(b []byte) error {
	if err := durable.Replace(filepath.Join(f.dir, ledgerName), b); err != nil {
		return fmt.Errorf("write job ledger: %w", err)
	}
	return nil
}

// saving is what becomes of the ledger on its way to the disk: one write at a time.
type saving struct {
	isOn  bool // effects and events wait for the file
	began time.Time

	hasFailed bool // the last write did
	isToTell  bool // the scheduler has not heard of that
	since     time.Time
	why       error     // what the disk said last
	well      time.Time // since when it takes writes again

	// Times are on the agent's clock.
}

// onWritten goes on where a Save was waited for.
func (j *jobDesk) onWritten(w written) {
	s := &j.saving
	s.isOn, j.isStirred = false, true
	if w.err == nil {
		if s.hasFailed {
			*s = saving{well: j.around.now()}
			j.log.Info("job ledger saved again")
		}
		j.around.tellLedger(j.scheduler.Bytes())
		return
	}
	if !s.hasFailed {
		j.log.Error("job ledger not saved; no job starts here until it is", "err", w.err)
		j.event("job ledger not saved: "+w.err.Error(), string(election.DiskFailed))
		s.since = j.around.now()
	}
	s.hasFailed, s.isToTell, s.why, j.rest = true, true, w.err, nil
}
