package holder

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bully-agent/bully-agent/internal/ending"
	"github.com/bully-agent/bully-agent/internal/sidecar"
)

func TestMessagesAreReadAsTheyWereWritten(t *testing.T) {
	for _, m := range []letter{{Terms: Terms{Deadline: time.Unix(0, 1<<62)}}, {}, {Stop: true, Cause: "lease-expired", Due: time.Unix(0, 5)},
		{Signal: int(unix.SIGHUP), Terms: Terms{StartBy: second(7)}}} {
		var got letter
		if err := sidecar.Decode(encode(m), &got); err != nil || string(encode(got)) != string(encode(m)) || !got.Deadline.Equal(m.Deadline) || !got.Due.Equal(m.Due) {
			t.Errorf("%+v was read as %+v (%v)", m, got, err)
		}
	}
}

func TestAReportFitsAMessage(t *testing.T) {
	long := strings.Repeat("\x01", 10_000)
	r := Report{Loss: long, Err: long}
	for _, m := range []any{r, letter{Cause: long}} {
		if n := len(encode(m)); n > maxMessage {
			t.Errorf("%T of %d bytes", m, n)
		}
	}
	if r.Err != long {
		t.Error("what is recorded was cut, too")
	}
}

// A caller that is stopped between its own look at the clock and the conversion
// must not get a later deadline for that.
func TestConvertErrsOnTheSafeSide(t *testing.T) {
	const pause = time.Hour
	late := func() time.Time { return clock().Add(pause) } // the clock is read an hour after ours
	deadline := clock().Add(2 * pause)
	if got := sidecar.Convert(deadline, late).Sub(now()); got > pause {
		t.Errorf("%v are left, want an hour at most", got)
	}
	if got := sidecar.Convert(time.Time{}, nil); !got.IsZero() {
		t.Errorf("no deadline became %v", got)
	}
	if got := sidecar.Convert(clock().Add(-1000*time.Hour), clock); sidecar.Nano(got) != 1 || got.After(now()) {
		t.Errorf("a deadline long ago became %v, which must not be none", got)
	}
}

// second is one on the clock; 0 is none.
func second(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

func TestEarlier(t *testing.T) {
	for _, tt := range [][3]int64{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {4, 5, 4}, {5, 4, 4}} {
		if got := earlier(second(tt[0]), second(tt[1])); got != second(tt[2]) {
			t.Errorf("earlier of %d and %d is %v", tt[0], tt[1], got)
		}
	}
}

// KILL is sent in time for all to be dead when it must, and TERM before it.
func TestWhenKillFollowsTerm(t *testing.T) {
	for _, tt := range []struct {
		name  string
		h     holding
		grace time.Duration
		after time.Duration
	}{
		{"no deadline", holding{}, 5 * time.Second, 5 * time.Second},
		{"a far deadline", holding{terms: Terms{Deadline: second(100)}}, 5 * time.Second, 5 * time.Second},
		{"a deadline", holding{terms: Terms{Deadline: second(11)}}, 5 * time.Second, time.Second - ending.KillSlack},
		{"stop within", holding{terms: Terms{Deadline: second(99)}, due: second(10).Add(100 * time.Millisecond)}, 5 * time.Second, 90 * time.Millisecond},
		{"a deadline that has passed", holding{terms: Terms{Deadline: second(9)}}, 5 * time.Second, ending.MinGrace},
	} {
		h := tt.h
		h.asked, h.order = second(10), &order{Grace: tt.grace}
		l := h.limit()
		if got := l.KillBy(h.asked).Sub(h.asked); got != tt.after {
			t.Errorf("%s: %v after TERM, want %v", tt.name, got, tt.after)
		}
	}
}

// A further Stop can only shorten the time; one without a bound leaves it.
func TestAFurtherStopOnlyShortens(t *testing.T) {
	for _, tt := range []struct{ first, then, want int64 }{{10, 20, 10}, {20, 10, 10}, {10, 0, 10}, {0, 10, 10}, {0, 0, 0}} {
		h := holding{asked: second(1)}
		h.obey(letter{Stop: true, Due: second(tt.first)})
		h.obey(letter{Stop: true, Due: second(tt.then)})
		if h.due != second(tt.want) {
			t.Errorf("due at %d, and then at %d: it is due at %v, want %d", tt.first, tt.then, h.due, tt.want)
		}
	}
}

func TestWhenASilentAgentIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		order  order
		before time.Duration
	}{
		{order{Budget: 100 * time.Millisecond, Grace: 5 * time.Second}, 100 * time.Millisecond},
		{order{Budget: 100 * time.Millisecond, Grace: 10 * time.Millisecond}, 30 * time.Millisecond},
	} {
		h := holding{order: &tt.order, terms: Terms{Deadline: second(3600)}}
		if got := h.terms.Deadline.Sub(h.askBy()); got != tt.before {
			t.Errorf("%+v: %v before the deadline, want %v", tt.order, got, tt.before)
		}
	}
}

