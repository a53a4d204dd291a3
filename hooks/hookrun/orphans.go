package hookrun

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/hooks"
	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/run"
)

func newEntry(group int, seq uint64, ev hooks.Event) hooks.Entry {
	e := hooks.Entry{Hook: ev.Kind, Epoch: ev.Epoch.Counter, Seq: seq, Time: hooks.Stamp(ev.Time), Group: group, Boot: run.BootID()}
	if s, err := run.ReadStat(group); err == nil {
		e.Start = s.Start
	}
	return e
}

// endOrphans ends the groups that an earlier life left behind, TERM, grace, KILL, and returns
// when they are gone: a leftover become-leader hook would work against its own lose-leadership
// hook. It gives those of the leadership that KILL has not ended.
func endOrphans(ctx context.Context, e hooks.EndOrphans, log hclog.Logger) (hang []hooks.Hanging) {
	end := func(orphans []hooks.Entry) {
		orphans = slices.DeleteFunc(orphans, func(e hooks.Entry) bool { return !alive(e) })
		for _, o := range orphans {
			log.Warn("orphaned hook found", "hook", string(o.Hook), "epoch", o.Epoch, "group", o.Group)
		}
		for _, o := range endAll(ctx, e.Grace, orphans) {
			if o.Hook.OfLeadership() {
				hang = append(hang, hooks.Hanging{Entry: o, How: run.Stuck(run.Living(o.Group))})
			}
		}
	}
	end(e.Runs)
	if e.Owed != nil {
		end(hooksOf(*e.Owed))
	}
	return hang
}

// hooksOf finds the hooks of a leadership by what their processes were told.
func hooksOf(epoch hooks.Epoch) []hooks.Entry {
	return groupsOf(hooks.Entry{Hook: hooks.BecomeLeader, Epoch: epoch.Counter, Owner: epoch.Owner},
		hooks.Entry{Hook: hooks.LoseLeadership, Epoch: epoch.Counter, Owner: epoch.Owner})
}

// groupsOf finds the groups of runs that are known by their marks alone. Whatever has made a
// session of its own has left its hook.
func groupsOf(runs ...hooks.Entry) (found []hooks.Entry) {
	for _, pid := range run.Processes() {
		group, err := unix.Getpgid(pid)
		if session, _ := unix.Getsid(pid); err != nil || session == group {
			continue
		}
		for _, e := range runs {
			e.Group, e.Boot = group, run.BootID()
			isKnown := slices.ContainsFunc(found, func(other hooks.Entry) bool { return other.Group == group })
			if isKnown || !isMarked(e, pid) {
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
func alive(e hooks.Entry) bool {
	if e.Group <= 1 || e.Boot != run.BootID() {
		return false
	}
	for _, pid := range run.Living(e.Group) {
		if matches(e, pid) {
			return true
		}
	}
	return false
}

func matches(e hooks.Entry, pid int) bool {
	if pid == e.Group {
		s, err := run.ReadStat(pid)
		return err == nil && e.Start != 0 && s.Start == e.Start
	}
	return isMarked(e, pid)
}

// isMarked reports whether the process was started by this hook, whichever attempt.
func isMarked(e hooks.Entry, pid int) bool {
	which := "BULLY_TIME=" + e.Time
	if e.Time == "" {
		which = "BULLY_EPOCH_OWNER=" + e.Owner
	}
	return run.HasEnv(pid, "BULLY_EVENT="+string(e.Hook), "BULLY_EPOCH="+strconv.FormatUint(e.Epoch, 10), which)
}

// endAll ends groups whose processes are not our children, all with one grace: between the
// look and the signal they could all end and the number be given away, but only if all
// process numbers were used up in these microseconds. It gives those that live on.
func endAll(ctx context.Context, grace time.Duration, groups []hooks.Entry) (stuck []hooks.Entry) {
	for _, e := range groups {
		_ = run.Signal(e.Group, unix.SIGTERM)
		_ = run.Signal(e.Group, unix.SIGCONT)
	}
	left := outlive(ctx, grace, groups)
	left = slices.DeleteFunc(left, func(e hooks.Entry) bool { return !alive(e) })
	for _, e := range left {
		_ = run.Signal(e.Group, unix.SIGKILL)
	}
	return outlive(context.WithoutCancel(ctx), ending.Unkillable, left)
}

// outlive looks until no member of the groups runs, and stops looking after d or when ctx
// ends. It gives the groups that were left then.
func outlive(ctx context.Context, d time.Duration, groups []hooks.Entry) (left []hooks.Entry) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(ending.PollFirst)
	defer tick.Stop()
	for left = slices.Clone(groups); ; {
		left = slices.DeleteFunc(left, func(e hooks.Entry) bool { return ctx.Err() == nil && !alive(e) })
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
