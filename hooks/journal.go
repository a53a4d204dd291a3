package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/internal/run"
)

// journal records on disk which process groups run now and which leadership has had
// its become-leader and not yet its lose-leadership hook. The next life of the
// agent, with a keeper of its own, ends by it what this one left behind by crashing (M18).
//
// That a leadership begins is noted before its become-leader is started (begin);
// everything else after it happened and in its own time. A hook of that leadership is
// found even if the agent died before its group was noted, and an entry that outlives
// its group matches no process any more.
//
// All of this outlives the agent without being synced. A loss of power ends the hooks
// with the agent, and that a lose-leadership hook is due then stands in the
// election's state file, which is synced before; what is due is synced here too, when
// it begins and when the hook has failed, from when on it stands nowhere else, and at
// each change while it is due, but nobody waits for that.
//
// Safe for concurrent use. Writes are done by the backlog; only the newest state
// counts.
type journal struct {
	path    string // empty: nothing is recorded
	backlog *backlog
	log     func() hclog.Logger

	mu      sync.Mutex
	page    page
	before  page // what was due before the last begin
	pending bool // Invariant: true while a write that will see page is queued

	// isFresh: what is due has begun just now, and stands in the state file; nobody is
	// to wait for a sync. From the first sync on, a page with what is due is on the
	// disk before it takes the place of the one there.
	isFresh bool
}

const journalName = "hook-journal.json"

// page is what the journal's file holds.
type page struct {
	Runs map[lane]entry `json:"runs,omitempty"`
	// Owed is the epoch whose become-leader was started and whose lose-leadership
	// hook has not succeeded yet.
	Owed *Epoch `json:"owed,omitempty"`
	// Kept is what the hooks of that epoch run by; nil: by the configuration.
	Kept *kept `json:"kept,omitempty"`
	// Done is how a lose-leadership hook succeeded of which nobody has been told: the
	// agent was dead or silent.
	Done *done `json:"done,omitempty"`
}

func (p page) isBlank() bool { return len(p.Runs) == 0 && p.Owed == nil && p.Done == nil }

// done is what the next life of the agent has to know of a hook's end.
type done struct {
	Epoch Epoch         `json:"epoch"`
	Ran   bool          `json:"ran"`
	Took  time.Duration `json:"took"`
}

// entry identifies a group beyond the reuse of its number: by its first process's
// start time, and by variables in its members' environment for when the first
// process has ended before the others.
type entry struct {
	Hook  Kind   `json:"hook"`
	Epoch uint64 `json:"epoch"`
	Seq   uint64 `json:"seq"`
	Time  string `json:"time"` // BULLY_TIME
	Group int    `json:"group"`
	Start uint64 `json:"start"` // clock ticks since boot; 0: unknown
	Boot  string `json:"boot"`

	owner string // of the epoch, in place of Time where that is not known
}

func newEntry(group int, seq uint64, ev Event) entry {
	e := entry{Hook: ev.Kind, Epoch: ev.Epoch.Counter, Seq: seq, Time: stamp(ev.Time), Group: group, Boot: run.BootID()}
	if s, err := run.ReadStat(group); err == nil {
		e.Start = s.Start
	}
	return e
}

// owe notes what an earlier life owes by another record than this.
func (j *journal) owe(epoch Epoch) {
	j.change(func() {
		if j.page.Owed == nil || *j.page.Owed != epoch {
			j.page.Owed, j.page.Kept = &epoch, nil
		}
	})
}

// keep notes what the hooks of the leadership that is due run by from now on.
func (j *journal) keep(k *kept) { j.change(func() { j.page.Kept = k }) }

// keptFor is what the hooks of an earlier life's leadership run by; nil: by the
// configuration.
func (j *journal) keptFor(epoch Epoch) *kept {
	j.mu.Lock()
	defer j.mu.Unlock()
	if k := j.page.Kept; k != nil && k.Epoch == epoch {
		return k
	}
	return nil
}

