package lab

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// measure inflicts each fault on the leader Repeat times, and prints how long it took until another node's
// become-leader hook ran. Between two runs the cluster is whole and agreed again.
//
// A measured time runs from just before the system call of the fault to the arrival of the hook's line: it contains the
// detection, the election, the start of a shell and its printf.
func (l *lab) measure(ctx context.Context) error {
	if !l.JSON {
		runs := "one run"
		if l.Repeat > 1 {
			runs = fmt.Sprintf("%d runs", l.Repeat)
		}
		fmt.Fprintf(l.Out, "from the fault to the become-leader hook on another node, %s each\n\n", runs)
	}
	if _, err := l.settle(ctx, l.wholeAgain()); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return l.report(findings{failed: err})
	}
	idle, err := l.spawner.startBusy(l.Busy)
	defer idle()
	if err != nil {
		return err
	}
	var all []samples
	var failed error
	for _, fault := range l.faults() {
		s := samples{fault: fault}
		for run := 1; run <= l.Repeat && failed == nil; run++ {
			l.progress("%*d/%d %s … ", len(fmt.Sprint(l.Repeat)), run, l.Repeat, fault)
			r, err := l.once(ctx, fault)
			if err != nil {
				l.progress("\n")
				failed = fmt.Errorf("run %d of %s: %w", run, fault, err)
				break
			}
			s.rounds = append(s.rounds, r)
		}
		all = append(all, s)
	}
	if ctx.Err() != nil {
		return failed
	}
	if failed == nil {
		_, failed = l.settle(ctx, l.wholeAgain()) // the verdict wants to see how the last run ended
	}
	return l.report(findings{failed: failed, samples: all})
}

// wholeAgain is the state that each run begins in.
func (l *lab) wholeAgain() demand {
	return demand{best: l.Preempt != "never", lowest: l.Algorithm == "smallest", whole: true}
}

// once is one run: settle, inflict, measure, mend.
func (l *lab) once(ctx context.Context, fault string) (round, error) {
	leader, err := l.settle(ctx, l.wholeAgain())
	if err != nil {
		return round{}, err
	}
	n, err := l.node(leader)
	if err != nil {
		return round{}, err
	}
	// Settling looks at the agents in step with their heartbeats, perhaps. A fault strikes at any time.
	if err := sleep(ctx, rand.N(leases[l.Profile]/2)); err != nil {
		return round{}, err
	}
	mark := l.journal.mark()
	begun, err := n.inflict(fault)
	if err != nil {
		return round{}, err
	}
	heir, err := l.successor(ctx, n, mark)
	if err != nil {
		return round{}, err
	}
	l.progress("%s, %s leads after %s\n", n.name, heir.Node, verdict.Span(heir.At-begun.At))
	if fault == faultPause {
		// Past its lease for certain, so that each run wakes to the same situation.
		if err := sleep(ctx, leases[l.Profile]); err != nil {
			return round{}, err
		}
	}
	if err := l.mend(ctx, n, fault, mark); err != nil {
		return round{}, err
	}
	return newRound(begun, heir, l.journal.all()[mark:]), nil
}

// successor waits until another node than n has become leader.
func (l *lab) successor(ctx context.Context, n *node, mark int) (verdict.Record, error) {
	limit, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	r, err := l.journal.await(limit, mark, func(r verdict.Record) bool { return r.What == verdict.Became && r.Node != n.name })
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("nobody has taken over from %s within %v", n.name, l.patience())
	}
	return r, err
}
