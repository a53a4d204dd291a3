package systemd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// End has systemd stop the unit, whoever has started it, and returns when the unit and all that is PartOf= it is down. What
// is down, or not there, has ended. What is still about to stop shortly before ctx ends gets KILL: by then another host may
// start it. An error says what is left at the end of ctx.
func (u *Unit) End(ctx context.Context) error {
	if ParseUnit(u.name) != nil {
		return nil // nothing of such a name can run
	}
	last := killFrom(ctx)
	for {
		left, err := u.stop(ctx, last)
		switch {
		case errors.Is(err, errNone), err == nil && left == "":
			return nil
		case ctx.Err() != nil && left != "":
			return fmt.Errorf("unit %s does not stop: %s", u.name, left)
		case ctx.Err() != nil, isDenied(err):
			return u.explain(err)
		}
		select { // D-Bus has gone: the unit has not for that reason
		case <-time.After(firstPause):
		case <-ctx.Done():
			return u.explain(err)
		}
	}
}

// killRoom is what KILL has at most of the time of an end, of which it has a quarter. Arbitrary: the kernel and systemd need some
// milliseconds, and a busy host more.
const killRoom = time.Second

// killFrom is when KILL is due; the zero time: never, since nothing bounds the end.
func killFrom(ctx context.Context) time.Time {
	by, isBound := ctx.Deadline()
	if !isBound {
		return time.Time{}
	}
	return by.Add(-min(time.Until(by)/4, killRoom))
}

// stop works at it with one connection. It returns what was left when that, or ctx, ended; empty: nothing.
func (u *Unit) stop(ctx context.Context, last time.Time) (left string, err error) {
	b, err := u.dial(ctx, newEar())
	if err != nil {
		return "", err
	}
	defer b.close()
	asked, killed := map[string]bool{}, map[string]bool{}
	for {
		all, err := u.see(ctx, b)
		if err != nil {
			return left, err
		}
		if left = b.left(ctx, all); left == "" {
			return "", nil
		}
		if err := b.stopAll(ctx, all, asked); err != nil {
			return left, err
		}
		rest := lookEverySoon
		switch untilLast := time.Until(last); {
		case last.IsZero():
		case untilLast > 0:
			rest = min(rest, untilLast)
		case b.killAll(ctx, all, killed):
			u.note(fmt.Sprintf("unit %s has not stopped in its time, and got KILL: %s", u.name, left))
		}
		isSame, err := b.watch(ctx, all)
		if err != nil {
			return left, err
		}
		if isSame && !b.wait(ctx, rest) {
			return left, errGone
		}
	}
}

// killAll sends KILL to those that are about to stop, as systemd does after TimeoutStopSec=. Those that wait for them may still
// stop well. Each gets it once: its ExecStopPost=, which comes after it, is to clear up. isNew: there was one.
func (b *bus) killAll(ctx context.Context, all []facts, killed map[string]bool) (isNew bool) {
	for _, f := range all {
		whom := map[string]string{"control-group": "all", "mixed": "all", "process": "main"}[f.ends]
		if f.active == "deactivating" && whom != "" && !killed[f.name] {
			_ = b.order(ctx, "KillUnit", f.name, whom, int32(syscall.SIGKILL)) // its last process may have ended
			killed[f.name], isNew = true, true
		}
	}
	return isNew
}

// stopAll orders the unit to stop, and what is PartOf= it with it; once the unit is down, what of that is not, and is not
// about to. Each is ordered again when it is up without a job: somebody has started it meanwhile.
func (b *bus) stopAll(ctx context.Context, all []facts, asked map[string]bool) error {
	for i, f := range all {
		isFirst := !asked[f.name] && (i == 0 || f.active == "activating") // the job may be to start it
		isDue := !f.isDown() && (isFirst || !f.hasJob)
		if !isDue || i > 0 && !all[0].isDown() {
			continue
		}
		if err := b.stop(ctx, f.name); err != nil {
			return err
		}
		asked[f.name] = true
	}
	return nil
}

// left names the first that is not down; empty: all are.
func (b *bus) left(ctx context.Context, all []facts) string {
	for i, f := range all {
		said := ""
		switch {
		case !f.isDown():
			said = "it is " + f.String()
		case f.active == "failed" && f.endsAll():
			if pids := b.remaining(ctx, f.name); len(pids) > 0 {
				said = fmt.Sprintf("KILL did not end its processes %d", pids)
			}
		}
		if said != "" && i > 0 {
			return fmt.Sprintf("its part %s: %s", f.name, said)
		}
		if said != "" {
			return said
		}
	}
	return ""
}

// endsAll reports whether systemd ends all processes of the unit when it stops it. What another KillMode= spares is the
// administrator's to know.
func (f facts) endsAll() bool { return slices.Contains([]string{"control-group", "mixed"}, f.ends) }
