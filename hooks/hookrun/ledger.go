package hookrun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/run"
)

// ledger keeps the output of the last runs, in an archive by BULLY_SEQ. A full disk costs a
// log line only.
type ledger struct {
	dir     run.Archive
	backlog *backlog
	log     hclog.Logger
}

const ledgerName = "hook-output"

// open makes the directory and gives the highest sequence number in it.
func (l *ledger) open() (last uint64, err error) {
	err = os.MkdirAll(string(l.dir), 0o700)
	if err == nil {
		all, unread := l.dir.All()
		if err = unread; len(all) > 0 {
			last = all[len(all)-1].Seq
		}
	}
	if err != nil {
		return 0, fmt.Errorf("open hook ledger: %w", err)
	}
	return last, nil
}

// newRun is the row of one run that has ended.
func newRun(ev hooks.Event, seq uint64, begun time.Time, end ending.End) hooks.Run {
	row := hooks.Run{
		Hook: ev.Kind, Cause: ev.Cause, Epoch: ev.Epoch.Counter, Seq: seq, Attempt: ev.Attempt + 1,
		Started: begun.Round(0), TookMS: float64(end.Took.Microseconds()) / 1000,
		Exit: end.Exit, OK: end.Err == nil,
	}
	if end.Err != nil {
		row.Err = end.Err.Error()
	}
	return row
}

// keep files one run.
func (l *ledger) keep(row hooks.Run, out *run.Output) {
	kept, printed := out.Tail()
	row.Printed = printed
	if !l.backlog.tryAdd(func() { l.write(row, kept) }) {
		l.log.Warn("hook output not kept, the disk is too slow", "seq", row.Seq)
	}
}

func (l *ledger) write(row hooks.Run, kept []byte) {
	if err := l.dir.Keep(row.Seq, fmt.Sprintf("-%s-%d", row.Hook, row.Epoch), row, kept); err != nil {
		l.log.Warn("hook output not kept", "err", err)
	}
}

// runs lists what is kept with a seq above after, oldest first, without the output. A file that is being
// written is left out.
func (l ledger) runs(after uint64) ([]hooks.Run, error) {
	all, err := l.dir.All()
	if err != nil {
		return nil, fmt.Errorf("read hook ledger: %w", err)
	}
	var runs []hooks.Run
	for _, k := range all {
		var row hooks.Run
		if isNew := k.Seq > after || after == 0; isNew && k.Row(&row) == nil {
			runs = append(runs, row)
		}
	}
	return runs, nil
}

// output gives one run and what it printed last; fs.ErrNotExist if it is not kept.
func (l ledger) output(seq uint64) (row hooks.Run, printed []byte, err error) {
	k, err := l.dir.Find(seq)
	if errors.Is(err, fs.ErrNotExist) {
		return row, nil, fs.ErrNotExist
	}
	if err == nil {
		err = k.Row(&row)
	}
	if err == nil {
		printed, err = k.Printed()
	}
	if err != nil {
		return hooks.Run{}, nil, fmt.Errorf("read hook ledger: %w", err)
	}
	return row, printed, nil
}
