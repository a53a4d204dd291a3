package holder

import (
	"errors"
	"os"
	"testing"
	"time"
)

// A holder that ends while renewals are on their way to it has told how its command
// ended all the same (unix(7): the reader of a socket that was closed with unread
// messages gets ECONNRESET first).
func TestTheLastReportIsNotLost(t *testing.T) {
	r := newRig(t)
	for range 20 {
		h := r.start(r.settings("exit 3").config())
		for report := (Report{}); report.Stage != Ended; report = h.Report() {
			h.Renew(Terms{Deadline: clock().Add(patience)})
		}
		if report := r.wait(h); report.Exit != 3 || report.Err != "" {
			t.Fatalf("the report is %+v", report)
		}
	}
}

// What is told to stop before it is started is not started, and leaves nothing.
func TestStoppedBeforeTheStart(t *testing.T) {
	r := newRig(t)
	h := New(r.settings("echo x >ran").config())
	h.Stop("enough", 0)
	if err := h.Start(nil, nil, nil); !errors.Is(err, ErrStopped) {
		t.Errorf("%v, want %v", err, ErrStopped)
	}
	if left, _ := os.ReadDir(r.Path("records")); len(left) > 0 || r.Text("ran") != "" {
		t.Errorf("left behind: %v, ran: %q", left, r.Text("ran"))
	}
}

// What is said while the process is being started is not lost.
func TestSaidDuringTheStart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		say   func(*Holder)
		cause string
	}{
		"to stop":             {func(h *Holder) { h.Stop("enough", 0) }, "enough"},
		"that the lease ends": {func(h *Holder) { h.Renew(Terms{Deadline: clock().Add(time.Millisecond)}) }, AgentDied},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			h := New(r.settings("exec sleep 1000").config())
			rec, err := create(h.cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer rec.file.Close()
			o, _ := h.order(rec)
			tt.say(h)
			if err := h.launch(o, rec, nil, nil, nil); err != nil {
				t.Fatal(err)
			}
			go h.listen()
			if report := r.wait(h); report.Cause != tt.cause {
				t.Errorf("report %+v", report)
			}
		})
	}
}
