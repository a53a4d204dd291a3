package hookrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/holder"
	"github.com/bully-agent/bully-agent/internal/run"
	"github.com/bully-agent/bully-agent/internal/trust"
)

// The commands of jobs, each kept by a holder (package holder). What they are told is what a hook is told, and BULLY_JOB,
// BULLY_JOB_SLOT and BULLY_JOB_RUN_ID; their standard input is empty.

// held is an attempt's command, as the loop knows it.
type held struct {
	*holder.Holder
	out *run.Output
	log hclog.Logger
}

// holding is the part of Hands that has jobs' commands.
type holding struct {
	log     hclog.Logger
	records string // the directory of holders' records
	history *History
	files   backlog          // runs that are being filed: a slow disk holds up no journal of hooks
	work    sync.WaitGroup   // one for each command, and for each run that is being filed
	all     map[string]*held // of the loop alone, by run
}

const recordsName = "job-holders"

func openHolding(dir string, log hclog.Logger) (g *holding, last uint64, err error) {
	g = &holding{log: log.Named("jobs"), records: filepath.Join(dir, recordsName), history: HistoryIn(dir), all: map[string]*held{}}
	if err = os.MkdirAll(g.records, 0o700); err == nil {
		last, err = g.history.open()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("prepare jobs: %w", err)
	}
	return g, last, nil
}

// hold has a holder start an attempt's command. What is said of it from now on the holder hears, also before it has been
// started.
func (h *Hands) hold(e hooks.Hold) {
	a := e.Attempt
	env := hooks.Environ(a.Event, hooks.Circumstances{Seq: e.Seq, Attempt: a.Attempt, Timeout: a.Timeout, Socket: h.socket}, os.Getenv)
	env = append(env, "BULLY_JOB="+a.Job, "BULLY_JOB_SLOT="+a.Slot.UTC().Format(time.RFC3339), "BULLY_JOB_RUN_ID="+a.ID)
	one := &held{log: h.holding.log.With("job", a.Job, "run", a.ID)}
	one.out = run.NewOutput(one.log, "job printed")
	one.Holder = holder.New(holder.Config{Name: a.Job, Epoch: a.Event.Epoch, Argv: a.Command.Words(), Env: env, Budget: e.Budget, Grace: e.Grace,
		Records: h.holding.records, Terms: e.Terms})
	h.holding.all[a.ID] = one
	h.holding.work.Go(func() {
		begun := time.Now()
		end := h.outlast(one, a.Command)
		end.Started, end.Took = begun, time.Since(begun)
		h.loop.Post(hooks.JobEnded{ID: a.ID, Held: end})
	})
}

// errNothing keeps a holder from being started that would hold nothing.
var errNothing = errors.New("the job has no command")

// outlast runs a command, and waits until nothing of it is left, also what KILL has not ended: the job's next run is not to
// start beside it. Only at Hurry nobody waits for that.
func (h *Hands) outlast(one *held, cmd hooks.Command) hooks.Held {
	if cmd.IsZero() {
		return notHeld(errNothing, 0)
	}
	if err := trust.Check(cmd); err != nil {
		return notHeld(err, whyUnfit(cmd))
	}
	if err := one.StartRead(one.out); err != nil {
		return notHeld(err, 0)
	}
	select {
	case <-one.Done():
	case <-one.Stuck():
		one.log.Error("job not ended: "+one.Report().Stuck, "group", one.Report().Group)
		select {
		case <-one.Done():
		case <-h.ctx.Done():
		}
	}
	if err := one.Clear(); err != nil {
		one.log.Warn("job's record not removed", "err", err)
	}
	r := one.Report()
	return hooks.Held{HasBegun: r.Group != 0, Code: r.Code(), Cause: r.Cause, IsSilent: r.Silent, Err: r.Err}
}

func notHeld(why error, errno syscall.Errno) hooks.Held {
	return hooks.Held{Code: holder.Report{Exit: -1, Errno: int(errno)}.Code(), Err: strings.ReplaceAll(why.Error(), "\n", "; ")}
}

// whyUnfit is ENOENT for a command whose file is not there, 0 for any other.
func whyUnfit(c hooks.Command) syscall.Errno {
	words := c.Argv
	if c.Shell != "" {
		words = strings.Fields(c.Shell)
	}
	if _, err := os.Stat(words[0]); errors.Is(err, fs.ErrNotExist) {
		return syscall.ENOENT
	}
	return 0
}

// fileRun keeps an attempt that has ended, with what its command has printed. A disk that hangs delays its result so long, and no more.
func (h *Hands) fileRun(e hooks.FileRun) {
	one, filed := h.holding.all[e.ID], make(chan struct{})
	delete(h.holding.all, e.ID)
	file := func() {
		defer close(filed)
		if n := one.out.Dropped(); n > 0 {
			one.log.Warn("job output dropped from the log", "lines", n)
		}
		if err := h.holding.history.keep(e.Run, one.out); err != nil {
			one.log.Warn("job output not kept", "err", err)
		}
	}
	h.holding.work.Go(func() {
		if !h.holding.files.tryAdd(file) || !run.Within(filed, diskPatience) {
			one.log.Warn("job output not kept in time, the disk is too slow")
		}
		h.loop.Post(hooks.RunFiled{ID: e.ID})
	})
}

// RecoverJobs sees to it that no command of a job runs any more that an earlier keeper began; it waits for the holders that are
// still at it, until ctx ends. What cannot be read is left, and said in the error. Any goroutine may call it.
func (h *Hands) RecoverJobs(ctx context.Context) error {
	return holder.Recover(ctx, h.holding.records, h.holding.log.Warn, "job")
}