// begin notes that the become-leader hook of ev is about to start, and sees whether
// there is room for another note after that one: of what runs, and how it ended. On a
// full disk what an earlier leadership has given back is room for one. It gives the
// outcome when the disk has taken that or does not; the hook must not start before.
func (j *journal) begin(ev Event, k *kept) <-chan error {
	outcome := make(chan error, 1)
	if j.path == "" {
		outcome <- nil
		return outcome
	}
	j.mu.Lock()
	j.before = page{Owed: j.page.Owed, Kept: j.page.Kept}
	j.page.Owed, j.page.Kept, j.page.Done = &Epoch{Counter: ev.Epoch.Counter, Owner: ev.Epoch.Owner}, k, nil
	j.isFresh = true
	j.mu.Unlock()
	j.backlog.add(func() {
		err := j.write()
		if err == nil {
			err = tryFile(j.path+".try", trySize)
		}
		outcome <- err
		time.AfterFunc(persistDelay, j.persist)
	})
	return outcome
}

// persistDelay is how long the disk is left to the start of a become-leader hook, and to
// all others that move at a failover, before it is to sync what is due. Arbitrary.
const persistDelay = 100 * time.Millisecond

// persist has what is due survive a loss of power further on: what was written since
// the begin was not synced. Nobody waits for it.
func (j *journal) persist() {
	if j.path != "" {
		j.backlog.add(j.sync)
	}
}

// withdraw takes back a begin after which nothing was started. What was due before may
// stand nowhere else, and the begin has taken its place.
func (j *journal) withdraw() {
	j.change(func() { j.page.Owed, j.page.Kept, j.isFresh = j.before.Owed, j.before.Kept, false })
	j.persist()
}

// settle notes that the lose-leadership hook of the epoch has succeeded.
func (j *journal) settle(epoch uint64) {
	if _, isOwed := j.owed(); isOwed {
		j.change(func() {
			if j.page.Owed != nil && j.page.Owed.Counter <= epoch {
				j.page.Owed, j.page.Kept = nil, nil
			}
		})
	}
}

// done is settle for a hook of which nobody is told, with the way it ended. It is synced:
// the state file says still that the hook is due.
func (j *journal) done(epoch Epoch, res Result) {
	j.change(func() {
		j.page.Owed, j.page.Kept, j.page.Done = nil, nil, &done{Epoch: epoch, Ran: res.Ran, Took: res.Took}
	})
	j.persist()
}

// forgetDone is called when somebody has been told.
func (j *journal) forgetDone() {
	j.mu.Lock()
	isNoted := j.page.Done != nil
	j.mu.Unlock()
	if isNoted {
		j.change(func() { j.page.Done = nil })
	}
}

// doneFor is the result of a lose-leadership hook that the last life's keeper has run;
// false if it has not, or in vain.
func (j *journal) doneFor(epoch Epoch) (Result, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.page.Done
	if d == nil || d.Epoch != epoch {
		return Result{}, false
	}
	return Result{Kind: LoseLeadership, Epoch: epoch.Counter, Cause: causeAgentDied, OK: true, Ran: d.Ran, Took: d.Took, TakenOver: true}, true
}

// owed is the epoch whose lose-leadership hook has not succeeded yet; false if there
// is none.
func (j *journal) owed() (Epoch, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.page.Owed == nil {
		return Epoch{}, false
	}
	return *j.page.Owed, true
}

func (j *journal) record(ln lane, e entry) { j.change(func() { j.page.Runs[ln] = e }) }

func (j *journal) clear(ln lane) { j.change(func() { delete(j.page.Runs, ln) }) }

