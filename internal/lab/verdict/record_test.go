package verdict

import (
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
		12.2 n100 losing 18446744073709551615 lease-expired
		12.25 n100 lost 18446744073709551615 lease-expired
		100 n5 exited`) {
		got.WriteString(r.String() + "\n")
	}
	const want = `  +0.001 s  n1   started
  +2.013 s  n5   became leader  epoch 1  (boot)
  +3.500 s  n5   kill -9
 +12.200 s  n100 lets go  epoch 18446744073709551615  (lease-expired)
 +12.250 s  n100 lost leadership  epoch 18446744073709551615  (lease-expired)
+100.000 s  n5   exited
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func TestEveryKindHasItsWords(t *testing.T) {
	for w := Started; w <= Released; w++ {
		if strings.HasPrefix(w.String(), "what(") || w.Token() == "" {
			t.Errorf("kind %d has no words: %q, %q", w, w, w.Token())
		}
	}
	if got := What(200).String(); got != "what(200)" {
		t.Errorf("an unknown kind is %q", got)
	}
	if got := What(200).Token(); got != "" {
		t.Errorf("an unknown kind has the token %q", got)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		840 * time.Microsecond:    "0.8 ms",
		412400 * time.Microsecond: "412 ms",
		2013 * time.Millisecond:   "2.013 s",
	} {
		if got := Span(d); got != want {
			t.Errorf("Span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	for line, want := range map[string]Record{
		"n1 become-leader.begin 3 id boot 2":             {Node: "n1", What: Became, Epoch: Epoch{3, "id"}, Cause: "boot"},
		"n1 become-leader.end 3 id boot x":               {Node: "n1", What: Succeeded, Epoch: Epoch{3, "id"}, Cause: "boot"},
		"n1 lose-leadership.begin 3 - - x\n":             {Node: "n1", What: Losing, Epoch: Epoch{3, ""}},
		"n1 lose-leadership.end 3 id agent-died x":       {Node: "n1", What: Lost, Epoch: Epoch{3, "id"}, Cause: "agent-died"},
		NoteWords("n1", Exited, "signal: killed") + " 1": {Node: "n1", What: Exited, Cause: "signal: killed"},
		NoteWords("n1", Killed, "") + " 1":               {Node: "n1", What: Killed},
	} {
		if r, _, err := ParseLine(line); err != nil || r != want {
			t.Errorf("%q: %+v, %v, want %+v", line, r, err, want)
		}
	}
	for line, want := range map[string]string{
		"":                                   "1 words",
		"n1 become-leader.begin 1 id":        "4 words",
		"n1 member-change.begin 1 id boot 1": `unknown event "member-change.begin"`,
		"n1 became-leader 1 id boot 1":       `unknown event "became-leader"`,
		"n1 become-leader.begin -1 id x 1":   `epoch "-1" is no number`,
		"n1 lose-leadership.end  id x 1":     `epoch "" is no number`,
	} {
		if _, _, err := ParseLine(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}