// A holder that did not get to run between its look at what was said and its judgement has not heard the renewals of that time.
func TestAHolderIsNotSilentItself(t *testing.T) {
	agent, theirs, err := sidecar.SocketPair("holder")
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	defer theirs.Close()
	h := holding{order: &order{}, terms: Terms{Deadline: second(10)}, alive: true, socket: int(theirs.Fd())}
	h.judge(second(9)) // and it comes to that long after its deadline
	if !h.asked.IsZero() {
		t.Error("it judges by a time until which it has not heard what was said")
	}
	if _, err := agent.Write(encode(letter{Terms: Terms{Deadline: second(20)}})); err != nil {
		t.Fatal(err)
	}
	h.judge(second(19))
	if !h.asked.IsZero() {
		t.Error("it has not heard the renewal that waited")
	}
	h.judge(second(20))
	if h.asked.IsZero() || !h.report.Silent {
		t.Errorf("the agent is not silent: %+v", h.report)
	}
}

// Nor does it give a start up for that.
func TestASilentHolderStarts(t *testing.T) {
	agent, theirs, err := sidecar.SocketPair("holder")
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	defer theirs.Close()
	h := holding{order: &order{}, terms: Terms{Deadline: second(10)}, alive: true, socket: int(theirs.Fd())}
	if _, err := agent.Write(encode(letter{Terms: Terms{Deadline: second(20)}})); err != nil {
		t.Fatal(err)
	}
	if h.isOver(second(15)) { // and it comes to that long after both
		t.Errorf("it judges by a time until which it has not heard what was said: %+v", h.report)
	}
	if !h.isOver(second(20)) || !h.report.Silent || h.report.Cause != AgentDied {
		t.Errorf("the agent is not silent: %+v", h.report)
	}
}

func TestReportsForPeople(t *testing.T) {
	for _, tt := range []struct {
		r    Report
		want string
	}{
		{Report{Stage: Prepared}, "prepared"},
		{Report{Stage: Running, Group: 12}, "running in process group 12"},
		{Report{Stage: Ended, Group: 12, Exit: 3}, "ended with exit code 3"},
		{Report{Stage: Ended, Group: 12, Exit: -1, Signal: 15, Cause: "stepped-down"}, "ended by signal 15, cause stepped-down"},
		{Report{Stage: Ended, Exit: -1, Err: "no such file"}, "ended: no such file"},
	} {
		if got := tt.r.String(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// A crash cuts the last line; what came before it counts. A record without a line
// started nothing.
func TestRecordsAfterACrash(t *testing.T) {
	dir := t.TempDir()
	rec, err := create(Config{Records: dir, Name: "job", Epoch: rigEpoch})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rec.note(Report{Stage: Prepared}, true), rec.note(Report{Stage: Running, Group: 1 << 30}, false)); err != nil {
		t.Fatal(err)
	}
	if _, err := rec.file.WriteString(`{"name":"job","mark":"x","rep`); err != nil {
		t.Fatal(err)
	}
	rec.file.Close()
	empty := filepath.Join(dir, "holder-empty.json")
	if err := errors.Join(os.WriteFile(empty, nil, 0o600), os.WriteFile(filepath.Join(dir, "other.json"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	got, err := left(t.Context(), dir)
	if err != nil || len(got) != 1 || got[0].Report.Group != 1<<30 || got[0].Epoch != rigEpoch || got[0].Name != "job" {
		t.Errorf("%+v (%v)", got, err)
	}
	if _, err := os.Stat(empty); err == nil {
		t.Error("the empty record is still there")
	}
	if got, err := left(t.Context(), filepath.Join(dir, "missing")); err != nil || got != nil {
		t.Errorf("no directory: %+v (%v)", got, err)
	}
}

// A record of before the last boot names processes of now that are others.
func TestARecordOfAnotherBootKillsNothing(t *testing.T) {
	r := Record{Boot: "another", Mark: "x", Report: Report{Stage: Running, Group: os.Getpid()}}
	if err := r.endOrphans("/nonexistent", nil); err != nil {
		t.Error(err)
	}
}

func TestHolderByHand(t *testing.T) {
	if _, err := inherit(); !errors.Is(err, sidecar.ErrByHand) {
		t.Errorf("%v, want %v", err, sidecar.ErrByHand)
	}
}

// Words of a command may hold any bytes but zeros, and be empty.
func TestAnOrderIsReadAsItWasWritten(t *testing.T) {
	for _, o := range []order{
		{Argv: []string{"/bin/x", "", "\xff\n", "a=b"}, Env: []string{"A=", "B=\xfe\n"}, Cwd: "/\xff", Path: "\xfe", Others: []int{5}, Heard: []byte{0, 1}},
		{Argv: []string{"/bin/x"}, Budget: time.Second, Follows: true},
	} {
		got, err := decodeOrder(encodeOrder(o))
		if err != nil {
			t.Error(err)
			continue
		}
		o.Words = len(o.Argv)
		if !slices.Equal(got.Argv, o.Argv) || !slices.Equal(got.Env, o.Env) || got.Cwd != o.Cwd || got.Path != o.Path || string(encodeOrder(*got)) != string(encodeOrder(o)) {
			t.Errorf("%+v was read as %+v", o, got)
		}
	}
	for _, text := range []string{"", "{}", "{}\n", "{\"Words\":2}\n/\x00p\x00a\x00", "{\"Words\":-1}\n/\x00p\x00a\x00", "{\"Else\":1}\n/\x00p\x00"} {
		if o, err := decodeOrder([]byte(text)); err == nil {
			t.Errorf("%q was read as %+v", text, o)
		}
	}
}
