package agent

import (
	"context"
	"errors"
	"time"

	"github.com/bully-agent/bully-agent/election"
	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/durable"
	"github.com/bully-agent/bully-agent/wire"
)

// diskRetry is how soon a failed save is tried again.
const diskRetry = time.Second

// lastFiles is how long an agent that stops waits for what is being written: a disk that hangs must not keep it from that. Arbitrary.
const lastFiles = time.Second

// untilDisk runs what writes files until ctx ends, and waits then for its last write, but not for a disk that hangs.
func untilDisk(ctx context.Context, run func(context.Context)) {
	over := make(chan struct{})
	go func() { defer close(over); run(ctx) }()
	<-ctx.Done()
	select {
	case <-over:
	case <-time.After(lastFiles):
	}
}

// save writes the state and measures how long that takes.
func (s *seat) save(state election.Saved) error {
	if state.Promoted.IsZero() {
		state.Promoted = s.debt
	}
	begun, was := s.around.now(), s.state.saved.Roster
	err := s.write(begun, state)
	s.diskTook = max(s.diskTook, s.around.now().Sub(begun))
	if err == nil {
		s.tellForgotten(was, state.Roster)
	}
	return err
}

// write is where the loop waits for its disk, for as long as that takes; everybody else sees that it does.
func (s *seat) write(now time.Time, state election.Saved) error {
	defer s.waits.begin(waitedForDisk, now)()
	return s.state.write(state)
}

// tellDisk tells the node how long a save took, once the step that
// asked for it is done (M10).
func (s *seat) tellDisk() {
	took := s.diskTook
	s.diskTook = 0
	if took > 0 {
		s.step(election.DiskTimed{Took: took})
	}
}

// onSaveFailed: the rest of the step's effects are dropped, and the node is
// told.
func (s *seat) onSaveFailed(e election.SaveFailed, err error) {
	s.onDiskFailed(err)
	s.step(e)
}

// onDiskFailed says once that the disk takes no writes, and has it tried again.
func (s *seat) onDiskFailed(err error) {
	if s.diskAt.IsZero() {
		s.log.Error("state not saved; this agent cannot lead until it is", "err", err)
		s.around.event(control.Event{Type: "warning", Cause: string(election.DiskFailed), Text: "state not saved: " + err.Error()})
	}
	s.diskAt, s.diskWhy = s.around.now().Add(diskRetry), err.Error()
}

// diskNote says that the disk takes no writes.
func (s *seat) diskNote() string {
	return "the state directory takes no writes: this agent cannot lead until it does: " + s.diskWhy
}

// retrySave tries the disk again after a failure.
func (s *seat) retrySave() {
	if s.diskAt.IsZero() || s.around.now().Before(s.diskAt) {
		return
	}
	err := s.write(s.around.now(), s.state.saved)
	if err == nil {
		err = s.runner.TryRecording()
	}
	if err != nil {
		s.diskAt = s.around.now().Add(diskRetry)
		return
	}
	s.diskAt = time.Time{}
	s.log.Info("state saved again")
	s.step(election.SaveRecovered{})
}

// forgetPromoted: a lose hook that has succeeded need not run at the next start.
func (s *seat) forgetPromoted(r hooks.Result) {
	saved := s.state.saved
	if !r.OK || saved.Promoted.Counter != r.Epoch {
		return
	}
	saved.Promoted = wire.Epoch{}
	if err := s.write(s.around.now(), saved); err != nil {
		s.log.Warn("state not saved; the lose hook will run again at the next start", "err", err)
	}
}

// tellForgotten says it once, when it has come to this host's disk.
func (s *seat) tellForgotten(was, is election.Roster) {
	if s.tally.isForgotten(was) || !s.tally.isForgotten(is) {
		return
	}
	text := s.tally.forgottenBy(is)
	s.log.Warn(text)
	s.around.event(control.Event{Type: "warning", Cause: "forgotten", Text: text})
}

// checkExpect obeys M9: a quorum of five voters and one of three need not have
// a voter in common, so expect moves by one at a time, each time with a roster
// that holds.
func checkExpect(expect int, r election.Roster) error {
	voters := len(r.IDs)
	if expect == 0 || r.Version == 0 || (expect-voters <= 1 && voters-expect <= 1) {
		return nil
	}
	return refusal("change expect by one at a time, and forget voters that are gone; a new cluster needs new state directories on all hosts",
		"expect is %d and the roster on disk has %d voters: they may differ by one", expect, voters)
}

// hintDamaged says what to do about a state file that cannot be read. A voter
// whose disk holds what it held some time ago has forgotten what it promised
// since, and could grant it again: in quorum mode only a new id is safe.
func hintDamaged(err error, isQuorum bool, name string) error {
	var refused *Refusal
	switch {
	case !errors.As(err, &refused):
	case errors.Is(err, durable.ErrNewer):
		refused.Hint = "start that version again"
	case !errors.Is(err, durable.ErrCorrupt) && !errors.Is(err, errSense):
	case isQuorum:
		refused.Hint = "move the file away, start the agent as a new node, and forget " + name + " on the leader to free its place; " +
			"restore no backup: it lacks this voter's promises"
	default:
		refused.Hint = "move it away: the agent starts with a new id, and learns the epoch from the others; " +
			"restore a backup only if no other host has run since"
	}
	return err
}
