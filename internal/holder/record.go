package holder

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/run"
)

// Record is what a holder leaves on disk: who it was, and the last Report that it
// could write.
type Record struct {
	Name  string      `json:"name"`
	Epoch hooks.Epoch `json:"epoch"`
	Time  time.Time   `json:"time"` // when it was started, wall time
	Boot  string      `json:"boot"` // the kernel's boot_id
	// Mark is the value of BULLY_HOLDER in the environment of all that the command
	// starts, unless that cleans its environment.
	Mark string `json:"mark"`
	// Patience is how long the holder may work without its starter.
	Patience time.Duration `json:"patience"`
	Report   Report        `json:"report"`

	path string
}

// The file of a record has a line of JSON from before the command was started, and one from
// after its end; the last whole one counts. The holder holds its lock (flock) for as long as it
// lives, so whoever gets the lock knows that the holder is gone.
const (
	recordPattern = "holder-*.json"
	markVariable  = "BULLY_HOLDER"
)

// record is a Record being written, by the holder alone.
type record struct {
	file *os.File
	Record
}

// create makes the file and locks it, in the starter: the lock goes with the open
// file to the holder.
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
		file, err = memoryFile("holder-record", nil)
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

// remove forgets the record.
func (r Record) remove() error {
	if r.path == "" {
		return nil
	}
	if err := os.Remove(r.path); err != nil {
		return fmt.Errorf("remove record: %w", err)
	}
	return nil
}
