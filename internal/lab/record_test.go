package lab

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTimeline(t *testing.T) {
	var got strings.Builder
	for _, r := range history(t, `
		0.001 n1 started
		2.013 n5 became 1 boot
		3.5 n5 killed
		12.25 n100 lost 18446744073709551615 lease-expired
		100 n5 exited`) {
		got.WriteString(r.String() + "\n")
	}
	const want = `  +0.001 s  n1   started
  +2.013 s  n5   became leader  epoch 1  (boot)
  +3.500 s  n5   kill -9
 +12.250 s  n100 lost leadership  epoch 18446744073709551615  (lease-expired)
+100.000 s  n5   exited
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func TestEveryKindHasItsWords(t *testing.T) {
	for w := started; w <= agreed; w++ {
		if strings.HasPrefix(w.String(), "what(") || tokens[w] == "" {
			t.Errorf("kind %d has no words: %q, %q", w, w, tokens[w])
		}
	}
	if got := what(200).String(); got != "what(200)" {
		t.Errorf("an unknown kind is %q", got)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		840 * time.Microsecond:    "0.8 ms",
		412400 * time.Microsecond: "412 ms",
		2013 * time.Millisecond:   "2.013 s",
	} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestJournalAwaits(t *testing.T) {
	j := newJournal(nil)
	j.add(record{node: "n1", what: started})
	mark := j.mark()
	go func() {
		j.add(record{node: "n1", what: became})
		j.add(record{node: "n2", what: started})
	}()
	r, err := j.await(t.Context(), mark, func(r record) bool { return r.what == started })
	if err != nil || r.node != "n2" {
		t.Errorf("awaited %v, %v: want the start of n2, since that of n1 is before the mark", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := j.await(ctx, mark, func(r record) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("await for nothing: %v, want %v", err, context.Canceled)
	}
	if !slices.IsSortedFunc(j.all(), func(a, b record) int { return int(a.at - b.at) }) {
		t.Error("the times do not rise")
	}
}

func TestWhoLeadsAtTheMoment(t *testing.T) {
	j := newJournal(nil)
	steps := []struct {
		r    record
		want string
	}{
		{record{node: "n3", what: became, epoch: epoch{1, "c"}}, "n3"},
		{record{node: "n3", what: paused}, "n3"},
		{record{node: "n2", what: became, epoch: epoch{2, "b"}}, "n3 n2"},
		{record{node: "n3", what: lost, epoch: epoch{1, "c"}}, "n2"},
		{record{node: "n3", what: became, epoch: epoch{3, "c"}}, "n2 n3"},
		{record{node: "n2", what: exited}, "n3"},
		{record{node: "n3", what: killed}, ""},
	}
	for _, s := range steps {
		j.add(s.r)
		var names []string
		for _, r := range j.leading() {
			names = append(names, r.node)
		}
		if got := strings.Join(names, " "); got != s.want {
			t.Errorf("after %v: %q leads, want %q", s.r, got, s.want)
		}
	}
}
