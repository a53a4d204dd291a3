package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// journal records on disk which process groups run now, so that the next life of
// the agent can end those that this one left behind by crashing (M18). It is
// written right after a start, when the group's id is known, and synced with its
// directory; a crash within that moment leaves a group that nobody finds. Clearing is not synced: an entry that outlives its group matches
// no process any more.
//
// Safe for concurrent use. Writes are done by the backlog; only the newest state
// counts.
type journal struct {
	path    string // empty: nothing is recorded
	backlog *backlog
	log     func() hclog.Logger

	mu      sync.Mutex
	entries map[lane]entry
	pending bool // Invariant: true while a write that will see entries is queued
}

const journalName = "hook-journal.json"

// entry identifies a group beyond the reuse of its number: by its first process's
// start time, and by two variables in its members' environment for when the first
// process has ended before the others.
type entry struct {
	Hook  Kind   `json:"hook"`
	Epoch uint64 `json:"epoch"`
	Seq   uint64 `json:"seq"`
	Time  string `json:"time"` // BULLY_TIME
	Group int    `json:"group"`
	Start uint64 `json:"start"` // clock ticks since boot; 0: unknown
	Boot  string `json:"boot"`
}

func newEntry(group int, seq uint64, ev Event) entry {
	e := entry{Hook: ev.Kind, Epoch: ev.Epoch.Counter, Seq: seq, Time: stamp(ev.Time), Group: group, Boot: bootID()}
	if s, err := readStat(group); err == nil {
		e.Start = s.start
	}
	return e
}

func (j *journal) record(ln lane, e entry) { j.change(func() { j.entries[ln] = e }) }

func (j *journal) clear(ln lane) { j.change(func() { delete(j.entries, ln) }) }

func (j *journal) change(apply func()) {
	if j.path == "" {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	apply()
	if !j.pending {
		j.pending = true
		j.backlog.add(j.write)
	}
}

// write brings the file to the newest state; it runs on the backlog.
func (j *journal) write() {
	j.mu.Lock()
	j.pending = false
	var text []byte
	var err error
	if len(j.entries) > 0 {
		text, err = json.Marshal(j.entries)
	}
	j.mu.Unlock()
	switch {
	case err != nil:
	case text == nil:
		err = j.remove()
	default:
		err = writeSynced(j.path, text)
	}
	if err != nil {
		j.log().Error("hook journal not written", "err", err)
	}
}

func (j *journal) remove() error {
	if err := os.Remove(j.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeSynced replaces a file and syncs its directory, which renameio does not.
func writeSynced(path string, text []byte) error {
	in := filepath.Dir(path)
	err := renameio.WriteFile(path, text, 0o600, renameio.WithStaticPermissions(0o600), renameio.WithTempDir(in))
	if err != nil {
		return err
	}
	dir, err := os.Open(in)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// load reads what an earlier life left. No file is no entries.
func (j *journal) load() (map[lane]entry, error) {
	if j.path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load hook journal: %w", err)
	}
	var left map[lane]entry
	if err := json.Unmarshal(text, &left); err != nil {
		return nil, fmt.Errorf("load hook journal: %s: %w", j.path, err)
	}
	return left, nil
}

// endOrphans ends the groups that an earlier life left behind, TERM, grace, KILL,
// and returns when they are gone. It must be called before the first hook runs:
// a leftover become-leader hook would work against its own lose-leadership hook.
func (j *journal) endOrphans(ctx context.Context, grace time.Duration) {
	left, err := j.load()
	if err != nil {
		j.log().Error("hook journal not read, orphaned hooks may still run", "err", err)
	}
	for _, ln := range []lane{leadership, notification} {
		if e, ok := left[ln]; ok && e.alive() {
			j.log().Warn("orphaned hook found", "hook", string(e.Hook), "epoch", e.Epoch, "group", e.Group)
			e.end(ctx, grace)
		}
	}
	if err := j.remove(); err != nil && j.path != "" {
		j.log().Error("hook journal not removed", "err", err)
	}
}

// alive reports whether a member of the recorded group still runs. A group of the
// same number that is not the recorded one has no member that matches.
func (e entry) alive() bool {
	if e.Group <= 1 || e.Boot != bootID() {
		return false
	}
	for _, pid := range living(e.Group) {
		if e.matches(pid) {
			return true
		}
	}
	return false
}

func (e entry) matches(pid int) bool {
	if pid == e.Group {
		s, err := readStat(pid)
		return err == nil && e.Start != 0 && s.start == e.Start
	}
	return hasEnv(pid, "BULLY_SEQ="+strconv.FormatUint(e.Seq, 10), "BULLY_TIME="+e.Time)
}

// end signals a group whose processes are not our children: between the look and
// the signal they could all end and the number be given away, but only if all
// process numbers were used up in these microseconds.
func (e entry) end(ctx context.Context, grace time.Duration) {
	_ = signalGroup(e.Group, unix.SIGTERM)
	_ = signalGroup(e.Group, unix.SIGCONT)
	if e.goneWithin(ctx, grace) || !e.alive() {
		return
	}
	_ = signalGroup(e.Group, unix.SIGKILL)
	e.goneWithin(context.WithoutCancel(ctx), unkillable)
}

// goneWithin looks until no member runs; it stops looking after d or when ctx ends.
func (e entry) goneWithin(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(pollFirst)
	defer tick.Stop()
	for e.alive() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
