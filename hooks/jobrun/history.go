package jobrun

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bully-agent/bully-agent/internal/run"
)

// History keeps the last runs of each job, one file each: a line of JSON that
// says what ran and how it ended, then the end of what it printed. It is for
// people, so nothing is synced; what ran is known from the ledger.
//
//	job-output/<job>/<seq>.log
type History struct {
	dir string
	seq atomic.Uint64 // of the last run, which survives a restart with the files
}

// keepRuns is how many runs of each job are kept: with 64 KiB of output each at
// most 3.2 MiB.
const keepRuns = 50

// Row is what is kept of one attempt of a run.
type Row struct {
	Job     string        `json:"job"`
	Run     string        `json:"run"` // BULLY_JOB_RUN_ID
	Slot    time.Time     `json:"slot"`
	Epoch   uint64        `json:"epoch"`
	Attempt int           `json:"attempt"`
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"`
	Exit    int           `json:"exit"`
	Cause   string        `json:"cause,omitempty"` // why it was ended; empty if it ended by itself
	Err     string        `json:"err,omitempty"`
	Printed int64         `json:"printed"` // bytes; more than are kept if the beginning was cut

	path string
}

// HistoryIn is that of an agent with this state directory, for reading; a Runner writes it.
func HistoryIn(dir string) *History { return &History{dir: filepath.Join(dir, outputName)} }

func makeDir(dir string) error { return os.MkdirAll(dir, 0o700) }

// open makes the directory and finds the highest number in it.
func (h *History) open() error {
	if err := makeDir(h.dir); err != nil {
		return err
	}
	files, err := h.files("")
	if n := len(files); n > 0 {
		h.seq.Store(files[n-1].seq)
	}
	return err
}

func (h *History) next() uint64 { return h.seq.Add(1) }

// keep files one attempt, and removes the oldest of its job beyond keepRuns.
func (h *History) keep(seq uint64, row Row, out *run.Output) error {
	kept, printed := out.Tail()
	row.Printed = printed
	head, err := json.Marshal(row)
	if err != nil {
		panic("BUG: encode row: " + err.Error()) // strings, numbers and times always encode
	}
	dir := filepath.Join(h.dir, row.Job)
	if err := os.MkdirAll(dir, 0o750); err != nil { // the directory above says who may read
		return err
	}
	name := filepath.Join(dir, fmt.Sprintf("%012d.log", seq))
	if err := os.WriteFile(name, bytes.Join([][]byte{head, kept}, []byte{'\n'}), 0o640); err != nil {
		return err
	}
	files, err := h.files(row.Job)
	for _, f := range files[:max(0, len(files)-keepRuns)] {
		err = errors.Join(err, os.Remove(f.path))
	}
	return err
}

// file is one of ours.
type file struct {
	path string
	seq  uint64
}

// files lists a job's files, the oldest first; those of all jobs, if job is
// empty. A job that never ran has none.
func (h *History) files(job string) ([]file, error) {
	jobs := []string{job}
	if job == "" {
		var err error
		if jobs, err = h.jobs(); err != nil {
			return nil, err
		}
	}
	var all []file
	for _, job := range jobs {
		names, err := readNames(filepath.Join(h.dir, job))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			number, isLog := strings.CutSuffix(name, ".log")
			if seq, err := strconv.ParseUint(number, 10, 64); err == nil && isLog {
				all = append(all, file{filepath.Join(h.dir, job, name), seq})
			}
		}
	}
	slices.SortFunc(all, func(a, b file) int { return cmp.Compare(a.seq, b.seq) })
	return all, nil
}

// jobs names those of which runs are kept.
func (h *History) jobs() ([]string, error) { return readNames(h.dir) }

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

// readNames lists a directory; one that is not there is empty.
func readNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// Rows lists what is kept of the last runs of a job, which must be a name, the newest
// last; of all jobs, if it is empty. A file that is removed meanwhile, or is not ours, is
// left out.
func (h *History) Rows(job string) ([]Row, error) {
	files, err := h.files(job)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, 0, len(files))
	for _, f := range files {
		var row Row
		if head, err := readHead(f.path); err != nil || json.Unmarshal(head, &row) != nil {
			continue
		}
		row.path = f.path
		rows = append(rows, row)
	}
	return rows, nil
}

// Output gives the last 64 KiB that a kept run printed; nothing if the file is gone.
func (h *History) Output(row Row) ([]byte, error) {
	content, err := os.ReadFile(row.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	_, text, _ := bytes.Cut(content, []byte{'\n'})
	return text, err
}

// readHead reads the first line alone.
func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return bufio.NewReaderSize(f, 1<<10).ReadBytes('\n')
}
