package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/hashicorp/go-hclog"

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
	content, err := os.ReadFile(path)
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
	log.Error("job ledger not readable; kept aside and begun anew", "file", aside, "err", err)
	if err := os.Rename(path, aside); err != nil {
		return nil, "", err
	}
	return nil, aside, nil
}

// openLedger is readLedger, but begins a ledger in a new state directory, so that
// one that is missing later is known to be lost.
func (a *agent) openLedger() (ledger *jobs.Ledger, lost bool, err error) {
	ledger, a.jobs.aside, err = readLedger(a.cfg.StateDir, a.log)
	isNew := a.state.saved.Incarnation == 0 && a.jobs.aside == ""
	switch {
	case err != nil || ledger != nil:
		return ledger, false, err
	case !isNew:
		a.log.Warn("job ledger lost; this host witnesses no starts for a minute", "file", ledgerName)
		return nil, true, nil
	}
	ledger = &jobs.Ledger{}
	text, err := ledger.Append(nil)
	if err != nil {
		panic("BUG: an empty ledger that cannot be written: " + err.Error())
	}
	return ledger, false, a.jobs.file.replace(text)
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

// replace puts a new file in the place of the old one, so that a crash leaves one
// of the two, and syncs the directory, which renameio does not.
func (f *ledgerFile) replace(b []byte) error {
	if err := renameio.WriteFile(filepath.Join(f.dir, ledgerName), b, 0o600, renameio.WithTempDir(f.dir)); err != nil {
		return fmt.Errorf("write job ledger: %w", err)
	}
	dir, err := os.Open(f.dir)
	if err != nil {
		return fmt.Errorf("sync job ledger: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync job ledger: %w", err)
	}
	return nil
}
