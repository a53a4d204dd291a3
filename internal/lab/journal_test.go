package lab

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bully-agent/bully-agent/internal/lab/verdict"
)

func TestJournalAwaits(t *testing.T) {
	j := newJournal(nil)
	j.add(verdict.Record{Node: "n1", What: verdict.Started})
	mark := j.mark()
	go func() {
		j.add(verdict.Record{Node: "n1", What: verdict.Became})
		j.add(verdict.Record{Node: "n2", What: verdict.Started})
	}()
	r, err := j.await(t.Context(), mark, func(r verdict.Record) bool { return r.What == verdict.Started })
	if err != nil || r.Node != "n2" {
		t.Errorf("awaited %v, %v: want the start of n2, since that of n1 is before the mark", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := j.await(ctx, mark, func(r verdict.Record) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("await for nothing: %v, want %v", err, context.Canceled)
	}
	if !slices.IsSortedFunc(j.all(), func(a, b verdict.Record) int { return int(a.At - b.At) }) {
		t.Error("the times do not rise")
	}
}

func TestWhoLeadsAtTheMoment(t *testing.T) {
	j := newJournal(nil)
	steps := []struct {
		r    verdict.Record
		want string
	}{
		{verdict.Record{Node: "n3", What: verdict.Became, Epoch: verdict.Epoch{Counter: 1, Owner: "c"}}, "n3"},
		{verdict.Record{Node: "n3", What: verdict.Paused}, "n3"},
		{verdict.Record{Node: "n2", What: verdict.Became, Epoch: verdict.Epoch{Counter: 2, Owner: "b"}}, "n3 n2"},
		{verdict.Record{Node: "n3", What: verdict.Lost, Epoch: verdict.Epoch{Counter: 1, Owner: "c"}}, "n2"},
		{verdict.Record{Node: "n3", What: verdict.Became, Epoch: verdict.Epoch{Counter: 3, Owner: "c"}}, "n2 n3"},
		{verdict.Record{Node: "n2", What: verdict.Exited}, "n3"},
		{verdict.Record{Node: "n3", What: verdict.Killed}, ""},
	}
	for _, s := range steps {
		j.add(s.r)
		var names []string
		for _, r := range j.leading() {
			names = append(names, r.Node)
		}
		if got := strings.Join(names, " "); got != s.want {
			t.Errorf("after %v: %q leads, want %q", s.r, got, s.want)
		}
	}
}
