// Package hookrun carries out what hooks.Lanes decide: it has the processes, the journal and the
// output of hooks, of jobs, and of the commands that answer questions. Whose loop asks the Lanes, has the clock and minds the deadline is its caller.
package hookrun

import (
	"cmp"
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/run"
)

// Config says what to run, within which bounds, and with what. The zero Config runs nothing.
type Config struct {
	hooks.Config

	// Dir is the state directory, where the journal of running groups and the output of the last
	// runs are kept. Needed, but by Try, which keeps nothing.
	Dir string

	// Socket is the path of the agent's control socket, for BULLY_SOCKET.
	Socket string

	// Logger receives the start and end of each hook and its output, line by line. It is called
	// by Hands.Do as well, and must not wait. Nil discards.
	Logger hclog.Logger
}

// withDefaults is c with the documented defaults filled in.
func (c Config) withDefaults() Config {
	c.Config = c.Config.WithDefaults()
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

// Loop is the goroutine that owns Lanes and Hands, as these see it.
type Loop struct {
	// Clock tells the time that the Lanes are asked by.
	Clock func() time.Time
	// Post is given what has come of an effect: the loop is to tell its Lanes. Any goroutine calls it; it must
	// not wait for the loop.
	Post func(hooks.LaneEvent)
	// Budget and Takeover are those of hooks.LanesConfig; so is Pause, which is FirstPause if it is zero.
	Budget, Takeover, Pause time.Duration
}

// Hands carry out what Lanes decide. The loop that owns them calls Heard, Do, SetSocket, Hurry and
// Close, none of which waits for a process, a disk or a goroutine.
type Hands struct {
	loop       Loop
	log        hclog.Logger
	endLeft    func(context.Context, hooks.EndOrphans, hclog.Logger) []hooks.Hanging         // endOrphans, but in tests
	isAlive    func(hooks.Entry) bool                                                        // alive, but in tests
	begin      func(argv, env []string, input []byte, out *run.Output) (*run.Process, error) // run.Start, but in tests
	backlog    backlog
	journal    journal
	ledger     ledger
	looks      map[hooks.Lane]*sync.Mutex // held while a lane's command is looked at
	aftermath  sync.WaitGroup             // runs whose output is awaited, bounded by drain
	consulting sync.WaitGroup             // one for each command that answers a question
	holding    *holding
	ctx        context.Context
	hurry      context.CancelFunc

	// Of the loop alone.
	socket  string
	leashes map[hooks.Lane]*run.Leash // of what was started last, and of a question while its command runs
}

const (
	// diskPatience is how long the end of a clean-up, and of all, waits for the last files.
	diskPatience = time.Second

	// hangPause is between two looks at what hangs. Arbitrary.
	hangPause = 50 * time.Millisecond
)

// Open makes Hands, the directories that they write to, and Lanes that know what an earlier life
// has left. It waits for the disk. It fails if Socket may not stand in a variable or Dir cannot
// be used; bounds are those of package config, and commands are checked when they are to run.
func Open(cfg Config, loop Loop) (*Hands, hooks.Lanes, error) {
	if err := hooks.CheckSocket(cfg.Socket); err != nil {
		return nil, hooks.Lanes{}, err
	}
	cfg = cfg.withDefaults()
	h := &Hands{loop: loop, log: cfg.Logger, endLeft: endOrphans, isAlive: alive, begin: run.Start, socket: cfg.Socket,
		looks: map[hooks.Lane]*sync.Mutex{hooks.Leadership: {}, hooks.Notification: {}}, leashes: map[hooks.Lane]*run.Leash{}}
	h.ctx, h.hurry = context.WithCancel(context.Background())
	h.journal = journal{path: filepath.Join(cfg.Dir, journalName), backlog: &h.backlog, log: h.log, noted: func(n hooks.Noted) { loop.Post(n) }}
	h.ledger = ledgerIn(cfg.Dir)
	h.ledger.backlog, h.ledger.log = &h.backlog, h.log
	left, unread := h.journal.open()
	if unread != nil {
		h.log.Error("hook journal not read, orphaned hooks may still run", "err", unread)
	}
	seq, err := h.ledger.open()
	if err != nil {
		return nil, hooks.Lanes{}, err
	}
	var jobSeq uint64
	if h.holding, jobSeq, err = openHolding(cfg.Dir, h.log); err != nil {
		return nil, hooks.Lanes{}, err
	}
	lanes := hooks.NewLanes(hooks.LanesConfig{Seq: seq, JobSeq: jobSeq, Pause: cmp.Or(loop.Pause, hooks.FirstPause), RecordWithin: hooks.RecordPatience,
		Unread: unread != nil, Budget: loop.Budget, Takeover: loop.Takeover}, cfg.Config, left)
	return h, lanes, nil
}

// Heard is told what Post was given, before the Lanes are. Of a question that has been answered nothing is kept: checks come and go
// with the configuration.
func (h *Hands) Heard(ev hooks.LaneEvent) {
	if e, isAnswer := ev.(hooks.Consulted); isAnswer && !e.Hangs {
		delete(h.leashes, e.Lane)
	}
}

// Do carries out one effect, in the order of the Lanes, but for Cleaned and those that tell: who hears of
// these is the caller's matter.
func (h *Hands) Do(effect hooks.LaneEffect) {
	switch e := effect.(type) {
	case hooks.Note:
		h.journal.note(e)
	case hooks.EndOrphans:
		go h.endOrphans(e)
	case hooks.Prepare:
		go h.prepare(e)
	case hooks.Start:
		go h.start(e, h.leash(e.Lane, e.Limit), h.socket)
	case hooks.Consult:
		leash, socket := h.leash(e.Lane, e.Limit), h.socket
		h.consulting.Go(func() { h.consult(e, leash, socket) })
	case hooks.Hold:
		h.hold(e)
	case hooks.Allow:
		h.holding.all[e.ID].Renew(e.Terms)
	case hooks.Release:
		h.holding.all[e.ID].Stop(e.Cause, e.Within)
	case hooks.FileRun:
		h.fileRun(e)
	case hooks.Bound:
		if leash := h.leashes[e.Lane]; leash != nil { // else it has ended
			leash.Shorten(e.Limit)
		}
	case hooks.Say:
		h.log.Log(levels[e.Level], e.Text, e.Args...)
	}
}

// leash is that of what is started in a lane now.
func (h *Hands) leash(ln hooks.Lane, l ending.Limit) *run.Leash {
	leash := run.NewLeash(l, h.loop.Clock)
	h.leashes[ln] = leash
	return leash
}

var levels = map[hooks.Level]hclog.Level{hooks.Info: hclog.Info, hooks.Warn: hclog.Warn, hooks.Error: hclog.Error}

// endOrphans tells what of an earlier life hangs, and then that it has ended.
func (h *Hands) endOrphans(e hooks.EndOrphans) {
	hang := h.endLeft(h.ctx, e, h.log)
	h.loop.Post(hooks.OrphansEnded{Hang: hang})
	for _, one := range hang {
		go h.awaitGone(one.Entry)
	}
}

// awaitGone looks at what hangs until that has ended. A look may hang as well: each has a goroutine.
func (h *Hands) awaitGone(e hooks.Entry) {
	for h.isAlive(e) {
		select {
		case <-time.After(hangPause):
		case <-h.ctx.Done():
			return
		}
	}
	h.loop.Post(hooks.Gone{Entry: e})
}

// SetSocket replaces Config.Socket from the next run on.
func (h *Hands) SetSocket(path string) { h.socket = path }

// Hurry has orphans end without their grace. It comes with hooks.Closed.
func (h *Hands) Hurry() { h.hurry() }

// Flush calls then, on a goroutine of its own, once what there was to write has been written, or
// the disk has had its patience.
func (h *Hands) Flush(then func()) {
	go func() {
		h.backlog.wait(diskPatience)
		then()
	}()
}

// Close calls then as Flush does, once nothing runs any more, when nothing of the output is awaited
// either. Nothing is done after it.
func (h *Hands) Close(then func()) {
	go func() {
		h.aftermath.Wait()
		h.holding.work.Wait()
		h.backlog.wait(diskPatience)
		then()
	}()
}

// ReadRuns lists the last runs of hooks of an agent with this state directory, oldest
// first. It waits for the disk.
func ReadRuns(dir string, after uint64) ([]hooks.Run, error) { return ledgerIn(dir).runs(after) }

// ReadOutput gives one run by its BULLY_SEQ and the end of what it printed. The error
// is fs.ErrNotExist if it is not kept any more. It waits for the disk.
func ReadOutput(dir string, seq uint64) (hooks.Run, []byte, error) { return ledgerIn(dir).output(seq) }

func ledgerIn(dir string) ledger { return ledger{dir: run.Archive(filepath.Join(dir, ledgerName))} }

// TryRecording finds out whether a become-leader hook could be recorded now in the
// state directory, by a file of the agent's own. It waits for the disk.
func TryRecording(dir string) error {
	return tryFile(filepath.Join(dir, journalName+".ask"), 2*trySize)
}
