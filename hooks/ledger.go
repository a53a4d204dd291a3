package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/internal/run"
)

// ledger keeps the output of the last runs, one file each: a line of JSON that
// says what ran and how it ended, then the last tailSize bytes that it printed.
// It is for people, so nothing is synced and a full disk costs a log line only.
// Its file names carry BULLY_SEQ, and with it the number survives a restart.
type ledger struct {
	dir     string // empty: nothing is kept
	backlog *backlog
	log     func() hclog.Logger
}

const (
	ledgerName = "hook-output"

	// ledgerRuns is how many runs are kept, so at most 3.2 MiB.
	ledgerRuns = 50
)

// Run is one run of a hook as the ledger has it: the first line of its file.
type Run struct {
	Hook    Kind      `json:"hook"`
	Cause   string    `json:"cause"`
	Epoch   uint64    `json:"epoch"` // counter
	Seq     uint64    `json:"seq"`   // BULLY_SEQ
	Attempt int       `json:"attempt"`
	Started time.Time `json:"started"`
	TookMS  float64   `json:"took_ms"`
	Exit    int       `json:"exit"` // as in Result
	OK      bool      `json:"ok"`
	Err     string    `json:"err,omitempty"`
	Printed int64     `json:"printed"` // bytes; more than are kept if the beginning was cut
}

// open makes the directory and gives the highest sequence number in it.
func (l *ledger) open() (last uint64, err error) {
	if l.dir == "" {
		return 0, nil
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return 0, fmt.Errorf("open hook ledger: %w", err)
	}
	names, err := l.names()
	if err != nil {
		return 0, fmt.Errorf("open hook ledger: %w", err)
	}
	if len(names) > 0 {
		last, _ = ledgerSeq(names[len(names)-1])
	}
	return last, nil
}

// keep files one run.
func (l *ledger) keep(seq uint64, ev Event, res Result, out *run.Output) {
	if l.dir == "" {
		return
	}
	kept, printed := out.Tail()
	row := Run{
		Hook: ev.Kind, Cause: ev.Cause, Epoch: ev.Epoch.Counter, Seq: seq, Attempt: ev.Attempt + 1,
		Started: res.Started.Round(0), TookMS: float64(res.Took.Microseconds()) / 1000,
		Exit: res.Exit, OK: res.Err == nil, Printed: printed,
	}
	if res.Err != nil {
		row.Err = res.Err.Error()
	}
	if !l.backlog.tryAdd(func() { l.write(row, kept) }) {
		l.log().Warn("hook output not kept, the disk is too slow", "seq", seq)
	}
}

func (l *ledger) write(row Run, kept []byte) {
	head, err := json.Marshal(row)
	if err == nil {
		name := fmt.Sprintf("%012d-%s-%d.log", row.Seq, row.Hook, row.Epoch)
		text := bytes.Join([][]byte{head, kept}, []byte{'\n'})
		err = os.WriteFile(filepath.Join(l.dir, name), text, 0o640) // the directory says who may read
	}
	if err = errors.Join(err, l.prune()); err != nil {
		l.log().Warn("hook output not kept", "err", err)
	}
}

// runs lists what is kept with a seq above after, oldest first, without the output. A file that is being
// written is left out.
func (l *ledger) runs(after uint64) ([]Run, error) {
	if l.dir == "" {
		return nil, nil
	}
	names, err := l.names()
	if err != nil {
		return nil, fmt.Errorf("read hook ledger: %w", err)
	}
	var runs []Run
	for _, name := range names {
		if seq, _ := ledgerSeq(name); seq <= after && after > 0 {
			continue
		}
		if run, _, err := l.read(name); err == nil {
			runs = append(runs, run)
		}
	}
	return runs, nil
}

// output gives one run and what it printed last; fs.ErrNotExist if it is not kept.
// Should two have the number, which a crash makes possible, it is the later one.
func (l *ledger) output(seq uint64) (Run, []byte, error) {
	if l.dir == "" {
		return Run{}, nil, fs.ErrNotExist
	}
	names, err := l.names()
	if err != nil {
		return Run{}, nil, fmt.Errorf("read hook ledger: %w", err)
	}
	for _, name := range slices.Backward(names) {
		if got, _ := ledgerSeq(name); got == seq {
			return l.read(name)
		}
	}
	return Run{}, nil, fs.ErrNotExist
}

func (l *ledger) read(name string) (Run, []byte, error) {
	text, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		return Run{}, nil, fmt.Errorf("read hook ledger: %w", err)
	}
	head, kept, _ := bytes.Cut(text, []byte{'\n'})
	var run Run
	if err := json.Unmarshal(head, &run); err != nil {
		return Run{}, nil, fmt.Errorf("read hook ledger: %s: %w", name, err)
	}
	return run, kept, nil
}

// prune removes the oldest files beyond ledgerRuns.
func (l *ledger) prune() error {
	names, err := l.names()
	if err != nil {
		return err
	}
	for _, name := range names[:max(0, len(names)-ledgerRuns)] {
		err = errors.Join(err, os.Remove(filepath.Join(l.dir, name)))
	}
	return err
}

// names lists the ledger's own files, oldest run first.
func (l *ledger) names() ([]string, error) {
	found, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range found {
		if _, ok := ledgerSeq(f.Name()); ok && strings.HasSuffix(f.Name(), ".log") {
			names = append(names, f.Name())
		}
	}
	slices.Sort(names) // numbers are zero-padded
	return names, nil
}

func ledgerSeq(name string) (uint64, bool) {
	number, _, _ := strings.Cut(name, "-")
	seq, err := strconv.ParseUint(number, 10, 64)
	return seq, err == nil
}
