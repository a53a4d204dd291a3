package membership

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestMemberlistsLinesBecomeOurs(t *testing.T) {
	cases := []struct {
		line  string
		level hclog.Level
		text  string
	}{
		{"[ERR] memberlist: Push/Pull with x failed: connection refused\n", hclog.Warn, "Push/Pull with x failed: connection refused"},
		{"[ERR] memberlist: discarding packet with unacceptable label \"x\": from=10.0.0.9:7950\n", hclog.Debug, ""},
		{"[ERR] Failed to shutdown transport: x\n", hclog.Warn, "Failed to shutdown transport: x"},
		{"[ERROR] memberlist: Failed to compress payload: x\n", hclog.Warn, ""},
		{"[WARN] memberlist: Refuting a suspect message (from: x)\n", hclog.Warn, ""},
		{"[WARN] memberlist: ignoring alive message for 'x': y\n", hclog.Debug, ""},
		{"[INFO] memberlist: Suspect x has failed, no acks received\n", hclog.Debug, ""},
		{"[DEBUG] memberlist: Stream connection from=10.0.0.9:7950\n", hclog.Trace, ""},
		{"Err: Could not set the deadline: x\n", hclog.Debug, "Err: Could not set the deadline: x"},
	}
	for _, c := range cases {
		level, text := splitLevel(strings.TrimSpace(c.line))
		if level != c.level || c.text != "" && text != c.text {
			t.Errorf("%q becomes %s %q; expected %s %q", c.line, level, text, c.level, c.text)
		}
		if level >= hclog.Error {
			t.Errorf("%q becomes an error", c.line)
		}
	}
}

func TestEscape(t *testing.T) {
	cases := []struct{ in, want string }{
		{"plain, with \"quotes\" and ünïcode", "plain, with \"quotes\" and ünïcode"},
		{"evil\n[INFO] leader is evil", `evil\n[INFO] leader is evil`},
		{"\x1b[31mred", `\x1b[31mred`},
		{"bad \xff utf-8", `bad \xff utf-8`},
		{"right to left \u202e", `right to left \u202e`},
	}
	for _, c := range cases {
		if got := escape(c.in); got != c.want {
			t.Errorf("escape(%q) is %q; expected %q", c.in, got, c.want)
		}
	}
	if got := escape(strings.Repeat("x", 70000)); len(got) > maxLine+10 {
		t.Errorf("a line of 70,000 bytes becomes one of %d", len(got))
	}
}

// TestFloodOfLines: whoever sends a thousand wrong
// packets a second does not fill the disk, and that lines are missing is said.
func TestFloodOfLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedLog
		s := newLogSink(hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Trace}))
		go s.run()
		defer s.stop()
		for range 3 {
			for i := range 1000 {
				_, _ = fmt.Fprintf(s, "[ERR] memberlist: msg type (%d) not supported from=10.0.0.9:1\n", i)
				synctest.Wait()
			}
			_, _ = fmt.Fprintf(s, "[ERR] memberlist: Failed to send gossip to 10.0.0.8:7950: no route\n")
			time.Sleep(time.Second)
		}
		_, _ = fmt.Fprintf(s, "[ERR] memberlist: msg type (1) not supported from=10.0.0.9:1\n")
		synctest.Wait()
		if n := len(log.lines("not supported")); n != 3*linesASecond+1 {
			t.Errorf("%d lines in three seconds; expected %d a second", n, linesASecond)
		}
		if n := len(log.lines("no route")); n != 3 {
			t.Errorf("%d of 3 lines of another class; expected that the flood does not hide them", n)
		}
		if n := len(log.lines("count=990")); n != 3 {
			t.Errorf("the missing lines were told %d times; expected 3", n)
		}
	})
}

// TestALostPeerIsOneLine: what memberlist says many times a second while a peer is
// down is said once a minute, and that lines are missing is no line either.
func TestALostPeerIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedLog
		s := newLogSink(hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Info}))
		go s.run()
		defer s.stop()
		for range 2 * 60 * 20 {
			_, _ = fmt.Fprintf(s, "[ERR] memberlist: Failed to send gossip to 10.0.0.8:7950: no route\n")
			synctest.Wait()
			time.Sleep(time.Second / 20)
		}
		if n := len(log.lines("[")); n != 2 {
			t.Errorf("%d lines in two minutes, expected one a minute: %q", n, log.lines("["))
		}
	})
}

// TestSlowLogger: a logger that hangs costs lines, not time.
func TestSlowLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pipe := make(chan struct{})
		var log lockedLog
		s := newLogSink(hclog.New(&hclog.LoggerOptions{Output: tee{stuck(pipe), &log}}))
		go s.run()
		defer s.stop()
		for i := range 2 * linesQueued {
			s.info("something happened")
			if i == 0 {
				synctest.Wait() // it hangs now
			}
		}
		close(pipe)
		synctest.Wait()
		s.info("something happened")
		synctest.Wait()
		written, dropped := len(log.lines("something happened")), log.lines("log lines dropped")
		if len(dropped) != 1 || !strings.Contains(dropped[0], fmt.Sprintf("count=%d", 2*linesQueued+1-written)) {
			t.Errorf("%d lines written and %q; expected that the rest is counted", written, dropped)
		}
	})
}

type tee struct {
	first stuck
	then  *lockedLog
}

func (w tee) Write(p []byte) (int, error) {
	_, _ = w.first.Write(p)
	return w.then.Write(p)
}

func TestMinutely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLogSink(nil)
		said := 0
		for range 180 {
			if s.minutely("seed not resolved") {
				said++
			}
			time.Sleep(time.Second)
		}
		if said != 3 {
			t.Errorf("said %d times in three minutes", said)
		}
		for i := range 10 * maxThrottled {
			s.minutely(fmt.Sprint("clone ", i))
		}
		if len(s.lastSaid) > maxThrottled {
			t.Errorf("%d keys are remembered", len(s.lastSaid))
		}
	})
}
