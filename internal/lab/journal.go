package lab

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

// journal is all that happened in one lab, in order. It owns the lab's clock: a record's time is taken while it is
// added, so the times rise. All methods are safe from any goroutine.
type journal struct {
	begun time.Time
	show  func(verdict.Record) // called with each record in order, holding the lock; nil: nobody watches

	mu      sync.Mutex
	records []verdict.Record
	grown   chan struct{} // closed at the next add
}

func newJournal(show func(verdict.Record)) *journal {
	return &journal{begun: time.Now(), show: show, grown: make(chan struct{})}
}

// add appends r, stamped with the present time, and returns it as kept.
func (j *journal) add(r verdict.Record) verdict.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.At = time.Since(j.begun)
	j.records = append(j.records, r)
	close(j.grown)
	j.grown = make(chan struct{})
	if j.show != nil {
		j.show(r)
	}
	return r
}

// mute ends the showing of records.
func (j *journal) mute() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.show = nil
}

// all returns a copy of the records so far.
func (j *journal) all() []verdict.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.records)
}

// mark is a place in the journal, for await: what happens from now on comes after it.
func (j *journal) mark() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.records)
}

// await returns the first record from the mark on that is wanted, or ctx's error.
func (j *journal) await(ctx context.Context, mark int, wanted func(verdict.Record) bool) (verdict.Record, error) {
	for {
		j.mu.Lock()
		fresh, grown := j.records[mark:], j.grown
		j.mu.Unlock()
		if i := slices.IndexFunc(fresh, wanted); i >= 0 {
			return fresh[i], nil
		}
		mark += len(fresh)
		select {
		case <-grown:
		case <-ctx.Done():
			return verdict.Record{}, ctx.Err()
		}
	}
}

// leading lists the become records of the leaderships that last, oldest first: neither lost nor ended by a death.
func (j *journal) leading() []verdict.Record {
	var open []verdict.Record
	for _, r := range j.all() {
		switch r.What {
		case verdict.Became, verdict.Lost, verdict.Killed, verdict.Exited:
			open = slices.DeleteFunc(open, func(o verdict.Record) bool { return o.Node == r.Node })
		}
		if r.What == verdict.Became {
			open = append(open, r)
		}
	}
	return open
}
