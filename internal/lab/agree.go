package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/internal/control"
	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// view is what one agent answers when it is asked; err says that it did not.
type view struct {
	node   *node
	status control.Status
	err    error
}

const (
	askTimeout = 500 * time.Millisecond // a running agent answers within a millisecond or two
	askEvery   = 50 * time.Millisecond

	complainEvery = 5 * time.Second
)

// ask asks the nodes for their status, all at once.
func ask(ctx context.Context, nodes []*node) []view {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	views := make([]view, len(nodes))
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() {
			status, err := n.client.Status(ctx)
			views[i] = view{n, status, err}
		})
	}
	group.Wait()
	return views
}

// demand is what an agreement must satisfy beyond unanimity.
type demand struct {
	leader string // this one leads; "" for anyone
	best   bool   // nobody that outranks it is about to displace it
	lowest bool   // the one with the lowest priority outranks the others
	whole  bool   // everybody knows of everybody
}

// agreement returns whom all views name as the leader; else the error is what is missing.
func agreement(views []view, d demand) (string, verdict.Epoch, error) {
	if len(views) == 0 {
		return "", verdict.Epoch{}, errors.New("no agent can be reached")
	}
	var leader string
	var e control.Epoch
	for i, v := range views {
		switch {
		case v.err != nil:
			return "", verdict.Epoch{}, fmt.Errorf("%s does not answer yet", v.node.name)
		case v.status.Leader == nil:
			return "", verdict.Epoch{}, fmt.Errorf("%s knows no leader yet", v.node.name)
		case i == 0:
			leader, e = v.status.Leader.Name, v.status.Epoch
		case v.status.Leader.Name != leader:
			return "", verdict.Epoch{}, fmt.Errorf("%s follows %s, %s follows %s", views[0].node.name, leader, v.node.name, v.status.Leader.Name)
		case v.status.Epoch != e:
			return "", verdict.Epoch{}, fmt.Errorf("%s is in epoch %d, %s in epoch %d", views[0].node.name, e.Counter, v.node.name, v.status.Epoch.Counter)
		}
	}
	return leader, verdict.Epoch{Counter: e.Counter, Owner: e.Owner}, d.unmet(leader, views)
}

// unmet is what the demand misses in views that agree on leader; nil if nothing.
func (d demand) unmet(leader string, views []view) error {
	if d.leader != "" && leader != d.leader {
		return fmt.Errorf("%s leads, not %s", leader, d.leader)
	}
	last := len(views) - 1 // priority rises with the number
	if d.lowest {
		last = 0
	}
	if best := views[last].node.name; d.best && leader != best {
		return fmt.Errorf("%s leads, %s has not taken over yet", leader, best)
	}
	led := false
	for _, v := range views {
		switch {
		case v.node.name == leader && !(v.status.LeaderIsSelf && v.status.Ready):
			return fmt.Errorf("%s has not become leader yet", leader)
		case d.whole && v.status.Alive < len(views):
			return fmt.Errorf("%s knows %d of %d agents", v.node.name, v.status.Alive, len(views))
		}
		led = led || v.node.name == leader
	}
	if !led {
		return fmt.Errorf("%s is taken for the leader, and cannot be reached", leader)
	}
	return nil
}

// settle waits until all reachable agents agree, their leader's hook has been heard, and both still holds a moment
// later. It records the agreement.
func (l *lab) settle(ctx context.Context, d demand) (string, error) {
	limit, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	complain := time.Now().Add(complainEvery)
	why := errors.New("the leader changes all the time")
	for before := (verdict.Epoch{}); ; {
		leader, e, missing := agreement(ask(limit, l.reachable()), d)
		if missing == nil {
			missing = l.heard(leader, e)
		}
		switch {
		case missing != nil:
			before, why = verdict.Epoch{}, missing
		case e == before:
			l.journal.add(verdict.Record{Node: leader, What: verdict.Agreed, Epoch: e})
			return leader, nil
		default:
			before = e
		}
		if err := l.crashed(); err != nil {
			return "", err
		}
		if time.Now().After(complain) {
			l.complain(why)
			complain = time.Now().Add(complainEvery)
		}
		if sleep(limit, askEvery) != nil {
			return "", cmp.Or(ctx.Err(), fmt.Errorf("no agreement within %v: %w", l.patience(), why))
		}
	}
}

// complain says what a wait is for, within the line of a run that --fault has begun.
func (l *lab) complain(missing error) {
	if l.Fault != "" {
		l.progress("still waiting: %v … ", missing)
		return
	}
	l.progress("still waiting: %v\n", missing)
}

// heard wants the journal to have the hook of the leadership that the agents report.
func (l *lab) heard(leader string, e verdict.Epoch) error {
	if slices.ContainsFunc(l.journal.leading(), func(r verdict.Record) bool { return r.Node == leader && r.Epoch == e }) {
		return nil
	}
	return fmt.Errorf("the become-leader hook of %s has not been heard yet", leader)
}

// crashed tells of an agent that ended by itself.
func (l *lab) crashed() error {
	for _, n := range l.nodes {
		if how, unasked := n.crashed(); unasked {
			return fmt.Errorf("%s ended by itself, %s: %s", n.name, how, n.lastWords())
		}
	}
	return nil
}

// sleep waits for d, or returns ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
