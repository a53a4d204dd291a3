package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
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

	// ledgerRuns is how many runs are kept: 50, so
	// at most 3.2 MiB.
	ledgerRuns = 50
)

// ledgerRow is the first line of a file in the ledger.
type ledgerRow struct {
	Hook    Kind   `json:"hook"`
	Cause   string `json:"cause"`
	Epoch   uint64 `json:"epoch"`
	Seq     uint64 `json:"seq"`
	Started string `json:"started"`
	Took    string `json:"took"`
	Exit    int    `json:"exit"`
	OK      bool   `json:"ok"`
	Err     string `json:"err,omitempty"`
	Printed int64  `json:"printed"` // bytes; more than follow if the beginning was cut
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
func (l *ledger) keep(seq uint64, ev Event, res Result, out *output) {
	if l.dir == "" {
		return
	}
	kept, printed := out.tail.bytes()
	row := ledgerRow{
		Hook: ev.Kind, Cause: ev.Cause, Epoch: ev.Epoch.Counter, Seq: seq,
		Started: stamp(res.Started), Took: res.Took.Round(time.Microsecond).String(),
		Exit: res.Exit, OK: res.Err == nil, Printed: printed,
	}
	if res.Err != nil {
		row.Err = res.Err.Error()
	}
	if !l.backlog.tryAdd(func() { l.write(row, kept) }) {
		l.log().Warn("hook output not kept, the disk is too slow", "seq", seq)
	}
}

func (l *ledger) write(row ledgerRow, kept []byte) {
	head, err := json.Marshal(row)
	if err == nil {
		name := fmt.Sprintf("%012d-%s-%d.log", row.Seq, row.Hook, row.Epoch)
		text := bytes.Join([][]byte{head, kept}, []byte{'\n'})
		err = os.WriteFile(filepath.Join(l.dir, name), text, 0o600)
	}
	if err = errors.Join(err, l.prune()); err != nil {
		l.log().Warn("hook output not kept", "err", err)
	}
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