func (j *journal) change(apply func()) {
	if j.path == "" {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	apply()
	if !j.pending {
		j.pending = true
		j.backlog.add(func() {
			if err := j.write(); err != nil {
				j.log().Error("hook journal not written", "err", err)
			}
		})
	}
}

// write brings the file to the newest state.
func (j *journal) write() error {
	j.mu.Lock()
	j.pending = false
	text, err := json.Marshal(j.page)
	isBlank, isSynced := j.page.isBlank(), j.page.Owed != nil && !j.isFresh
	j.mu.Unlock()
	switch {
	case err != nil:
		return err
	case isBlank:
		return j.remove()
	}
	return replace(j.path, sealed(text), isSynced)
}

// sync sees to it that what is due survives a loss of power, if the disk can. That
// it could not be written has been told; that it could not be synced, the disk's next
// write will tell.
func (j *journal) sync() {
	j.mu.Lock()
	j.isFresh = false
	j.mu.Unlock()
	_ = durable.SyncFile(j.path)
	_ = durable.SyncDir(filepath.Dir(j.path))
}

func (j *journal) remove() error {
	if err := durable.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// tryFile writes a file, and removes it again.
func tryFile(path string, size int) error {
	err := replace(path, make([]byte, size), false)
	if removed := durable.Remove(path); err == nil && !errors.Is(removed, fs.ErrNotExist) { // agent and keeper both try
		err = removed
	}
	return err
}

// trySize is at least what a file system gives to a file, and more than a page takes.
const trySize = 4 << 10

// replace puts a new file in the place of one: whoever reads sees one or the other. After
// a loss of power that is so only if it is synced.
func replace(path string, text []byte, synced bool) error {
	fresh := fmt.Sprintf("%s.%d.new", path, os.Getpid()) // agent and keeper both try the disk
	return durable.Swap(path, fresh, text, synced)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed adds a line with the checksum: one bit of the disk could else make another epoch
// of what is due, or none.
func sealed(text []byte) []byte {
	return fmt.Appendf(text, "\n%08x\n", crc32.Checksum(text, castagnoli))
}

var errChecksum = errors.New("damaged: its checksum does not match")

func unsealed(file []byte) (text []byte, err error) {
	const tail = len("\n01234567\n")
	text = file[:max(len(file)-tail, 0)]
	if !bytes.Equal(sealed(bytes.Clone(text)), file) {
		return nil, errChecksum
	}
	return text, nil
}

// load reads what is on disk. No file is a blank page.
func (j *journal) load() (page, error) {
	if j.path == "" {
		return page{}, nil
	}
	text, err := durable.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return page{}, nil
	}
	if err != nil {
		return page{}, fmt.Errorf("load hook journal: %w", err)
	}
	var left page
	if text, err = unsealed(text); err == nil {
		err = json.Unmarshal(text, &left)
	}
	if err != nil {
		return page{}, fmt.Errorf("load hook journal: %s: %w", j.path, err)
	}
	return left, nil
}

// open takes over what an earlier life owes. What it left running is for
// endOrphans, which says so if the file cannot be read.
func (j *journal) open() {
	left, _ := j.load()
	j.page = page{Runs: make(map[lane]entry), Owed: left.Owed, Done: left.Done}
	if left.Kept != nil && isOurs(j.path) {
		j.page.Kept = left.Kept
	}
}

// endOrphans ends the groups that an earlier life left behind, TERM, grace, KILL,
// and returns when they are gone. It must be called before the first hook runs: a
// leftover become-leader hook would work against its own lose-leadership hook. It gives
// those of the leadership that KILL has not ended.
func (j *journal) endOrphans(ctx context.Context, grace time.Duration) (stuck []entry) {
	if j.path == "" {
		return nil
	}
	left, err := j.load()
	if err != nil {
		j.log().Error("hook journal not read, orphaned hooks may still run", "err", err)
	}
	for _, ln := range []lane{leadership, notification, stuckLane(BecomeLeader), stuckLane(LoseLeadership)} {
		stuck = append(stuck, j.end(ctx, grace, left.Runs[ln])...)
	}
	if owed, ok := j.owed(); ok {
		stuck = append(stuck, j.end(ctx, grace, hooksOf(owed)...)...)
	}
	j.change(func() {}) // what has been ended is forgotten
	return slices.DeleteFunc(stuck, func(e entry) bool { return !e.Hook.ofLeadership() })
}

func (j *journal) end(ctx context.Context, grace time.Duration, orphans ...entry) (stuck []entry) {
	orphans = slices.DeleteFunc(orphans, func(e entry) bool { return !e.alive() })
	for _, e := range orphans {
		j.log().Warn("orphaned hook found", "hook", string(e.Hook), "epoch", e.Epoch, "group", e.Group)
	}
	return endAll(ctx, grace, orphans)
}

// hooksOf finds the hooks of a leadership by what their processes were told.
func hooksOf(epoch Epoch) []entry {
	return groupsOf(entry{Hook: BecomeLeader, Epoch: epoch.Counter, owner: epoch.Owner},
		entry{Hook: LoseLeadership, Epoch: epoch.Counter, owner: epoch.Owner})
}

// groupsOf finds the groups of runs that are known by their marks alone. Whatever has made a
// session of its own has left its hook.
func groupsOf(runs ...entry) (found []entry) {
	for _, pid := range run.Processes() {
		group, err := unix.Getpgid(pid)
		if session, _ := unix.Getsid(pid); err != nil || session == group {
			continue
		}
		for _, e := range runs {
			e.Group, e.Boot = group, run.BootID()
			isKnown := slices.ContainsFunc(found, func(other entry) bool { return other.Group == group })
			if isKnown || !e.isMarked(pid) {
				continue
			}
			if s, err := run.ReadStat(group); err == nil {
				e.Start = s.Start
			}
			found = append(found, e)
		}
	}
	return found
}

// alive reports whether a member of the recorded group still runs. A group of the
// same number that is not the recorded one has no member that matches.
func (e entry) alive() bool {
	if e.Group <= 1 || e.Boot != run.BootID() {
		return false
	}
	for _, pid := range run.Living(e.Group) {
		if e.matches(pid) {
			return true
		}
	}
	return false
}

func (e entry) matches(pid int) bool {
	if pid == e.Group {
		s, err := run.ReadStat(pid)
		return err == nil && e.Start != 0 && s.Start == e.Start
	}
	return e.isMarked(pid)
}

// isMarked reports whether the process was started by this hook, whichever attempt.
func (e entry) isMarked(pid int) bool {
	which := "BULLY_TIME=" + e.Time
	if e.Time == "" {
		which = "BULLY_EPOCH_OWNER=" + e.owner
	}
	return run.HasEnv(pid, "BULLY_EVENT="+string(e.Hook), "BULLY_EPOCH="+strconv.FormatUint(e.Epoch, 10), which)
}

// endAll ends groups whose processes are not our children, all with one grace: between the
// look and the signal they could all end and the number be given away, but only if all
// process numbers were used up in these microseconds. It gives those that live on.
func endAll(ctx context.Context, grace time.Duration, groups []entry) (stuck []entry) {
	for _, e := range groups {
		_ = run.Signal(e.Group, unix.SIGTERM)
		_ = run.Signal(e.Group, unix.SIGCONT)
	}
	left := outlive(ctx, grace, groups)
	left = slices.DeleteFunc(left, func(e entry) bool { return !e.alive() })
	for _, e := range left {
		_ = run.Signal(e.Group, unix.SIGKILL)
	}
	return outlive(context.WithoutCancel(ctx), run.Unkillable, left)
}

// outlive looks until no member of the groups runs, and stops looking after d or when ctx
// ends. It gives the groups that were left then.
func outlive(ctx context.Context, d time.Duration, groups []entry) (left []entry) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(run.PollFirst)
	defer tick.Stop()
	for left = slices.Clone(groups); ; {
		left = slices.DeleteFunc(left, func(e entry) bool { return ctx.Err() == nil && !e.alive() })
		if len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return left
		}
	}
}
